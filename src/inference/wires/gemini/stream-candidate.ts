// One candidate of a stream as it comes in: which of its parts is open, and what is still to be said of it.
import type {
  Blob,
  CanonicalEvent,
  FilePart,
  ImagePart,
  JsonObject,
  MediaPart,
  NativePart,
  PartHead,
  TokenLogprob,
} from "../../canonical.ts";
import { objectIn, stringIn } from "../../canonical-json.ts";
import type { ReplyReadContext } from "../../canonical-wire.ts";
import { mintCallId } from "./call-ids.ts";
import { citationsOf } from "./read-citations.ts";
import type { Grounding } from "./read-citations.ts";
import { addPartialArguments } from "./read-partial-arguments.ts";

type Flow = "text" | "reasoning";

/** A call whose arguments come in pieces. */
interface OpenCall {
  readonly head: JsonObject;
  readonly signature: string | undefined;
  readonly args: Record<string, unknown>;
}

export interface Candidate {
  readonly index: number;
  readonly replyId: string;
  /** Where the events go. */
  readonly sink: { readonly out: CanonicalEvent[] };
  readonly context: ReplyReadContext;
  readonly grounding: Grounding;
  open: Flow | undefined;
  /** Of the open part: it is said last. */
  signature: string | undefined;
  call: OpenCall | undefined;
  parts: number;
  calls: number;
  /** A call was made; the output tool's does not count. */
  called: boolean;
  text: string;
  /** Where the open text begins within all the text. */
  textStart: number;
  /** How many of its citations have been given. */
  cited: number;
  finishWord: string | undefined;
  finishMessage: string | undefined;
}

export function createCandidate(
  index: number,
  replyId: string,
  sink: Candidate["sink"],
  context: ReplyReadContext,
): Candidate {
  return {
    index,
    replyId,
    sink,
    context,
    grounding: { chunks: [], supports: [], sources: [], shown: {} },
    open: undefined,
    signature: undefined,
    call: undefined,
    parts: 0,
    calls: 0,
    called: false,
    text: "",
    textStart: 0,
    cited: 0,
    finishWord: undefined,
    finishMessage: undefined,
  };
}

export function addPart(candidate: Candidate, part: JsonObject, logprobs?: TokenLogprob[]): void {
  const signature = stringIn(part["thoughtSignature"]) || undefined;
  const { text } = part;
  if (typeof text === "string") {
    const flow = part["thought"] === true ? "reasoning" : "text";
    if (text !== "" || signature !== undefined || logprobs !== undefined)
      addText(candidate, flow, { text, signature, logprobs });
    return;
  }
  const call = objectIn(part["functionCall"]);
  if (call !== undefined) return addCall(candidate, call, signature);
  const data = part["thought"] === true ? undefined : objectIn(part["inlineData"]);
  const value = data === undefined ? nativeOf(part) : mediaOf(data, signature, candidate.context);
  if (value !== undefined) addWhole(candidate, value);
}

/** The parts are over: what is open ends, and citations that no text has taken stand in a last one of their own. */
export function endCandidate(candidate: Candidate): void {
  endCall(candidate);
  const { grounding } = candidate;
  const cites = grounding.chunks.length + grounding.sources.length > 0;
  if (candidate.open !== "text" && cites && candidate.cited === 0) {
    closeFlow(candidate);
    openFlow(candidate, "text");
  }
  closeFlow(candidate);
  for (const [kind, value] of Object.entries(grounding.shown))
    addWhole(candidate, { type: "native", wire: "gemini", value: { [kind]: value } });
}

interface Piece {
  readonly text: string;
  readonly signature: string | undefined;
  readonly logprobs: TokenLogprob[] | undefined;
}

// A signature stands at the end of what it signs; it may come late, with a text that is empty.
function addText(candidate: Candidate, flow: Flow, { text, signature, logprobs }: Piece): void {
  endCall(candidate);
  const { sink, index: choice } = candidate;
  const late = text === "" && candidate.open !== undefined && candidate.signature === undefined;
  if (!late && (candidate.open !== flow || candidate.signature !== undefined)) {
    closeFlow(candidate);
    openFlow(candidate, flow);
  }
  const part = candidate.parts - 1;
  if (flow === "text") candidate.text += text;
  if (logprobs !== undefined) sink.out.push({ type: "delta", choice, part, text, logprobs });
  else if (text !== "") sink.out.push({ type: "delta", choice, part, text });
  candidate.signature = signature;
}

