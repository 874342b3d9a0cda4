// One choice of a stream as it comes in: which of its parts are open, and which call a piece of arguments belongs to.
import type {
  Blob,
  CanonicalEvent,
  Citation,
  JsonObject,
  PartHead,
  TokenLogprob,
} from "../../canonical.ts";
import { isObject, numberIn, objectIn, stringIn } from "../../canonical-json.ts";
import type { ReplyReadContext } from "../../canonical-wire.ts";
import { mintCallId } from "../../canonical-call-ids.ts";
import { callSignature, customOf } from "./read-reply.ts";

type Flow = "text" | "reasoning" | "refusal";

interface StreamedCall {
  readonly id: string;
  readonly index: number | undefined;
  readonly custom: boolean;
  readonly signature: Blob | undefined;
  name: string;
  arguments: string;
  /** -1 until the name is known. */
  part: number;
  ended: boolean;
}

export interface StreamedChoice {
  readonly index: number;
  readonly replyId: string;
  /** Where the events go. */
  readonly sink: { readonly out: CanonicalEvent[] };
  readonly context: ReplyReadContext;
  finishWord: string | undefined;
  nativeWord: string | undefined;
  stopString: string | undefined;
  /** The open part of each kind, or -1. */
  readonly open: Record<Flow, number>;
  readonly calls: StreamedCall[];
  parts: number;
  textLength: number;
  /** Where the open text begins within all the text of the choice. */
  textStart: number;
  cited: boolean;
  audio: { id: string | undefined; data: string; transcript: string } | undefined;
  /** A call was made; the output tool's does not count. */
  called: boolean;
  refused: boolean;
}

export function createChoice(
  index: number,
  replyId: string,
  sink: StreamedChoice["sink"],
  context: ReplyReadContext,
): StreamedChoice {
  return {
    index,
    replyId,
    sink,
    context,
    finishWord: undefined,
    nativeWord: undefined,
    stopString: undefined,
    open: { text: -1, reasoning: -1, refusal: -1 },
    calls: [],
    parts: 0,
    textLength: 0,
    textStart: 0,
    cited: false,
    audio: undefined,
    called: false,
    refused: false,
  };
}

export function addText(
  choice: StreamedChoice,
  type: Flow,
  text: string,
  logprobs?: readonly TokenLogprob[],
): void {
  const part = choice.open[type] >= 0 ? choice.open[type] : beginFlow(choice, type);
  if (type === "text") choice.textLength += text.length;
  choice.sink.out.push(
    logprobs === undefined
      ? { type: "delta", choice: choice.index, part, text }
      : { type: "delta", choice: choice.index, part, text, logprobs },
  );
}

/** A blob ends the reasoning that it proves. */
export function addBlob(choice: StreamedChoice, blob: Blob): void {
  const part = choice.open.reasoning >= 0 ? choice.open.reasoning : beginFlow(choice, "reasoning");
  choice.sink.out.push({ type: "blob", choice: choice.index, part, blob });
  endFlow(choice, "reasoning");
}

export function addCitation(choice: StreamedChoice, citation: Citation): void {
  const part = choice.open.text >= 0 ? choice.open.text : beginFlow(choice, "text");
  choice.cited = true;
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

export function addWhole(
  choice: StreamedChoice,
  value: Extract<PartHead, { type: "whole" }>["value"],
): void {
  endFlows(choice);
  const part = choice.parts++;
  choice.sink.out.push(
    { type: "part_start", choice: choice.index, part, head: { type: "whole", value } },
    { type: "part_end", choice: choice.index, part },
  );
}

export function addAudio(choice: StreamedChoice, delta: JsonObject): void {
  choice.audio ??= { id: undefined, data: "", transcript: "" };
  choice.audio.id ??= stringIn(delta["id"]);
  choice.audio.data += stringIn(delta["data"]) ?? "";
  choice.audio.transcript += stringIn(delta["transcript"]) ?? "";
}

/** Servers name a call by id, by index or by neither, and some give several calls the same index: the id comes first. */
export function addToCall(choice: StreamedChoice, delta: JsonObject): void {
  const id = stringIn(delta["id"]) || undefined;
  const index = numberIn(delta["index"]);
  const found =
    id === undefined
      ? choice.calls.findLast((one) => index === undefined || one.index === index)
      : choice.calls.find((one) => one.id === id);
  const call = found ?? beginCall(choice, delta);
  if (call.ended) return;
  const held = customOf(delta) ?? objectIn(delta["function"]) ?? {};
  const raw = held["arguments"] ?? held["input"];
  const text = isObject(raw) ? JSON.stringify(raw) : (stringIn(raw) ?? "");
  call.arguments += text;
  if (call.part >= 0) {
    if (text !== "")
      choice.sink.out.push({ type: "delta", choice: choice.index, part: call.part, text });
    return;
  }
  call.name = stringIn(held["name"]) ?? "";
  if (call.name !== "") showCall(choice, call);
}

export function endParts(choice: StreamedChoice): void {
  endFlows(choice);
  for (const call of choice.calls) endCall(choice, call);
}

function beginFlow(choice: StreamedChoice, type: Flow): number {
  if (type !== "reasoning") endFlow(choice, "reasoning");
  endWholeCalls(choice);
  const part = choice.parts++;
  choice.open[type] = part;
  if (type === "text") choice.textStart = choice.textLength;
  if (type === "refusal") choice.refused = true;
  choice.sink.out.push({ type: "part_start", choice: choice.index, part, head: { type } });
  return part;
}

function endFlow(choice: StreamedChoice, type: Flow): void {
  const part = choice.open[type];
  if (part < 0) return;
  choice.open[type] = -1;
  choice.sink.out.push({ type: "part_end", choice: choice.index, part });
}

function endFlows(choice: StreamedChoice): void {
  endFlow(choice, "reasoning");
  endFlow(choice, "text");
  endFlow(choice, "refusal");
}

function beginCall(choice: StreamedChoice, delta: JsonObject): StreamedCall {
  endFlows(choice);
  endWholeCalls(choice);
  const call: StreamedCall = {
    id: stringIn(delta["id"]) || mintCallId(choice.replyId, choice.calls.length),
    index: numberIn(delta["index"]),
    custom: customOf(delta) !== undefined,
    signature: callSignature(delta, choice.context),
    name: "",
    arguments: "",
    part: -1,
    ended: false,
  };
  choice.calls.push(call);
  return call;
}

function showCall(choice: StreamedChoice, call: StreamedCall): void {
  const { id, name, custom, signature } = call;
  const emulated = name === choice.context.emulation?.outputTool;
  choice.called ||= !emulated;
  call.part = choice.parts++;
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

// A call is over when something else begins and its arguments are whole; before that calls may be interleaved.
function endWholeCalls(choice: StreamedChoice): void {
  for (const call of choice.calls)
    if (!call.ended && call.part >= 0 && (call.custom || isJson(call.arguments)))
      endCall(choice, call);
}

function endCall(choice: StreamedChoice, call: StreamedCall): void {
  if (call.ended) return;
  call.ended = true;
  if (call.part < 0) showCall(choice, call);
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
