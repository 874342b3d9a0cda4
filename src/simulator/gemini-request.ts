// Reads a request to Gemini's generateContent, and the ones beside it that count and embed.

import {
  addMedia,
  addText,
  addUserText,
  newAsk,
  startUserTurn,
  wrong,
  type Ask,
  type Media,
  type Tool,
  type ToolChoice,
  type Wrong,
} from "./ask.ts";
import { fieldsOf, isFields, listOf, numberOf, textOf, textsOf, type Fields } from "./json.ts";
import type { Arrival } from "./wire.ts";

const LEVEL_TOKENS: Readonly<Record<string, number>> = {
  minimal: 8,
  low: 16,
  medium: 32,
  high: 64,
};
const MAX_THINKING_TOKENS = 64;
const MAX_CANDIDATES = 8;

export function readGemini(body: Fields, arrival: Arrival): Ask | Wrong {
  const contents = contentsOf(body);
  if (contents.length === 0)
    return wrong(400, "* GenerateContentRequest.contents: contents is not specified\n");
  const config = settingsOf(body);
  const mistake = checkSettings(config);
  if (mistake !== undefined) return mistake;
  const ask = newAsk(body, arrival.pathModel);
  ask.stream = arrival.streaming;
  ask.events = arrival.query.get("alt") === "sse";
  readSettings(ask, body, config);
  for (const part of partsOf(body["systemInstruction"] ?? body["system_instruction"]))
    addText(ask, textOf(part["text"]));
  return readContents(ask, contents) ?? ask;
}

/** What is to be counted may be the bare contents or a whole request. */
export function readGeminiCount(body: Fields, arrival: Arrival): Ask | Wrong {
  return readGemini(
    isFields(body["generateContentRequest"]) ? body["generateContentRequest"] : body,
    arrival,
  );
}

function contentsOf(body: Fields): readonly unknown[] {
  const contents = body["contents"];
  return isFields(contents) ? [contents] : listOf(contents);
}

function settingsOf(body: Fields): Fields {
  return fieldsOf(body["generationConfig"] ?? body["generation_config"]);
}

function checkSettings(config: Fields): Wrong | undefined {
  const temperature = numberOf(config["temperature"]);
  if (temperature !== undefined && (temperature < 0 || temperature > 2)) {
    return wrong(
      400,
      `* GenerateContentRequest.generation_config.temperature: temperature must be in the range [0.0, 2.0].\n`,
    );
  }
  const most = numberOf(config["maxOutputTokens"]);
  if (most !== undefined && most < 1) {
    return wrong(
      400,
      "* GenerateContentRequest.generation_config.max_output_tokens: max_output_tokens must be positive.\n",
    );
  }
  const count = numberOf(config["candidateCount"]) ?? 1;
  return count >= 1 && count <= MAX_CANDIDATES
    ? undefined
    : wrong(400, `Invalid candidate count: ${count}.`);
}

function readSettings(ask: Ask, body: Fields, config: Fields): void {
  ask.tools = readTools(listOf(body["tools"]));
  if (ask.tools.length > 0) addText(ask, JSON.stringify(body["tools"]));
  ask.toolChoice = readChoice(
    fieldsOf(fieldsOf(body["toolConfig"] ?? body["tool_config"])["functionCallingConfig"]),
  );
  const schema = config["responseJsonSchema"] ?? config["responseSchema"];
  if (schema !== undefined) {
    ask.format = { kind: "schema", schema };
    addText(ask, JSON.stringify(schema));
  } else if (config["responseMimeType"] === "application/json") ask.format = { kind: "object" };
  ask.maxTokens = numberOf(config["maxOutputTokens"]);
  ask.stop = textsOf(config["stopSequences"]);
  ask.count = numberOf(config["candidateCount"]) ?? 1;
  ask.reasoning = readThinking(fieldsOf(config["thinkingConfig"]));
}

function readThinking(config: Fields): number | undefined {
  const level = LEVEL_TOKENS[textOf(config["thinkingLevel"]).toLowerCase()];
  const budget = numberOf(config["thinkingBudget"]);
  if (budget === undefined) return level;
  return budget < 0 ? MAX_THINKING_TOKENS : Math.min(MAX_THINKING_TOKENS, budget);
}

function readTools(entries: readonly unknown[]): Tool[] {
  return entries.flatMap((entry) =>
    listOf(fieldsOf(entry)["functionDeclarations"]).map((declaration) => {
      const tool = fieldsOf(declaration);
      return {
        name: textOf(tool["name"]),
        schema: tool["parametersJsonSchema"] ?? tool["parameters"],
        freeform: false,
      };
    }),
  );
}

function readChoice(config: Fields): ToolChoice {
  const names = textsOf(config["allowedFunctionNames"]);
  switch (config["mode"]) {
    case "NONE":
      return { kind: "none" };
    case "ANY":
      return names.length > 0 ? { kind: "named", names } : { kind: "required" };
    default:
      return { kind: "auto" };
  }
}

function readContents(ask: Ask, contents: readonly unknown[]): Wrong | undefined {
  for (const entry of contents) {
    const content = fieldsOf(entry);
    const role = textOf(content["role"]) || "user";
    if (role !== "user" && role !== "model" && role !== "function")
      return wrong(400, "Please use a valid role: user, model.");
    const parts = partsOf(content);
    const saysSomething = parts.some((part) => !isFields(part["functionResponse"]));
    if (role === "user" && saysSomething) startUserTurn(ask);
    if (role === "model") ask.toolResults = [];
    for (const part of parts) readPart(ask, part, role === "user");
  }
  return undefined;
}

function partsOf(content: unknown): Fields[] {
  if (typeof content === "string") return [{ text: content }];
  const parts = fieldsOf(content)["parts"];
  return (isFields(parts) ? [parts] : listOf(parts)).map(fieldsOf);
}

function readPart(ask: Ask, part: Fields, fromUser: boolean): void {
  const medium = part["inlineData"] ?? part["inline_data"] ?? part["fileData"] ?? part["file_data"];
  if (typeof part["text"] === "string") {
    addText(ask, part["text"]);
    if (fromUser && part["thought"] !== true) addUserText(ask, part["text"]);
  } else if (isFields(medium)) {
    const type = textOf(medium["mimeType"] ?? medium["mime_type"]);
    addMedia(
      ask,
      mediaOf(type),
      textOf(medium["data"]) || textOf(medium["fileUri"] ?? medium["file_uri"]),
    );
  } else if (isFields(part["functionResponse"])) {
    const result = JSON.stringify(part["functionResponse"]["response"] ?? {});
    addText(ask, result);
    ask.toolResults.push(result);
  } else addText(ask, JSON.stringify(part));
}

function mediaOf(type: string): Media {
  if (type.startsWith("image/")) return "image";
  return type.startsWith("audio/") ? "audio" : "file";
}
