// Every chunk of this API is a reply of its own: texts come in pieces, a function call whole, and the last chunk has the reasons
// why the candidates ended, their sources and the usage.

import type { CanonicalEvent, PartHead } from "../../canonical/canonical-events.ts";
import { addLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type { Citation, OpaqueBlob, Part, TokenLogprob } from "../../canonical/canonical-parts.ts";
import type { CanonicalReply, Finish, UsageReport } from "../../canonical/canonical-reply.ts";
import type {
  ReplyWriteContext,
  WireStreamWriter,
  WrittenReply,
} from "../../canonical/wire-interfaces.ts";
import { errorObject } from "../../error-object.ts";
import type { JsonObject } from "../../json-fields.ts";
import { createWriter } from "../../stream-writer.ts";
import { writeFinish } from "./map-gemini-finish-reason.ts";
import { writeUsage } from "./map-gemini-usage.ts";
import {
  addCitation,
  type CandidateMetadata,
  createMetadata,
  showsThoughts,
  writeCall,
  writeLogprobs,
  writeMetadata,
  writeSignature,
  writeWhole,
} from "./write-gemini-reply-parts.ts";

type Event<Type extends CanonicalEvent["type"]> = Extract<CanonicalEvent, { type: Type }>;

type ReplyEvent = Exclude<CanonicalEvent, Event<"error">>;

interface OpenPart {
  readonly head: PartHead;
  /** UTF-8 bytes of the candidate's text before this part. */
  readonly startBytes: number;
  /** Written before a thought that follows another. */
  separator: string;
  text: string;
  readonly citations: Citation[];
}

interface CandidateState {
  readonly index: number;
  readonly open: Map<number, OpenPart>;
  readonly metadata: CandidateMetadata;
  textBytes: number;
  /** The signature of reasoning whose text is not shown: written with the part after it. */
  signature: OpaqueBlob | undefined;
  /** The latest part is a thought without a signature, which another thought would continue. */
  endsInThought: boolean;
  finish: Finish | undefined;
}

type Write = (
  candidate: CandidateState,
  part: JsonObject,
  logprobs?: readonly TokenLogprob[],
) => void;

interface WriterState {
  readonly context: ReplyWriteContext;
  readonly losses: Loss[];
  readonly showsThoughts: boolean;
  readonly candidates: Map<number, CandidateState>;
  readonly write: Write;
  start: Event<"start"> | undefined;
  usage: UsageReport | undefined;
}

const THOUGHT_SEPARATOR = "\n\n";

export function createStreamWriter(context: ReplyWriteContext): WireStreamWriter {
  const losses: Loss[] = [];
  let out = "";
  const state = createState(context, losses, ({ index }, part, logprobs) => {
    const content = { parts: [part], role: "model" };
    const more = logprobs && writeLogprobs(logprobs);
    out += frame({ candidates: [{ content, index, ...more }], ...headOf(state) });
  });
  return createWriter(
    losses,
    (event) => {
      out = "";
      if (event.type === "error") return frame({ error: errorObject(event.error) });
      takeEvent(state, event);
      return out;
    },
    () => frame(lastChunk(state)),
  );
}

/** A reply is written as a stream whose parts are collected. */
export function writeReply(reply: CanonicalReply, context: ReplyWriteContext): WrittenReply {
  const losses: Loss[] = [];
  const collected = new Map<number, { readonly parts: JsonObject[]; logprobs: TokenLogprob[] }>();
  const collectionOf = (index: number) => {
    const found = collected.get(index) ?? { parts: [], logprobs: [] };
    collected.set(index, found);
    return found;
  };
  const state = createState(context, losses, ({ index }, part, logprobs = []) => {
    const collection = collectionOf(index);
    addPart(collection.parts, part);
    collection.logprobs.push(...logprobs);
  });
  const { id, model, createdSeconds } = reply;
  takeEvent(state, { type: "start", id, model, createdSeconds });
  for (const [choice, { parts, finish }] of reply.choices.entries()) {
    for (const [at, part] of parts.entries())
      for (const event of eventsOf(part, choice, at)) takeEvent(state, event);
    takeEvent(state, { type: "finish", choice, finish });
  }
  state.usage = reply.usage;
  const candidates = candidatesOf(state).map((candidate) => {
    flushSignature(state, candidate);
    const { parts, logprobs } = collectionOf(candidate.index);
    const more = logprobs.length === 0 ? undefined : writeLogprobs(logprobs);
    return Object.assign({ content: { parts, role: "model" } }, endOf(candidate), more);
  });
  return { body: { candidates, ...usageOf(state), ...headOf(state) }, losses };
}

function createState(context: ReplyWriteContext, losses: Loss[], write: Write): WriterState {
  return {
    context,
    losses,
    showsThoughts: showsThoughts(context.request),
    candidates: new Map(),
    write,
    start: undefined,
    usage: undefined,
  };
}

/** A signature that follows its text belongs to it. */
function addPart(parts: JsonObject[], part: JsonObject): void {
  const last = parts.at(-1);
  const isSignature = part["text"] === "" && part["thoughtSignature"] !== undefined;
  const isSigned =
    isSignature &&
    typeof last?.["text"] === "string" &&
    last["thought"] === part["thought"] &&
    last["thoughtSignature"] === undefined;
  if (isSigned) parts[parts.length - 1] = { ...last, thoughtSignature: part["thoughtSignature"] };
  else parts.push(part);
}

function eventsOf(part: Part, choice: number, at: number): readonly ReplyEvent[] {
  const position = { choice, part: at } as const;
  const end = { type: "part_end", ...position } as const;
  const delta = (text: string, logprobs?: readonly TokenLogprob[]): readonly ReplyEvent[] =>
    text === "" && logprobs === undefined ? [] : [{ type: "delta", ...position, text, logprobs }];
  const blob = (one: OpaqueBlob | undefined): readonly ReplyEvent[] =>
    one === undefined ? [] : [{ type: "blob", ...position, blob: one }];
  const start = (head: PartHead): ReplyEvent => ({ type: "part_start", ...position, head });
  switch (part.type) {
    case "text":
    case "refusal": {
      const { citations = [], signature } = part.type === "text" ? part : {};
      const cited = citations.map(
        (citation) => ({ type: "citation", choice, part: at, citation }) as const,
      );
      const texts = delta(part.text, part.logprobs);
      return [start({ type: part.type }), ...texts, ...cited, ...blob(signature), end];
    }
    case "reasoning":
      return [start({ type: "reasoning" }), ...delta(part.text), ...blob(part.blob), end];
    case "tool_call":
      return [start(part), ...delta(part.arguments), end];
    case "tool_result":
      return [];
    case "image":
    case "file":
    case "audio":
    case "video":
    case "native":
      return [start({ type: "whole", value: part }), end];
  }
}

function takeEvent(state: WriterState, event: ReplyEvent): void {
  switch (event.type) {
    case "start":
      state.start = event;
      return;
    case "usage":
      state.usage = event.report;
      return;
    case "finish":
      candidateAt(state, event.choice).finish = event.finish;
      return;
    case "part_start":
      return startPart(state, candidateAt(state, event.choice), event);
    case "delta":
    case "blob":
    case "citation":
    case "part_end": {
      const candidate = candidateAt(state, event.choice);
      const part = candidate.open.get(event.part);
      if (part !== undefined) continuePart(state, candidate, part, event);
    }
  }
}

function candidateAt({ candidates }: WriterState, index: number): CandidateState {
  const found = candidates.get(index);
  if (found !== undefined) return found;
  const created: CandidateState = {
    index,
    open: new Map(),
    metadata: createMetadata(),
    textBytes: 0,
    signature: undefined,
    endsInThought: false,
    finish: undefined,
  };
  candidates.set(index, created);
  return created;
}

function startPart(
  state: WriterState,
  candidate: CandidateState,
  { part, head }: Event<"part_start">,
): void {
  const { textBytes: startBytes, endsInThought, metadata } = candidate;
  if (head.type === "whole") {
    const written = writeWhole(head.value, pathOf(candidate, part), state.losses, metadata);
    if (written !== undefined) writeUnsigned(state, candidate, written);
    return;
  }
  const separator = head.type === "reasoning" && endsInThought ? THOUGHT_SEPARATOR : "";
  candidate.open.set(part, { head, startBytes, separator, text: "", citations: [] });
}

function continuePart(
  state: WriterState,
  candidate: CandidateState,
  open: OpenPart,
  event: Event<"delta" | "blob" | "citation" | "part_end">,
): void {
  switch (event.type) {
    case "delta":
      open.text += event.text;
      return writeDelta(state, candidate, open, event);
    case "blob":
      return writeBlob(state, candidate, open, event.blob);
    case "citation":
      open.citations.push(event.citation);
      return;
    case "part_end":
      candidate.open.delete(event.part);
      return endPart(state, candidate, open, pathOf(candidate, event.part));
  }
}

function writeDelta(
  state: WriterState,
  candidate: CandidateState,
  open: OpenPart,
  { text, logprobs }: Event<"delta">,
): void {
  switch (open.head.type) {
    case "text":
    case "refusal":
      candidate.endsInThought = false;
      return state.write(candidate, { text, ...takeSignature(candidate) }, logprobs);
    case "reasoning":
      if (!state.showsThoughts) return;
      state.write(candidate, { text: open.separator + text, thought: true });
      open.separator = "";
      candidate.endsInThought = true;
      return;
    case "tool_call":
    case "whole":
  }
}

function writeBlob(
  state: WriterState,
  candidate: CandidateState,
  { head, text }: OpenPart,
  blob: OpaqueBlob,
): void {
  if (head.type !== "reasoning")
    return state.write(candidate, { text: "", ...writeSignature(blob) });
  if (state.showsThoughts)
    return writeUnsigned(state, candidate, { text: "", thought: true, ...writeSignature(blob) });
  // A signature is of no use without its text.
  if (text !== "") return;
  flushSignature(state, candidate);
  candidate.signature = blob;
}

function endPart(
  state: WriterState,
  candidate: CandidateState,
  { head, text, startBytes, citations }: OpenPart,
  path: string,
): void {
  if (head.type === "tool_call") {
    const call = writeCall({ ...head, arguments: text }, path, state.losses);
    if (head.signature !== undefined) return writeUnsigned(state, candidate, call);
    candidate.endsInThought = false;
    return state.write(candidate, { ...call, ...takeSignature(candidate) });
  }
  if (head.type !== "text") return;
  for (const citation of citations)
    if (!addCitation(citation, { startBytes, text }, candidate.metadata))
      addLoss(state.losses, `${path}.citations`, "This API supports only URL citations.");
  candidate.textBytes += Buffer.byteLength(text);
}

/** A part that cannot carry the signature of reasoning before it. */
function writeUnsigned(state: WriterState, candidate: CandidateState, part: JsonObject): void {
  flushSignature(state, candidate);
  candidate.endsInThought = false;
  state.write(candidate, part);
}

function flushSignature(state: WriterState, candidate: CandidateState): void {
  const signature = takeSignature(candidate);
  if (signature !== undefined) state.write(candidate, { text: "", thought: true, ...signature });
}

function takeSignature(candidate: CandidateState): JsonObject | undefined {
  const { signature } = candidate;
  candidate.signature = undefined;
  return writeSignature(signature);
}

function pathOf({ index }: CandidateState, part: number): string {
  return `candidates[${index}].content.parts[${part}]`;
}

function lastChunk(state: WriterState): JsonObject {
  if (state.candidates.size === 0) candidateAt(state, 0);
  const candidates = candidatesOf(state).map((candidate) => {
    // Google's SDK keeps a streamed reply in its history only if every chunk has a part.
    const parts = [{ text: "", ...restOfThoughts(candidate) }];
    return Object.assign({ content: { parts, role: "model" } }, endOf(candidate));
  });
  return { candidates, ...usageOf(state), ...headOf(state) };
}

function candidatesOf({ candidates }: WriterState): readonly CandidateState[] {
  return [...candidates.values()].toSorted((one, other) => one.index - other.index);
}

function restOfThoughts(candidate: CandidateState): JsonObject | undefined {
  const signature = takeSignature(candidate);
  return signature && { thought: true, ...signature };
}

function endOf({ finish, index, metadata }: CandidateState): JsonObject {
  return { ...writeFinish(finish ?? { reason: "error" }), index, ...writeMetadata(metadata) };
}

function usageOf({ usage }: WriterState): JsonObject {
  return { usageMetadata: usage && writeUsage(usage) };
}

function headOf({ start, context }: WriterState): JsonObject {
  const created = start?.createdSeconds;
  return {
    modelVersion: start?.model ?? context.model,
    responseId: start?.id ?? context.id,
    createTime: created === undefined ? undefined : new Date(created * 1_000).toISOString(),
  };
}

function frame(chunk: JsonObject): string {
  return `data: ${JSON.stringify(chunk)}\n\n`;
}
