// Expands a request that continues stored responses: their items are put before its own, and fields that need provider-side
// state are removed. The caller's own JSON text is not reformatted.

import { Fault } from "../base/fault.ts";
import type { JsonObject } from "../base/json.ts";
import { withMembers } from "../inference/request/json-edit.ts";
import { type ParsedRequest, parseRequest } from "../inference/request/parse-request.ts";

const EXPANDED_MAX_BYTES = 32 * 1_048_576;

export interface RequestExpansion {
  readonly historyItems: readonly JsonObject[];
  /** The request's own items, if references in them were resolved. */
  readonly ownItems: readonly JsonObject[] | undefined;
  /** Raw JSON of members to set; undefined removes the member. */
  readonly members: Readonly<Record<string, string | undefined>>;
}

export function expandRequest(
  request: ParsedRequest,
  { historyItems, ownItems, members }: RequestExpansion,
): ParsedRequest {
  const isChanged = historyItems.length > 0 || ownItems !== undefined || !isEmpty(members);
  if (!isChanged) return request;
  const input =
    historyItems.length > 0 || ownItems !== undefined
      ? { input: inputText(request, historyItems, ownItems) }
      : {};
  const text = withMembers(request.text, request.spans, { ...members, ...input });
  if (text.length > EXPANDED_MAX_BYTES) throw tooLarge();
  return parseRequest("responses", text);
}

function isEmpty(members: Readonly<Record<string, unknown>>): boolean {
  for (const _name in members) return false;
  return true;
}

function inputText(
  request: ParsedRequest,
  historyItems: readonly JsonObject[],
  ownItems: readonly JsonObject[] | undefined,
): string {
  const before = historyItems.map((item) => JSON.stringify(item)).join(",");
  const after = ownItems?.map((item) => JSON.stringify(item)).join(",") ?? rawItemsOf(request);
  return `[${before}${before !== "" && after !== "" ? "," : ""}${after}]`;
}

/** The input as JSON text of its items, without brackets. */
export function rawItemsOf(request: Pick<ParsedRequest, "spans" | "text">): string {
  const span = request.spans.members.get("input");
  if (span === undefined) return "";
  const raw = request.text.slice(span.start, span.end);
  return raw.startsWith("[")
    ? raw.slice(1, -1).trim()
    : `{"type":"message","role":"user","content":${raw}}`;
}

function tooLarge(): Fault {
  return new Fault("payload_too_large", "the expanded request is too large", {
    message: `With the items of \`previous_response_id\` and item references, the request is larger than ${EXPANDED_MAX_BYTES / 1_048_576} MiB. Start a new conversation with a summary of this one.`,
    param: "previous_response_id",
  });
}

/** The fault with paths of the caller's request. */
export function toCallerFault(fault: Fault, pastItems: number): Fault {
  const { message, param } = fault.options;
  if (pastItems === 0) return fault;
  const translate = (path: string): string => toCallerPath(path, pastItems);
  return new Fault(fault.code, fault.message, {
    ...fault.options,
    ...(param === undefined ? {} : { param: translate(param) }),
    ...(message === undefined
      ? {}
      : { message: message.replaceAll(/\binput\[\d+\](?:[.[][\w\]]+)*/g, translate) }),
    cause: fault,
  });
}

// With five history items, `input[7].content` is the caller's `input[2].content`.
export function toCallerPath(path: string, pastItems: number): string {
  const match = /^input\[(\d+)\](.*)$/s.exec(path);
  if (match === null) return path;
  const index = Number(match[1]) - pastItems;
  return index < 0 ? "previous_response_id" : `input[${index}]${match[2] ?? ""}`;
}
