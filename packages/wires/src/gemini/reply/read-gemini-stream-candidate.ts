// Reads one candidate of a stream into canonical parts.

import type { CanonicalEvent, PartHead } from "../../canonical/canonical-events.ts";
import type {
  FilePart,
  ImagePart,
  MediaPart,
  NativePart,
  OpaqueBlob,
  TokenLogprob,
} from "../../canonical/canonical-parts.ts";
import type { ReplyReadContext } from "../../canonical/wire-interfaces.ts";
import { type JsonObject, objectIn, stringIn } from "../../json-fields.ts";
import { SEARCH_QUERIES_FIELD } from "../gemini-web-search.ts";
import { isGenerationThreeOrLater } from "../request/gemini-model-generation.ts";
import { mintCallId } from "./gemini-call-ids.ts";
import { citationsOf, type Grounding } from "./read-gemini-citations.ts";
import { addPartialArguments } from "./read-gemini-partial-arguments.ts";

type TextKind = "text" | "reasoning";

/** A call whose arguments are streamed. */
interface OpenToolCall {
  readonly head: JsonObject;
  readonly signature: string | undefined;
  readonly args: Record<string, unknown>;
}

export interface CandidateState {
  readonly index: number;
  readonly replyId: string;
  readonly sink: { readonly out: CanonicalEvent[] };
  readonly context: ReplyReadContext;
  readonly grounding: Grounding;
  openKind: TextKind | undefined;
  /** The signature of the open part; emitted at its end. */
  signature: string | undefined;
  call: OpenToolCall | undefined;
  partCount: number;
  callCount: number;
  /** The candidate has a tool call, not counting the output tool's. */
  hasToolCalls: boolean;
  text: string;
  /** Where the open text part starts within `text`. */
  textStart: number;
  /** The number of citations emitted so far. */
  citationCount: number;
  finishReason: string | undefined;
  finishMessage: string | undefined;
}

export function createCandidateState(
  index: number,
  replyId: string,
  sink: CandidateState["sink"],
  context: ReplyReadContext,
): CandidateState {
  return {
    index,
    replyId,
    sink,
    context,
    grounding: { chunks: [], supports: [], sources: [], displayFields: {} },
    openKind: undefined,
    signature: undefined,
    call: undefined,
    partCount: 0,
    callCount: 0,
    hasToolCalls: false,
    text: "",
    textStart: 0,
    citationCount: 0,
    finishReason: undefined,
    finishMessage: undefined,
  };
}

export function addPart(
  candidate: CandidateState,
  part: JsonObject,
  logprobs?: TokenLogprob[],
): void {
  const signature = stringIn(part["thoughtSignature"]) || undefined;
  const { text } = part;
  if (typeof text === "string") {
    const kind = part["thought"] === true ? "reasoning" : "text";
    if (text !== "" || signature !== undefined || logprobs !== undefined)
      addText(candidate, kind, { text, signature, logprobs });
    return;
  }
  const call = objectIn(part["functionCall"]);
  if (call !== undefined) return addCall(candidate, call, signature);
  const data = part["thought"] === true ? undefined : objectIn(part["inlineData"]);
  const value = data === undefined ? nativeOf(part) : mediaOf(data, signature, candidate.context);
  if (value !== undefined) addWholePart(candidate, value);
}

/** Ends the open part. Citations that no text part has taken go into an empty text part at the end. */
export function endCandidate(candidate: CandidateState): void {
  endCall(candidate);
  const { grounding } = candidate;
  const hasSources = grounding.chunks.length + grounding.sources.length > 0;
  if (candidate.openKind !== "text" && hasSources && candidate.citationCount === 0) {
    closeTextPart(candidate);
    openTextPart(candidate, "text");
  }
  closeTextPart(candidate);
  const { chunks: groundingChunks, displayFields } = grounding;
  for (const [kind, field] of Object.entries(displayFields)) {
    const isSearch = kind === SEARCH_QUERIES_FIELD;
    const value = { [kind]: field, ...(isSearch ? { groundingChunks } : undefined) };
    addWholePart(candidate, { type: "native", wire: "gemini", value });
  }
}

interface TextPiece {
  readonly text: string;
  readonly signature: string | undefined;
  readonly logprobs: TokenLogprob[] | undefined;
}

