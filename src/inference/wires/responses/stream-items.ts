// The items of a stream as they come in: which part of the reply each has open, and how far it has come. Some servers
// change an item's id from event to event, some leave out deltas or the events that end a thing, so that an item is known
// by its place, and what its last event says beyond the deltas is given then.
import type { Blob, CanonicalEvent, JsonObject, Native, PartHead, TokenLogprob } from "../../canonical.ts";
import { arrayIn, isObject, numberIn, stringIn } from "../../canonical-json.ts";
import type { ReplyReadContext } from "../../canonical-wire.ts";
import { itemBlob, readAnnotation, readLogprobs } from "./read-output.ts";
import { argumentsIn, callHead, mintCallId } from "./read-reply.ts";

type Out = CanonicalEvent[];
type Slot = "text" | "refusal" | "summary" | "thought";

interface StreamedPart {
  readonly part: number;
  length: number;
  citations: number;
  ended: boolean;
}

export interface StreamedItem {
  readonly index: number;
  readonly item: JsonObject;
  readonly parts: Map<string, StreamedPart>;
  open: StreamedPart | undefined;
  done: boolean;
}

export interface StreamedItems {
  readonly calls: boolean;
  readonly refused: boolean;
  add(out: Out, event: JsonObject): void;
  delta(out: Out, event: JsonObject, slot: Slot): void;
  /** The whole text of a part, of which the deltas may have told nothing. */
  whole(out: Out, event: JsonObject, slot: Slot): void;
  cite(out: Out, event: JsonObject): void;
  callDelta(out: Out, event: JsonObject): void;
  callDone(out: Out, event: JsonObject): void;
  done(out: Out, event: JsonObject): void;
  /** Everything that the last response holds and no event told. */
  settle(out: Out, output: readonly unknown[]): void;
  close(out: Out): void;
}

const INDEX = { text: "content_index", refusal: "content_index", thought: "content_index", summary: "summary_index" } as const satisfies Record<Slot, string>;
const CHOICE = { choice: 0 } as const;

