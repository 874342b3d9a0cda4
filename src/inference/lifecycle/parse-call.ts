// The parsing stage: what the gateway must know of a request, and the stored response that it continues.

import { parseRequest, type ParsedRequest } from "../request/parse-request.ts";
import type { CallInput, ParsedCall, StatefulCall } from "./call.ts";

export interface ParseDeps {
  /** Resolves references to stored responses. A call that runs in the background gets its response here. */
  readonly resolveStatefulCall?: ResolveStatefulCall | undefined;
}

export type ResolveStatefulCall = (
  request: ParsedRequest,
  input: CallInput,
) => StatefulCall | Response | undefined | Promise<StatefulCall | Response | undefined>;

/** A call that continues a stored response is parsed again with all earlier turns. */
export async function parseCall(
  { resolveStatefulCall }: ParseDeps,
  input: CallInput,
): Promise<ParsedCall | Response> {
  const { statefulCall: prepared } = input;
  if (prepared !== undefined) return { input, request: prepared.request, statefulCall: prepared };
  const request = parseRequest(input.api, input.text);
  const statefulCall = await resolveStatefulCall?.(request, input);
  if (statefulCall instanceof Response) return statefulCall;
  return { input, request: statefulCall?.request ?? request, statefulCall };
}
