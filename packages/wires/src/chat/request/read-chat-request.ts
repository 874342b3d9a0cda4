import {
  type CanonicalRequest,
  type FieldNames,
  type OutputFormat,
  EFFORTS,
  type Reasoning,
} from "../../canonical/canonical-request.ts";
import { checkRequest } from "../../canonical/check-request.ts";
import {
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  oneOf,
  optionalArray,
  optionalBoolean,
  optionalObject,
  unknownFields,
  isObject,
  optionalInteger,
  optionalOneOf,
} from "../../json-fields.ts";
import { readSchemaFormat } from "../../openai-parameters.ts";
import { readScalars, scalarNames, TOKENS_MAX } from "../../scalar-fields.ts";
import { CHAT_FIELDS, KNOWN_CHAT_FIELDS } from "./chat-fields.ts";
import { readLegacyChoice, readLegacyTools, readTool, readToolChoice } from "./read-chat-tools.ts";
import { readTurns } from "./read-chat-turns.ts";

const FIELD_NAMES: FieldNames = {
  ...scalarNames(CHAT_FIELDS),
  turns: "messages",
  toolChoice: "tool_choice",
  output: "response_format",
  reasoning: "reasoning_effort",
  cache: "cache_control",
};
const LEGACY_FIELD_NAMES: FieldNames = { ...FIELD_NAMES, maxOutputTokens: "max_tokens" };

export function readRequest(input: unknown): CanonicalRequest {
  const body = mustBeObject(input, "");
  const usesFunctions = body["functions"] !== undefined && body["functions"] !== null;
  const usesMaxTokens =
    body["max_completion_tokens"] === undefined || body["max_completion_tokens"] === null;
  return checkRequest({
    model: mustBeName(body["model"], "model"),
    turns: readTurns(mustBeArray(body["messages"], "messages")),
    stream: optionalBoolean(body["stream"], "stream"),
    tools: usesFunctions
      ? readLegacyTools(body["functions"])
      : optionalArray(body["tools"], "tools")?.map((tool, at) => readTool(tool, `tools[${at}]`)),
    toolChoice: usesFunctions
      ? readLegacyChoice(body["function_call"])
      : readToolChoice(body["tool_choice"]),
    output: readOutput(body["response_format"]),
    reasoning: readReasoning(body),
    ...readScalars(CHAT_FIELDS, body),
    legacyFunctions: usesFunctions || undefined,
    native: readNative(body),
    names: usesMaxTokens && body["max_tokens"] !== undefined ? LEGACY_FIELD_NAMES : FIELD_NAMES,
  });
}

function readNative(body: JsonObject): CanonicalRequest["native"] {
  const rest: Record<string, unknown> = { ...unknownFields(body, KNOWN_CHAT_FIELDS) };
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
  return readSchemaFormat(mustBeObject(format["json_schema"], path), path);
}

// In the forms of OpenAI, OpenRouter, DeepSeek, Z.ai, Qwen and vLLM.
function readReasoning(body: JsonObject): Reasoning | undefined {
  const effort = optionalOneOf(body["reasoning_effort"], "reasoning_effort", EFFORTS);
  const object = optionalObject(body["reasoning"], "reasoning");
  const dialect = readDialect(body);
  if (object === undefined && dialect === undefined) return effort && { effort };
  const isOff = optionalBoolean(object?.["enabled"], "reasoning.enabled") === false;
  const isHidden = optionalBoolean(object?.["exclude"], "reasoning.exclude") === true;
  return {
    // `reasoning_effort` takes precedence over the effort in OpenRouter's object.
    effort: effort ?? optionalOneOf(object?.["effort"], "reasoning.effort", EFFORTS),
    budgetTokens:
      optionalInteger(object?.["max_tokens"], "reasoning.max_tokens", 0, TOKENS_MAX) ??
      dialect?.budgetTokens,
    mode: isOff ? "off" : dialect?.mode,
    summary: isHidden ? "none" : undefined,
  };
}

// `thinking` is DeepSeek's and Z.ai's, `enable_thinking` Qwen's, and `chat_template_kwargs` vLLM's way to send it.
function readDialect(body: JsonObject): Pick<Reasoning, "mode" | "budgetTokens"> | undefined {
  const { thinking, chat_template_kwargs: template } = body;
  const type = isObject(thinking) ? thinking["type"] : undefined;
  const enabled = [
    body["enable_thinking"],
    isObject(template) ? (template["enable_thinking"] ?? template["thinking"]) : undefined,
  ].find((value) => typeof value === "boolean");
  const isOn = type === undefined ? enabled : type !== "disabled";
  const budgetTokens = [
    body["thinking_budget"],
    isObject(thinking) ? thinking["budget_tokens"] : undefined,
  ].find((value) => typeof value === "number");
  if (isOn === undefined && budgetTokens === undefined) return undefined;
  return { mode: isOn === false ? "off" : isOn && "adaptive", budgetTokens };
}
