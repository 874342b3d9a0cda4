// The output of a stream that is being written: the open item and part, and the finished items as text, which the last
// event repeats. Frames are concatenated from text, too.

import type { PartHead } from "../../canonical/canonical-events.ts";
import type { JsonObject } from "../../json-fields.ts";
import { continuesReasoningItem, reasoningItem } from "../items/write-responses-output-items.ts";
import { callIdPrefix, callItem, messageItem, textPart } from "./write-responses-reply.ts";

export type OutputSlot = "text" | "refusal" | "summary" | "thought";

interface PartState {
  readonly slot: OutputSlot;
  readonly index: number;
  readonly pieces: string[];
  readonly annotations: JsonObject[];
  readonly logprobs: JsonObject[];
  length: number;
}

type CallHead = Extract<PartHead, { type: "tool_call" }>;
type ReasoningHead = Extract<PartHead, { type: "reasoning" }>;

interface ItemBase {
  readonly id: string;
  /** `"item_id":…,"output_index":…`, which every event of the item has. */
  readonly eventFields: string;
}

type OutputItem =
  | (ItemBase & { readonly kind: "message"; readonly content: JsonObject[] })
  | (ItemBase & {
      readonly kind: "reasoning";
      readonly parts: { readonly summary?: true | undefined; readonly text: string }[];
      last: ReasoningHead;
      blob: string | undefined;
    })
  | (ItemBase & {
      readonly kind: "call";
      readonly head: CallHead;
      readonly pieces: string[];
      hasArgumentsDone: boolean;
    });

export interface OutputState {
  /** The base of generated item ids. */
  idBase: string;
  readonly finishedItems: string[];
  readonly reasoningIds: Set<string>;
  item: OutputItem | undefined;
  part: PartState | undefined;
  sequence: number;
}

export function createOutputState(idBase: string): OutputState {
  return {
    idBase,
    finishedItems: [],
    reasoningIds: new Set(),
    item: undefined,
    part: undefined,
    sequence: 0,
  };
}

export function frame(output: OutputState, type: string, rest: string): string {
  return `event: ${type}\ndata: {"type":"${type}","sequence_number":${output.sequence++},${rest}}\n\n`;
}

/** Before a text or refusal: ends the open item unless it is a message. A new message starts with its first text. */
export function beginPart(output: OutputState): string {
  return output.item?.kind === "message" ? "" : closeItem(output, "completed");
}

export function beginReasoning(output: OutputState, head: ReasoningHead): string {
  const { item } = output;
  if (
    item?.kind === "reasoning" &&
    continuesReasoningItem({ ...item.last, blob: item.blob }, head)
  ) {
    item.last = head;
    return "";
  }
  const closed = closeItem(output, "completed");
  // Some providers reuse an id, but clients identify items by it.
  const isUsed = head.id !== undefined && output.reasoningIds.has(head.id);
  const base = newItem(output, (isUsed ? undefined : head.id) ?? mintId(output, "rs"));
  output.reasoningIds.add(base.id);
  output.item = { ...base, kind: "reasoning", parts: [], last: head, blob: undefined };
  return closed + itemAddedFrame(output, { id: base.id, type: "reasoning", summary: [] });
}

export function openCall(output: OutputState, head: CallHead): string {
  const closed = closeItem(output, "completed");
  const base = newItem(output, mintId(output, callIdPrefix(head)));
  output.item = { ...base, kind: "call", head, pieces: [], hasArgumentsDone: false };
  return closed + itemAddedFrame(output, callItem(head, base.id, "", "in_progress"));
}

/** A complete item. */
export function writeWholeItem(
  output: OutputState,
  prefix: string,
  make: (id: string) => JsonObject,
): string {
  const closed = closeItem(output, "completed");
  const item = make(mintId(output, prefix));
  const text = JSON.stringify(item);
  const index = `"output_index":${output.finishedItems.length}`;
  const added = frame(output, "response.output_item.added", `${index},"item":${text}`);
  const progress = item["type"] === "web_search_call" ? searchFrames(output, item, index) : "";
  const done = frame(output, "response.output_item.done", `${index},"item":${text}`);
  output.finishedItems.push(text);
  return closed + added + progress + done;
}

function searchFrames(output: OutputState, { id }: JsonObject, index: string): string {
  const fields = `${index},"item_id":${JSON.stringify(id)}`;
  return ["in_progress", "searching", "completed"]
    .map((step) => frame(output, `response.web_search_call.${step}`, fields))
    .join("");
}

/** Opens a part for text, and a message if it needs one. */
export function openPart(output: OutputState, slot: OutputSlot): string {
  if (output.part !== undefined) return "";
  const opened = slot === "text" || slot === "refusal" ? openMessage(output) : "";
  const { item } = output;
  if (item === undefined || item.kind === "call") return opened;
  const index =
    item.kind === "message"
      ? item.content.length
      : item.parts.filter((part) => (part.summary === true) === (slot === "summary")).length;
  output.part = { slot, index, pieces: [], annotations: [], logprobs: [], length: 0 };
  return opened + contentPartFrame(output, item, output.part, "added");
}

