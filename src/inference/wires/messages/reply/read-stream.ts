import {
  arrayIn,
  type JsonObject,
  numberIn,
  objectIn,
  parseObject,
  stringIn,
} from "../../../../base/json.ts";
import { mintCallId } from "../../../canonical/call-ids.ts";
import { truncatedStreamError } from "../../../canonical/error.ts";
import type { CanonicalEvent, PartHead } from "../../../canonical/events.ts";
import type { NativePart, OpaqueBlob } from "../../../canonical/parts.ts";
import {
  parseEvent,
  type ReplyReadContext,
  type WireStreamReader,
} from "../../../canonical/wire.ts";
import { readError } from "./map-error.ts";
import { readFinish } from "./map-finish-reason.ts";
import { readCitation } from "./read-citation.ts";

interface BlockState {
  /** The block of the start event. A native block is emitted at its end. */
  readonly block: JsonObject;
  readonly kind: "text" | "thinking" | "redacted" | "call" | "native";
  readonly part: number;
  json: string;
  signature: string;
  /** The collected deltas of a native block. */
  readonly extra: Record<string, unknown>;
}

interface ReaderState {
  readonly context: ReplyReadContext;
  readonly blocks: Map<number, BlockState>;
  /** The events of the current push. */
  out: CanonicalEvent[];
  message: JsonObject | undefined;
  delta: JsonObject | undefined;
  usage: JsonObject | undefined;
  partCount: number;
  hasToolCalls: boolean;
  ended: boolean;
}

export function createStreamReader(context: ReplyReadContext): WireStreamReader {
  const state = createReaderState(context);
  return {
    push(event) {
      state.out = [];
      const data = state.ended ? undefined : parseEvent(event);
      if (data !== undefined) readEvent(state, data);
      return state.out;
    },
    end() {
      state.out = [];
      finish(state);
      return state.out;
    },
  };
}

/** The events of a reply that was not streamed. */
export function readMessageEvents(
  message: JsonObject,
  context: ReplyReadContext,
): readonly CanonicalEvent[] {
  const state = createReaderState(context);
  start(state, { message });
  state.delta ??= message;
  emitFinish(state);
  return state.out;
}

function createReaderState(context: ReplyReadContext): ReaderState {
  return {
    context,
    blocks: new Map(),
    out: [],
    message: undefined,
    delta: undefined,
    usage: undefined,
    partCount: 0,
    hasToolCalls: false,
    ended: false,
  };
}

function readEvent(state: ReaderState, event: JsonObject): void {
  switch (event["type"]) {
    case "content_block_delta":
      return addToBlock(state, event);
    case "message_start":
      return start(state, event);
    case "content_block_start":
      return startBlock(state, event);
    case "content_block_stop":
      return endBlock(state, numberIn(event["index"]) ?? 0);
    case "message_delta":
      state.delta = { ...state.delta, ...objectIn(event["delta"]) };
      state.usage = mergeUsage(state.usage, objectIn(event["usage"]));
      return;
    case "message_stop":
      return finish(state);
    case "error":
      state.ended = true;
      state.out.push({ type: "error", error: readError(200, event) });
      return;
    default:
  }
}

function start(state: ReaderState, event: JsonObject): void {
  const message = objectIn(event["message"]) ?? {};
  if (state.message !== undefined) return restart(state, message);
  state.message = message;
  state.usage = objectIn(message["usage"]);
  state.out.push({
    type: "start",
    id: stringIn(message["id"]),
    model: stringIn(message["model"]),
    serviceTier: tierOf(state.usage),
  });
  readWholeMessage(state, message);
}

// Another gateway retried the call mid-stream; what was sent of the first attempt cannot be taken back.
function restart(state: ReaderState, message: JsonObject): void {
  if (message["id"] === state.message?.["id"] || state.partCount === 0) return;
  state.ended = true;
  state.out.push({ type: "error", error: truncatedStreamError() });
}

// A reply that only continues running code is complete in the start event.
function readWholeMessage(state: ReaderState, message: JsonObject): void {
  for (const [at, block] of arrayIn(message["content"]).entries()) {
    startBlock(state, { index: -1 - at, content_block: block });
    endBlock(state, -1 - at);
  }
  if (typeof message["stop_reason"] === "string")
    state.delta = {
      stop_reason: message["stop_reason"],
      stop_sequence: message["stop_sequence"],
      stop_details: message["stop_details"],
    };
}

function startBlock(state: ReaderState, event: JsonObject): void {
  // One block is open at a time, even if its end event is missing.
  for (const index of state.blocks.keys()) endBlock(state, index);
  const block = objectIn(event["content_block"]) ?? {};
  if (typeof block["type"] !== "string") return;
  const kind = kindOf(block);
  const part = kind === "native" ? -1 : state.partCount++;
  const open: BlockState = {
    block,
    kind,
    part,
    json: "",
    signature: stringIn(block["signature"]) ?? "",
    extra: {},
  };
  state.blocks.set(numberIn(event["index"]) ?? 0, open);
  if (kind === "native") return;
  const head = headOf(block, kind, state);
  if (head.type === "tool_call") state.hasToolCalls = true;
  state.out.push({ type: "part_start", choice: 0, part, head });
  const text =
    kind === "text"
      ? stringIn(block["text"])
      : kind === "thinking"
        ? stringIn(block["thinking"])
        : undefined;
  if (text) state.out.push({ type: "delta", choice: 0, part, text });
  if (kind === "text")
    for (const one of arrayIn(block["citations"])) emitCitation(state, part, one);
}

