import type { CanonicalEvent, JsonObject, PartHead } from "../../canonical.ts";
import { cutStream } from "../../canonical-error.ts";
import {
  arrayIn,
  numberIn,
  objectIn,
  parseEvent,
  parseObject,
  stringIn,
} from "../../canonical-json.ts";
import { mintCallId } from "../../canonical-call-ids.ts";
import type { ReplyReadContext, StreamReader } from "../../canonical-wire.ts";
import { readError } from "./map-error.ts";
import { readFinish } from "./map-finish-reason.ts";
import { blobOf, readCitation, readReplyBlock, tierOf } from "./read-reply.ts";

interface OpenBlock {
  /** The block as it began; what has no deltas of ours is given whole at its end. */
  readonly block: JsonObject;
  readonly kind: "text" | "thinking" | "redacted" | "call" | "native";
  readonly part: number;
  json: string;
  signature: string;
  /** The deltas of a block that only this API knows. */
  readonly extra: Record<string, unknown>;
}

interface Reading {
  readonly context: ReplyReadContext;
  readonly blocks: Map<number, OpenBlock>;
  /** The events that the current push gives. */
  out: CanonicalEvent[];
  message: JsonObject | undefined;
  delta: JsonObject | undefined;
  usage: JsonObject | undefined;
  parts: number;
  calls: boolean;
  over: boolean;
}

export function createStreamReader(context: ReplyReadContext): StreamReader {
  const reading: Reading = {
    context,
    blocks: new Map(),
    out: [],
    message: undefined,
    delta: undefined,
    usage: undefined,
    parts: 0,
    calls: false,
    over: false,
  };
  return {
    push(event) {
      reading.out = [];
      const said = reading.over ? undefined : parseEvent(event);
      if (said !== undefined) readEvent(reading, said);
      return reading.out;
    },
    end() {
      reading.out = [];
      finish(reading);
      return reading.out;
    },
  };
}

function readEvent(reading: Reading, event: JsonObject): void {
  switch (event["type"]) {
    case "content_block_delta":
      return addToBlock(reading, event);
    case "message_start":
      return start(reading, event);
    case "content_block_start":
      return startBlock(reading, event);
    case "content_block_stop":
      return endBlock(reading, numberIn(event["index"]) ?? 0);
    case "message_delta":
      reading.delta = { ...reading.delta, ...objectIn(event["delta"]) };
      reading.usage = mergeUsage(reading.usage, objectIn(event["usage"]));
      return;
    case "message_stop":
      return finish(reading);
    case "error":
      reading.over = true;
      reading.out.push({ type: "error", error: readError(200, event) });
      return;
    default:
  }
}

function start(reading: Reading, event: JsonObject): void {
  const message = objectIn(event["message"]) ?? {};
  if (reading.message !== undefined) return startAgain(reading, message);
  reading.message = message;
  reading.usage = objectIn(message["usage"]);
  reading.out.push({
    type: "start",
    id: stringIn(message["id"]),
    model: stringIn(message["model"]),
    serviceTier: tierOf(reading.usage),
  });
  readWhole(reading, message);
}

// A gateway between that tried again: what has been shown of the first try cannot be taken back.
function startAgain(reading: Reading, message: JsonObject): void {
  if (message["id"] === reading.message?.["id"] || reading.parts === 0) return;
  reading.over = true;
  reading.out.push({ type: "error", error: cutStream() });
}

// A reply that only goes on with a running program comes whole, within its start.
function readWhole(reading: Reading, message: JsonObject): void {
  for (const [at, block] of arrayIn(message["content"]).entries()) {
    startBlock(reading, { index: -1 - at, content_block: block });
    endBlock(reading, -1 - at);
  }
  if (typeof message["stop_reason"] === "string")
    reading.delta = {
      stop_reason: message["stop_reason"],
      stop_sequence: message["stop_sequence"],
    };
}

function startBlock(reading: Reading, event: JsonObject): void {
  // One block is open at a time, whatever was lost on the way.
  for (const index of reading.blocks.keys()) endBlock(reading, index);
  const block = objectIn(event["content_block"]) ?? {};
  if (typeof block["type"] !== "string") return;
  const kind = kindOf(block);
  const part = kind === "native" ? -1 : reading.parts++;
  const open: OpenBlock = {
    block,
    kind,
    part,
    json: "",
    signature: stringIn(block["signature"]) ?? "",
    extra: {},
  };
  reading.blocks.set(numberIn(event["index"]) ?? 0, open);
  if (kind === "native") return;
  const head = headOf(block, kind, reading);
  if (head.type === "tool_call") reading.calls = true;
  reading.out.push({ type: "part_start", choice: 0, part, head });
  const text =
    kind === "text"
      ? stringIn(block["text"])
      : kind === "thinking"
        ? stringIn(block["thinking"])
        : undefined;
  if (text) reading.out.push({ type: "delta", choice: 0, part, text });
  if (kind === "text") for (const one of arrayIn(block["citations"])) cite(reading, part, one);
}