// A signature ends the part that it signs. It may come late, with an empty text.
function addText(
  candidate: CandidateState,
  kind: TextKind,
  { text, signature, logprobs }: TextPiece,
): void {
  endCall(candidate);
  const { sink, index: choice } = candidate;
  const isLateSignature =
    text === "" && candidate.openKind !== undefined && candidate.signature === undefined;
  if (!isLateSignature && (candidate.openKind !== kind || candidate.signature !== undefined)) {
    closeTextPart(candidate);
    openTextPart(candidate, kind, signature !== undefined);
  }
  const part = candidate.partCount - 1;
  if (kind === "text") candidate.text += text;
  if (logprobs !== undefined) sink.out.push({ type: "delta", choice, part, text, logprobs });
  else if (text !== "") sink.out.push({ type: "delta", choice, part, text });
  candidate.signature = signature;
}

function openTextPart(candidate: CandidateState, kind: TextKind, isSigned = false): void {
  candidate.openKind = kind;
  if (kind === "text") candidate.textStart = candidate.text.length;
  const isSignedLater = isSigned || isGenerationThreeOrLater(candidate.context.origin) || undefined;
  const head: PartHead =
    kind === "text" ? { type: kind, isSignedLater } : { type: kind, summary: true };
  candidate.sink.out.push({
    type: "part_start",
    choice: candidate.index,
    part: candidate.partCount++,
    head,
  });
}

function closeTextPart(candidate: CandidateState): void {
  const { openKind, sink, index: choice, signature } = candidate;
  if (openKind === undefined) return;
  const part = candidate.partCount - 1;
  if (openKind === "text") emitCitations(candidate, part);
  if (signature !== undefined) {
    const blob = blobOf(signature, openKind === "text" ? "text" : "signature", candidate.context);
    sink.out.push({ type: "blob", choice, part, blob });
  }
  sink.out.push({ type: "part_end", choice, part });
  candidate.openKind = undefined;
  candidate.signature = undefined;
}

function emitCitations(candidate: CandidateState, part: number): void {
  const { grounding, text, textStart, sink } = candidate;
  if (grounding.chunks.length + grounding.sources.length === 0) return;
  const citations = citationsOf(grounding, text);
  for (const citation of citations.slice(candidate.citationCount)) {
    const { start, end } = citation;
    const isInPart = start !== undefined && end !== undefined && start >= textStart;
    sink.out.push({
      type: "citation",
      choice: candidate.index,
      part,
      citation: {
        ...citation,
        start: isInPart ? start - textStart : undefined,
        end: isInPart ? end - textStart : undefined,
      },
    });
  }
  candidate.citationCount = citations.length;
}

// A call is complete in one part, or it starts with a name, streams its arguments and ends with an empty part.
function addCall(candidate: CandidateState, call: JsonObject, signature: string | undefined): void {
  const name = stringIn(call["name"]) ?? "";
  if (name !== "") {
    endCall(candidate);
    candidate.call = { head: call, signature, args: { ...objectIn(call["args"]) } };
  }
  const { call: open } = candidate;
  if (open === undefined) return;
  addPartialArguments(open.args, call["partialArgs"]);
  if (call["willContinue"] !== true) endCall(candidate);
}

function endCall(candidate: CandidateState): void {
  const { call, context, index: choice, sink } = candidate;
  if (call === undefined) return;
  candidate.call = undefined;
  closeTextPart(candidate);
  const name = stringIn(call.head["name"]) ?? "";
  const isOutputTool = name === context.emulation?.outputTool;
  const id =
    stringIn(call.head["id"]) || mintCallId(candidate.replyId, choice, candidate.callCount++);
  candidate.hasToolCalls ||= !isOutputTool;
  const signature =
    call.signature === undefined ? undefined : blobOf(call.signature, "call", context);
  const part = candidate.partCount++;
  sink.out.push(
    {
      type: "part_start",
      choice,
      part,
      head: isOutputTool ? { type: "text" } : { type: "tool_call", id, name, signature },
    },
    { type: "delta", choice, part, text: JSON.stringify(call.args) },
    { type: "part_end", choice, part },
  );
}

function addWholePart(
  candidate: CandidateState,
  value: ImagePart | FilePart | MediaPart | NativePart,
): void {
  endCall(candidate);
  closeTextPart(candidate);
  const { index: choice, sink } = candidate;
  const part = candidate.partCount++;
  sink.out.push(
    { type: "part_start", choice, part, head: { type: "whole", value } },
    { type: "part_end", choice, part },
  );
}

function blobOf(data: string, kind: OpaqueBlob["kind"], { origin }: ReplyReadContext): OpaqueBlob {
  return { wire: "gemini", kind, data, origin };
}

// Executable code and its result, server tool calls and results: specific to this API.
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