function addToBlock(state: ReaderState, event: JsonObject): void {
  const open = state.blocks.get(numberIn(event["index"]) ?? 0);
  const delta = objectIn(event["delta"]);
  if (open === undefined || delta === undefined) return;
  switch (delta["type"]) {
    case "text_delta":
      return addText(state, open, delta["text"]);
    case "thinking_delta":
      return addText(state, open, delta["thinking"]);
    case "input_json_delta":
      open.json += stringIn(delta["partial_json"]) ?? "";
      if (open.kind === "call") addText(state, open, delta["partial_json"]);
      return;
    case "signature_delta":
      open.signature += stringIn(delta["signature"]) ?? "";
      return;
    case "citations_delta":
      return emitCitation(state, open.part, delta["citation"]);
    default:
      addNative(open, delta);
  }
}

function addText({ out }: ReaderState, { part }: BlockState, text: unknown): void {
  if (typeof text === "string" && text !== "" && part >= 0)
    out.push({ type: "delta", choice: 0, part, text });
}

function addNative({ extra }: BlockState, delta: JsonObject): void {
  for (const key in delta) {
    if (key === "type") continue;
    const before = extra[key];
    const more = delta[key];
    extra[key] = typeof before === "string" && typeof more === "string" ? before + more : more;
  }
}

function emitCitation({ out }: ReaderState, part: number, value: unknown): void {
  const citation = readCitation(value);
  if (citation !== undefined && part >= 0)
    out.push({ type: "citation", choice: 0, part, citation });
}

function endBlock(state: ReaderState, index: number): void {
  const { out, context } = state;
  const open = state.blocks.get(index);
  if (open === undefined) return;
  state.blocks.delete(index);
  const { block, kind, json, part } = open;
  if (kind === "native") return endNative(state, open);
  if (kind === "call" && json === "")
    out.push({ type: "delta", choice: 0, part, text: JSON.stringify(block["input"] ?? {}) });
  const blob =
    kind === "redacted"
      ? blobOf(block["data"], "encrypted", context)
      : kind === "thinking"
        ? blobOf(open.signature, "signature", context)
        : undefined;
  if (blob !== undefined) out.push({ type: "blob", choice: 0, part, blob });
  out.push({ type: "part_end", choice: 0, part });
}

function endNative(state: ReaderState, { block, extra, json }: BlockState): void {
  const input = parseObject(json);
  const value: NativePart = {
    type: "native",
    wire: "messages",
    value: { ...block, ...extra, ...(input === undefined ? undefined : { input }) },
  };
  const part = state.partCount++;
  state.out.push(
    { type: "part_start", choice: 0, part, head: { type: "whole", value } },
    { type: "part_end", choice: 0, part },
  );
}

function finish(state: ReaderState): void {
  if (state.ended) return;
  state.ended = true;
  const { out, delta, message, usage, context } = state;
  if (message === undefined || stringIn(delta?.["stop_reason"]) === undefined) {
    out.push({ type: "error", error: truncatedStreamError() });
    return;
  }
  for (const index of state.blocks.keys()) endBlock(state, index);
  emitFinish(state);
  const read = usage === undefined ? undefined : context.readUsage({ ...message, ...delta, usage });
  if (read !== undefined) out.push({ type: "usage", report: { usage: read } });
}

function emitFinish({ out, delta, hasToolCalls }: ReaderState): void {
  const detail = stringIn(objectIn(delta?.["stop_details"])?.["explanation"]);
  const reason = stringIn(delta?.["stop_reason"]);
  const finish = readFinish(reason, stringIn(delta?.["stop_sequence"]), detail, hasToolCalls);
  out.push({ type: "finish", choice: 0, finish });
}

const KIND_BY_TYPE: ReadonlyMap<unknown, BlockState["kind"]> = new Map([
  ["text", "text"],
  ["thinking", "thinking"],
  ["redacted_thinking", "redacted"],
  ["tool_use", "call"],
]);

function kindOf(block: JsonObject): BlockState["kind"] {
  return KIND_BY_TYPE.get(block["type"]) ?? "native";
}

function headOf(
  block: JsonObject,
  kind: BlockState["kind"],
  { context, message, partCount }: ReaderState,
): PartHead {
  if (kind === "text") return { type: "text" };
  if (kind !== "call") return { type: "reasoning" };
  const name = stringIn(block["name"]) ?? "";
  if (name === context.emulation?.outputTool) return { type: "text" };
  return {
    type: "tool_call",
    id: stringIn(block["id"]) || mintCallId(stringIn(message?.["id"]) ?? "", partCount),
    name,
  };
}

// Later fields replace earlier ones: counts of the start and the delta events are not added up. Null does not replace.
function mergeUsage(
  before: JsonObject | undefined,
  after: JsonObject | undefined,
): JsonObject | undefined {
  if (after === undefined) return before;
  const merged: Record<string, unknown> = { ...before };
  for (const key in after)
    if (after[key] !== null && after[key] !== undefined) merged[key] = after[key];
  return merged;
}

function blobOf(
  data: unknown,
  kind: OpaqueBlob["kind"],
  { origin }: ReplyReadContext,
): OpaqueBlob | undefined {
  return typeof data === "string" && data !== ""
    ? { wire: "messages", kind, data, origin }
    : undefined;
}

/** The tier `standard` is `default` in the canonical form. */
function tierOf(usage: unknown): string | undefined {
  const tier = stringIn(objectIn(usage)?.["service_tier"]);
  return tier === "standard" ? "default" : tier;
}