/** Text of the open part or call. */
export function writeText(output: OutputState, text: string): string {
  const { item, part } = output;
  if (item === undefined) return "";
  const delta = JSON.stringify(text);
  if (item.kind === "call") {
    if (item.head.item !== undefined) return "";
    item.pieces.push(text);
    const type = item.head.custom === true ? "custom_tool_call_input" : "function_call_arguments";
    return frame(output, `response.${type}.delta`, `${item.eventFields},"delta":${delta}`);
  }
  if (part === undefined) return "";
  part.pieces.push(text);
  part.length += text.length;
  const { type, index, extra } = EVENT_BY_SLOT[part.slot];
  return frame(
    output,
    `response.${type}.delta`,
    `${item.eventFields},"${index}":${part.index},"delta":${delta}${extra}`,
  );
}

export function writeLogprobsDelta(
  output: OutputState,
  text: string,
  logprobs: readonly JsonObject[],
): string {
  const { item, part } = output;
  if (item === undefined || part?.slot !== "text") return writeText(output, text);
  part.pieces.push(text);
  part.length += text.length;
  part.logprobs.push(...logprobs);
  const fields = `"content_index":${part.index},"delta":${JSON.stringify(text)},"logprobs":${JSON.stringify(logprobs)}`;
  return frame(output, "response.output_text.delta", `${item.eventFields},${fields}`);
}

export function endPart(output: OutputState): string {
  const { item, part } = output;
  if (item === undefined) return "";
  if (item.kind === "call") return endArguments(output, item);
  if (part === undefined) return "";
  output.part = undefined;
  const text = part.pieces.join("");
  if (item.kind === "message") item.content.push(contentOf(part, text));
  else item.parts.push({ summary: part.slot === "summary" || undefined, text });
  const { type, index } = EVENT_BY_SLOT[part.slot];
  const key = part.slot === "refusal" ? "refusal" : "text";
  const logprobs = part.slot === "text" ? `,"logprobs":${JSON.stringify(part.logprobs)}` : "";
  const fields = `"${index}":${part.index},"${key}":${JSON.stringify(text)}${logprobs}`;
  return (
    frame(output, `response.${type}.done`, `${item.eventFields},${fields}`) +
    contentPartFrame(output, item, part, "done")
  );
}

export function closeItem(output: OutputState, status: "completed" | "incomplete"): string {
  const ended = endPart(output);
  const { item } = output;
  if (item === undefined) return ended;
  output.item = undefined;
  const text = JSON.stringify(finishedItem(item, status));
  const fields = `"output_index":${output.finishedItems.length},"item":${text}`;
  output.finishedItems.push(text);
  return ended + frame(output, "response.output_item.done", fields);
}

const EVENT_BY_SLOT = {
  text: { type: "output_text", index: "content_index", extra: `,"logprobs":[]` },
  refusal: { type: "refusal", index: "content_index", extra: "" },
  summary: { type: "reasoning_summary_text", index: "summary_index", extra: "" },
  thought: { type: "reasoning_text", index: "content_index", extra: "" },
} as const satisfies Record<OutputSlot, { type: string; index: string; extra: string }>;

function openMessage(output: OutputState): string {
  if (output.item?.kind === "message") return "";
  const closed = closeItem(output, "completed");
  const base = newItem(output, mintId(output, "msg"));
  output.item = { ...base, kind: "message", content: [] };
  return closed + itemAddedFrame(output, messageItem(base.id, [], "in_progress"));
}

function newItem(output: OutputState, id: string): ItemBase {
  return {
    id,
    eventFields: `"item_id":${JSON.stringify(id)},"output_index":${output.finishedItems.length}`,
  };
}

function mintId({ idBase, finishedItems }: OutputState, prefix: string): string {
  return `${prefix}_${idBase}_${finishedItems.length}`;
}

function itemAddedFrame(output: OutputState, item: JsonObject): string {
  const fields = `"output_index":${output.finishedItems.length},"item":${JSON.stringify(item)}`;
  return frame(output, "response.output_item.added", fields);
}

function contentPartFrame(
  output: OutputState,
  item: OutputItem,
  part: PartState,
  end: "added" | "done",
): string {
  const type = part.slot === "summary" ? "reasoning_summary_part" : "content_part";
  const value = JSON.stringify(contentOf(part, end === "added" ? "" : part.pieces.join("")));
  const fields = `"${EVENT_BY_SLOT[part.slot].index}":${part.index},"part":${value}`;
  return frame(output, `response.${type}.${end}`, `${item.eventFields},${fields}`);
}

function contentOf(part: PartState, text: string): JsonObject {
  switch (part.slot) {
    case "text":
      return textPart(text, part.annotations, part.logprobs);
    case "refusal":
      return { type: "refusal", refusal: text };
    case "summary":
      return { type: "summary_text", text };
    case "thought":
      return { type: "reasoning_text", text };
  }
}

function endArguments(output: OutputState, item: Extract<OutputItem, { kind: "call" }>): string {
  if (item.hasArgumentsDone || item.head.item !== undefined) return "";
  item.hasArgumentsDone = true;
  const { custom, name } = item.head;
  const text = JSON.stringify(item.pieces.join(""));
  return custom === true
    ? frame(output, "response.custom_tool_call_input.done", `${item.eventFields},"input":${text}`)
    : frame(
        output,
        "response.function_call_arguments.done",
        `${item.eventFields},"name":${JSON.stringify(name)},"arguments":${text}`,
      );
}

function finishedItem(item: OutputItem, status: "completed" | "incomplete"): JsonObject {
  switch (item.kind) {
    case "message":
      return messageItem(item.id, item.content, status);
    case "reasoning":
      return { id: item.id, type: "reasoning", ...reasoningItem(item.parts, item.blob) };
    case "call":
      return callItem(item.head, item.id, item.pieces.join(""), status);
  }
}
