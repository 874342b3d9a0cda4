import type { CanonicalEvent, Citation, JsonObject } from "../../canonical.ts";
import { cutStream } from "../../canonical-error.ts";
import {
  arrayIn,
  isObject,
  numberIn,
  objectIn,
  parseEvent,
  placeIn,
  stringIn,
} from "../../canonical-json.ts";
import type { ReplyReadContext, StreamReader, WireEvent } from "../../canonical-wire.ts";
import { readError } from "./map-error.ts";
import { readFinish } from "./map-finish-reason.ts";
import { detailBlob, readAnnotation } from "./read-reasoning.ts";
import {
  contentParts,
  madeBy,
  readAudio,
  readImages,
  readLogprobs,
  readSources,
} from "./read-reply.ts";
import {
  addAudio,
  addBlob,
  addCitation,
  addText,
  addToCall,
  addWhole,
  createChoice,
  endParts,
} from "./stream-choice.ts";
import type { StreamedChoice } from "./stream-choice.ts";

/** As many as a request may ask for. */
const CHOICES_MAX = 128;

interface Reading {
  readonly context: ReplyReadContext;
  readonly choices: Map<number, StreamedChoice>;
  /** The events that the current push gives. */
  out: CanonicalEvent[];
  id: string | undefined;
  model: string | undefined;
  serviceTier: string | undefined;
  usage: unknown;
  /** Told over and over, and the last time in full. */
  sources: readonly Citation[];
  started: boolean;
  over: boolean;
}

export function createStreamReader(context: ReplyReadContext): StreamReader {
  const reading: Reading = {
    context,
    choices: new Map(),
    out: [],
    id: undefined,
    model: undefined,
    serviceTier: undefined,
    usage: undefined,
    sources: [],
    started: false,
    over: false,
  };
  return {
    push(event) {
      reading.out = [];
      if (!reading.over) readData(reading, event);
      return reading.out;
    },
    end() {
      reading.out = [];
      finish(reading, false);
      return reading.out;
    },
  };
}

function readData(reading: Reading, event: WireEvent): void {
  if (event.data === "[DONE]") return finish(reading, true);
  const chunk = parseEvent(event);
  if (chunk === undefined) return;
  if (chunk["error"] !== undefined && chunk["error"] !== null) {
    reading.over = true;
    reading.out.push({ type: "error", error: readError(200, chunk) });
    return;
  }
  const list = arrayIn(chunk["choices"]);
  readHead(reading, chunk, list.length > 0);
  for (const choice of list)
    if (isObject(choice))
      readChoice(choiceAt(reading, placeIn(choice["index"], CHOICES_MAX) ?? 0), choice);
}

// Some servers begin with a chunk that has neither choices nor a model; some say the tier only at the end.
function readHead(reading: Reading, chunk: JsonObject, hasChoices: boolean): void {
  const usage = chunk["usage"] ?? objectIn(chunk["x_groq"])?.["usage"];
  if (isObject(usage)) reading.usage = usage;
  reading.serviceTier = stringIn(chunk["service_tier"]) || reading.serviceTier;
  if (chunk["search_results"] || chunk["citations"]) reading.sources = readSources(chunk);
  if (reading.started || !(hasChoices || stringIn(chunk["model"]))) return;
  reading.started = true;
  reading.id = stringIn(chunk["id"]) || undefined;
  reading.model = stringIn(chunk["model"]) || undefined;
  const { id, model, serviceTier } = reading;
  reading.out.push({
    type: "start",
    id,
    model,
    createdSeconds: numberIn(chunk["created"]),
    serviceTier,
  });
}

function choiceAt(reading: Reading, index: number): StreamedChoice {
  const { choices } = reading;
  let choice = choices.get(index);
  if (choice === undefined) {
    choice = createChoice(index, reading.id ?? "", reading, reading.context);
    choices.set(index, choice);
  }
  return choice;
}

