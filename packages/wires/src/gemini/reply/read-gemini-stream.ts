import { truncatedStreamError } from "../../canonical/canonical-error.ts";
import type { CanonicalEvent } from "../../canonical/canonical-events.ts";
import type { TokenLogprob } from "../../canonical/canonical-parts.ts";
import type { Finish } from "../../canonical/canonical-reply.ts";
import type { ReplyReadContext, WireStreamReader } from "../../canonical/wire-interfaces.ts";
import {
  arrayIn,
  indexIn,
  isObject,
  type JsonObject,
  numberIn,
  objectIn,
  stringIn,
  parseJson,
} from "../../json-fields.ts";
import type { Usage } from "../../usage/usage-meters.ts";
import { readError } from "./map-gemini-error.ts";
import { readBlockReason, readFinish } from "./map-gemini-finish-reason.ts";
import { addGrounding } from "./read-gemini-citations.ts";
import {
  addPart,
  type CandidateState,
  createCandidateState,
  endCandidate,
} from "./read-gemini-stream-candidate.ts";

const CANDIDATES_MAX = 64;

interface ReaderState {
  readonly context: ReplyReadContext;
  readonly candidates: Map<number, CandidateState>;
  /** Metering counts searches by these. */
  readonly groundings: JsonObject[];
  /** The events of the current push. */
  out: CanonicalEvent[];
  id: string | undefined;
  model: string | undefined;
  /** From the latest chunk that has a total count. */
  usage: JsonObject | undefined;
  block: JsonObject | undefined;
  started: boolean;
  ended: boolean;
}

export function createStreamReader(context: ReplyReadContext): WireStreamReader {
  const state = createReaderState(context);
  return {
    push({ data, json }) {
      state.out = [];
      const value = state.ended ? undefined : (json ?? parseJson(data));
      if (value !== undefined) readValue(state, value);
      return state.out;
    },
    end() {
      state.out = [];
      if (!state.ended) finish(state, false);
      return state.out;
    },
  };
}

/** The events of a non-streamed reply, or of a stream that came as one array of chunks. */
export function readBodyEvents(
  body: unknown,
  context: ReplyReadContext,
): readonly CanonicalEvent[] {
  const state = createReaderState(context);
  readValue(state, body);
  if (!state.ended) finish(state, true);
  return state.out;
}

function createReaderState(context: ReplyReadContext): ReaderState {
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
    ended: false,
  };
}

function readValue(state: ReaderState, value: unknown): void {
  for (const chunk of Array.isArray(value) ? arrayIn(value) : [value])
    if (isObject(chunk) && !state.ended) readChunk(state, chunk);
}

function readChunk(state: ReaderState, chunk: JsonObject): void {
  if (isObject(chunk["error"])) {
    state.ended = true;
    state.out.push({ type: "error", error: readError(200, chunk) });
    return;
  }
  const usage = objectIn(chunk["usageMetadata"]);
  if (usage !== undefined && (numberIn(usage["totalTokenCount"]) !== undefined || !state.usage))
    state.usage = usage;
  state.block ??= objectIn(chunk["promptFeedback"]);
  start(state, chunk);
  const candidates = arrayIn(chunk["candidates"]);
  for (let at = 0; at < candidates.length; at++) {
    const value = candidates[at];
    if (isObject(value)) readCandidate(state, value, indexIn(value["index"], CANDIDATES_MAX) ?? at);
  }
}

function start(state: ReaderState, chunk: JsonObject): void {
  state.model ??= stringIn(chunk["modelVersion"]);
  if (state.started) return;
  state.started = true;
  state.id = stringIn(chunk["responseId"]);
  const created = Date.parse(stringIn(chunk["createTime"]) ?? "");
  state.out.push({
    type: "start",
    id: state.id,
    model: state.model,
    createdSeconds: Number.isNaN(created) ? undefined : Math.floor(created / 1_000),
    serviceTier: tierOf(state.usage),
  });
}

