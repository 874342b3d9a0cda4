import {
  type CanonicalRequest,
  type FieldNames,
  type OutputFormat,
} from "../../canonical/canonical-request.ts";
import { checkRequest, checkSchema } from "../../canonical/check-request.ts";
import {
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  oneOf,
  optionalArray,
  optionalBoolean,
  optionalObject,
  optionalString,
  unknownFields,
} from "../../json-fields.ts";
import { readScalars, scalarNames } from "../../scalar-fields.ts";
import { CHAT_FIELDS, KNOWN_CHAT_FIELDS } from "./chat-fields.ts";
import { readReasoning } from "./read-chat-reasoning-settings.ts";
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