function openFlow(candidate: Candidate, flow: Flow): void {
  candidate.open = flow;
  if (flow === "text") candidate.textStart = candidate.text.length;
  const head: PartHead = flow === "text" ? { type: flow } : { type: flow, summary: true };
  candidate.sink.out.push({
    type: "part_start",
    choice: candidate.index,
    part: candidate.parts++,
    head,
  });
}

function closeFlow(candidate: Candidate): void {
  const { open, sink, index: choice, signature } = candidate;
  if (open === undefined) return;
  const part = candidate.parts - 1;
  if (open === "text") cite(candidate, part);
  if (signature !== undefined) {
    const blob = blobOf(signature, open === "text" ? "text" : "signature", candidate.context);
    sink.out.push({ type: "blob", choice, part, blob });
  }
  sink.out.push({ type: "part_end", choice, part });
  candidate.open = undefined;
  candidate.signature = undefined;
}

function cite(candidate: Candidate, part: number): void {
  const { grounding, text, textStart, sink } = candidate;
  if (grounding.chunks.length + grounding.sources.length === 0) return;
  const citations = citationsOf(grounding, text);
  for (const citation of citations.slice(candidate.cited)) {
    const { start, end } = citation;
    const here = start !== undefined && end !== undefined && start >= textStart;
    sink.out.push({
      type: "citation",
      choice: candidate.index,
      part,
      citation: {
        ...citation,
        start: here ? start - textStart : undefined,
        end: here ? end - textStart : undefined,
      },
    });
  }
  candidate.cited = citations.length;
}

// A call is whole in one part, or it is begun, gets its arguments in pieces and ends with an empty one.
function addCall(candidate: Candidate, call: JsonObject, signature: string | undefined): void {
  const named = stringIn(call["name"]) ?? "";
  const goesOn = call["willContinue"] === true;
  if (named !== "") {
    endCall(candidate);
    candidate.call = { head: call, signature, args: { ...objectIn(call["args"]) } };
  }
  const { call: open } = candidate;
  if (open === undefined) return;
  addPartialArguments(open.args, call["partialArgs"]);
  if (!goesOn) endCall(candidate);
}

function endCall(candidate: Candidate): void {
  const { call, context, index: choice, sink } = candidate;
  if (call === undefined) return;
  candidate.call = undefined;
  closeFlow(candidate);
  const name = stringIn(call.head["name"]) ?? "";
  const emulated = name === context.emulation?.outputTool;
  const id = stringIn(call.head["id"]) || mintCallId(candidate.replyId, choice, candidate.calls++);
  candidate.called ||= !emulated;
  const signature =
    call.signature === undefined ? undefined : blobOf(call.signature, "call", context);
  const part = candidate.parts++;
  sink.out.push(
    {
      type: "part_start",
      choice,
      part,
      head: emulated ? { type: "text" } : { type: "tool_call", id, name, signature },
    },
    { type: "delta", choice, part, text: JSON.stringify(call.args) },
    { type: "part_end", choice, part },
  );
}

function addWhole(
  candidate: Candidate,
  value: ImagePart | FilePart | MediaPart | NativePart,
): void {
  endCall(candidate);
  closeFlow(candidate);
  const { index: choice, sink } = candidate;
  const part = candidate.parts++;
  sink.out.push(
    { type: "part_start", choice, part, head: { type: "whole", value } },
    { type: "part_end", choice, part },
  );
}

function blobOf(data: string, kind: Blob["kind"], { origin }: ReplyReadContext): Blob {
  return { wire: "gemini", kind, data, origin };
}

// Code and its result, a server tool's call and answer: only this API can say them.
function nativeOf(part: JsonObject): NativePart | undefined {
  return Object.keys(part).length === 0
    ? undefined
    : { type: "native", wire: "gemini", value: part };
}

function mediaOf(
  data: JsonObject,
  signature: string | undefined,
  context: ReplyReadContext,
): ImagePart | FilePart | MediaPart {
  const mediaType = stringIn(data["mimeType"]) ?? "application/octet-stream";
  const source = { kind: "base64", mediaType, data: stringIn(data["data"]) ?? "" } as const;
  if (mediaType.startsWith("image/"))
    return {
      type: "image",
      source,
      signature: signature === undefined ? undefined : blobOf(signature, "image", context),
    };
  const native =
    signature === undefined
      ? undefined
      : ({ wire: "gemini", fields: { thoughtSignature: signature } } as const);
  if (mediaType.startsWith("audio/")) return { type: "audio", source, native };
  if (mediaType.startsWith("video/")) return { type: "video", source, native };
  return { type: "file", source, native };
}
