// Usage on the gemini wire (generateContent). Thoughts are not part of the candidates' count, cached tokens are part of the
// prompt's, and every chunk of a stream has a usage object of which only the last counts.

import { arrayIn, indexIn, objectIn, type JsonObject } from "../json-fields.ts";
import type { Fees } from "./fee-counts.ts";
import {
  valueAt,
  readCount,
  firstNumber,
  ownMember,
  readName,
  readTier,
  buildUsage,
  type Path,
  type ReadNotes,
} from "./read-numbers.ts";
import {
  createUsageMeter,
  detectError,
  setModel,
  addText,
  readEvent,
  type StreamMeter,
  type StreamState,
  usageSoFar,
} from "./stream-meter.ts";
import { splitInput, splitOutput } from "./token-breakdown.ts";
import type { TokenMeter, Usage } from "./usage-meters.ts";

const COUNT_PATHS: readonly Path[] = [
  ["promptTokenCount"],
  ["candidatesTokenCount"],
  ["totalTokenCount"],
];
const SEARCH_QUERIES_MAX = 64;
const CANDIDATES_MAX = 64;
// Vertex reports the service tier as a traffic type.
const TRAFFIC_TIERS: ReadonlyMap<string, string> = new Map([
  ["ON_DEMAND", "standard"],
  ["ON_DEMAND_PRIORITY", "priority"],
  ["ON_DEMAND_FLEX", "flex"],
  ["PROVISIONED_THROUGHPUT", "provisioned"],
]);

interface GroundingUse {
  readonly queries: Set<string>;
  /** Google Maps grounding is charged but reports no query. */
  usesMaps: boolean;
}

/** Indexes of the candidates that have begun but not ended, and of those that have ended. */
interface CandidateEnds {
  readonly open: Set<number>;
  readonly ended: Set<number>;
  /** The prompt was blocked, so there are no candidates. */
  blocked: boolean;
}

/** The usage of a reply. */
export function usageOfGemini(body: unknown, provider: string): Usage | undefined {
  if (Array.isArray(body)) return usageOfChunks(body, provider);
  const grounding = createGroundingUse();
  addGrounding(grounding, body);
  return buildGeminiUsage(body, grounding);
}

// Without `alt=sse`, a stream is a JSON array of chunks.
function usageOfChunks(chunks: readonly unknown[], provider: string): Usage | undefined {
  const meter = createGeminiStreamMeter(provider);
  for (const chunk of chunks) readEvent(meter, "", chunk);
  return usageSoFar(meter);
}

export function createGeminiStreamMeter(_provider: string): StreamMeter {
  const grounding = createGroundingUse();
  const ends: CandidateEnds = { open: new Set(), ended: new Set(), blocked: false };
  // Built only when asked for: every chunk has usage, but only the last one counts.
  let latest: JsonObject | undefined;
  return createUsageMeter({
    read: (state, name, data) => {
      readChunk(state, name, data, grounding);
      updateEnds(ends, data);
      // Complete only if no candidate that began is still open.
      state.hasStopReason = ends.open.size === 0 && (ends.ended.size > 0 || ends.blocked);
      const { usageMetadata, modelVersion } = data;
      const hasUsage = firstNumber(usageMetadata, COUNT_PATHS) !== undefined;
      if (hasUsage) latest = { usageMetadata, modelVersion };
      state.isUsageFinal = latest !== undefined && state.hasStopReason;
      return hasUsage;
    },
    usage: (state) => {
      const usage = latest && buildGeminiUsage(latest, grounding);
      return usage !== undefined && usage.model === undefined && state.model !== undefined
        ? { ...usage, model: state.model }
        : usage;
    },
  });
}

function readChunk(
  state: StreamState,
  name: string,
  data: JsonObject,
  grounding: GroundingUse,
): void {
  setModel(state, data["modelVersion"]);
  detectError(state, name, data);
  addGrounding(grounding, data);
  for (const candidate of arrayIn(data["candidates"]))
    for (const part of arrayIn(valueAt(candidate, ["content", "parts"]))) addPart(state, part);
}

