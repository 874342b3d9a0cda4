// The state of a stream's items and of their parts. Some servers change an item's id between events, so items are found by
// index; some omit deltas or end events, so what a later event adds to the deltas is emitted then.

import type { CanonicalEvent, PartHead } from "../../canonical/canonical-events.ts";
import type { OpaqueBlob, TokenLogprob } from "../../canonical/canonical-parts.ts";
import { mintCallId } from "../../canonical/tools/call-ids.ts";
import type { ReplyReadContext } from "../../canonical/wire-interfaces.ts";
import { arrayIn, isObject, type JsonObject, numberIn, stringIn } from "../../json-fields.ts";
import { readLogprobs } from "../../openai-parts.ts";
import {
  encryptedBlobOf,
  generatedImageOf,
  readAnnotation,
  signsNextPart,
} from "../items/read-responses-output-items.ts";
import { argumentsIn, callHead } from "./read-responses-reply.ts";

/** The kind of a text within its item. */
export type TextSlot = "text" | "refusal" | "summary" | "thought";

interface PartState {
  readonly part: number;
  emittedText: string;
  citationCount: number;
  ended: boolean;
}

interface ItemState {
  readonly index: number;
  readonly item: JsonObject;
  readonly parts: Map<string, PartState>;
  openPart: PartState | undefined;
  done: boolean;
}

export interface ItemsState {
  readonly context: ReplyReadContext;
  readonly items: Map<number, ItemState>;
  /** The events of the current push. */
  out: CanonicalEvent[];
  replyId: string | undefined;
  latestItem: ItemState | undefined;
  partCount: number;
  hasToolCalls: boolean;
  hasRefusal: boolean;
  /** The signature of the next call or image. */
  pendingSignature: OpaqueBlob | undefined;
  /** Stays open until another part starts, because its signature comes after it. */
  openText: PartState | undefined;
}

const INDEX_FIELD = {
  text: "content_index",
  refusal: "content_index",
  thought: "content_index",
  summary: "summary_index",
} as const satisfies Record<TextSlot, string>;

export function createItemsState(context: ReplyReadContext): ItemsState {
  return {
    context,
    items: new Map(),
    out: [],
    replyId: undefined,
    latestItem: undefined,
    partCount: 0,
    hasToolCalls: false,
    hasRefusal: false,
    pendingSignature: undefined,
    openText: undefined,
  };
}

export function addItem(state: ItemsState, event: JsonObject): void {
  const { item } = event;
  if (!isObject(item)) return;
  const added = addItemState(state, numberIn(event["output_index"]) ?? state.items.size, item);
  if (isCall(item) && stringIn(item["name"])) startCall(state, added);
}

export function addDelta(state: ItemsState, event: JsonObject, slot: TextSlot): void {
  const text = stringIn(event["delta"]) ?? "";
  const logprobs = readLogprobs(event["logprobs"]);
  if (text === "" && logprobs === undefined) return;
  const item = itemOf(state, event);
  const part = partOf(state, item, slot, numberIn(event[INDEX_FIELD[slot]]) ?? 0);
  emitText(state, part, text, logprobs);
}

/** The complete text of a part, which may have had no deltas. */
export function addWholeText(state: ItemsState, event: JsonObject, slot: TextSlot): void {
  const item = itemOf(state, event);
  if (!item.done)
    completePart(state, item, slot, { at: numberIn(event[INDEX_FIELD[slot]]) ?? 0, value: event });
}

export function addCitation(state: ItemsState, event: JsonObject): void {
  const part = itemOf(state, event).parts.get(`text${numberIn(event["content_index"]) ?? 0}`);
  if (part !== undefined) emitCitation(state, part, event["annotation"]);
}

export function addArguments(state: ItemsState, event: JsonObject): void {
  const item = itemOf(state, event);
  const text = stringIn(event["delta"]) ?? "";
  if (text !== "" && isCall(item.item)) emitText(state, startCall(state, item), text);
}

export function endArguments(state: ItemsState, event: JsonObject): void {
  const item = itemOf(state, event);
  if (isCall(item.item) && stringIn(item.item["name"])) finishCall(state, item, event);
}