function addToBlock(reading: Reading, event: JsonObject): void {
  const open = reading.blocks.get(numberIn(event["index"]) ?? 0);
  const delta = objectIn(event["delta"]);
  if (open === undefined || delta === undefined) return;
  switch (delta["type"]) {
    case "text_delta":
      return addText(reading, open, delta["text"]);
    case "thinking_delta":
      return addText(reading, open, delta["thinking"]);
    case "input_json_delta":
      open.json += stringIn(delta["partial_json"]) ?? "";
      if (open.kind === "call") addText(reading, open, delta["partial_json"]);
      return;
    case "signature_delta":
      open.signature += stringIn(delta["signature"]) ?? "";
      return;
    case "citations_delta":
      return cite(reading, open.part, delta["citation"]);
    default:
      addNative(open, delta);
  }
}

function addText({ out }: Reading, { part }: OpenBlock, text: unknown): void {
  if (typeof text === "string" && text !== "" && part >= 0)
    out.push({ type: "delta", choice: 0, part, text });
}

function addNative({ extra }: OpenBlock, delta: JsonObject): void {
  for (const key in delta) {
    if (key === "type") continue;
    const before = extra[key];
    const more = delta[key];
    extra[key] = typeof before === "string" && typeof more === "string" ? before + more : more;
  }
}

function cite({ out }: Reading, part: number, value: unknown): void {
  const citation = readCitation(value);
  if (citation !== undefined && part >= 0)
    out.push({ type: "citation", choice: 0, part, citation });
}

function endBlock(reading: Reading, index: number): void {
  const { out, context } = reading;
  const open = reading.blocks.get(index);
  if (open === undefined) return;
  reading.blocks.delete(index);
  const { block, kind, json, part } = open;
  if (kind === "native") return endNative(reading, open);
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

function endNative(reading: Reading, { block, extra, json }: OpenBlock): void {
  const input = parseObject(json);
  const value = readReplyBlock(
    { ...block, ...extra, ...(input === undefined ? undefined : { input }) },
    reading.context,
  );
  if (value.type !== "native") return;
  const part = reading.parts++;
  reading.out.push(
    { type: "part_start", choice: 0, part, head: { type: "whole", value } },
    { type: "part_end", choice: 0, part },
  );
}

function finish(reading: Reading): void {
  if (reading.over) return;
  reading.over = true;
  const { out, delta, message, usage, context } = reading;
  const word = stringIn(delta?.["stop_reason"]);
  if (message === undefined || word === undefined) {
    out.push({ type: "error", error: cutStream() });
    return;
  }
  for (const index of reading.blocks.keys()) endBlock(reading, index);
  const detail = stringIn(objectIn(delta?.["stop_details"])?.["explanation"]);
  const stopString = stringIn(delta?.["stop_sequence"]);
  out.push({
    type: "finish",
    choice: 0,
    finish: readFinish(word, stopString, detail, reading.calls),
  });
  const read = usage === undefined ? undefined : context.readUsage({ ...message, ...delta, usage });
  if (read !== undefined) out.push({ type: "usage", report: { usage: read } });
}

const KINDS: ReadonlyMap<unknown, OpenBlock["kind"]> = new Map([
  ["text", "text"],
  ["thinking", "thinking"],
  ["redacted_thinking", "redacted"],
  ["tool_use", "call"],
]);

function kindOf(block: JsonObject): OpenBlock["kind"] {
  return KINDS.get(block["type"]) ?? "native";
}

function headOf(
  block: JsonObject,
  kind: OpenBlock["kind"],
  { context, message, parts }: Reading,
): PartHead {
  if (kind === "text") return { type: "text" };
  if (kind !== "call") return { type: "reasoning" };
  const name = stringIn(block["name"]) ?? "";
  if (name === context.emulation?.outputTool) return { type: "text" };
  return {
    type: "tool_call",
    id: stringIn(block["id"]) || mintCallId(stringIn(message?.["id"]) ?? "", parts),
    name,
  };
}

// The last word holds, field by field; the numbers of start and delta are never added, and a null takes nothing back.
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
