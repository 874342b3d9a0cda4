// Gemini's generateContent: thoughts lie outside the candidates, the cache inside the prompt, and every chunk of a stream
// carries a usage object of which only the last is true.

import type { TokenMeter, Usage } from "../../base/meters.ts";
import type { Fees } from "./fees.ts";
import { splitInput, splitOutput } from "./split.ts";
import {
  createMeter,
  noteError,
  noteModel,
  noteText,
  see,
  type StreamMeter,
  type StreamState,
  usageSoFar,
  utf8Bytes,
} from "./stream.ts";
import {
  at,
  count,
  firstNumber,
  listOf,
  member,
  nameOf,
  objectOf,
  tierOf,
  usageFrom,
  type Json,
  type Path,
  type Tally,
} from "./tally.ts";

const COUNTED: readonly Path[] = [
  ["promptTokenCount"],
  ["candidatesTokenCount"],
  ["totalTokenCount"],
];
const MAX_QUERIES = 64;
const CANDIDATES_MAX = 64;
// Vertex tells the tier by the kind of traffic.
const TRAFFIC_TIERS: ReadonlyMap<string, string> = new Map([
  ["ON_DEMAND", "standard"],
  ["ON_DEMAND_PRIORITY", "priority"],
  ["ON_DEMAND_FLEX", "flex"],
  ["PROVISIONED_THROUGHPUT", "provisioned"],
]);

interface Grounding {
  readonly queries: Set<string>;
  /** True where places were looked up on maps, which leaves no query. */
  places: boolean;
}

/** Which candidates have begun and not ended, and which have ended. */
interface Ends {
  readonly open: Set<number>;
  readonly ended: Set<number>;
  /** The prompt was refused: then there is no candidate at all. */
  blocked: boolean;
}

/** The usage that a reply states. */
export function usageOfGemini(body: unknown, provider: string): Usage | undefined {
  if (Array.isArray(body)) return usageOfChunks(body, provider);
  const grounding = newGrounding();
  noteGrounding(grounding, body);
  return readReply(body, grounding);
}

// A stream that was not asked for as events is one array of its chunks.
function usageOfChunks(chunks: readonly unknown[], provider: string): Usage | undefined {
  const meter = createGeminiStreamMeter(provider);
  for (const chunk of chunks) see(meter, "", chunk);
  return usageSoFar(meter);
}

export function createGeminiStreamMeter(_provider: string): StreamMeter {
  const grounding = newGrounding();
  const ends: Ends = { open: new Set(), ended: new Set(), blocked: false };
  // Every chunk has its usage, and only the last is asked for.
  let latest: Json | undefined;
  return createMeter({
    read: (state, name, data) => {
      readChunk(state, name, data, grounding);
      noteEnds(ends, data);
      // A candidate that has begun and not ended is missing, however many others have.
      state.answered = ends.open.size === 0 && (ends.ended.size > 0 || ends.blocked);
      const { usageMetadata, modelVersion } = data;
      const counts = firstNumber(usageMetadata, COUNTED) !== undefined;
      if (counts) latest = { usageMetadata, modelVersion };
      state.exact = latest !== undefined && state.answered;
      return counts;
    },
    usage: (state) => {
      const usage = latest && readReply(latest, grounding);
      return usage !== undefined && usage.model === undefined && state.model !== undefined
        ? { ...usage, model: state.model }
        : usage;
    },
  });
}

function readChunk(state: StreamState, name: string, data: Json, grounding: Grounding): void {
  noteModel(state, data["modelVersion"]);
  noteError(state, name, data);
  noteGrounding(grounding, data);
  for (const candidate of listOf(data["candidates"]))
    for (const part of listOf(at(candidate, ["content", "parts"]))) notePart(state, part);
}

