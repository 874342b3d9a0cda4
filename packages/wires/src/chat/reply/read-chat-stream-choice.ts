// The state of one choice of a stream: its open parts, and the calls that argument deltas belong to.

import type { CanonicalEvent, PartHead } from "../../canonical/canonical-events.ts";
import type {
  Citation,
  OpaqueBlob,
  ReasoningPart,
  TokenLogprob,
} from "../../canonical/canonical-parts.ts";
import { mintCallId } from "../../canonical/tools/call-ids.ts";
import type { ReplyReadContext } from "../../canonical/wire-interfaces.ts";
import { isObject, type JsonObject, numberIn, objectIn, stringIn } from "../../json-fields.ts";
import { callSignature, customCallOf, withOrigin } from "./read-chat-parts.ts";

type TextKind = "text" | "reasoning" | "refusal";

interface CallState {
  readonly id: string;
  readonly index: number | undefined;
  readonly custom: boolean;
  readonly signature: OpaqueBlob | undefined;
  name: string;
  arguments: string;
  /** -1 until the name is known. */
  part: number;
  ended: boolean;
}

export interface ChoiceState {
  readonly index: number;
  readonly replyId: string;
  readonly sink: { readonly out: CanonicalEvent[] };
  readonly context: ReplyReadContext;
  finishReason: string | undefined;
  nativeFinishReason: string | undefined;
  stopSequence: string | undefined;
  /** The index of the open part of each kind, or -1. */
  readonly openParts: Record<TextKind, number>;
  readonly calls: CallState[];
  partCount: number;
  textLength: number;
  /** The offset of the open text part in the text of the choice. */
  textStart: number;
  hasCitations: boolean;
  audio: { id: string | undefined; data: string; transcript: string } | undefined;
  /** Calls of the output tool do not count. */
  hasToolCalls: boolean;
  hasRefusal: boolean;
}

export function createChoiceState(
  index: number,
  replyId: string,
  sink: ChoiceState["sink"],
  context: ReplyReadContext,
): ChoiceState {
  return {
    index,
    replyId,
    sink,
    context,
    finishReason: undefined,
    nativeFinishReason: undefined,
    stopSequence: undefined,
    openParts: { text: -1, reasoning: -1, refusal: -1 },
    calls: [],
    partCount: 0,
    textLength: 0,
    textStart: 0,
    hasCitations: false,
    audio: undefined,
    hasToolCalls: false,
    hasRefusal: false,
  };
}

export function addText(
  choice: ChoiceState,
  type: TextKind,
  text: string,
  logprobs?: readonly TokenLogprob[],
): void {
  const part = choice.openParts[type] >= 0 ? choice.openParts[type] : beginTextPart(choice, type);
  if (type === "text") choice.textLength += text.length;
  choice.sink.out.push(
    logprobs === undefined
      ? { type: "delta", choice: choice.index, part, text }
      : { type: "delta", choice: choice.index, part, text, logprobs },
  );
}

/** A blob ends its reasoning part. */
export function addBlob(choice: ChoiceState, blob: OpaqueBlob): void {
  const part =
    choice.openParts.reasoning >= 0
      ? choice.openParts.reasoning
      : beginTextPart(choice, "reasoning");
  choice.sink.out.push({ type: "blob", choice: choice.index, part, blob });
  endTextPart(choice, "reasoning");
}

/** A complete reasoning part. */
export function addReasoningPart(choice: ChoiceState, reasoning: ReasoningPart): void {
  const { text, summary, id } = reasoning;
  const at = { choice: choice.index, part: choice.partCount++ };
  const blob = withOrigin(reasoning.blob, choice.context);
  const { out } = choice.sink;
  out.push({ ...at, type: "part_start", head: { type: "reasoning", summary, id } });
  if (text !== "") out.push({ ...at, type: "delta", text });
  if (blob !== undefined) out.push({ ...at, type: "blob", blob });
  out.push({ ...at, type: "part_end" });
}

export function addCitation(choice: ChoiceState, citation: Citation): void {
  const part = choice.openParts.text >= 0 ? choice.openParts.text : beginTextPart(choice, "text");
  choice.hasCitations = true;
  const { start, end } = citation;
  const from = (place: number | undefined) =>
    place === undefined ? undefined : Math.max(0, place - choice.textStart);
  choice.sink.out.push({
    type: "citation",
    choice: choice.index,
    part,
    citation: { ...citation, start: from(start), end: from(end) },
  });
}

export function addWholePart(
  choice: ChoiceState,
  value: Extract<PartHead, { type: "whole" }>["value"],
): void {
  endTextParts(choice);
  const part = choice.partCount++;
  choice.sink.out.push(
    { type: "part_start", choice: choice.index, part, head: { type: "whole", value } },
    { type: "part_end", choice: choice.index, part },
  );
}

