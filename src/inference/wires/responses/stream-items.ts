// The items of a stream as they come in: which part of the reply each has open, and how far it has come. Some servers
// change an item's id from event to event, and some leave out deltas or the events that end a thing: so an item is known
// by its place, and what its last event says beyond the deltas is given then.
import type { Blob, CanonicalEvent, JsonObject, PartHead, TokenLogprob } from "../../canonical.ts";
import { arrayIn, isObject, numberIn, stringIn } from "../../canonical-json.ts";
import type { ReplyReadContext } from "../../canonical-wire.ts";
import { itemBlob, ownImage, provesNext, readAnnotation, readLogprobs } from "./read-output.ts";
import { argumentsIn, callHead, mintCallId } from "./read-reply.ts";

/** What a piece of text belongs to within its item. */
export type Slot = "text" | "refusal" | "summary" | "thought";

interface StreamedPart {
  readonly part: number;
  told: string;
  citations: number;
  ended: boolean;
}

interface StreamedItem {
  readonly index: number;
  readonly item: JsonObject;
  readonly parts: Map<string, StreamedPart>;
  open: StreamedPart | undefined;
  done: boolean;
}

export interface StreamedItems {
  readonly context: ReplyReadContext;
  readonly items: Map<number, StreamedItem>;
  /** The events that the stream gave last, to be taken away by the reader. */
  out: CanonicalEvent[];
  replyId: string | undefined;
  latest: StreamedItem | undefined;
  parts: number;
  calls: boolean;
  refused: boolean;
  /** What proves the call that is to come next. */
  signature: Blob | undefined;
  /** A text stays open until something else begins, because what proves it comes after it. */
  lingering: StreamedPart | undefined;
}

const INDEX = {
  text: "content_index",
  refusal: "content_index",
  thought: "content_index",
  summary: "summary_index",
} as const satisfies Record<Slot, string>;

export function createItems(context: ReplyReadContext): StreamedItems {
  return {
    context,
    items: new Map(),
    out: [],
    replyId: undefined,
    latest: undefined,
    parts: 0,
    calls: false,
    refused: false,
    signature: undefined,
    lingering: undefined,
  };
}

export function addItem(state: StreamedItems, event: JsonObject): void {
  const { item } = event;
  if (!isObject(item)) return;
  const added = place(state, numberIn(event["output_index"]) ?? state.items.size, item);
  if (isCall(item) && stringIn(item["name"])) startCall(state, added);
}

export function addDelta(state: StreamedItems, event: JsonObject, slot: Slot): void {
  const text = stringIn(event["delta"]) ?? "";
  const listed = event["logprobs"];
  const logprobs = Array.isArray(listed) && listed.length > 0 ? readLogprobs(listed) : undefined;
  if (text === "" && logprobs === undefined) return;
  const item = itemOf(state, event);
  const part = partOf(state, item, slot, numberIn(event[INDEX[slot]]) ?? 0);
  say(state, part, text, logprobs);
}

/** The whole text of a part, of which the deltas may have told nothing. */
export function addWhole(state: StreamedItems, event: JsonObject, slot: Slot): void {
  const item = itemOf(state, event);
  if (!item.done)
    complete(state, item, slot, { at: numberIn(event[INDEX[slot]]) ?? 0, value: event });
}

export function addCitation(state: StreamedItems, event: JsonObject): void {
  const part = itemOf(state, event).parts.get(`text${numberIn(event["content_index"]) ?? 0}`);
  if (part !== undefined) cite(state, part, event["annotation"]);
}

export function addArguments(state: StreamedItems, event: JsonObject): void {
  const item = itemOf(state, event);
  const text = stringIn(event["delta"]) ?? "";
  if (text !== "" && isCall(item.item)) say(state, startCall(state, item), text);
}

export function endArguments(state: StreamedItems, event: JsonObject): void {
  const item = itemOf(state, event);
  if (isCall(item.item) && stringIn(item.item["name"])) finishCall(state, item, event);
}

export function endItem(state: StreamedItems, event: JsonObject): void {
  const value = event["item"];
  if (!isObject(value)) return;
  const index = numberIn(event["output_index"]);
  const known = index === undefined ? state.latest : state.items.get(index);
  const item =
    known !== undefined && known.item["type"] === value["type"]
      ? known
      : place(state, index ?? state.items.size, value);
  finishItem(state, item, value);
}

/** Everything that the last response holds and no event told; then whatever is open ends. */
export function settleItems(state: StreamedItems, output: readonly unknown[]): void {
  for (const [index, value] of output.entries()) {
    if (!isObject(value)) continue;
    const item =
      state.items.get(index) ??
      state.items.values().find((one) => value["id"] && one.item["id"] === value["id"]) ??
      place(state, index, value);
    if (item.item["type"] === value["type"]) finishItem(state, item, value);
  }
  endPart(state, state.lingering);
  for (const item of state.items.values()) {
    if (!item.done && isCall(item.item)) finishCall(state, item, {});
    endPart(state, item.open);
  }
}

function place(state: StreamedItems, index: number, item: JsonObject): StreamedItem {
  const placed = { index, item, parts: new Map(), open: undefined, done: false };
  state.items.set(index, placed);
  state.latest = placed;
  return placed;
}

function itemOf(state: StreamedItems, event: JsonObject): StreamedItem {
  const index = numberIn(event["output_index"]);
  const found = index === undefined ? state.latest : state.items.get(index);
  return found ?? place(state, index ?? state.items.size, { type: "message" });
}

