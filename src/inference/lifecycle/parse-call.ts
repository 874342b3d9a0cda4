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
) => ResolvedCall | Promise<ResolvedCall>;

type ResolvedCall = StatefulCall | Response | undefined;

/** A call that continues a stored response is parsed again with all earlier turns. Most calls need no promise. */
export function parseCall(
  { resolveStatefulCall }: ParseDeps,
  input: CallInput,
): ParsedCall | Response | Promise<ParsedCall | Response> {
  const { statefulCall: prepared } = input;
  if (prepared !== undefined) return { input, request: prepared.request, statefulCall: prepared };
  const request = parseRequest(input.api, input.text);
  const toParsedCall = (statefulCall: ResolvedCall): ParsedCall | Response =>
    statefulCall instanceof Response
      ? statefulCall
      : { input, request: statefulCall?.request ?? request, statefulCall };
  const statefulCall = resolveStatefulCall?.(request, input);
  return statefulCall instanceof Promise
    ? statefulCall.then(toParsedCall)
    : toParsedCall(statefulCall);
}
