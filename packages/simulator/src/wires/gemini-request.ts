// Parses requests to Gemini's generateContent and countTokens.

import {
  isObject,
  arrayIn,
  numberIn,
  type JsonObject,
  lookUp,
  objectOrEmpty,
  stringOrEmpty,
  stringsOf,
} from "../json-readers.ts";
import {
  addMedia,
  addText,
  addUserText,
  newRequest,
  startUserTurn,
  invalidRequest,
  type NormalizedRequest,
  type MediaKind,
  type Tool,
  type ToolChoice,
  type InvalidRequest,
} from "../reply/normalized-request.ts";
import { refusedThinkingLevel } from "./model-rules.ts";
import type { RequestMetadata } from "./simulated-wire.ts";

const LEVEL_TOKENS: Readonly<Record<string, number>> = {
  minimal: 8,
  low: 16,
  medium: 32,
  high: 64,
};
const MAX_THINKING_TOKENS = 64;
const MAX_CANDIDATES = 8;

export function parseGeminiRequest(
  body: JsonObject,
  metadata: RequestMetadata,
): NormalizedRequest | InvalidRequest {
  const contents = contentsOf(body);
  if (contents.length === 0)
    return invalidRequest(400, "* GenerateContentRequest.contents: contents is not specified\n");
  const config = settingsOf(body);
  const error =
    validateSettings(config) ??
    refusedToolName(arrayIn(body["tools"])) ??
    refusedThinkingLevel(metadata.pathModel ?? "", levelOf(config));
  if (error !== undefined) return error;
  const request = newRequest(body, metadata.pathModel);
  request.isStream = metadata.isStreaming;
  request.isSse = metadata.query.get("alt") === "sse";
  readSettings(request, body, config);
  for (const part of partsOf(body["systemInstruction"] ?? body["system_instruction"]))
    addText(request, stringOrEmpty(part["text"]));
  return readContents(request, contents) ?? request;
}

/** The request to count may be bare contents or a full `generateContentRequest`. */
export function parseGeminiCountRequest(
  body: JsonObject,
  metadata: RequestMetadata,
): NormalizedRequest | InvalidRequest {
  return parseGeminiRequest(
    isObject(body["generateContentRequest"]) ? body["generateContentRequest"] : body,
    metadata,
  );
}

function contentsOf(body: JsonObject): readonly unknown[] {
  const contents = body["contents"];
  return isObject(contents) ? [contents] : arrayIn(contents);
}

function settingsOf(body: JsonObject): JsonObject {
  return objectOrEmpty(body["generationConfig"] ?? body["generation_config"]);
}

function validateSettings(config: JsonObject): InvalidRequest | undefined {
  const temperature = numberIn(config["temperature"]);
  if (temperature !== undefined && (temperature < 0 || temperature > 2)) {
    return invalidRequest(
      400,
      `* GenerateContentRequest.generation_config.temperature: temperature must be in the range [0.0, 2.0].\n`,
    );
  }
  const maxTokens = numberIn(config["maxOutputTokens"]);
  if (maxTokens !== undefined && maxTokens < 1) {
    return invalidRequest(
      400,
      "* GenerateContentRequest.generation_config.max_output_tokens: max_output_tokens must be positive.\n",
    );
  }
  const count = numberIn(config["candidateCount"]) ?? 1;
  return count >= 1 && count <= MAX_CANDIDATES
    ? undefined
    : invalidRequest(400, `Invalid candidate count: ${count}.`);
}

const TOOL_NAME = /^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$/;

function refusedToolName(tools: readonly unknown[]): InvalidRequest | undefined {
  const index = readTools(tools).findIndex(({ name }) => !TOOL_NAME.test(name));
  return index === -1
    ? undefined
    : invalidRequest(
        400,
        `* GenerateContentRequest.tools[0].function_declarations[${index}].name: Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 128.\n`,
      );
}

