// The response to calls that are refused under overload. Only the request id differs from one to the next, so it is built once
// for each route: building it costs more than the rest of a refusal.

import { CALL_REFUSED } from "./guards/overload.ts";
import type { RequestContext } from "./request-context.ts";
import { markCommonHeaders } from "./response.ts";
import type { Route } from "./route.ts";

interface BuiltResponse {
  readonly headers: Readonly<Record<string, string>>;
  readonly idHeaders: readonly string[];
  /** Between them stands the request id. */
  readonly textParts: readonly string[];
}

const ID_PLACEHOLDER = "req_00000000000000000000000000";

/** `build` returns the response with the headers that all have. */
export function createRefusedCallResponder(
  build: (context: RequestContext) => Response,
): (context: RequestContext) => Response {
  const built = new Map<Route, BuiltResponse>();
  return (context) => {
    const { requestId, match } = context;
    const known = match && built.get(match.route);
    if (known !== undefined) return responseOf(known, requestId);
    // Without its key: neither the response nor the log of refused calls may have it for the next caller.
    const response = build({ ...context, requestId: ID_PLACEHOLDER, caller: {} });
    if (match !== undefined)
      void readResponse(response.clone()).then((read) => built.set(match.route, read));
    return build(context);
  };
}

async function readResponse(response: Response): Promise<BuiltResponse> {
  const headers = Object.fromEntries(response.headers.entries());
  const idHeaders = Object.keys(headers).filter((name) => headers[name] === ID_PLACEHOLDER);
  return { headers, idHeaders, textParts: (await response.text()).split(ID_PLACEHOLDER) };
}

function responseOf({ headers, idHeaders, textParts }: BuiltResponse, requestId: string): Response {
  const all = { ...headers };
  for (const name of idHeaders) all[name] = requestId;
  const { status } = CALL_REFUSED;
  return markCommonHeaders(new Response(textParts.join(requestId), { status, headers: all }));
}