function partOf(state: StreamedItems, item: StreamedItem, slot: Slot, at: number): StreamedPart {
  const key = slot + at;
  const known = item.parts.get(key);
  if (known !== undefined) return known;
  const part = startPart(state, item, headOf(slot, item.item));
  if (slot === "refusal") state.refused = true;
  item.parts.set(key, part);
  return part;
}

function startPart(state: StreamedItems, item: StreamedItem, head: PartHead): StreamedPart {
  endPart(state, state.lingering);
  endPart(state, item.open);
  state.lingering = undefined;
  const part = { part: state.parts++, told: "", citations: 0, ended: false };
  state.out.push({ type: "part_start", choice: 0, part: part.part, head });
  item.open = part;
  return part;
}

function endPart(state: StreamedItems, part: StreamedPart | undefined): void {
  if (part === undefined || part.ended) return;
  part.ended = true;
  state.out.push({ type: "part_end", choice: 0, part: part.part });
}

function say(
  state: StreamedItems,
  streamed: StreamedPart,
  text: string,
  logprobs?: readonly TokenLogprob[],
): void {
  if (streamed.ended) return;
  streamed.told += text;
  const { part } = streamed;
  state.out.push(
    logprobs === undefined
      ? { type: "delta", choice: 0, part, text }
      : { type: "delta", choice: 0, part, text, logprobs },
  );
}

function complete(
  state: StreamedItems,
  item: StreamedItem,
  slot: Slot,
  { at, value }: { readonly at: number; readonly value: JsonObject },
): void {
  const text = stringIn(value[slot === "refusal" ? "refusal" : "text"]) ?? "";
  if (text === "" && !item.parts.has(slot + at)) return;
  const part = partOf(state, item, slot, at);
  if (part.told === "") sayRest(state, part, text, readLogprobs(value["logprobs"]));
  else sayRest(state, part, text);
  for (const citation of arrayIn(value["annotations"]).slice(part.citations))
    cite(state, part, citation);
}

// What was told cannot be taken back: words that do not go on from there are not the rest of it.
function sayRest(
  state: StreamedItems,
  part: StreamedPart,
  whole: string,
  logprobs?: readonly TokenLogprob[],
): void {
  if (whole.length > part.told.length && whole.startsWith(part.told))
    say(state, part, whole.slice(part.told.length), logprobs);
}

function cite(state: StreamedItems, part: StreamedPart, value: unknown): void {
  const citation = readAnnotation(value);
  if (citation === undefined || part.ended) return;
  part.citations++;
  state.out.push({ type: "citation", choice: 0, part: part.part, citation });
}

function startCall(state: StreamedItems, item: StreamedItem): StreamedPart {
  if (item.open !== undefined) return item.open;
  state.calls = true;
  const head = callHead(item.item, mintCallId(state.replyId, item.index));
  const signature = takeSignature(state, "call");
  return startPart(state, item, signature === undefined ? head : { ...head, signature });
}

function finishCall(state: StreamedItems, item: StreamedItem, value: JsonObject): void {
  const part = startCall(state, item);
  sayRest(state, part, argumentsIn({ ...value, type: item.item["type"] }));
  if (part.told === "" && item.item["type"] === "function_call") say(state, part, "{}");
  endPart(state, part);
}

function finishItem(state: StreamedItems, item: StreamedItem, value: JsonObject): void {
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
      return whole(state, item, value);
  }
}

function whole(state: StreamedItems, item: StreamedItem, value: JsonObject): void {
  const image = ownImage(value);
  const shown =
    image === undefined
      ? ({ type: "native", wire: "responses", value } as const)
      : { ...image, signature: takeSignature(state, "image") };
  endPart(state, startPart(state, item, { type: "whole", value: shown }));
}

function finishMessage(state: StreamedItems, item: StreamedItem, message: JsonObject): void {
  for (const [at, value] of arrayIn(message["content"]).entries()) {
    if (!isObject(value)) continue;
    if (value["type"] === "refusal") complete(state, item, "refusal", { at, value });
    else if (typeof value["text"] === "string") complete(state, item, "text", { at, value });
    else whole(state, item, value);
  }
  state.lingering = item.open;
}

function finishReasoning(state: StreamedItems, item: StreamedItem, value: JsonObject): void {
  for (const [at, one] of arrayIn(value["summary"]).entries())
    if (isObject(one)) complete(state, item, "summary", { at, value: one });
  for (const [at, one] of arrayIn(value["content"]).entries())
    if (isObject(one)) complete(state, item, "thought", { at, value: one });
  const bare = itemBlob(value);
  const blob = bare && { ...bare, origin: bare.origin ?? state.context.origin };
  if (provesNext(blob) && item.open === undefined) state.signature = blob;
  else if (blob?.kind === "text" && item.open === undefined) signText(state, blob);
  else if (blob !== undefined) {
    const { part } = item.open ?? startPart(state, item, headOf("thought", value));
    state.out.push({ type: "blob", choice: 0, part, blob });
  }
  endPart(state, item.open);
}

function takeSignature(state: StreamedItems, kind: Blob["kind"]): Blob | undefined {
  const { signature } = state;
  state.signature = undefined;
  return signature?.kind === kind ? signature : undefined;
}

function signText(state: StreamedItems, blob: Blob): void {
  const { lingering } = state;
  if (lingering !== undefined && !lingering.ended)
    state.out.push({ type: "blob", choice: 0, part: lingering.part, blob });
}

function isCall(item: JsonObject): boolean {
  return item["type"] === "function_call" || item["type"] === "custom_tool_call";
}

function headOf(slot: Slot, item: JsonObject): PartHead {
  if (slot === "text" || slot === "refusal") return { type: slot };
  const id = stringIn(item["id"]);
  return { type: "reasoning", summary: slot === "summary" || undefined, id };
}
