// Reads a message's content blocks, in order, into canonical parts.

import type { CanonicalEvent, PartHead } from "../../canonical/canonical-events.ts";
import type {
  ImagePart,
  NativePart,
  OpaqueBlob,
  Citation,
} from "../../canonical/canonical-parts.ts";
import type { ReplyReadContext } from "../../canonical/wire-interfaces.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  objectIn,
  parseObject,
  stringIn,
} from "../../json-fields.ts";

type OpenKind = "text" | "reasoning" | "call";

/** A block that becomes one part at its end: a server tool's call or result, an image. */
interface BufferedBlock {
  readonly kind: string;
  readonly start: JsonObject;
  input: string;
  content: readonly unknown[];
  fields: JsonObject;
}

export interface MessageState {
  readonly sink: { readonly out: CanonicalEvent[] };
  readonly context: ReplyReadContext;
  block: number;
  openKind: OpenKind | undefined;
  buffered: BufferedBlock | undefined;
  /** Signature and redacted content of the open reasoning part. */
  signature: string;
  redacted: string;
  /** The open call has arguments. */
  hasInput: boolean;
  partCount: number;
  /** The message has a tool call, not counting the output tool's. */
  hasToolCalls: boolean;
  /** The current block has no text yet. */
  isBlockEmpty: boolean;
  /** Where the current block starts within the open text part, and where that text ends. */
  textFrom: number;
  textLength: number;
}

export function createMessageState(
  sink: MessageState["sink"],
  context: ReplyReadContext,
): MessageState {
  return {
    sink,
    context,
    block: -1,
    openKind: undefined,
    buffered: undefined,
    signature: "",
    redacted: "",
    hasInput: false,
    partCount: 0,
    hasToolCalls: false,
    isBlockEmpty: true,
    textFrom: 0,
    textLength: 0,
  };
}

export function startBlock(message: MessageState, index: number, start: JsonObject): void {
  enterBlock(message, index);
  const use = objectIn(start["toolUse"]);
  if (use !== undefined && use["type"] !== "server_tool_use") return startCall(message, use);
  for (const kind of ["toolUse", "toolResult", "image"]) {
    const value = objectIn(start[kind]);
    if (value === undefined) continue;
    endPart(message);
    message.buffered = { kind, start: value, input: "", content: [], fields: {} };
  }
}

export function addToBlock(message: MessageState, index: number, delta: JsonObject): void {
  enterBlock(message, index);
  const { text } = delta;
  if (typeof text === "string") return addText(message, "text", text);
  const input = objectIn(delta["toolUse"])?.["input"];
  if (input !== undefined) return addInput(message, stringIn(input) ?? JSON.stringify(input));
  const reasoning = objectIn(delta["reasoningContent"]);
  if (reasoning !== undefined) return addReasoning(message, reasoning);
  const citation = objectIn(delta["citation"]);
  if (citation !== undefined) return emitCitation(message, citation);
  const { buffered } = message;
  if (buffered === undefined) return;
  buffered.content = [...buffered.content, ...arrayIn(delta["toolResult"])];
  buffered.fields = { ...buffered.fields, ...objectIn(delta["image"]) };
}

/** A text part spans blocks, since its citation may come in a separate block; other parts end with their block. */
export function endBlock(message: MessageState): void {
  endBuffered(message);
  if (message.openKind !== "text") endPart(message);
}

export function endMessage(message: MessageState): void {
  endBuffered(message);
  endPart(message);
}

/** Adds a complete block that has no canonical form. */
export function addNative(message: MessageState, value: JsonObject): void {
  endPart(message);
  addWholePart(message, { type: "native", wire: "converse", value });
}

function enterBlock(message: MessageState, index: number): void {
  if (index === message.block) return;
  endBlock(message);
  message.block = index;
  message.isBlockEmpty = true;
}

function openPart(message: MessageState, kind: OpenKind, head: PartHead): void {
  endPart(message);
  message.openKind = kind;
  message.sink.out.push({ type: "part_start", choice: 0, part: message.partCount++, head });
}

function openTextPart(message: MessageState, kind: "text" | "reasoning"): void {
  openPart(message, kind, { type: kind });
  message.textLength = 0;
  message.textFrom = 0;
}

function addDelta({ sink, partCount }: MessageState, text: string): void {
  if (text !== "") sink.out.push({ type: "delta", choice: 0, part: partCount - 1, text });
}

function addText(message: MessageState, kind: "text" | "reasoning", text: string): void {
  if (text === "") return;
  if (message.openKind !== kind) openTextPart(message, kind);
  if (message.isBlockEmpty) message.textFrom = message.textLength;
  message.isBlockEmpty = false;
  message.textLength += text.length;
  addDelta(message, text);
}