function readChoice(state: StreamedChoice, choice: JsonObject): void {
  const delta = objectIn(choice["delta"]) ?? objectIn(choice["message"]);
  if (delta !== undefined) readDelta(state, delta, objectIn(choice["logprobs"]));
  const word = stringIn(choice["finish_reason"]);
  if (word === undefined) return;
  state.finishWord ??= word;
  state.nativeWord ??= stringIn(choice["native_finish_reason"]);
  state.stopString ??= stringIn(choice["stop_reason"]);
}

function readDelta(
  state: StreamedChoice,
  delta: JsonObject,
  logprobs: JsonObject | undefined,
): void {
  readReasoning(state, delta);
  const { content, refusal } = delta;
  if (typeof content === "string") {
    const probabilities = logprobs === undefined ? undefined : readLogprobs(logprobs["content"]);
    if (content !== "" || probabilities !== undefined)
      addText(state, "text", content, probabilities);
  } else if (Array.isArray(content)) readList(state, content);
  if (typeof refusal === "string" && refusal !== "")
    addText(state, "refusal", refusal, readLogprobs(logprobs?.["refusal"]));
  if (delta["tool_calls"])
    for (const call of arrayIn(delta["tool_calls"]).filter(isObject)) addToCall(state, call);
  if (isObject(delta["function_call"]))
    addToCall(state, { index: 0, function: delta["function_call"] });
  if (delta["annotations"]) readCitations(state, delta["annotations"]);
  if (isObject(delta["audio"])) addAudio(state, delta["audio"]);
  if (delta["images"]) for (const image of readImages(delta["images"])) addWhole(state, image);
}

function readList(state: StreamedChoice, content: readonly unknown[]): void {
  for (const part of contentParts(content)) {
    if ((part.type === "text" || part.type === "reasoning") && part.text !== "")
      addText(state, part.type, part.text);
    else if (part.type === "native") addWhole(state, part);
  }
}

// `reasoning_details` repeats the text that `reasoning` or `reasoning_content` carries, and holds what is to come back.
function readReasoning(state: StreamedChoice, delta: JsonObject): void {
  const text = stringIn(delta["reasoning_content"]) || stringIn(delta["reasoning"]);
  if (text) addText(state, "reasoning", text);
  if (!delta["reasoning_details"]) return;
  for (const detail of arrayIn(delta["reasoning_details"]).filter(isObject)) {
    const own = stringIn(detail["text"]) ?? stringIn(detail["summary"]);
    if (!text && own) addText(state, "reasoning", own);
    const blob = madeBy(detailBlob(detail), state.context);
    if (blob !== undefined) addBlob(state, blob);
  }
}

function readCitations(state: StreamedChoice, value: unknown): void {
  for (const one of arrayIn(value)) {
    const citation = readAnnotation(one);
    if (citation !== undefined) addCitation(state, citation);
  }
}

// Nothing is finished before the stream says so: some servers repeat the finish, or send content after it.
function finish(reading: Reading, whole: boolean): void {
  if (reading.over) return;
  reading.over = true;
  const { out, choices, context, usage, id, model, serviceTier } = reading;
  if (reading.started && choices.size === 0) choiceAt(reading, 0);
  if (
    choices.size === 0 ||
    (!whole && choices.values().some((choice) => choice.finishWord === undefined))
  ) {
    out.push({ type: "error", error: cutStream() });
    return;
  }
  for (const choice of choices.values()) endChoice(choice, reading.sources);
  const read =
    usage === undefined
      ? undefined
      : context.readUsage({ id, model, service_tier: serviceTier, usage });
  if (read !== undefined) out.push({ type: "usage", report: { usage: read } });
}

function endChoice(state: StreamedChoice, sources: readonly Citation[]): void {
  // Where a passage names its sources, those hold; sources of the whole go to the text that is still open.
  if (!state.cited && state.open.text >= 0)
    for (const source of sources) addCitation(state, source);
  if (state.audio?.data) addWhole(state, readAudio(state.audio));
  endParts(state);
  const { called: calls, refused: refusal, stopString } = state;
  state.sink.out.push({
    type: "finish",
    choice: state.index,
    finish: readFinish(state.finishWord, state.nativeWord, { calls, refusal, stopString }),
  });
}
