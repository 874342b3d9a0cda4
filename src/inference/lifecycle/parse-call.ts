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

/** A call that continues a stored response is parsed again with all earlier turns. */
export async function parseCall(
  { prepareCall }: ParseDeps,
  input: CallInput,
): Promise<ParsedCall | Response> {
  const { statefulCall: prepared } = input;
  if (prepared !== undefined) return { input, request: prepared.request, statefulCall: prepared };
  const request = parseRequest(input.api, input.text);
  const statefulCall = await prepareCall?.(request, input);
  if (statefulCall instanceof Response) return statefulCall;
  return { input, request: statefulCall?.request ?? request, statefulCall };
}
