// The headers of a model call's response: the gateway's own, and those of the provider that are of use to the caller.

import { API_TRAITS } from "@postern/wires";
import { memoize } from "../../../base/memoize.ts";
import { CORS_HEADERS } from "../../../http/response.ts";
import type { HeldCall } from "../call.ts";
import { PRESET_HEADER } from "../expand-preset.ts";

/** Together, Node's HTTP client accepts headers of up to 16 KiB. */
const DROPPED_HEADER_MAX_LENGTH = 4_000;
/** A field of the caller's own may have a name of any length. */
const PATH_MAX_LENGTH = 500;

/** `replyLosses`: paths of the reply that the caller's API cannot express. */
export function responseHeaders(
  { input, candidate, plan, outputMax, estimate, ceiling, hold }: HeldCall,
  providerHeaders: Readonly<Record<string, string>>,
  replyLosses: readonly string[] = [],
): Headers {
  const { credential, model } = candidate;
  const headersOfModel = credential.byok ? byokHeaders : sharedHeaders;
  // Copying `Headers` costs a fifth of creating them from an object.
  const headers = new Headers(headersOfModel(credential.provider.id)(model.id));
  headers.set("x-request-id", input.requestId);
  const { requestIdHeader } = API_TRAITS[input.api];
  if (requestIdHeader !== undefined) headers.set(requestIdHeader, input.requestId);
  for (const name in providerHeaders) headers.set(name, providerHeaders[name] ?? "");
  if (plan.dropped.length + replyLosses.length > 0)
    headers.set("x-postern-dropped", joinPaths([...plan.dropped, ...replyLosses]));
  if (input.preset !== undefined) headers.set(PRESET_HEADER, input.preset);
  if (outputMax !== undefined) headers.set("x-postern-max-tokens", String(outputMax));
  if (outputMax !== undefined && (ceiling !== undefined || hold.isRolling))
    headers.set("x-postern-budget-cut", "true");
  const { rateLimitHeaders } = hold;
  for (const name in rateLimitHeaders) headers.set(name, rateLimitHeaders[name] ?? "");
  setToolHeaders(headers, plan, estimate);
  return headers;
}

function setToolHeaders(
  headers: Headers,
  { loop }: HeldCall["plan"],
  estimate: HeldCall["estimate"],
): void {
  if (loop?.search !== undefined || loop?.fetch !== undefined)
    headers.set("x-postern-web-search", "gateway");
  if (estimate.toolCallsMax !== undefined)
    headers.set("x-postern-max-tool-calls", String(estimate.toolCallsMax));
  if (estimate.toolCallsHeld !== undefined)
    headers.set("x-postern-held-tool-calls", String(estimate.toolCallsHeld));
}

const sharedHeaders = memoizeHeaders("false");
const byokHeaders = memoizeHeaders("true");

/** The headers that all replies of a model have in common. */
function memoizeHeaders(byok: string): (providerId: string) => (modelId: string) => Headers {
  return memoize((providerId) =>
    memoize(
      (modelId) =>
        new Headers({
          ...CORS_HEADERS,
          "x-postern-provider": providerId,
          "x-postern-model": modelId,
          "x-postern-byok": byok,
        }),
    ),
  );
}

// Each path is listed once: every message of a long conversation may have lost the same field.
function joinPaths(paths: readonly string[]): string {
  const all = [...new Set(paths)];
  let text = "";
  for (const [index, rawPath] of all.entries()) {
    const path = headerSafe(rawPath);
    if (text.length + path.length > DROPPED_HEADER_MAX_LENGTH)
      return `${text}, and ${all.length - index} more`;
    text += index === 0 ? path : `, ${path}`;
  }
  return text;
}

// Field names may contain characters that are invalid in a header: they are escaped as in JSON.
function headerSafe(path: string): string {
  const cut = path.length > PATH_MAX_LENGTH ? `${path.slice(0, PATH_MAX_LENGTH)}...` : path;
  return cut.replaceAll(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
