import type { CanonicalRequest, JsonObject, Loss, RequestField } from "../../canonical.ts";
import { emulateByTool, instructJson } from "../../canonical-output.ts";
import { loseField, nativeFields } from "../../canonical-wire.ts";
import type { Emulation, Target, WrittenRequest } from "../../canonical-wire.ts";
import { isThirdGeneration } from "./model-generation.ts";
import { pathOf } from "./operations.ts";
import { writeThinking } from "./write-thinking.ts";
import { isOwnSchema, writeTools } from "./write-tools.ts";
import { writeTurns } from "./write-turns.ts";

const STOPS_MAX = 5;
const TIERS = new Map([
  ["auto", undefined],
  ["default", undefined],
  ["standard", undefined],
  ["flex", "flex"],
  ["priority", "priority"],
]);

/** What this API has no word for. A value that changes nothing (`store: false`) is no loss. */
const UNSAID: readonly (readonly [RequestField, unknown])[] = [
  ["logitBias", undefined],
  ["metadata", undefined],
  ["store", false],
  ["verbosity", "medium"],
];

/** What changes no answer. */
const BY_RULE: readonly (readonly [RequestField, string])[] = [
  ["cache", "This provider caches by itself."],
  ["cacheKey", "This provider caches by itself."],
  ["cacheRetention", "This provider caches by itself."],
  ["user", "This provider takes no name of the end user."],
  ["safetyIdentifier", "This provider takes no name of the end user."],
];

export function writeRequest(asked: CanonicalRequest, target: Target): WrittenRequest {
  const losses: Loss[] = [];
  noteUnsaid(asked, losses);
  const instructs = asked.output?.type === "json_object" && !takesBoth(asked, target);
  const request = instructs ? instructJson(asked, losses) : asked;
  const emulation = emulate(request, target, losses);
  const native: JsonObject = nativeFields(request.native, "gemini", "", losses) ?? {};
  const config = native["generationConfig"];
  const body: JsonObject = {
    ...native,
    ...writeTurns(request, target, losses),
    ...(needsNoTools(request, target) ? undefined : writeTools(request, target, emulation, losses)),
    generationConfig: clean({
      ...(typeof config === "object" ? config : undefined),
      ...writeSampling(request, target, losses),
      ...(emulation === undefined ? writeOutput(request) : undefined),
      thinkingConfig: writeThinking(request, target, losses),
    }),
    serviceTier: writeTier(request, losses),
  };
  const operation = request.stream === true ? "streamGenerateContent" : "generateContent";
  return { body, losses, emulation, path: pathOf(target.model, operation) };
}

// Models before the third generation refuse functions beside JSON output even where none may be called.
function needsNoTools({ output, toolChoice }: CanonicalRequest, target: Target): boolean {
  const json = output !== undefined && output.type !== "text";
  return json && toolChoice?.type === "none" && !isThirdGeneration(target);
}

function noteUnsaid(request: CanonicalRequest, losses: Loss[]): void {
  for (const [field, harmless] of UNSAID)
    if (request[field] !== undefined && request[field] !== harmless)
      loseField(losses, request, field, "This provider's API has no equivalent.");
  for (const [field, why] of BY_RULE)
    if (request[field] !== undefined)
      losses.push({ path: request.names?.[field] ?? field, why, byRule: true });
}

function writeSampling(request: CanonicalRequest, target: Target, losses: Loss[]): JsonObject {
  const { stop } = request;
  const stops = stop?.slice(0, STOPS_MAX);
  if (stops?.length !== stop?.length)
    loseField(losses, request, "stop", `This provider takes at most ${STOPS_MAX} stop sequences.`);
  return {
    maxOutputTokens: request.maxOutputTokens,
    ...writeChance(request, target, losses),
    seed: request.seed,
    frequencyPenalty: request.frequencyPenalty,
    presencePenalty: request.presencePenalty,
    stopSequences: stops,
    candidateCount: request.n,
    ...(request.logprobs === true || (request.topLogprobs ?? 0) > 0
      ? { responseLogprobs: true, logprobs: request.topLogprobs || undefined }
      : undefined),
  };
}

function writeChance(request: CanonicalRequest, target: Target, losses: Loss[]): JsonObject {
  const { temperature, topP, topK } = request;
  if (target.abilities?.sampling !== false) return { temperature, topP, topK };
  for (const field of ["temperature", "topP", "topK"] as const)
    if ((request[field] ?? 1) !== 1)
      loseField(losses, request, field, "This model takes no such setting.");
  return {};
}

function writeOutput({ output }: CanonicalRequest): JsonObject | undefined {
  if (output === undefined || output.type === "text") return undefined;
  const responseMimeType = "application/json";
  if (output.type === "json_object") return { responseMimeType };
  const { schema, description } = output;
  return {
    responseMimeType,
    [isOwnSchema(schema) ? "responseSchema" : "responseJsonSchema"]:
      description === undefined || schema["description"] !== undefined
        ? schema
        : { ...schema, description },
  };
}

/** Models before the third generation refuse JSON output beside functions that may be called. */
function takesBoth({ tools = [], toolChoice }: CanonicalRequest, target: Target): boolean {
  const calls = toolChoice?.type !== "none" && tools.some((tool) => tool.type === "function");
  return !calls || isThirdGeneration(target);
}

// Where JSON output is refused beside functions, the answer goes through a tool as well.
function emulate(request: CanonicalRequest, target: Target, losses: Loss[]): Emulation | undefined {
  const { output } = request;
  if (output?.type !== "json_schema") return undefined;
  return target.abilities?.jsonSchema !== false && takesBoth(request, target)
    ? undefined
    : emulateByTool(request, output, losses);
}

function writeTier(request: CanonicalRequest, losses: Loss[]): string | undefined {
  const { serviceTier } = request;
  if (serviceTier === undefined) return undefined;
  if (!TIERS.has(serviceTier))
    loseField(losses, request, "serviceTier", `This provider has no service tier ${serviceTier}.`);
  return TIERS.get(serviceTier);
}

function clean(object: JsonObject): JsonObject | undefined {
  return Object.values(object).some((value) => value !== undefined) ? object : undefined;
}