/** Gemini's tier `standard` is `default` in the canonical form. */
function tierOf(usage: JsonObject | undefined): string | undefined {
  const tier = stringIn(usage?.["serviceTier"])?.toLowerCase();
  return tier === "standard" ? "default" : tier;
}

function readCandidate(state: ReaderState, value: JsonObject, index: number): void {
  let candidate = state.candidates.get(index);
  if (candidate === undefined) {
    candidate = createCandidateState(index, state.id ?? "", state, state.context);
    state.candidates.set(index, candidate);
  }
  const metadata = objectIn(value["groundingMetadata"]);
  if (metadata !== undefined) state.groundings.push(metadata);
  addGrounding(candidate.grounding, value);
  let logprobs = readLogprobs(value);
  for (const part of arrayIn(objectIn(value["content"])?.["parts"])) {
    if (!isObject(part)) continue;
    const isOutputText = typeof part["text"] === "string" && part["thought"] !== true;
    addPart(candidate, part, isOutputText ? logprobs : undefined);
    if (isOutputText) logprobs = undefined;
  }
  candidate.finishReason = stringIn(value["finishReason"]) || candidate.finishReason;
  candidate.finishMessage = stringIn(value["finishMessage"]) ?? candidate.finishMessage;
}

// Parts end only with the stream: usage and signatures may follow the finish reason.
function finish(state: ReaderState, isComplete: boolean): void {
  state.ended = true;
  const { out, candidates, block } = state;
  const blockReason = stringIn(block?.["blockReason"]);
  const { size } = candidates;
  const isTruncated =
    size === 0 || candidates.values().some((candidate) => candidate.finishReason === undefined);
  if (size === 0 && blockReason !== undefined) {
    const detail = stringIn(block?.["blockReasonMessage"]);
    out.push({ type: "finish", choice: 0, finish: readBlockReason(blockReason, detail) });
  } else if (isTruncated && !isComplete) {
    out.push({ type: "error", error: truncatedStreamError() });
    return;
  } else if (size === 0) out.push({ type: "finish", choice: 0, finish: { reason: "error" } });
  for (let choice = 0; choice <= Math.max(-1, ...candidates.keys()); choice++) {
    const candidate = candidates.get(choice);
    if (candidate !== undefined) endCandidate(candidate);
    out.push({ type: "finish", choice, finish: finishOf(candidate) });
  }
  const usage = usageOf(state);
  if (usage !== undefined) out.push({ type: "usage", report: { usage } });
}

function finishOf(candidate: CandidateState | undefined): Finish {
  return candidate === undefined
    ? { reason: "error" }
    : readFinish(candidate.finishReason, candidate.finishMessage, candidate.hasToolCalls);
}

function usageOf({ context, id, model, usage, groundings }: ReaderState): Usage | undefined {
  return context.readUsage({
    responseId: id,
    modelVersion: model,
    usageMetadata: usage,
    candidates: groundings.map((groundingMetadata) => ({ groundingMetadata })),
  });
}

/** The chosen tokens, each with the most likely alternatives. */
function readLogprobs(candidate: JsonObject): TokenLogprob[] | undefined {
  const result = objectIn(candidate["logprobsResult"]);
  if (result === undefined) return undefined;
  const top = arrayIn(result["topCandidates"]);
  const chosen = arrayIn(result["chosenCandidates"]).filter(isObject);
  if (chosen.length === 0) return undefined;
  return chosen.map((candidateToken, index) =>
    readToken(candidateToken, arrayIn(objectIn(top[index])?.["candidates"])),
  );
}

function readToken(candidateToken: JsonObject, top?: readonly unknown[]): TokenLogprob {
  const token = stringIn(candidateToken["token"]) ?? "";
  return {
    token,
    logprob: numberIn(candidateToken["logProbability"]) ?? 0,
    bytes: [...Buffer.from(token)],
    top: top?.filter(isObject).map((other) => readToken(other)),
  };
}
