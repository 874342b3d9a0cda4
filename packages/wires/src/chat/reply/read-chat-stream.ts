import { truncatedStreamError } from "../../canonical/canonical-error.ts";
import type { CanonicalEvent } from "../../canonical/canonical-events.ts";
import type { Citation } from "../../canonical/canonical-parts.ts";
import {
  parseEvent,
  type ReplyReadContext,
  type WireEvent,
  type WireStreamReader,
} from "../../canonical/wire-interfaces.ts";
import {
  arrayIn,
  indexIn,
  isObject,
  type JsonObject,
  numberIn,
  objectIn,
  stringIn,
} from "../../json-fields.ts";
import { readError } from "../../openai-errors.ts";
import { readLogprobs } from "../../openai-parts.ts";
import { readFinish } from "./map-chat-finish-reason.ts";
import { contentParts, readAudio, readImages, readSources, withOrigin } from "./read-chat-parts.ts";
import { detailBlob, readAnnotation, readReasoningDetails } from "./read-chat-reasoning.ts";
import {
  addAudio,
  addBlob,
  addCall,
  addCallDelta,
  addCitation,
  addReasoningPart,
  addText,
  addWholePart,
  type ChoiceState,
  createChoiceState,
  endParts,
} from "./read-chat-stream-choice.ts";

/** The maximum of `n`. */
const CHOICES_MAX = 128;

interface ReaderState {
  readonly context: ReplyReadContext;
  readonly choices: Map<number, ChoiceState>;
  /** The events of the current push. */
  out: CanonicalEvent[];
  id: string | undefined;
  model: string | undefined;
  serviceTier: string | undefined;
  usage: unknown;
  /** Sent repeatedly, and in full only the last time. */
  citationSources: readonly Citation[];
  started: boolean;
  ended: boolean;
}

export function createStreamReader(context: ReplyReadContext): WireStreamReader {
  const state = createReaderState(context);
  return {
    push(event) {
      state.out = [];
      if (!state.ended) readData(state, event);
      return state.out;
    },
    end() {
      state.out = [];
      finish(state, false);
      return state.out;
    },
  };
}

/** The events of a reply that was not streamed. A reply without choices was blocked. */
export function readBodyEvents(
  body: JsonObject,
  context: ReplyReadContext,
): readonly CanonicalEvent[] {
  const state = createReaderState(context);
  readHead(state, body, true);
  const choices = arrayIn(body["choices"]).filter(isObject);
  if (choices.length === 0)
    state.out.push({ type: "finish", choice: 0, finish: { reason: "content_filter" } });
  for (const [index, choice] of choices.entries())
    readWholeChoice(choiceAt(state, index), choice, state.citationSources);
  return state.out;
}

function createReaderState(context: ReplyReadContext): ReaderState {
  return {
    context,
    choices: new Map(),
    out: [],
    id: undefined,
    model: undefined,
    serviceTier: undefined,
    usage: undefined,
    citationSources: [],
    started: false,
    ended: false,
  };
}

function readData(state: ReaderState, event: WireEvent): void {
  if (event.data === "[DONE]") return finish(state, true);
  const chunk = parseEvent(event);
  if (chunk === undefined) return;
  if (chunk["error"] !== undefined && chunk["error"] !== null) {
    state.ended = true;
    state.out.push({ type: "error", error: readError(200, chunk) });
    return;
  }
  const list = arrayIn(chunk["choices"]);
  readHead(state, chunk, list.length > 0);
  for (const choice of list)
    if (isObject(choice))
      readChoice(choiceAt(state, indexIn(choice["index"], CHOICES_MAX) ?? 0), choice);
}

// Some servers start with a chunk that has neither choices nor a model; some send the tier only at the end.
function readHead(state: ReaderState, chunk: JsonObject, hasChoices: boolean): void {
  const usage = chunk["usage"] ?? objectIn(chunk["x_groq"])?.["usage"];
  if (isObject(usage)) state.usage = usage;
  state.serviceTier = stringIn(chunk["service_tier"]) || state.serviceTier;
  if (chunk["search_results"] || chunk["citations"]) state.citationSources = readSources(chunk);
  if (state.started || !(hasChoices || stringIn(chunk["model"]))) return;
  state.started = true;
  state.id = stringIn(chunk["id"]) || undefined;
  state.model = stringIn(chunk["model"]) || undefined;
  const { id, model, serviceTier } = state;
  state.out.push({
    type: "start",
    id,
    model,
    createdSeconds: numberIn(chunk["created"]),
    serviceTier,
  });
}

function choiceAt(state: ReaderState, index: number): ChoiceState {
  const { choices } = state;
  let choice = choices.get(index);
  if (choice === undefined) {
    choice = createChoiceState(index, state.id ?? "", state, state.context);
    choices.set(index, choice);
  }
  return choice;
}

function readChoice(state: ChoiceState, choice: JsonObject): void {
  const delta = objectIn(choice["delta"]) ?? objectIn(choice["message"]);
  if (delta !== undefined) {
    const logprobs = objectIn(choice["logprobs"]);
    readReasoning(state, delta);
    readContent(state, delta, logprobs);
    readMedia(state, delta, logprobs);
    if (delta["tool_calls"])
      for (const call of arrayIn(delta["tool_calls"]).filter(isObject)) addCallDelta(state, call);
    if (isObject(delta["function_call"]))
      addCallDelta(state, { index: 0, function: delta["function_call"] });
  }
  readFinishReason(state, choice);
}

