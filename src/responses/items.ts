// The items of a conversation: what a turn's input holds, under which ids its items are found and shown, and in which
// form they go back to a provider.

import type { Candidate } from "../inference/routing/candidates.ts";
import type { ParsedRequest } from "../inference/request/parse-request.ts";
import { isObject, type JsonObject } from "../base/json.ts";
import { decodeBlob } from "../inference/canonical/reasoning.ts";

/** An item that was stored, with whose reasoning it is; without an origin it is the request's own. */
export interface PastItem {
  readonly item: JsonObject;
  readonly origin: string | undefined;
  /** Whether it is of a reply, and no request brought it. */
  readonly isReply: boolean;
}

const ITEM_ID = /^[\x21-\x7e]{1,128}$/;
const INDEXED_ITEMS_MAX = 1_000;

/** Whose reasoning a reply holds: it can be read there and nowhere else. */
export function originOf({ credential, upstreamName }: Candidate): string {
  return `${credential.provider.id} ${credential.label} ${upstreamName}`;
}

/** The items that a request brings itself. */
export function inputItems({ json }: ParsedRequest): readonly JsonObject[] {
  const { input } = json;
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  return Array.isArray(input) ? input.filter(isObject) : [];
}

/** The items of a reply. */
export function outputItems(response: JsonObject): readonly JsonObject[] {
  const { output } = response;
  return Array.isArray(output) ? output.filter(isObject) : [];
}

/** The items as they are shown: each with an id and a type, and a message's text as a part. */
export function publicItems(
  items: readonly JsonObject[],
  responseId: string,
): readonly JsonObject[] {
  return items.map((item, index) => {
    const type = typeOf(item);
    const id = typeof item["id"] === "string" ? item["id"] : deriveItemId(type, responseId, index);
    const { content } = item;
    if (type !== "message" || typeof content !== "string") return { ...item, id, type };
    const part =
      item["role"] === "assistant"
        ? { type: "output_text", text: content, annotations: [] }
        : { type: "input_text", text: content };
    return { ...item, id, type, status: item["status"] ?? "completed", content: [part] };
  });
}

/** The ids by which a turn's items can be referred to later. */
export function itemIds(items: readonly JsonObject[]): readonly string[] {
  const ids = items
    .map(({ id }) => id)
    .filter((id): id is string => typeof id === "string" && ITEM_ID.test(id));
  return [...new Set(ids)].slice(0, INDEXED_ITEMS_MAX);
}

/** The id that an item refers to, where it is a reference and nothing else. */
export function referencedId(item: unknown): string | undefined {
  if (!isObject(item)) return undefined;
  const { type, id, role } = item;
  const refers = type === "item_reference" || (type ?? role ?? undefined) === undefined;
  return refers && typeof id === "string" && ITEM_ID.test(id) ? id : undefined;
}

/**
 * Earlier items as they go to this candidate. On another wire the canonical form decides what can be said; on the same
 * one the text is relayed, so that reasoning goes back only to who made it, and ids that no provider has stored stay here.
 */
export function itemsForCandidate(
  candidate: Candidate,
  past: readonly PastItem[],
): readonly JsonObject[] {
  if (candidate.wires[0] !== "responses") return past.map(({ item }) => item);
  const target = originOf(candidate);
  return past
    .filter((one) => canSendTo(one, target))
    .map(({ item, origin }) => (origin === undefined ? item : withoutId(item)));
}

function canSendTo({ item, origin }: PastItem, target: string): boolean {
  if (origin === undefined || typeOf(item) !== "reasoning") return true;
  const data = item["encrypted_content"];
  if (typeof data !== "string" || data === "" || origin !== target) return false;
  // What was sealed for the way through this API came from another one.
  return decodeBlob(data, "responses", "encrypted").origin === undefined;
}

/** Other items are known by their ids, or demand one. */
const ID_OPTIONAL_TYPES: ReadonlySet<string> = new Set([
  "message",
  "reasoning",
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
]);

function withoutId(item: JsonObject): JsonObject {
  if (!ID_OPTIONAL_TYPES.has(typeOf(item))) return item;
  const { id: _id, status: _status, ...rest } = item;
  return rest;
}

function typeOf({ type }: JsonObject): string {
  return typeof type === "string" ? type : "message";
}

const ID_PREFIXES: Readonly<Record<string, string>> = {
  message: "msg",
  reasoning: "rs",
  function_call: "fc",
  function_call_output: "fco",
  custom_tool_call: "ctc",
  custom_tool_call_output: "ctco",
};

// As hard to guess as the response's own id, and the same whenever it is asked for.
function deriveItemId(type: string, responseId: string, index: number): string {
  return `${ID_PREFIXES[type] ?? "item"}_${responseId.slice(responseId.indexOf("_") + 1)}in${index}`;
}
