// The text of a request that goes on from stored responses: their items before its own, and nothing in it that a provider
// would have to remember. What the caller wrote stays the bytes that came.

import { Fault } from "../base/fault.ts";
import { type ParsedRequest, parseRequest } from "../inference/request/parse-request.ts";
import type { JsonObject } from "../base/json.ts";
import { withMembers } from "../inference/request/json-edit.ts";
import type { TransportPlan } from "../inference/translate/plan.ts";

const EXPANDED_MAX_BYTES = 32 * 1_048_576;

export interface RequestExpansion {
  readonly historyItems: readonly JsonObject[];
  /** The request's own items, where they are not as the caller wrote them. */
  readonly ownItems: readonly JsonObject[] | undefined;
  /** Raw JSON of members to set, or undefined to take them away. */
  readonly members: Readonly<Record<string, string | undefined>>;
}

export function expandRequest(
  request: ParsedRequest,
  { historyItems, ownItems, members }: RequestExpansion,
): ParsedRequest {
  const input =
    historyItems.length > 0 || ownItems !== undefined
      ? { input: inputText(request, historyItems, ownItems) }
      : {};
  const text = withMembers(request.text, request.spans, { ...members, ...input });
  if (text.length > EXPANDED_MAX_BYTES) throw tooLarge();
  return parseRequest("responses", text);
}

function inputText(
  request: ParsedRequest,
  past: readonly JsonObject[],
  own: readonly JsonObject[] | undefined,
): string {
  const before = past.map((item) => JSON.stringify(item)).join(",");
  const after = own?.map((item) => JSON.stringify(item)).join(",") ?? rawInputItems(request);
  return `[${before}${before !== "" && after !== "" ? "," : ""}${after}]`;
}

function rawInputItems(request: ParsedRequest): string {
  const span = request.spans.members.get("input");
  if (span === undefined) return "";
  const raw = request.text.slice(span.start, span.end);
  return raw.startsWith("[")
    ? raw.slice(1, -1).trim()
    : `{"type":"message","role":"user","content":${raw}}`;
}

function tooLarge(): Fault {
  return new Fault("payload_too_large", "the expanded request is too large", {
    message: `With what previous_response_id and item references bring, the request is larger than ${EXPANDED_MAX_BYTES / 1_048_576} MiB. Begin a new conversation with a summary of this one.`,
    param: "previous_response_id",
  });
}

/** What is said of the expanded request in terms of the caller's own: so many items came before. */
export function withCallerPaths(make: () => TransportPlan, pastItems: number): TransportPlan {
  try {
    const plan = make();
    return { ...plan, dropped: plan.dropped.map((path) => toCallerPath(path, pastItems)) };
  } catch (error) {
    throw error instanceof Fault ? toCallerFault(error, pastItems) : error;
  }
}

/** The same fault, said of the request as it came. */
export function toCallerFault(fault: Fault, pastItems: number): Fault {
  const { message, param } = fault.options;
  if (pastItems === 0) return fault;
  const own = (path: string): string => toCallerPath(path, pastItems);
  return new Fault(fault.code, fault.message, {
    ...fault.options,
    ...(param === undefined ? {} : { param: own(param) }),
    ...(message === undefined
      ? {}
      : { message: message.replaceAll(/\binput\[\d+\](?:[.[][\w\]]+)*/g, own) }),
    cause: fault,
  });
}

// `input[7].content` with five items before it is the caller's `input[2].content`.
function toCallerPath(path: string, pastItems: number): string {
  const match = /^input\[(\d+)\](.*)$/s.exec(path);
  if (match === null) return path;
  const index = Number(match[1]) - pastItems;
  return index < 0 ? "previous_response_id" : `input[${index}]${match[2] ?? ""}`;
}