export function endItem(state: ItemsState, event: JsonObject): void {
  const value = event["item"];
  if (!isObject(value)) return;
  const index = numberIn(event["output_index"]);
  const existing = index === undefined ? state.latestItem : state.items.get(index);
  const item =
    existing !== undefined && existing.item["type"] === value["type"]
      ? existing
      : addItemState(state, index ?? state.items.size, value);
  finishItem(state, item, value);
}

/** Emits what only the final response contains, then ends all open parts. */
export function finishItems(state: ItemsState, output: readonly unknown[]): void {
  for (const [index, value] of output.entries()) {
    if (!isObject(value)) continue;
    const item =
      state.items.get(index) ??
      state.items.values().find((one) => value["id"] && one.item["id"] === value["id"]) ??
      addItemState(state, index, value);
    if (item.item["type"] === value["type"]) finishItem(state, item, value);
  }
  endPart(state, state.openText);
  for (const item of state.items.values()) {
    if (!item.done && isCall(item.item)) finishCall(state, item, {});
    endPart(state, item.openPart);
  }
}

function addItemState(state: ItemsState, index: number, item: JsonObject): ItemState {
  const added = { index, item, parts: new Map(), openPart: undefined, done: false };
  state.items.set(index, added);
  state.latestItem = added;
  return added;
}

function itemOf(state: ItemsState, event: JsonObject): ItemState {
  const index = numberIn(event["output_index"]);
  const found = index === undefined ? state.latestItem : state.items.get(index);
  return found ?? addItemState(state, index ?? state.items.size, { type: "message" });
}

function partOf(state: ItemsState, item: ItemState, slot: TextSlot, at: number): PartState {
  const key = slot + at;
  const existing = item.parts.get(key);
  if (existing !== undefined) return existing;
  const part = startPart(state, item, headOf(slot, item.item));
  if (slot === "refusal") state.hasRefusal = true;
  item.parts.set(key, part);
  return part;
}

function startPart(state: ItemsState, item: ItemState, head: PartHead): PartState {
  endPart(state, state.openText);
  endPart(state, item.openPart);
  state.openText = undefined;
  const part = { part: state.partCount++, emittedText: "", citationCount: 0, ended: false };
  state.out.push({ type: "part_start", choice: 0, part: part.part, head });
  item.openPart = part;
  return part;
}

function endPart(state: ItemsState, part: PartState | undefined): void {
  if (part === undefined || part.ended) return;
  part.ended = true;
  state.out.push({ type: "part_end", choice: 0, part: part.part });
}

function emitText(
  state: ItemsState,
  streamed: PartState,
  text: string,
  logprobs?: readonly TokenLogprob[],
): void {
  if (streamed.ended) return;
  streamed.emittedText += text;
  const { part } = streamed;
  state.out.push(
    logprobs === undefined
      ? { type: "delta", choice: 0, part, text }
      : { type: "delta", choice: 0, part, text, logprobs },
  );
}

function completePart(
  state: ItemsState,
  item: ItemState,
  slot: TextSlot,
  { at, value }: { readonly at: number; readonly value: JsonObject },
): void {
  const text = stringIn(value[slot === "refusal" ? "refusal" : "text"]) ?? "";
  if (text === "" && !item.parts.has(slot + at)) return;
  const part = partOf(state, item, slot, at);
  if (part.emittedText === "")
    emitRemainingText(state, part, text, readLogprobs(value["logprobs"]));
  else emitRemainingText(state, part, text);
  for (const citation of arrayIn(value["annotations"]).slice(part.citationCount))
    emitCitation(state, part, citation);
}

// Emitted text cannot be taken back, so a text that does not continue it is ignored.
function emitRemainingText(
  state: ItemsState,
  part: PartState,
  whole: string,
  logprobs?: readonly TokenLogprob[],
): void {
  if (whole.length > part.emittedText.length && whole.startsWith(part.emittedText))
    emitText(state, part, whole.slice(part.emittedText.length), logprobs);
}

function emitCitation(state: ItemsState, part: PartState, value: unknown): void {
  const citation = readAnnotation(value);
  if (citation === undefined || part.ended) return;
  part.citationCount++;
  state.out.push({ type: "citation", choice: 0, part: part.part, citation });
}

