import {
  type CanonicalRequest,
  type FieldNames,
  type OutputFormat,
} from "../../canonical/canonical-request.ts";
import { checkRequest, checkSchema } from "../../canonical/check-request.ts";
import { invalid } from "../../invalid-request.ts";
import {
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  oneOf,
  optionalArray,
  optionalBoolean,
  optionalInteger,
  optionalNumber,
  optionalObject,
  optionalOneOf,
  optionalString,
  unknownFields,
} from "../../json-fields.ts";
import { readMetadata } from "../../openai-parameters.ts";
import { readReasoning } from "./read-chat-reasoning-settings.ts";
import { readLegacyChoice, readLegacyTools, readTool, readToolChoice } from "./read-chat-tools.ts";
import { readTurns } from "./read-chat-turns.ts";

const TOKENS_MAX = 100_000_000;
const STOPS_MAX = 64;

const FIELD_NAMES: FieldNames = {
  turns: "messages",
  toolChoice: "tool_choice",
  parallelToolCalls: "parallel_tool_calls",
  output: "response_format",
  reasoning: "reasoning_effort",
  maxOutputTokens: "max_completion_tokens",
  topP: "top_p",
  topK: "top_k",
  frequencyPenalty: "frequency_penalty",
  presencePenalty: "presence_penalty",
  logitBias: "logit_bias",
  topLogprobs: "top_logprobs",
  serviceTier: "service_tier",
  safetyIdentifier: "safety_identifier",
  cache: "cache_control",
  cacheKey: "prompt_cache_key",
  cacheRetention: "prompt_cache_retention",
  includeUsage: "stream_options",
};
const LEGACY_FIELD_NAMES: FieldNames = { ...FIELD_NAMES, maxOutputTokens: "max_tokens" };

// `usage` is OpenRouter's option for the cost, which every reply contains here.
const KNOWN_FIELDS: ReadonlySet<string> = new Set(
  (
    "model messages stream stream_options tools tool_choice functions function_call parallel_tool_calls response_format verbosity " +
    "reasoning_effort reasoning max_tokens max_completion_tokens temperature top_p top_k seed frequency_penalty presence_penalty " +
    "logit_bias logprobs top_logprobs stop n service_tier user safety_identifier metadata store prompt_cache_key " +
    "prompt_cache_retention modalities usage"
  ).split(" "),
);
export function readRequest(input: unknown): CanonicalRequest {
  const body = mustBeObject(input, "");
  const logprobs = optionalBoolean(body["logprobs"], "logprobs");
  const options = optionalObject(body["stream_options"], "stream_options");
  const usesFunctions = body["functions"] !== undefined && body["functions"] !== null;
  const usesMaxTokens =
    body["max_completion_tokens"] === undefined || body["max_completion_tokens"] === null;
  return checkRequest({
    model: mustBeName(body["model"], "model"),
    turns: readTurns(mustBeArray(body["messages"], "messages")),
    stream: optionalBoolean(body["stream"], "stream"),
    includeUsage: optionalBoolean(options?.["include_usage"], "stream_options.include_usage"),
    tools: usesFunctions
      ? readLegacyTools(body["functions"])
      : optionalArray(body["tools"], "tools")?.map((tool, at) => readTool(tool, `tools[${at}]`)),
    toolChoice: usesFunctions
      ? readLegacyChoice(body["function_call"])
      : readToolChoice(body["tool_choice"]),
    parallelToolCalls: optionalBoolean(body["parallel_tool_calls"], "parallel_tool_calls"),
    output: readOutput(body["response_format"]),
    verbosity: optionalOneOf(body["verbosity"], "verbosity", ["low", "medium", "high"]),
    reasoning: readReasoning(body),
    maxOutputTokens: usesMaxTokens
      ? optionalInteger(body["max_tokens"], "max_tokens", 1, TOKENS_MAX)
      : optionalInteger(body["max_completion_tokens"], "max_completion_tokens", 1, TOKENS_MAX),
    ...readSampling(body),
    logprobs,
    topLogprobs: optionalInteger(body["top_logprobs"], "top_logprobs", 0, 20),
    stop: readStop(body["stop"]),
    n: optionalInteger(body["n"], "n", 1, 128),
    serviceTier: optionalString(body["service_tier"], "service_tier"),
    user: optionalString(body["user"], "user"),
    safetyIdentifier: optionalString(body["safety_identifier"], "safety_identifier"),
    metadata: readMetadata(body["metadata"]),
    store: optionalBoolean(body["store"], "store"),
    cacheKey: optionalString(body["prompt_cache_key"], "prompt_cache_key"),
    cacheRetention: optionalString(body["prompt_cache_retention"], "prompt_cache_retention"),
    legacyFunctions: usesFunctions || undefined,
    native: readNative(body),
    names: usesMaxTokens && body["max_tokens"] !== undefined ? LEGACY_FIELD_NAMES : FIELD_NAMES,
  });
}

function readSampling(body: JsonObject): Partial<CanonicalRequest> {
  const bias = optionalObject(body["logit_bias"], "logit_bias");
  const logitBias: Record<string, number> = {};
  for (const token in bias)
    logitBias[token] = optionalNumber(bias[token], `logit_bias.${token}`, -100, 100) ?? 0;
  return {
    temperature: optionalNumber(body["temperature"], "temperature", 0, 2),
    topP: optionalNumber(body["top_p"], "top_p", 0, 1),
    topK: optionalInteger(body["top_k"], "top_k", 0, 1_000_000),
    seed: optionalInteger(body["seed"], "seed", Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    frequencyPenalty: optionalNumber(body["frequency_penalty"], "frequency_penalty", -2, 2),
    presencePenalty: optionalNumber(body["presence_penalty"], "presence_penalty", -2, 2),
    logitBias: Object.keys(logitBias).length > 0 ? logitBias : undefined,
  };
}

function readNative(body: JsonObject): CanonicalRequest["native"] {
  const rest: Record<string, unknown> = { ...unknownFields(body, KNOWN_FIELDS) };
  const modalities = optionalArray(body["modalities"], "modalities");
  if (modalities !== undefined && !(modalities.length === 1 && modalities[0] === "text"))
    rest["modalities"] = modalities;
  return Object.keys(rest).length === 0 ? undefined : { wire: "chat", fields: rest };
}

function readOutput(value: unknown): OutputFormat | undefined {
  const format = optionalObject(value, "response_format");
  if (format === undefined) return undefined;
  const type = oneOf(format["type"], "response_format.type", [
    "text",
    "json_object",
    "json_schema",
  ]);
  if (type !== "json_schema") return { type };
  const path = "response_format.json_schema";
  const jsonSchema = mustBeObject(format["json_schema"], path);
  checkSchema(jsonSchema["schema"] ?? {}, `${path}.schema`);
  const strict = optionalBoolean(jsonSchema["strict"], `${path}.strict`);
  return {
    type,
    name: mustBeName(jsonSchema["name"], `${path}.name`),
    description: optionalString(jsonSchema["description"], `${path}.description`),
    schema: optionalObject(jsonSchema["schema"], `${path}.schema`) ?? {},
    strict,
    strictPath: strict === true ? `${path}.strict` : undefined,
  };
}

function readStop(value: unknown): readonly string[] | undefined {
  if (value === undefined || value === null) return undefined;
  const list = typeof value === "string" ? [value] : mustBeArray(value, "stop");
  if (list.length > STOPS_MAX)
    throw invalid("stop", `\`stop\` can have at most ${STOPS_MAX} sequences.`);
  return list.length === 0 ? undefined : list.map((one, at) => mustBeName(one, `stop[${at}]`));
}
