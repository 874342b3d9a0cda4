import type { Usage } from "../../../base/meters.ts";
import type { CanonicalEvent, Finish, JsonObject } from "../../canonical.ts";
import { cutStream } from "../../canonical-error.ts";
import { arrayIn, isObject, numberIn, objectIn, placeIn, stringIn } from "../../canonical-json.ts";
import type { ReplyReadContext, StreamReader } from "../../canonical-wire.ts";
import { readError } from "./map-error.ts";
import { readBlock, readFinish } from "./map-finish-reason.ts";
import { addGrounding } from "./read-citations.ts";
import { readLogprobs } from "./read-logprobs.ts";
import { addPart, createCandidate, endCandidate } from "./stream-candidate.ts";
import type { Candidate } from "./stream-candidate.ts";

const CANDIDATES_MAX = 64;

interface Reading {
  readonly context: ReplyReadContext;
  readonly candidates: Map<number, Candidate>;
  /** What the meter counts searches by. */
  readonly groundings: JsonObject[];
  /** The events that the current push gives. */
  out: CanonicalEvent[];
  id: string | undefined;
  model: string | undefined;
  /** Each chunk has one; the last that counts holds. */
  usage: JsonObject | undefined;
  block: JsonObject | undefined;
  started: boolean;
  over: boolean;
}

export function createStreamReader(context: ReplyReadContext): StreamReader {
  const reading = createReading(context);
  return {
    push({ data, json }) {
      reading.out = [];
      const value = reading.over ? undefined : (json ?? parse(data));
      if (value !== undefined) readValue(reading, value);
      return reading.out;
    },
    end() {
      reading.out = [];
      if (!reading.over) finish(reading, false);
      return reading.out;
    },
  };
}

/** The events of a whole reply, or of a stream that came as one list of its chunks. */
export function eventsOfBody(body: unknown, context: ReplyReadContext): readonly CanonicalEvent[] {
  const reading = createReading(context);
  readValue(reading, body);
  if (!reading.over) finish(reading, true);
  return reading.out;
}

function createReading(context: ReplyReadContext): Reading {
  return {
    context,
    candidates: new Map(),
    groundings: [],
    out: [],
    id: undefined,
    model: undefined,
    usage: undefined,
    block: undefined,
    started: false,
    over: false,
  };
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}

function readValue(reading: Reading, value: unknown): void {
  for (const chunk of Array.isArray(value) ? arrayIn(value) : [value])
    if (isObject(chunk) && !reading.over) readChunk(reading, chunk);
}

function readChunk(reading: Reading, chunk: JsonObject): void {
  if (isObject(chunk["error"])) {
    reading.over = true;
    reading.out.push({ type: "error", error: readError(200, chunk) });
    return;
  }
  const usage = objectIn(chunk["usageMetadata"]);
  if (usage !== undefined && (numberIn(usage["totalTokenCount"]) !== undefined || !reading.usage))
    reading.usage = usage;
  reading.block ??= objectIn(chunk["promptFeedback"]);
  start(reading, chunk);
  const candidates = arrayIn(chunk["candidates"]);
  for (let at = 0; at < candidates.length; at++) {
    const value = candidates[at];
    if (isObject(value))
      readCandidate(reading, value, placeIn(value["index"], CANDIDATES_MAX) ?? at);
  }
}

function start(reading: Reading, chunk: JsonObject): void {
  reading.model ??= stringIn(chunk["modelVersion"]);
  if (reading.started) return;
  reading.started = true;
  reading.id = stringIn(chunk["responseId"]);
  const created = Date.parse(stringIn(chunk["createTime"]) ?? "");
  reading.out.push({
    type: "start",
    id: reading.id,
    model: reading.model,
    createdSeconds: Number.isNaN(created) ? undefined : Math.floor(created / 1_000),
    serviceTier: tierOf(reading.usage),
  });
}

/** This API's `standard` is what the others call `default`. */
function tierOf(usage: JsonObject | undefined): string | undefined {
  const tier = stringIn(usage?.["serviceTier"])?.toLowerCase();
  return tier === "standard" ? "default" : tier;
}

function readCandidate(reading: Reading, value: JsonObject, index: number): void {
  let candidate = reading.candidates.get(index);
  if (candidate === undefined) {
    candidate = createCandidate(index, reading.id ?? "", reading, reading.context);
    reading.candidates.set(index, candidate);
  }
  const metadata = objectIn(value["groundingMetadata"]);
  if (metadata !== undefined) reading.groundings.push(metadata);
  addGrounding(candidate.grounding, value);
  let logprobs = readLogprobs(value);
  for (const part of arrayIn(objectIn(value["content"])?.["parts"])) {
    if (!isObject(part)) continue;
    const shown = typeof part["text"] === "string" && part["thought"] !== true;
    addPart(candidate, part, shown ? logprobs : undefined);
    if (shown) logprobs = undefined;
  }
  candidate.finishWord = stringIn(value["finishReason"]) || candidate.finishWord;
  candidate.finishMessage = stringIn(value["finishMessage"]) ?? candidate.finishMessage;
}

// Nothing ends before the stream does: usage and signatures may come after the reason to finish.
function finish(reading: Reading, whole: boolean): void {
  reading.over = true;
  const { out, candidates, block } = reading;
  const word = stringIn(block?.["blockReason"]);
  const { size } = candidates;
  const cut = size === 0 || candidates.values().some((one) => one.finishWord === undefined);
  if (size === 0 && word !== undefined) {
    const detail = stringIn(block?.["blockReasonMessage"]);
    out.push({ type: "finish", choice: 0, finish: readBlock(word, detail) });
  } else if (cut && !whole) {
    out.push({ type: "error", error: cutStream() });
    return;
  } else if (size === 0) out.push({ type: "finish", choice: 0, finish: { reason: "error" } });
  for (let choice = 0; choice <= Math.max(-1, ...candidates.keys()); choice++) {
    const candidate = candidates.get(choice);
    if (candidate !== undefined) endCandidate(candidate);
    out.push({ type: "finish", choice, finish: finishOf(candidate) });
  }
  const usage = usageOf(reading);
  if (usage !== undefined) out.push({ type: "usage", report: { usage } });
}

function finishOf(candidate: Candidate | undefined): Finish {
  return candidate === undefined
    ? { reason: "error" }
    : readFinish(candidate.finishWord, candidate.finishMessage, candidate.called);
}

function usageOf({ context, id, model, usage, groundings }: Reading): Usage | undefined {
  return context.readUsage({
    responseId: id,
    modelVersion: model,
    usageMetadata: usage,
    candidates: groundings.map((groundingMetadata) => ({ groundingMetadata })),
  });
}
