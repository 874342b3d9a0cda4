// The items of a conversation: their ids, their API form, and the form in which they are sent back to a provider.

import { decodeBlob, WIRE_TRAITS } from "@postern/wires";
import { isObject, type JsonObject } from "../base/json.ts";
import { lookUp } from "../base/look-up.ts";
import type { Candidate } from "../inference/routing/candidates.ts";

/** An input item. Stored items have the origin of their reasoning; items of the request itself have none. */
export interface PastItem {
  readonly item: JsonObject;
  readonly origin: string | undefined;
  /** Whether it is model output, not input of a request. */
  readonly isReply: boolean;
}

const ITEM_ID = /^[\x21-\x7e]{1,128}$/;
const INDEXED_ITEMS_MAX = 1_000;

/** The provider account and model of a reply: only they can read its encrypted reasoning. */
export function originOf({ credential, upstreamName }: Candidate): string {
  return `${credential.provider.id} ${credential.label} ${upstreamName}`;
}

/** The output items of a response. */
export function outputItems(response: JsonObject): readonly JsonObject[] {
  const { output } = response;
  return Array.isArray(output) ? output.filter(isObject) : [];
}

/** The items in API form: each with id and type, and message text as a content part. */
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

/**
 * The input items that no earlier response has stored: those after the last model output. A client that sends the whole
 * history with each request would otherwise index all of it each time.
 */
export function newInputItems({ input }: JsonObject): readonly JsonObject[] {
  if (!Array.isArray(input)) return [];
  const last = input.findLastIndex((item) => isObject(item) && isModelOutput(item));
  return input.slice(last + 1).filter((item) => isObject(item) && referencedId(item) === undefined);
}

function isModelOutput(item: JsonObject): boolean {
  const type = typeOf(item);
  return type === "message" ? item["role"] === "assistant" : !type.endsWith("_output");
}

/** The ids by which later requests can reference these items. */
export function itemIds(items: readonly JsonObject[]): readonly string[] {
  const ids = items
    .map(({ id }) => id)
    .filter((id): id is string => typeof id === "string" && ITEM_ID.test(id));
  return [...new Set(ids)].slice(0, INDEXED_ITEMS_MAX);
}

/** The referenced id, if the item is only a reference. */
export function referencedId(item: unknown): string | undefined {
  if (!isObject(item)) return undefined;
  const { type, id, role } = item;
  const refers = type === "item_reference" || (type ?? role ?? undefined) === undefined;
  return refers && typeof id === "string" && ITEM_ID.test(id) ? id : undefined;
}

/**
 * The history items to send to this candidate. On another wire, translation filters them. On the Responses wire the text is
 * passed through, so reasoning goes only to its origin, and ids that the provider did not store are removed.
 */
export function itemsForCandidate(
  candidate: Candidate,
  items: readonly PastItem[],
): readonly JsonObject[] {
  if (!takesItems(candidate)) return items.map(({ item }) => item);
  const target = originOf(candidate);
  return items
    .filter((item) => canSendTo(item, target))
    .map(({ item, origin }) => (origin === undefined ? item : withoutId(item)));
}

/** On any other wire the request is translated. */
export function takesItems({ wires }: Candidate): boolean {
  return WIRE_TRAITS[wires[0]].ownerOfItems === "openai";
}

function canSendTo({ item, origin }: PastItem, target: string): boolean {
  if (origin === undefined || typeOf(item) !== "reasoning") return true;
  const data = item["encrypted_content"];
  if (typeof data !== "string" || data === "" || origin !== target) return false;
  // A blob with an origin was encoded for this API from another wire.
  return decodeBlob(data, "responses", "encrypted").origin === undefined;
}

/** Types whose id may be omitted; others are identified by it. */
const ID_OPTIONAL_TYPES: ReadonlySet<string> = new Set([
  "message",
  "reasoning",
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
]);

/** Output items as input of the next request: without ids, which no provider has stored, and reasoning that cannot be read. */
export function toInputItems(items: readonly JsonObject[]): readonly JsonObject[] {
  return items
    .filter((item) => typeOf(item) !== "reasoning" || typeof item["encrypted_content"] === "string")
    .map(withoutId);
}

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

const DERIVED_ID = /_([0-9a-z]{26})in\d+$/;

/** The response whose input has the item with this derived id. */
export function responseIdOf(itemId: string): string | undefined {
  const [, rest] = DERIVED_ID.exec(itemId) ?? [];
  return rest === undefined ? undefined : `resp_${rest}`;
}

// Stable across reads, and as hard to guess as the response id.
function deriveItemId(type: string, responseId: string, index: number): string {
  return `${lookUp(ID_PREFIXES, type) ?? "item"}_${responseId.slice(responseId.indexOf("_") + 1)}in${index}`;
}
