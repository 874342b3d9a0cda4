import { addFieldLoss, type Loss, takeNativeFields } from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest, RequestField } from "../../canonical/canonical-request.ts";
import { GEMINI_SCHEMA } from "../../canonical/reduced-schema.ts";
import {
  addJsonInstruction,
  emulateByTool,
  reduceOutput,
} from "../../canonical/structured-output.ts";
import type { SchemaEmulation, Target, WrittenRequest } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { firstStops } from "../../stop-sequences.ts";
import { isGenerationThreeOrLater } from "./gemini-model-generation.ts";
import { writeThinking } from "./write-gemini-thinking.ts";
import { isGoogleSchema, writeTools } from "./write-gemini-tools.ts";
import { writeTurns } from "./write-gemini-turns.ts";

const STOPS_MAX = 5;
const SERVICE_TIERS = new Map([
  ["auto", undefined],
  ["default", undefined],
  ["standard", undefined],
  ["flex", "flex"],
  ["priority", "priority"],
]);

/** Fields without an equivalent, with the value that changes nothing (`store: false`) and so is no loss. */
const UNSUPPORTED_FIELDS: readonly (readonly [RequestField, unknown])[] = [
  ["logitBias", undefined],
  ["metadata", undefined],
  ["store", false],
  ["verbosity", "medium"],
];

/** Fields that do not change the reply: dropped without the caller's permission. */
const TOLERATED_FIELDS: readonly (readonly [RequestField, string])[] = [
  ["cache", "This provider caches automatically."],
  ["cacheKey", "This provider caches automatically."],
  ["cacheRetention", "This provider caches automatically."],
  ["user", "This provider does not accept an end-user ID."],
  ["safetyIdentifier", "This provider does not accept an end-user ID."],
];

export function writeRequest(original: CanonicalRequest, target: Target): WrittenRequest {
  const losses: Loss[] = [];
  addUnsupportedLosses(original, losses);
  const needsJsonInstruction =
    original.output?.type === "json_object" && !acceptsSchemaWithTools(original, target);
  const request = needsJsonInstruction ? addJsonInstruction(original, losses) : original;
  const emulation = emulate(request, target, losses);
  const native: JsonObject = takeNativeFields(request.native, "gemini", "", losses) ?? {};
  const config = native["generationConfig"];
  const body: JsonObject = {
    ...native,
    ...writeTurns(request, target, losses),
    ...(mustOmitTools(request, target)
      ? undefined
      : writeTools(request, target, emulation, losses)),
    generationConfig: omitIfEmpty({
      ...(typeof config === "object" ? config : undefined),
      ...writeSampling(request, target, losses),
      ...(emulation === undefined ? writeOutput(request, losses) : undefined),
      thinkingConfig: writeThinking(request, target, losses),
    }),
    serviceTier: writeTier(request, losses),
  };
  const operation = request.stream === true ? "streamGenerateContent" : "generateContent";
  return { body, losses, emulation, path: operationPath(target.model, operation) };
}

// Models before Gemini 3 reject functions together with JSON output, even if no call is allowed.
function mustOmitTools({ output, toolChoice }: CanonicalRequest, target: Target): boolean {
  const isJson = output !== undefined && output.type !== "text";
  return isJson && toolChoice?.type === "none" && !isGenerationThreeOrLater(target);
}

function addUnsupportedLosses(request: CanonicalRequest, losses: Loss[]): void {
  for (const [field, harmless] of UNSUPPORTED_FIELDS)
    if (request[field] !== undefined && request[field] !== harmless)
      addFieldLoss(losses, request, field, "This provider's API has no equivalent.");
  for (const [field, reason] of TOLERATED_FIELDS)
    if (request[field] !== undefined)
      losses.push({ path: request.names?.[field] ?? field, reason, tolerated: true });
}

function writeSampling(request: CanonicalRequest, target: Target, losses: Loss[]): JsonObject {
  return {
    maxOutputTokens: request.maxOutputTokens,
    ...writeRandomness(request, target, losses),
    seed: request.seed,
    frequencyPenalty: request.frequencyPenalty,
    presencePenalty: request.presencePenalty,
    stopSequences: firstStops(request, STOPS_MAX, losses),
    candidateCount: request.n,
    ...(request.logprobs === true || (request.topLogprobs ?? 0) > 0
      ? { responseLogprobs: true, logprobs: request.topLogprobs || undefined }
      : undefined),
  };
}

function writeRandomness(request: CanonicalRequest, target: Target, losses: Loss[]): JsonObject {
  const { temperature, topP, topK } = request;
  if (target.abilities?.sampling !== false) return { temperature, topP, topK };
  for (const field of ["temperature", "topP", "topK"] as const)
    if ((request[field] ?? 1) !== 1)
      addFieldLoss(losses, request, field, "This model does not support this parameter.");
  return {};
}

function writeOutput(request: CanonicalRequest, losses: Loss[]): JsonObject | undefined {
  const { output } = request;
  if (output === undefined || output.type === "text") return undefined;
  const responseMimeType = "application/json";
  if (output.type === "json_object") return { responseMimeType };
  const { description } = output;
  const isGoogle = isGoogleSchema(output.schema);
  const schema = isGoogle
    ? output.schema
    : (reduceOutput(output, request, GEMINI_SCHEMA, losses) ?? output.schema);
  return {
    responseMimeType,
    [isGoogle ? "responseSchema" : "responseJsonSchema"]:
      description === undefined || schema["description"] !== undefined
        ? schema
        : { ...schema, description },
  };
}

/** Models before Gemini 3 reject JSON output together with functions that may be called. */
function acceptsSchemaWithTools(
  { tools = [], toolChoice }: CanonicalRequest,
  target: Target,
): boolean {
  const allowsCalls = toolChoice?.type !== "none" && tools.some((tool) => tool.type === "function");
  return !allowsCalls || isGenerationThreeOrLater(target);
}

// If JSON output cannot be combined with functions, the schema is emulated by a tool.
function emulate(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): SchemaEmulation | undefined {
  const { output } = request;
  if (output?.type !== "json_schema") return undefined;
  return target.abilities?.jsonSchema !== false && acceptsSchemaWithTools(request, target)
    ? undefined
    : emulateByTool(request, output, losses);
}

function writeTier(request: CanonicalRequest, losses: Loss[]): string | undefined {
  const { serviceTier } = request;
  if (serviceTier === undefined) return undefined;
  if (!SERVICE_TIERS.has(serviceTier))
    addFieldLoss(
      losses,
      request,
      "serviceTier",
      `This provider does not support the service tier ${serviceTier}.`,
    );
  return SERVICE_TIERS.get(serviceTier);
}

function omitIfEmpty(object: JsonObject): JsonObject | undefined {
  return Object.values(object).some((value) => value !== undefined) ? object : undefined;
}

type GeminiOperation = "generateContent" | "streamGenerateContent";

/** The path below the provider's base URL. A name with a slash (`tunedModels/x`) includes its own collection. */
function operationPath(model: string, operation: GeminiOperation): string {
  const name = model.includes("/") ? model : `models/${encodeURIComponent(model)}`;
  return `/${name}:${operation}${operation === "streamGenerateContent" ? "?alt=sse" : ""}`;
}
