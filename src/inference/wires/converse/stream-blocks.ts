// The content of a message as it comes in: blocks one after another, which open and close parts.
import type {
  Blob,
  CanonicalEvent,
  ImagePart,
  JsonObject,
  NativePart,
  PartHead,
} from "../../canonical.ts";
import { arrayIn, isObject, objectIn, parseObject, stringIn } from "../../canonical-json.ts";
import type { ReplyReadContext } from "../../canonical-wire.ts";
import { readCitation } from "./read-citations.ts";

type Flow = "text" | "reasoning" | "call";

/** A block that is given whole at its end: a server tool's, an image. */
interface Held {
  readonly kind: string;
  readonly start: JsonObject;
  input: string;
  content: readonly unknown[];
  fields: JsonObject;
}

export interface Message {
  readonly sink: { readonly out: CanonicalEvent[] };
  readonly context: ReplyReadContext;
  block: number;
  open: Flow | undefined;
  held: Held | undefined;
  /** Of the open reasoning. */
  signature: string;
  redacted: string;
  /** A call has had arguments. */
  hasInput: boolean;
  parts: number;
  /** A call was made; the output tool's does not count. */
  called: boolean;
  /** The latest block has had no text. */
  fresh: boolean;
  /** Where the latest block begins within the open text, and where the text ends. */
  textFrom: number;
  textLength: number;
}

export function createMessage(sink: Message["sink"], context: ReplyReadContext): Message {
  return {
    sink,
    context,
    block: -1,
    open: undefined,
    held: undefined,
    signature: "",
    redacted: "",
    hasInput: false,
    parts: 0,
    called: false,
    fresh: true,
    textFrom: 0,
    textLength: 0,
  };
}

export function startBlock(message: Message, index: number, start: JsonObject): void {
  enter(message, index);
  const use = objectIn(start["toolUse"]);
  if (use !== undefined && use["type"] !== "server_tool_use") return startCall(message, use);
  for (const kind of ["toolUse", "toolResult", "image"]) {
    const value = objectIn(start[kind]);
    if (value === undefined) continue;
    endPart(message);
    message.held = { kind, start: value, input: "", content: [], fields: {} };
  }
}

export function addToBlock(message: Message, index: number, delta: JsonObject): void {
  enter(message, index);
  const { text } = delta;
  if (typeof text === "string") return addText(message, "text", text);
  const input = objectIn(delta["toolUse"])?.["input"];
  if (input !== undefined) return addInput(message, stringIn(input) ?? JSON.stringify(input));
  const reasoning = objectIn(delta["reasoningContent"]);
  if (reasoning !== undefined) return addReasoning(message, reasoning);
  const citation = objectIn(delta["citation"]);
  if (citation !== undefined) return cite(message, citation);
  const { held } = message;
  if (held === undefined) return;
  held.content = [...held.content, ...arrayIn(delta["toolResult"])];
  held.fields = { ...held.fields, ...objectIn(delta["image"]) };
}

/** Text goes on over blocks, since a citation of it may come in a block of its own; all else ends with its block. */
export function endBlock(message: Message): void {
  endHeld(message);
  if (message.open !== "text") endPart(message);
}

export function endMessage(message: Message): void {
  endHeld(message);
  endPart(message);
}

/** A block that is known whole and has no deltas. */
export function addNative(message: Message, value: JsonObject): void {
  endPart(message);
  addWhole(message, { type: "native", wire: "converse", value });
}

function enter(message: Message, index: number): void {
  if (index === message.block) return;
  endBlock(message);
  message.block = index;
  message.fresh = true;
}

function open(message: Message, flow: Flow, head: PartHead): void {
  endPart(message);
  message.open = flow;
  message.sink.out.push({ type: "part_start", choice: 0, part: message.parts++, head });
}

function openText(message: Message, flow: "text" | "reasoning"): void {
  open(message, flow, { type: flow });
  message.textLength = 0;
  message.textFrom = 0;
}

function addDelta({ sink, parts }: Message, text: string): void {
  if (text !== "") sink.out.push({ type: "delta", choice: 0, part: parts - 1, text });
}

