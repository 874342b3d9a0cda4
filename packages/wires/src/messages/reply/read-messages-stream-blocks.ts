// The state of a stream's content blocks.

import type { CanonicalEvent, PartHead } from "../../canonical/canonical-events.ts";
import type { NativePart, OpaqueBlob } from "../../canonical/canonical-parts.ts";
import { mintCallId } from "../../canonical/tools/call-ids.ts";
import type { ReplyReadContext } from "../../canonical/wire-interfaces.ts";
import {
  arrayIn,
  type JsonObject,
  numberIn,
  objectIn,
  parseObject,
  stringIn,
} from "../../json-fields.ts";
import { readCitation } from "./read-messages-citation.ts";

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

export interface BlocksState {
  readonly context: ReplyReadContext;
  readonly blocks: Map<number, BlockState>;
  /** The events of the current push. */
  out: CanonicalEvent[];
  message: JsonObject | undefined;
  partCount: number;
  hasToolCalls: boolean;
}

export function startBlock(state: BlocksState, event: JsonObject): void {
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

export function addToBlock(state: BlocksState, event: JsonObject): void {
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

function addText({ out }: BlocksState, { part }: BlockState, text: unknown): void {
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

function emitCitation({ out }: BlocksState, part: number, value: unknown): void {
  const citation = readCitation(value);
  if (citation !== undefined && part >= 0)
    out.push({ type: "citation", choice: 0, part, citation });
}

export function endBlock(state: BlocksState, index: number): void {
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

function endNative(state: BlocksState, { block, extra, json }: BlockState): void {
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
  { context, message, partCount }: BlocksState,
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

function blobOf(
  data: unknown,
  kind: OpaqueBlob["kind"],
  { origin }: ReplyReadContext,
): OpaqueBlob | undefined {
  return typeof data === "string" && data !== ""
    ? { wire: "messages", kind, data, origin }
    : undefined;
}