function addReasoning(message: MessageState, delta: JsonObject): void {
  const text = stringIn(delta["text"]) ?? "";
  const signature = stringIn(delta["signature"]) ?? "";
  const redacted = stringIn(delta["redactedContent"]) ?? "";
  if (text !== "") addText(message, "reasoning", text);
  if (signature === "" && redacted === "") return;
  if (message.openKind !== "reasoning") openPart(message, "reasoning", { type: "reasoning" });
  message.signature += signature;
  message.redacted = joinBase64(message.redacted, redacted);
}

function joinBase64(left: string, right: string): string {
  if (left === "" || right === "") return left + right;
  return Buffer.concat([Buffer.from(left, "base64"), Buffer.from(right, "base64")]).toString(
    "base64",
  );
}

// A citation covers the text of its own block, or of the block before it.
function emitCitation(message: MessageState, citation: JsonObject): void {
  if (message.openKind !== "text") openTextPart(message, "text");
  const { sink, partCount, textFrom: start, textLength: end } = message;
  const range = end > start ? { start, end } : undefined;
  sink.out.push({
    type: "citation",
    choice: 0,
    part: partCount - 1,
    citation: { ...readCitation(citation), ...range },
  });
}

function startCall(message: MessageState, use: JsonObject): void {
  const name = stringIn(use["name"]) ?? "";
  const isOutputTool = name === message.context.emulation?.outputTool;
  message.hasToolCalls ||= !isOutputTool;
  message.hasInput = false;
  const id = stringIn(use["toolUseId"]) ?? "";
  openPart(message, "call", isOutputTool ? { type: "text" } : { type: "tool_call", id, name });
}

function addInput(message: MessageState, input: string): void {
  if (message.buffered !== undefined) message.buffered.input += input;
  else if (message.openKind === "call") {
    message.hasInput ||= input !== "";
    addDelta(message, input);
  }
}

function endPart(message: MessageState): void {
  const { openKind, sink, partCount, signature, redacted } = message;
  if (openKind === undefined) return;
  const part = partCount - 1;
  if (openKind === "call" && !message.hasInput) addDelta(message, "{}");
  if (redacted !== "")
    sink.out.push({ type: "blob", choice: 0, part, blob: blobOf(message, "encrypted", redacted) });
  else if (signature !== "")
    sink.out.push({ type: "blob", choice: 0, part, blob: blobOf(message, "signature", signature) });
  sink.out.push({ type: "part_end", choice: 0, part });
  message.openKind = undefined;
  message.signature = "";
  message.redacted = "";
}

function blobOf({ context }: MessageState, kind: OpaqueBlob["kind"], data: string): OpaqueBlob {
  return { wire: "converse", kind, data, origin: context.origin };
}

function endBuffered(message: MessageState): void {
  const { buffered } = message;
  if (buffered === undefined) return;
  message.buffered = undefined;
  addWholePart(message, buffered.kind === "image" ? imageOf(buffered) : nativeOf(buffered));
}

function addWholePart(message: MessageState, value: ImagePart | NativePart): void {
  const part = message.partCount++;
  message.sink.out.push(
    { type: "part_start", choice: 0, part, head: { type: "whole", value } },
    { type: "part_end", choice: 0, part },
  );
}

function imageOf({ start, fields }: BufferedBlock): ImagePart | NativePart {
  const image = { ...start, ...fields };
  const data = stringIn(objectIn(image.source)?.["bytes"]);
  if (data === undefined) return { type: "native", wire: "converse", value: { image } };
  const mediaType = `image/${stringIn(image.format) ?? "png"}`;
  return { type: "image", source: { kind: "base64", mediaType, data } };
}

function nativeOf({ kind, start, input, content }: BufferedBlock): NativePart {
  const payload =
    kind === "toolUse"
      ? { input: parseObject(input) ?? {} }
      : { content: content.filter(isObject) };
  return { type: "native", wire: "converse", value: { [kind]: { ...start, ...payload } } };
}

/** The citation's source. Its range is the text before it, which the caller adds. */
function readCitation(citation: JsonObject): Citation {
  const web = objectIn(objectIn(citation["location"])?.["web"]);
  const passages = arrayIn(citation["sourceContent"])
    .map((passage) => stringIn(objectIn(passage)?.["text"]) ?? "")
    .join("");
  const source = stringIn(citation["source"]);
  return {
    url: stringIn(web?.["url"]) ?? (source?.startsWith("http") === true ? source : undefined),
    title: stringIn(citation["title"]) ?? stringIn(web?.["domain"]),
    citedText: passages === "" ? undefined : passages,
    native: { wire: "converse", fields: citation },
  };
}