function readSettings(request: NormalizedRequest, body: JsonObject, config: JsonObject): void {
  request.tools = readTools(arrayIn(body["tools"]));
  if (request.tools.length > 0) addText(request, JSON.stringify(body["tools"]));
  request.toolChoice = readChoice(
    objectOrEmpty(
      objectOrEmpty(body["toolConfig"] ?? body["tool_config"])["functionCallingConfig"],
    ),
  );
  const schema = config["responseJsonSchema"] ?? config["responseSchema"];
  if (schema !== undefined) {
    request.responseFormat = { kind: "schema", schema };
    addText(request, JSON.stringify(schema));
  } else if (config["responseMimeType"] === "application/json")
    request.responseFormat = { kind: "object" };
  request.maxTokens = numberIn(config["maxOutputTokens"]);
  request.stopSequences = stringsOf(config["stopSequences"]);
  request.choiceCount = numberIn(config["candidateCount"]) ?? 1;
  request.reasoningTokens = readThinking(objectOrEmpty(config["thinkingConfig"]));
}

function levelOf(config: JsonObject): string {
  return stringOrEmpty(objectOrEmpty(config["thinkingConfig"])["thinkingLevel"]).toLowerCase();
}

function readThinking(config: JsonObject): number | undefined {
  const level = lookUp(LEVEL_TOKENS, stringOrEmpty(config["thinkingLevel"]).toLowerCase());
  const budget = numberIn(config["thinkingBudget"]);
  if (budget === undefined) return level;
  return budget < 0 ? MAX_THINKING_TOKENS : Math.min(MAX_THINKING_TOKENS, budget);
}

function readTools(entries: readonly unknown[]): Tool[] {
  return entries.flatMap((entry) =>
    arrayIn(objectOrEmpty(entry)["functionDeclarations"]).map((declaration) => {
      const tool = objectOrEmpty(declaration);
      return {
        name: stringOrEmpty(tool["name"]),
        schema: tool["parametersJsonSchema"] ?? tool["parameters"],
        isFreeform: false,
      };
    }),
  );
}

function readChoice(config: JsonObject): ToolChoice {
  const names = stringsOf(config["allowedFunctionNames"]);
  switch (config["mode"]) {
    case "NONE":
      return { kind: "none" };
    case "ANY":
      return names.length > 0 ? { kind: "named", names } : { kind: "required" };
    default:
      return { kind: "auto" };
  }
}

function readContents(
  request: NormalizedRequest,
  contents: readonly unknown[],
): InvalidRequest | undefined {
  for (const entry of contents) {
    const content = objectOrEmpty(entry);
    const role = stringOrEmpty(content["role"]) || "user";
    if (role !== "user" && role !== "model" && role !== "function")
      return invalidRequest(400, "Please use a valid role: user, model.");
    const parts = partsOf(content);
    const hasContent = parts.some((part) => !isObject(part["functionResponse"]));
    if (role === "user" && hasContent) startUserTurn(request);
    if (role === "model") request.toolResults = [];
    for (const part of parts) readPart(request, part, role === "user");
  }
  return undefined;
}

function partsOf(content: unknown): JsonObject[] {
  if (typeof content === "string") return [{ text: content }];
  const parts = objectOrEmpty(content)["parts"];
  return (isObject(parts) ? [parts] : arrayIn(parts)).map(objectOrEmpty);
}

function readPart(request: NormalizedRequest, part: JsonObject, fromUser: boolean): void {
  const media = part["inlineData"] ?? part["inline_data"] ?? part["fileData"] ?? part["file_data"];
  if (typeof part["text"] === "string") {
    addText(request, part["text"]);
    if (fromUser && part["thought"] !== true) addUserText(request, part["text"]);
  } else if (isObject(media)) {
    const type = stringOrEmpty(media["mimeType"] ?? media["mime_type"]);
    addMedia(
      request,
      mediaOf(type),
      stringOrEmpty(media["data"]) || stringOrEmpty(media["fileUri"] ?? media["file_uri"]),
    );
  } else if (isObject(part["functionResponse"])) {
    const result = JSON.stringify(part["functionResponse"]["response"] ?? {});
    addText(request, result);
    request.toolResults.push(result);
  } else addText(request, JSON.stringify(part));
}

function mediaOf(type: string): MediaKind {
  if (type.startsWith("image/")) return "image";
  return type.startsWith("audio/") ? "audio" : "file";
}