// Unlike in a delta, in a message each reasoning detail and each call is complete.
function readWholeChoice(
  state: ChoiceState,
  choice: JsonObject,
  sources: readonly Citation[],
): void {
  const message = objectIn(choice["message"]) ?? objectIn(choice["delta"]) ?? {};
  const logprobs = objectIn(choice["logprobs"]);
  const reasoning = readReasoningDetails(arrayIn(message["reasoning_details"]));
  for (const part of reasoning) addReasoningPart(state, part);
  if (reasoning.length === 0) readReasoning(state, message);
  readContent(state, message, logprobs);
  addSources(state, sources);
  readMedia(state, message, logprobs);
  const calls = arrayIn(message["tool_calls"]).filter(isObject);
  for (const call of calls) addCall(state, call);
  const legacy = objectIn(message["function_call"]);
  if (legacy !== undefined && calls.length === 0 && legacy["name"] !== "")
    addCall(state, { function: legacy });
  readFinishReason(state, choice);
  endChoice(state, []);
}

function readFinishReason(state: ChoiceState, choice: JsonObject): void {
  const reason = stringIn(choice["finish_reason"]);
  if (reason === undefined) return;
  state.finishReason ??= reason;
  state.nativeFinishReason ??= stringIn(choice["native_finish_reason"]);
  state.stopSequence ??= stringIn(choice["stop_reason"]);
}

function readContent(
  state: ChoiceState,
  { content, annotations }: JsonObject,
  logprobs: JsonObject | undefined,
): void {
  if (typeof content === "string") {
    const probabilities = logprobs === undefined ? undefined : readLogprobs(logprobs["content"]);
    if (content !== "" || probabilities !== undefined)
      addText(state, "text", content, probabilities);
  } else if (Array.isArray(content)) readContentParts(state, content);
  if (annotations) readCitations(state, annotations);
}

function readMedia(
  state: ChoiceState,
  { refusal, audio, images }: JsonObject,
  logprobs: JsonObject | undefined,
): void {
  if (typeof refusal === "string" && refusal !== "")
    addText(state, "refusal", refusal, readLogprobs(logprobs?.["refusal"]));
  if (isObject(audio)) addAudio(state, audio);
  if (images) for (const image of readImages(images)) addWholePart(state, image);
}

function readContentParts(state: ChoiceState, content: readonly unknown[]): void {
  for (const part of contentParts(content)) {
    if ((part.type === "text" || part.type === "reasoning") && part.text !== "")
      addText(state, part.type, part.text);
    else if (part.type === "native") addWholePart(state, part);
  }
}

// `reasoning_details` repeats the text of `reasoning` or `reasoning_content`, and adds the blobs.
function readReasoning(state: ChoiceState, delta: JsonObject): void {
  const text = stringIn(delta["reasoning_content"]) || stringIn(delta["reasoning"]);
  if (text) addText(state, "reasoning", text);
  if (!delta["reasoning_details"]) return;
  for (const detail of arrayIn(delta["reasoning_details"]).filter(isObject)) {
    const own = stringIn(detail["text"]) ?? stringIn(detail["summary"]);
    if (!text && own) addText(state, "reasoning", own);
    const blob = withOrigin(detailBlob(detail), state.context);
    if (blob !== undefined) addBlob(state, blob);
  }
}

function readCitations(state: ChoiceState, value: unknown): void {
  for (const one of arrayIn(value)) {
    const citation = readAnnotation(one);
    if (citation !== undefined) addCitation(state, citation);
  }
}

// Choices finish only at the end of the stream: some servers repeat the finish reason or send content after it.
function finish(state: ReaderState, isComplete: boolean): void {
  if (state.ended) return;
  state.ended = true;
  const { out, choices, context, usage, id, model, serviceTier } = state;
  if (state.started && choices.size === 0) choiceAt(state, 0);
  if (
    choices.size === 0 ||
    (!isComplete && choices.values().some((choice) => choice.finishReason === undefined))
  ) {
    out.push({ type: "error", error: truncatedStreamError() });
    return;
  }
  for (const choice of choices.values()) endChoice(choice, state.citationSources);
  const read =
    usage === undefined
      ? undefined
      : context.readUsage({ id, model, service_tier: serviceTier, usage });
  if (read !== undefined) out.push({ type: "usage", report: { usage: read } });
}

function endChoice(state: ChoiceState, sources: readonly Citation[]): void {
  addSources(state, sources);
  if (state.audio?.data) addWholePart(state, readAudio(state.audio));
  endParts(state);
  const { hasToolCalls, hasRefusal, stopSequence } = state;
  state.sink.out.push({
    type: "finish",
    choice: state.index,
    finish: readFinish(state.finishReason, state.nativeFinishReason, {
      hasToolCalls,
      hasRefusal,
      stopSequence,
    }),
  });
}

// The sources of the whole reply are citations of the open text, unless it has annotations of its own.
function addSources(state: ChoiceState, sources: readonly Citation[]): void {
  if (!state.hasCitations && state.openParts.text >= 0)
    for (const source of sources) addCitation(state, source);
}
