// The parsing stage: what the gateway must know of a request, and the stored response that it continues.

import { parseRequest, type ParsedRequest } from "../request/parse-request.ts";
import type { CallInput, ParsedCall, StatefulCall } from "./call.ts";

export interface ParseDeps {
  readonly prepareCall?: PrepareCall | undefined;
}

/**
 * Opens the stored responses and sealed summaries that a request refers to; undefined for a request that neither stores nor
 * continues a response. For a call that runs in the background, the response is here.
 */
export type PrepareCall = (
  request: ParsedRequest,
  input: CallInput,
) => StatefulCall | undefined | Promise<StatefulCall | Response | undefined>;

/** Not async: most calls are parsed without waiting, and a promise costs CPU. */
export function parseCall(
  { prepareCall }: ParseDeps,
  input: CallInput,
): ParsedCall | Response | Promise<ParsedCall | Response> {
  const { statefulCall } = input;
  if (statefulCall !== undefined) return { input, request: statefulCall.request, statefulCall };
  const request = parseRequest(input.api, input.text);
  const prepared = prepareCall?.(request, input);
  return prepared instanceof Promise
    ? prepared.then((done) => toParsedCall(input, request, done))
    : toParsedCall(input, request, prepared);
}

/** A call that continues a stored response is parsed again with all earlier turns. */
function toParsedCall(
  input: CallInput,
  request: ParsedRequest,
  prepared: StatefulCall | Response | undefined,
): ParsedCall | Response {
  if (prepared instanceof Response) return prepared;
  return { input, request: prepared?.request ?? request, statefulCall: prepared };
}