function noteEnds(ends: Ends, data: Json): void {
  const candidates = listOf(data["candidates"]);
  for (let place = 0; place < candidates.length; place++) {
    const candidate = candidates[place];
    if (objectOf(candidate) === undefined) continue;
    const index = indexOf(candidate) ?? place;
    if (nameOf(member(candidate, "finishReason")) !== undefined) {
      ends.ended.add(index);
      ends.open.delete(index);
    } else if (!ends.ended.has(index)) ends.open.add(index);
  }
  ends.blocked ||= at(data, ["promptFeedback", "blockReason"]) !== undefined;
}

function indexOf(candidate: unknown): number | undefined {
  const index = member(candidate, "index");
  return typeof index === "number" && index >= 0 && index < CANDIDATES_MAX ? index : undefined;
}

function notePart(state: StreamState, part: unknown): void {
  noteText(state, member(part, "text"));
  const call = member(part, "functionCall");
  if (call !== undefined)
    state.outputBytes += utf8Bytes(JSON.stringify(member(call, "args") ?? {}));
  noteText(state, at(part, ["executableCode", "code"]));
}

function readReply(body: unknown, grounding: Grounding): Usage | undefined {
  const usage = objectOf(member(body, "usageMetadata"));
  if (usage === undefined || firstNumber(usage, COUNTED) === undefined) return undefined;
  const tally: Tally = { clamped: false };
  const model = nameOf(member(body, "modelVersion"));
  return usageFrom(
    {
      tokens: { ...inputOf(tally, usage), ...outputOf(tally, usage) },
      fees: feesOf(grounding),
      model,
      serviceTier:
        tierOf(usage["serviceTier"]) ?? TRAFFIC_TIERS.get(nameOf(usage["trafficType"]) ?? ""),
    },
    tally,
  );
}

function inputOf(tally: Tally, usage: Json): Partial<Record<TokenMeter, number>> {
  const details = usage["promptTokensDetails"];
  const toolDetails = usage["toolUsePromptTokensDetails"];
  const inModality = (modality: string): number =>
    modalityCount(tally, details, modality) + modalityCount(tally, toolDetails, modality);
  return splitInput(tally, {
    all: count(tally, usage["promptTokenCount"]) + count(tally, usage["toolUsePromptTokenCount"]),
    cached: count(tally, usage["cachedContentTokenCount"]),
    audio: inModality("AUDIO"),
    cachedAudio: modalityCount(tally, usage["cacheTokensDetails"], "AUDIO"),
    image: Math.max(
      0,
      inModality("IMAGE") - modalityCount(tally, usage["cacheTokensDetails"], "IMAGE"),
    ),
  });
}

function outputOf(tally: Tally, usage: Json): Partial<Record<TokenMeter, number>> {
  const thoughts = count(tally, usage["thoughtsTokenCount"]);
  const details = usage["candidatesTokensDetails"];
  return splitOutput(tally, {
    all: count(tally, usage["candidatesTokenCount"]) + thoughts,
    reasoning: thoughts,
    audio: modalityCount(tally, details, "AUDIO"),
    image: modalityCount(tally, details, "IMAGE"),
  });
}

function modalityCount(tally: Tally, details: unknown, modality: string): number {
  let total = 0;
  for (const entry of listOf(details)) {
    if (member(entry, "modality") === modality) total += count(tally, member(entry, "tokenCount"));
  }
  return total;
}

function newGrounding(): Grounding {
  return { queries: new Set(), places: false };
}

function noteGrounding(grounding: Grounding, body: unknown): void {
  for (const candidate of listOf(member(body, "candidates"))) {
    const metadata = member(candidate, "groundingMetadata");
    for (const query of listOf(member(metadata, "webSearchQueries"))) {
      const text = nameOf(query);
      if (text !== undefined && grounding.queries.size < MAX_QUERIES) grounding.queries.add(text);
    }
    for (const chunk of listOf(member(metadata, "groundingChunks"))) {
      if (member(chunk, "maps") !== undefined) grounding.places = true;
    }
  }
}

// Whether a prompt is charged once or by the search is a matter of the model's price.
function feesOf({ queries, places }: Grounding): Fees {
  const amount = Math.max(queries.size, places ? 1 : 0);
  return amount > 0 ? { grounding: amount } : {};
}