export function addAudio(choice: ChoiceState, delta: JsonObject): void {
  choice.audio ??= { id: undefined, data: "", transcript: "" };
  choice.audio.id ??= stringIn(delta["id"]);
  choice.audio.data += stringIn(delta["data"]) ?? "";
  choice.audio.transcript += stringIn(delta["transcript"]) ?? "";
}

/** The call is found by id first, then by index: servers send either or neither, and some reuse an index. */
export function addCallDelta(choice: ChoiceState, delta: JsonObject): void {
  const id = stringIn(delta["id"]) || undefined;
  const index = numberIn(delta["index"]);
  const found =
    id === undefined
      ? choice.calls.findLast((one) => index === undefined || one.index === index)
      : choice.calls.find((one) => one.id === id);
  appendToCall(choice, found ?? beginCall(choice, delta), delta);
}

/** A complete call. */
export function addCall(choice: ChoiceState, call: JsonObject): void {
  appendToCall(choice, beginCall(choice, call), call);
}

function appendToCall(choice: ChoiceState, call: CallState, delta: JsonObject): void {
  if (call.ended) return;
  const callee = customCallOf(delta) ?? objectIn(delta["function"]) ?? {};
  const raw = callee["arguments"] ?? callee["input"];
  const text = isObject(raw) ? JSON.stringify(raw) : (stringIn(raw) ?? "");
  call.arguments += text;
  if (call.part >= 0) {
    if (text !== "")
      choice.sink.out.push({ type: "delta", choice: choice.index, part: call.part, text });
    return;
  }
  call.name = stringIn(callee["name"]) ?? "";
  if (call.name !== "") emitCallStart(choice, call);
}

export function endParts(choice: ChoiceState): void {
  endTextParts(choice);
  for (const call of choice.calls) endCall(choice, call);
}

function beginTextPart(choice: ChoiceState, type: TextKind): number {
  if (type !== "reasoning") endTextPart(choice, "reasoning");
  endCompleteCalls(choice);
  const part = choice.partCount++;
  choice.openParts[type] = part;
  if (type === "text") choice.textStart = choice.textLength;
  if (type === "refusal") choice.hasRefusal = true;
  choice.sink.out.push({ type: "part_start", choice: choice.index, part, head: { type } });
  return part;
}

function endTextPart(choice: ChoiceState, type: TextKind): void {
  const part = choice.openParts[type];
  if (part < 0) return;
  choice.openParts[type] = -1;
  choice.sink.out.push({ type: "part_end", choice: choice.index, part });
}

function endTextParts(choice: ChoiceState): void {
  endTextPart(choice, "reasoning");
  endTextPart(choice, "text");
  endTextPart(choice, "refusal");
}

function beginCall(choice: ChoiceState, delta: JsonObject): CallState {
  endTextParts(choice);
  endCompleteCalls(choice);
  const call: CallState = {
    id: stringIn(delta["id"]) || mintCallId(choice.replyId, choice.calls.length),
    index: numberIn(delta["index"]),
    custom: customCallOf(delta) !== undefined,
    signature: callSignature(delta, choice.context),
    name: "",
    arguments: "",
    part: -1,
    ended: false,
  };
  choice.calls.push(call);
  return call;
}

function emitCallStart(choice: ChoiceState, call: CallState): void {
  const { id, name, custom, signature } = call;
  const emulated = name === choice.context.emulation?.outputTool;
  choice.hasToolCalls ||= !emulated;
  call.part = choice.partCount++;
  const head: PartHead = emulated
    ? { type: "text" }
    : { type: "tool_call", id, name, custom: custom || undefined, signature };
  choice.sink.out.push({ type: "part_start", choice: choice.index, part: call.part, head });
  if (call.arguments !== "")
    choice.sink.out.push({
      type: "delta",
      choice: choice.index,
      part: call.part,
      text: call.arguments,
    });
}

// A call ends when something else begins and its arguments are complete; until then calls may be interleaved.
function endCompleteCalls(choice: ChoiceState): void {
  for (const call of choice.calls)
    if (!call.ended && call.part >= 0 && (call.custom || isJson(call.arguments)))
      endCall(choice, call);
}

function endCall(choice: ChoiceState, call: CallState): void {
  if (call.ended) return;
  call.ended = true;
  if (call.part < 0) emitCallStart(choice, call);
  if (call.arguments.trim() === "" && !call.custom)
    choice.sink.out.push({ type: "delta", choice: choice.index, part: call.part, text: "{}" });
  choice.sink.out.push({ type: "part_end", choice: choice.index, part: call.part });
}

function isJson(text: string): boolean {
  const last = text.charCodeAt(text.length - 1);
  if (last !== CLOSING_BRACE && last > SPACE) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const CLOSING_BRACE = 125;
const SPACE = 32;