function startCall(state: ItemsState, item: ItemState): PartState {
  if (item.openPart !== undefined) return item.openPart;
  state.hasToolCalls = true;
  const head = callHead(item.item, mintCallId(state.replyId ?? "", item.index));
  const signature = takeSignature(state, "call");
  return startPart(state, item, signature === undefined ? head : { ...head, signature });
}

function finishCall(state: ItemsState, item: ItemState, value: JsonObject): void {
  const part = startCall(state, item);
  emitRemainingText(state, part, argumentsIn({ ...value, type: item.item["type"] }));
  if (part.emittedText === "" && item.item["type"] === "function_call") emitText(state, part, "{}");
  endPart(state, part);
}

function finishItem(state: ItemsState, item: ItemState, value: JsonObject): void {
  if (item.done) return;
  item.done = true;
  switch (value["type"]) {
    case "message":
      return finishMessage(state, item, value);
    case "reasoning":
      return finishReasoning(state, item, value);
    case "function_call":
    case "custom_tool_call":
      return finishCall(state, item, value);
    default:
      return emitWholePart(state, item, value);
  }
}

function emitWholePart(state: ItemsState, item: ItemState, value: JsonObject): void {
  const image = generatedImageOf(value);
  const part =
    image === undefined
      ? ({ type: "native", wire: "responses", value } as const)
      : { ...image, signature: takeSignature(state, "image") };
  endPart(state, startPart(state, item, { type: "whole", value: part }));
}

function finishMessage(state: ItemsState, item: ItemState, message: JsonObject): void {
  const content = arrayIn(message["content"]);
  for (const [position, value] of content.entries()) {
    if (!isObject(value)) continue;
    const at = streamedIndex(item, ["text", "refusal"], position, content.length);
    if (value["type"] === "refusal") completePart(state, item, "refusal", { at, value });
    else if (typeof value["text"] === "string") completePart(state, item, "text", { at, value });
    else emitWholePart(state, item, value);
  }
  state.openText = item.openPart;
}

// Some servers number the parts of a stream from 1, or with gaps; in the complete item they are a list.
function streamedIndex(
  { parts }: ItemState,
  slots: readonly TextSlot[],
  position: number,
  count: number,
): number {
  const streamed = [...parts.keys()].flatMap((key) => {
    const slot = slots.find((one) => key.startsWith(one));
    return slot === undefined ? [] : [Number(key.slice(slot.length))];
  });
  if (streamed.length !== count) return position;
  return streamed.toSorted((left, right) => left - right)[position] ?? position;
}

function finishReasoning(state: ItemsState, item: ItemState, value: JsonObject): void {
  for (const [at, one] of arrayIn(value["summary"]).entries())
    if (isObject(one)) completePart(state, item, "summary", { at, value: one });
  const content = arrayIn(value["content"]);
  for (const [position, one] of content.entries()) {
    const at = streamedIndex(item, ["thought"], position, content.length);
    if (isObject(one)) completePart(state, item, "thought", { at, value: one });
  }
  const bare = encryptedBlobOf(value);
  const blob = bare && { ...bare, origin: bare.origin ?? state.context.origin };
  if (signsNextPart(blob) && item.openPart === undefined) state.pendingSignature = blob;
  else if (blob?.kind === "text" && item.openPart === undefined) attachTextSignature(state, blob);
  else if (blob !== undefined) {
    const { part } = item.openPart ?? startPart(state, item, headOf("thought", value));
    state.out.push({ type: "blob", choice: 0, part, blob });
  }
  endPart(state, item.openPart);
}

function takeSignature(state: ItemsState, kind: OpaqueBlob["kind"]): OpaqueBlob | undefined {
  const { pendingSignature } = state;
  state.pendingSignature = undefined;
  return pendingSignature?.kind === kind ? pendingSignature : undefined;
}

function attachTextSignature(state: ItemsState, blob: OpaqueBlob): void {
  const { openText } = state;
  if (openText !== undefined && !openText.ended)
    state.out.push({ type: "blob", choice: 0, part: openText.part, blob });
}

function isCall(item: JsonObject): boolean {
  return item["type"] === "function_call" || item["type"] === "custom_tool_call";
}

function headOf(slot: TextSlot, item: JsonObject): PartHead {
  if (slot === "text" || slot === "refusal") return { type: slot };
  const id = stringIn(item["id"]);
  return { type: "reasoning", summary: slot === "summary" || undefined, id };
}