function addText(message: Message, flow: "text" | "reasoning", text: string): void {
  if (text === "") return;
  if (message.open !== flow) openText(message, flow);
  if (message.fresh) message.textFrom = message.textLength;
  message.fresh = false;
  message.textLength += text.length;
  addDelta(message, text);
}

function addReasoning(message: Message, delta: JsonObject): void {
  const text = stringIn(delta["text"]) ?? "";
  const signature = stringIn(delta["signature"]) ?? "";
  const redacted = stringIn(delta["redactedContent"]) ?? "";
  if (text !== "") addText(message, "reasoning", text);
  if (signature === "" && redacted === "") return;
  if (message.open !== "reasoning") open(message, "reasoning", { type: "reasoning" });
  message.signature += signature;
  message.redacted = joinBase64(message.redacted, redacted);
}

function joinBase64(one: string, other: string): string {
  if (one === "" || other === "") return one + other;
  return Buffer.concat([Buffer.from(one, "base64"), Buffer.from(other, "base64")]).toString(
    "base64",
  );
}

// The text of the block that the citation stands in, or that it follows.
function cite(message: Message, citation: JsonObject): void {
  if (message.open !== "text") openText(message, "text");
  const { sink, parts, textFrom: start, textLength: end } = message;
  const place = end > start ? { start, end } : undefined;
  sink.out.push({
    type: "citation",
    choice: 0,
    part: parts - 1,
    citation: { ...readCitation(citation), ...place },
  });
}

function startCall(message: Message, use: JsonObject): void {
  const name = stringIn(use["name"]) ?? "";
  const emulated = name === message.context.emulation?.outputTool;
  message.called ||= !emulated;
  message.hasInput = false;
  const id = stringIn(use["toolUseId"]) ?? "";
  open(message, "call", emulated ? { type: "text" } : { type: "tool_call", id, name });
}

function addInput(message: Message, input: string): void {
  if (message.held !== undefined) message.held.input += input;
  else if (message.open === "call") {
    message.hasInput ||= input !== "";
    addDelta(message, input);
  }
}

function endPart(message: Message): void {
  const { open, sink, parts, signature, redacted } = message;
  if (open === undefined) return;
  const part = parts - 1;
  if (open === "call" && !message.hasInput) addDelta(message, "{}");
  if (redacted !== "")
    sink.out.push({ type: "blob", choice: 0, part, blob: blobOf(message, "encrypted", redacted) });
  else if (signature !== "")
    sink.out.push({ type: "blob", choice: 0, part, blob: blobOf(message, "signature", signature) });
  sink.out.push({ type: "part_end", choice: 0, part });
  message.open = undefined;
  message.signature = "";
  message.redacted = "";
}

function blobOf({ context }: Message, kind: Blob["kind"], data: string): Blob {
  return { wire: "converse", kind, data, origin: context.origin };
}

function endHeld(message: Message): void {
  const { held } = message;
  if (held === undefined) return;
  message.held = undefined;
  addWhole(message, held.kind === "image" ? imageOf(held) : nativeOf(held));
}

function addWhole(message: Message, value: ImagePart | NativePart): void {
  const part = message.parts++;
  message.sink.out.push(
    { type: "part_start", choice: 0, part, head: { type: "whole", value } },
    { type: "part_end", choice: 0, part },
  );
}

function imageOf({ start, fields }: Held): ImagePart | NativePart {
  const image = { ...start, ...fields };
  const data = stringIn(objectIn(image.source)?.["bytes"]);
  if (data === undefined) return { type: "native", wire: "converse", value: { image } };
  const mediaType = `image/${stringIn(image.format) ?? "png"}`;
  return { type: "image", source: { kind: "base64", mediaType, data } };
}

function nativeOf({ kind, start, input, content }: Held): NativePart {
  const more =
    kind === "toolUse"
      ? { input: parseObject(input) ?? {} }
      : { content: content.filter(isObject) };
  return { type: "native", wire: "converse", value: { [kind]: { ...start, ...more } } };
}