export function createItems(replyId: () => string | undefined, context: ReplyReadContext): StreamedItems {
  const items = new Map<number, StreamedItem>();
  let latest: StreamedItem | undefined;
  let parts = 0;
  let calls = false;
  let refused = false;
  let signature: Blob | undefined;
  // A text stays open until something else begins, because what proves it comes after it.
  let lingering: StreamedPart | undefined;

  function endPart(out: Out, part: StreamedPart | undefined): void {
    if (part === undefined || part.ended) return;
    part.ended = true;
    out.push({ type: "part_end", ...CHOICE, part: part.part });
  }

  function startPart(out: Out, item: StreamedItem, head: PartHead): StreamedPart {
    endPart(out, lingering);
    endPart(out, item.open);
    lingering = undefined;
    const part = { part: parts++, length: 0, citations: 0, ended: false };
    out.push({ type: "part_start", ...CHOICE, part: part.part, head });
    item.open = part;
    return part;
  }

  function itemOf(event: JsonObject): StreamedItem {
    const index = numberIn(event["output_index"]);
    const found = index === undefined ? latest : items.get(index);
    return found ?? addItem(index ?? items.size, { type: "message" });
  }

  function addItem(index: number, item: JsonObject): StreamedItem {
    const added: StreamedItem = { index, item, parts: new Map(), open: undefined, done: false };
    items.set(index, added);
    latest = added;
    return added;
  }

  function partOf(out: Out, item: StreamedItem, slot: Slot, key: string): StreamedPart {
    const known = item.parts.get(key);
    if (known !== undefined) return known;
    const part = startPart(out, item, headOf(slot, item.item));
    if (slot === "refusal") refused = true;
    item.parts.set(key, part);
    return part;
  }

  function say(out: Out, part: StreamedPart, text: string, logprobs?: readonly TokenLogprob[]): void {
    if (part.ended) return;
    part.length += text.length;
    out.push(logprobs === undefined ? { type: "delta", ...CHOICE, part: part.part, text } : { type: "delta", ...CHOICE, part: part.part, text, logprobs });
  }

  function complete(out: Out, item: StreamedItem, slot: Slot, at: number, value: JsonObject): void {
    const text = stringIn(value[slot === "refusal" ? "refusal" : "text"]) ?? "";
    const key = slot + at;
    if (text === "" && !item.parts.has(key)) return;
    const part = partOf(out, item, slot, key);
    if (text.length > part.length) say(out, part, text.slice(part.length), part.length === 0 ? readLogprobs(value["logprobs"]) : undefined);
    for (const citation of arrayIn(value["annotations"]).slice(part.citations)) citePart(out, part, citation);
  }

  function citePart(out: Out, part: StreamedPart, value: unknown): void {
    const citation = readAnnotation(value);
    if (citation === undefined || part.ended) return;
    part.citations++;
    out.push({ type: "citation", ...CHOICE, part: part.part, citation });
  }

  function startCall(out: Out, item: StreamedItem): StreamedPart {
    if (item.open !== undefined) return item.open;
    calls = true;
    const { type, ...head } = callHead(item.item, mintCallId(replyId(), item.index));
    const signed = signature === undefined ? head : { ...head, signature };
    signature = undefined;
    return startPart(out, item, { type, ...signed });
  }

  function finishCall(out: Out, item: StreamedItem, value: JsonObject): void {
    const part = startCall(out, item);
    const said = argumentsIn({ ...value, type: item.item["type"] });
    if (said.length > part.length) say(out, part, said.slice(part.length));
    if (part.length === 0 && item.item["type"] === "function_call") say(out, part, "{}");
    endPart(out, part);
  }

  function finishReasoning(out: Out, item: StreamedItem, value: JsonObject): void {
    for (const [at, one] of arrayIn(value["summary"]).entries()) if (isObject(one)) complete(out, item, "summary", at, one);
    for (const [at, one] of arrayIn(value["content"]).entries()) if (isObject(one)) complete(out, item, "thought", at, one);
    const bare = itemBlob(value);
    const blob = bare && { ...bare, origin: bare.origin ?? context.origin };
    if (blob?.kind === "call" && item.open === undefined) signature = blob;
    else if (blob?.kind === "text" && item.open === undefined) {
      if (lingering !== undefined) out.push({ type: "blob", ...CHOICE, part: lingering.part, blob });
    } else if (blob !== undefined) {
      const part = item.open ?? startPart(out, item, headOf("thought", value));
      out.push({ type: "blob", ...CHOICE, part: part.part, blob });
    }
    endPart(out, item.open);
  }

  function finishMessage(out: Out, item: StreamedItem, value: JsonObject): void {
    for (const [at, one] of arrayIn(value["content"]).entries()) {
      if (!isObject(one)) continue;
      if (one["type"] === "refusal" || typeof one["text"] === "string") complete(out, item, one["type"] === "refusal" ? "refusal" : "text", at, one);
      else endPart(out, startPart(out, item, { type: "whole", value: { type: "native", wire: "responses", value: one } }));
    }
    lingering = item.open;
  }

  function finishItem(out: Out, item: StreamedItem, value: JsonObject): void {
    if (item.done) return;
    item.done = true;
    switch (value["type"]) {
      case "message":
        return finishMessage(out, item, value);
      case "reasoning":
        return finishReasoning(out, item, value);
      case "function_call":
      case "custom_tool_call":
        return finishCall(out, item, value);
      default:
        endPart(out, startPart(out, item, { type: "whole", value: { type: "native", wire: "responses", value } }));
    }
  }

  return {
    get calls() {
      return calls;
    },
    get refused() {
      return refused;
    },
    add(out, event) {
      const item = event["item"];
      if (!isObject(item)) return;
      const added = addItem(numberIn(event["output_index"]) ?? items.size, item);
      if (isCall(item) && stringIn(item["name"])) startCall(out, added);
    },
    delta(out, event, slot) {
      const text = stringIn(event["delta"]) ?? "";
      const listed = event["logprobs"];
      const logprobs = Array.isArray(listed) && listed.length > 0 ? readLogprobs(listed) : undefined;
      if (text === "" && logprobs === undefined) return;
      const item = itemOf(event);
      say(out, partOf(out, item, slot, slot + (numberIn(event[INDEX[slot]]) ?? 0)), text, logprobs);
    },
    whole(out, event, slot) {
      const item = itemOf(event);
      if (!item.done) complete(out, item, slot, numberIn(event[INDEX[slot]]) ?? 0, event);
    },
    cite(out, event) {
      const part = itemOf(event).parts.get(`text${numberIn(event["content_index"]) ?? 0}`);
      if (part !== undefined) citePart(out, part, event["annotation"]);
    },
    callDelta(out, event) {
      const item = itemOf(event);
      const text = stringIn(event["delta"]) ?? "";
      if (text !== "" && isCall(item.item)) say(out, startCall(out, item), text);
    },
    callDone(out, event) {
      const item = itemOf(event);
      if (isCall(item.item) && stringIn(item.item["name"])) finishCall(out, item, event);
    },
    done(out, event) {
      const value = event["item"];
      if (!isObject(value)) return;
      const index = numberIn(event["output_index"]);
      const known = index === undefined ? latest : items.get(index);
      const matches = known !== undefined && known.item["type"] === value["type"];
      finishItem(out, matches ? known : addItem(index ?? items.size, value), value);
    },
    settle(out, output) {
      for (const [index, value] of output.entries()) {
        if (!isObject(value)) continue;
        const item = items.get(index) ?? items.values().find((one) => one.item["id"] === value["id"]);
        if (item === undefined) finishItem(out, addItem(index, value), value);
        else if (item.item["type"] === value["type"]) finishItem(out, item, value);
      }
    },
    close(out) {
      endPart(out, lingering);
      for (const item of items.values()) {
        if (!item.done && isCall(item.item)) finishCall(out, item, {});
        endPart(out, item.open);
      }
    },
  };
}

function isCall(item: JsonObject): boolean {
  return item["type"] === "function_call" || item["type"] === "custom_tool_call";
}

function headOf(slot: Slot, item: JsonObject): PartHead {
  if (slot === "text" || slot === "refusal") return { type: slot };
  const id = stringIn(item["id"]);
  return { type: "reasoning", summary: slot === "summary" || undefined, id };
}
