import type {
  CanonicalRequest,
  FieldNames,
  OutputFormat,
  Reasoning,
} from "../../canonical/canonical-request.ts";
import { checkRequest, checkSchema } from "../../canonical/check-request.ts";
import {
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  oneOf,
  optionalBoolean,
  optionalInteger,
  optionalObject,
  optionalString,
  unknownFields,
} from "../../json-fields.ts";
import { readScalars, scalarNames, TOKENS_MAX } from "../../scalar-fields.ts";
import { CONFIG_FIELDS, GEMINI_FIELDS, KNOWN_GEMINI_FIELDS } from "./gemini-fields.ts";
import { normalizeGeminiRequest } from "./normalize-gemini-request.ts";
import { readGeminiSchema } from "./read-gemini-schema.ts";
import { readAllTools } from "./read-gemini-tools.ts";
import { readTurns } from "./read-gemini-turns.ts";

const FIELD_NAMES: FieldNames = {
  ...scalarNames(GEMINI_FIELDS),
  turns: "contents",
  toolChoice: "toolConfig.functionCallingConfig",
  output: "generationConfig.responseMimeType",
  reasoning: "generationConfig.thinkingConfig",
  cache: "cachedContent",
};
const THINKING_FIELDS: ReadonlySet<string> = new Set([
  "thinkingBudget",
  "thinkingLevel",
  "includeThoughts",
]);
const LEVELS = {
  THINKING_LEVEL_UNSPECIFIED: undefined,
  MINIMAL: "minimal",
  LOW: "low",
  MEDIUM: "medium",
  HIGH: "high",
} as const;
const JSON_TYPE = "application/json";
/** The model chooses the length of its reasoning. */
const DYNAMIC_BUDGET = -1;

/** `model` and `stream` are in the path of this API: its caller adds them to the body. */
export function readRequest(input: unknown): CanonicalRequest {
  const body = normalizeGeminiRequest(mustBeObject(input, ""));
  const config = optionalObject(body["generationConfig"], "generationConfig") ?? {};
  const thinking = optionalObject(config["thinkingConfig"], "generationConfig.thinkingConfig");
  const { tools, toolChoice, rest } = readAllTools(body["tools"], body["toolConfig"]);
  return checkRequest({
    model: mustBeName(body["model"], "model"),
    turns: readTurns(body["systemInstruction"], mustBeArray(body["contents"], "contents")),
    stream: optionalBoolean(body["stream"], "stream"),
    tools,
    toolChoice,
    output: readOutput(config),
    reasoning: thinking && readThinking(thinking),
    ...readScalars(GEMINI_FIELDS, body),
    native: readNative(body, config, { thinking, toolConfig: rest }),
    names: FIELD_NAMES,
  });
}

interface ReadObjects {
  readonly thinking: JsonObject | undefined;
  /** The members of `toolConfig` that were not read. */
  readonly toolConfig: JsonObject | undefined;
}

function readNative(
  body: JsonObject,
  config: JsonObject,
  { thinking, toolConfig }: ReadObjects,
): CanonicalRequest["native"] {
  const inConfig: JsonObject = {
    ...unknownFields(config, CONFIG_FIELDS),
    ...otherMimeType(config),
    ...otherModalities(config),
  };
  const inThinking = thinking && unknownFields(thinking, THINKING_FIELDS);
  const fields: JsonObject = {
    ...unknownFields(body, KNOWN_GEMINI_FIELDS),
    ...below("generationConfig", inConfig),
    ...below("generationConfig.thinkingConfig", inThinking),
    ...below("toolConfig", toolConfig),
  };
  return Object.keys(fields).length === 0 ? undefined : { wire: "gemini", fields };
}

function below(parent: string, fields: JsonObject = {}): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [`${parent}.${name}`, value]),
  );
}

/** Other types than text and JSON, such as one word of a list: only Gemini has them. */
function otherMimeType({ responseMimeType: type, responseSchema }: JsonObject): JsonObject {
  if (type === undefined || type === null || type === JSON_TYPE || type === "text/plain") return {};
  return { responseMimeType: type, ...(responseSchema === undefined ? {} : { responseSchema }) };
}

function otherModalities({ responseModalities: modalities }: JsonObject): JsonObject {
  if (!Array.isArray(modalities)) return {};
  return modalities.every((one) => String(one).toUpperCase() === "TEXT")
    ? {}
    : { responseModalities: modalities };
}

function readOutput(config: JsonObject): OutputFormat | undefined {
  const type = optionalString(config["responseMimeType"], "generationConfig.responseMimeType");
  if (type !== undefined && type !== JSON_TYPE) return undefined;
  for (const name of ["responseJsonSchema", "_responseJsonSchema", "responseSchema"] as const) {
    const path = `generationConfig.${name}`;
    const given = optionalObject(config[name], path);
    if (given === undefined) continue;
    const schema = name === "responseSchema" ? readGeminiSchema(given) : given;
    checkSchema(schema, path);
    // This API has no `strict` flag and always enforces the schema.
    return { type: "json_schema", schema, strictPath: path };
  }
  return type === undefined ? undefined : { type: "json_object" };
}

function readThinking(thinking: JsonObject): Reasoning {
  const path = "generationConfig.thinkingConfig";
  const level = optionalString(thinking["thinkingLevel"], `${path}.thinkingLevel`)?.toUpperCase();
  const levels = Object.keys(LEVELS) as (keyof typeof LEVELS)[]; // Object.keys gives strings.
  const budget = optionalInteger(
    thinking["thinkingBudget"],
    `${path}.thinkingBudget`,
    DYNAMIC_BUDGET,
    TOKENS_MAX,
  );
  const shows = optionalBoolean(thinking["includeThoughts"], `${path}.includeThoughts`);
  return {
    effort: level === undefined ? undefined : LEVELS[oneOf(level, `${path}.thinkingLevel`, levels)],
    budgetTokens: budget === DYNAMIC_BUDGET ? undefined : budget,
    mode: budget === 0 ? "off" : budget === DYNAMIC_BUDGET ? "adaptive" : undefined,
    summary: shows === true ? "auto" : "none",
    isDefaultSummary: shows === undefined || undefined,
  };
}
