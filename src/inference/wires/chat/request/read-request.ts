import { invalid } from "../../../../base/fault.ts";
import {
  isObject,
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  mustBeString,
  oneOf,
  optionalArray,
  optionalBoolean,
  optionalInteger,
  optionalNumber,
  optionalObject,
  optionalOneOf,
  optionalString,
  unknownFields,
} from "../../../../base/json.ts";
import { checkRequest, checkSchema } from "../../../canonical/check-request.ts";
import {
  type CanonicalRequest,
  EFFORTS,
  type FieldNames,
  type OutputFormat,
  type Reasoning,
  type Tool,
  type ToolChoice,
} from "../../../canonical/request.ts";
import { readMetadata } from "../../openai-parameters.ts";
import { readTurns } from "./read-turns.ts";

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
const TOOL_FIELDS: ReadonlySet<string> = new Set(["type", "function", "cache_control"]);
const FUNCTION_FIELDS: ReadonlySet<string> = new Set([
  "name",
  "description",
  "parameters",
  "strict",
]);

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

function readTool(value: unknown, path: string): Tool {
  const tool = mustBeObject(value, path);
  const type = mustBeName(tool["type"], `${path}.type`);
  if (type === "function") {
    const native = unknownFields(tool, TOOL_FIELDS);
    const read = readFunction(
      tool["function"],
      `${path}.function`,
      tool["cache_control"] !== undefined && tool["cache_control"] !== null,
    );
    return native === undefined ? read : { ...read, native: { wire: "chat", fields: native } };
  }
  if (type !== "custom") return { type: "native", wire: "chat", name: type, value: tool, path };
  const custom = mustBeObject(tool["custom"], `${path}.custom`);
  const format = optionalObject(custom["format"], `${path}.custom.format`);
  const grammar =
    format?.["type"] === "grammar"
      ? mustBeObject(format["grammar"], `${path}.custom.format.grammar`)
      : undefined;
  return {
    type: "custom",
    name: mustBeName(custom["name"], `${path}.custom.name`),
    description: optionalString(custom["description"], `${path}.custom.description`),
    format: grammar && {
      syntax: oneOf(grammar["syntax"], `${path}.custom.format.grammar.syntax`, ["lark", "regex"]),
      definition: mustBeString(grammar["definition"], `${path}.custom.format.grammar.definition`),
    },
    path,
  };
}

function readFunction(
  value: unknown,
  path: string,
  cached: boolean,
): Extract<Tool, { type: "function" }> {
  const fn = mustBeObject(value, path);
  const native = unknownFields(fn, FUNCTION_FIELDS);
  return {
    type: "function",
    name: mustBeName(fn["name"], `${path}.name`),
    description: optionalString(fn["description"], `${path}.description`),
    parameters: optionalObject(fn["parameters"], `${path}.parameters`),
    strict: optionalBoolean(fn["strict"], `${path}.strict`),
    cache: cached ? {} : undefined,
    native: native && { wire: "chat", fields: { function: native } },
    path,
  };
}

function readToolChoice(value: unknown): ToolChoice | undefined {
  if (value === undefined || value === null) return undefined;
  // Mistral's name for `required`.
  if (value === "any") return { type: "required" };
  if (typeof value === "string")
    return { type: oneOf(value, "tool_choice", ["auto", "none", "required"]) };
  const choice = mustBeObject(value, "tool_choice");
  const type = oneOf(choice["type"], "tool_choice.type", ["function", "custom", "allowed_tools"]);
  if (type !== "allowed_tools") {
    const name = mustBeName(
      mustBeObject(choice[type], `tool_choice.${type}`)["name"],
      `tool_choice.${type}.name`,
    );
    return { type: "tool", name, custom: type === "custom" || undefined };
  }
  const allowed = mustBeObject(choice["allowed_tools"], "tool_choice.allowed_tools");
  const names = mustBeArray(allowed["tools"], "tool_choice.allowed_tools.tools").map((tool, at) => {
    const path = `tool_choice.allowed_tools.tools[${at}]`;
    const one = mustBeObject(tool, path);
    const callee = one["function"] ?? one["custom"];
    return mustBeName(isObject(callee) ? callee["name"] : undefined, `${path}.function.name`);
  });
  return {
    type: "allowed",
    mode: oneOf(allowed["mode"], "tool_choice.allowed_tools.mode", ["auto", "required"]),
    names,
  };
}

function readLegacyTools(value: unknown): readonly Tool[] {
  return mustBeArray(value, "functions").map((one, at) =>
    readFunction(one, `functions[${at}]`, false),
  );
}

function readLegacyChoice(value: unknown): ToolChoice | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string") return { type: oneOf(value, "function_call", ["auto", "none"]) };
  return {
    type: "tool",
    name: mustBeName(mustBeObject(value, "function_call")["name"], "function_call.name"),
  };
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

// `reasoning` is OpenRouter's object; `reasoning_effort` takes precedence over its `effort`.
function readReasoning(body: JsonObject): Reasoning | undefined {
  const effort = optionalOneOf(body["reasoning_effort"], "reasoning_effort", EFFORTS);
  const object = optionalObject(body["reasoning"], "reasoning");
  if (object === undefined) return effort && { effort };
  return {
    effort: effort ?? optionalOneOf(object["effort"], "reasoning.effort", EFFORTS),
    budgetTokens: optionalInteger(object["max_tokens"], "reasoning.max_tokens", 0, TOKENS_MAX),
    mode: optionalBoolean(object["enabled"], "reasoning.enabled") === false ? "off" : undefined,
    summary: optionalBoolean(object["exclude"], "reasoning.exclude") === true ? "none" : undefined,
  };
}

function readStop(value: unknown): readonly string[] | undefined {
  if (value === undefined || value === null) return undefined;
  const list = typeof value === "string" ? [value] : mustBeArray(value, "stop");
  if (list.length > STOPS_MAX)
    throw invalid("stop", `\`stop\` can have at most ${STOPS_MAX} sequences.`);
  return list.length === 0 ? undefined : list.map((one, at) => mustBeName(one, `stop[${at}]`));
}