function updateEnds(ends: CandidateEnds, data: JsonObject): void {
  const candidates = arrayIn(data["candidates"]);
  for (let position = 0; position < candidates.length; position++) {
    const candidate = candidates[position];
    if (objectIn(candidate) === undefined) continue;
    const index = indexIn(ownMember(candidate, "index"), CANDIDATES_MAX) ?? position;
    if (readName(ownMember(candidate, "finishReason")) !== undefined) {
      ends.ended.add(index);
      ends.open.delete(index);
    } else if (!ends.ended.has(index)) ends.open.add(index);
  }
  ends.blocked ||= valueAt(data, ["promptFeedback", "blockReason"]) !== undefined;
}

function addPart(state: StreamState, part: unknown): void {
  addText(state, ownMember(part, "text"));
  const call = ownMember(part, "functionCall");
  if (call !== undefined) addText(state, JSON.stringify(ownMember(call, "args") ?? {}));
  addText(state, valueAt(part, ["executableCode", "code"]));
}

function buildGeminiUsage(body: unknown, grounding: GroundingUse): Usage | undefined {
  const usage = objectIn(ownMember(body, "usageMetadata"));
  if (usage === undefined || firstNumber(usage, COUNT_PATHS) === undefined) return undefined;
  const notes: ReadNotes = { clamped: false };
  const model = readName(ownMember(body, "modelVersion"));
  return buildUsage(
    {
      tokens: { ...inputTokens(notes, usage), ...outputTokens(notes, usage) },
      fees: feesOf(grounding),
      model,
      serviceTier:
        readTier(usage["serviceTier"]) ?? TRAFFIC_TIERS.get(readName(usage["trafficType"]) ?? ""),
    },
    notes,
  );
}

function inputTokens(notes: ReadNotes, usage: JsonObject): Partial<Record<TokenMeter, number>> {
  const details = usage["promptTokensDetails"];
  const toolDetails = usage["toolUsePromptTokensDetails"];
  const inModality = (modality: string): number =>
    modalityCount(notes, details, modality) + modalityCount(notes, toolDetails, modality);
  return splitInput(notes, {
    total:
      readCount(notes, usage["promptTokenCount"]) +
      readCount(notes, usage["toolUsePromptTokenCount"]),
    cached: readCount(notes, usage["cachedContentTokenCount"]),
    audio: inModality("AUDIO"),
    cachedAudio: modalityCount(notes, usage["cacheTokensDetails"], "AUDIO"),
    image: Math.max(
      0,
      inModality("IMAGE") - modalityCount(notes, usage["cacheTokensDetails"], "IMAGE"),
    ),
  });
}

function outputTokens(notes: ReadNotes, usage: JsonObject): Partial<Record<TokenMeter, number>> {
  const thoughts = readCount(notes, usage["thoughtsTokenCount"]);
  const details = usage["candidatesTokensDetails"];
  return splitOutput(notes, {
    total: readCount(notes, usage["candidatesTokenCount"]) + thoughts,
    reasoning: thoughts,
    audio: modalityCount(notes, details, "AUDIO"),
    image: modalityCount(notes, details, "IMAGE"),
  });
}

function modalityCount(notes: ReadNotes, details: unknown, modality: string): number {
  let total = 0;
  for (const entry of arrayIn(details)) {
    if (ownMember(entry, "modality") === modality)
      total += readCount(notes, ownMember(entry, "tokenCount"));
  }
  return total;
}

function createGroundingUse(): GroundingUse {
  return { queries: new Set(), usesMaps: false };
}

function addGrounding(grounding: GroundingUse, body: unknown): void {
  for (const candidate of arrayIn(ownMember(body, "candidates"))) {
    const metadata = ownMember(candidate, "groundingMetadata");
    for (const query of arrayIn(ownMember(metadata, "webSearchQueries"))) {
      const text = readName(query);
      if (text !== undefined && grounding.queries.size < SEARCH_QUERIES_MAX)
        grounding.queries.add(text);
    }
    for (const groundingChunk of arrayIn(ownMember(metadata, "groundingChunks"))) {
      if (ownMember(groundingChunk, "maps") !== undefined) grounding.usesMaps = true;
    }
  }
}

// Whether each query or the whole prompt is charged depends on the model's price card.
function feesOf({ queries, usesMaps }: GroundingUse): Fees {
  const amount = Math.max(queries.size, usesMaps ? 1 : 0);
  return amount > 0 ? { grounding: amount } : {};
}
