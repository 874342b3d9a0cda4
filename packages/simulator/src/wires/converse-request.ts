// Parses a request to Amazon Bedrock's Converse.

import {
  isObject,
  arrayIn,
  numberIn,
  type JsonObject,
  objectOrEmpty,
  stringOrEmpty,
  stringsOf,
} from "../json-readers.ts";
import {
  addMedia,
  addText,
  addUserText,
  cacheLastSegment,
  newRequest,
  startUserTurn,
  invalidRequest,
  type NormalizedRequest,
  type Tool,
  type ToolChoice,
  type InvalidRequest,
} from "../reply/normalized-request.ts";
import { claudeRulesError } from "./claude-rules.ts";
import type { RequestMetadata } from "./simulated-wire.ts";

const MAX_THINKING_TOKENS = 64;

export function parseConverseRequest(
  body: JsonObject,
  metadata: RequestMetadata,
): NormalizedRequest | InvalidRequest {
  const turns = arrayIn(body["messages"]);
  if (turns.length === 0)
    return invalidRequest(400, "The request must have at least one message in messages.");
  const request = newRequest(body, metadata.pathModel);
  request.isStream = metadata.isStreaming;
  const error = readSettings(request, body);
  if (error !== undefined) return error;
  for (const entry of arrayIn(body["system"])) {
    const block = objectOrEmpty(entry);
    if (isObject(block["cachePoint"])) cacheLastSegment(request, cacheTtlOf(block["cachePoint"]));
    else addText(request, stringOrEmpty(block["text"]));
  }
  return readTurns(request, turns) ?? request;
}

/** Bedrock's CountTokens wraps the Converse request in `input.converse`. */
export function parseConverseCountRequest(
  body: JsonObject,
  metadata: RequestMetadata,
): NormalizedRequest | InvalidRequest {
  return parseConverseRequest(objectOrEmpty(objectOrEmpty(body["input"])["converse"]), metadata);
}

function readSettings(request: NormalizedRequest, body: JsonObject): InvalidRequest | undefined {
  const config = objectOrEmpty(body["inferenceConfig"]);
  const temperature = numberIn(config["temperature"]);
  if (temperature !== undefined && (temperature < 0 || temperature > 1)) {
    return invalidRequest(
      400,
      "Value at 'inferenceConfig.temperature' failed to satisfy constraint: Member must have value between 0 and 1",
    );
  }
  const more = objectOrEmpty(body["additionalModelRequestFields"]);
  const thinking = objectOrEmpty(more["reasoning_config"] ?? more["thinking"]);
  const rulesError = claudeRulesError({
    model: request.model,
    temperature,
    topP: config["topP"],
    topK: more["top_k"],
    thinking,
    toolChoice: readChoice(objectOrEmpty(objectOrEmpty(body["toolConfig"])["toolChoice"])),
  });
  if (rulesError !== undefined)
    return invalidRequest(400, `The model returned the following errors: ${rulesError}`);
  request.maxTokens = numberIn(config["maxTokens"]);
  if (request.maxTokens !== undefined && request.maxTokens < 1) {
    return invalidRequest(
      400,
      "Value at 'inferenceConfig.maxTokens' failed to satisfy constraint: Member must have value greater than or equal to 1",
    );
  }
  request.stopSequences = stringsOf(config["stopSequences"]);
  readTools(request, objectOrEmpty(body["toolConfig"]));
  request.reasoningTokens = readThinking(thinking);
  const format = objectOrEmpty(
    objectOrEmpty(objectOrEmpty(body["outputConfig"])["textFormat"])["structure"],
  );
  const schema = objectOrEmpty(format["jsonSchema"])["schema"];
  if (schema !== undefined)
    request.responseFormat = {
      kind: "schema",
      schema: typeof schema === "string" ? parseSchema(schema) : schema,
    };
  request.serviceTier = stringOrEmpty(objectOrEmpty(body["serviceTier"])["type"]) || undefined;
  return undefined;
}

function parseSchema(schema: string): unknown {
  try {
    return JSON.parse(schema);
  } catch {
    return {};
  }
}

function readThinking(config: JsonObject): number | undefined {
  if (config["type"] === "disabled") return 0;
  const budget = numberIn(config["budget_tokens"]);
  if (config["type"] === "enabled" && budget !== undefined)
    return Math.min(MAX_THINKING_TOKENS, Math.floor(budget / 32));
  return config["type"] === undefined ? undefined : MAX_THINKING_TOKENS;
}

function readTools(request: NormalizedRequest, config: JsonObject): void {
  const tools: Tool[] = [];
  for (const entry of arrayIn(config["tools"])) {
    const { toolSpec: spec, cachePoint } = objectOrEmpty(entry);
    if (isObject(spec)) {
      tools.push({
        name: stringOrEmpty(spec["name"]),
        schema: objectOrEmpty(spec["inputSchema"])["json"],
        isFreeform: false,
        isStrict: spec["strict"] === true,
      });
      addText(request, JSON.stringify(spec));
    } else if (isObject(cachePoint)) cacheLastSegment(request, cacheTtlOf(cachePoint));
  }
  request.tools = tools;
  request.toolChoice = readChoice(objectOrEmpty(config["toolChoice"]));
}

function readChoice(choice: JsonObject): ToolChoice {
  if (isObject(choice["any"])) return { kind: "required" };
  return isObject(choice["tool"])
    ? { kind: "named", names: [stringOrEmpty(choice["tool"]["name"])] }
    : { kind: "auto" };
}

function readTurns(
  request: NormalizedRequest,
  turns: readonly unknown[],
): InvalidRequest | undefined {
  let last = "";
  for (const [index, entry] of turns.entries()) {
    const turn = objectOrEmpty(entry);
    const role = stringOrEmpty(turn["role"]);
    if (role !== "user" && role !== "assistant")
      return invalidRequest(
        400,
        `Value at 'messages.${index}.member.role' failed to satisfy constraint: Member must satisfy enum value set: [user, assistant]`,
      );
    if (index === 0 && role !== "user")
      return invalidRequest(
        400,
        "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
      );
    if (role === last)
      return invalidRequest(
        400,
        "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.",
      );
    last = role;
    const blocks = arrayIn(turn["content"]).map(objectOrEmpty);
    if (blocks.length === 0)
      return invalidRequest(
        400,
        `The content field in the Message object at messages.${index} is empty. Add a ContentBlock object to the content field and try again.`,
      );
    const onlyResults = blocks.every(
      (block) => isObject(block["toolResult"]) || isObject(block["cachePoint"]),
    );
    if (role === "user" && !onlyResults) startUserTurn(request);
    if (role === "assistant") request.toolResults = [];
    for (const block of blocks) readBlock(request, block, role === "user");
  }
  return undefined;
}

function readBlock(request: NormalizedRequest, block: JsonObject, fromUser: boolean): void {
  if (typeof block["text"] === "string") {
    addText(request, block["text"]);
    if (fromUser) addUserText(request, block["text"]);
  } else if (isObject(block["cachePoint"]))
    cacheLastSegment(request, cacheTtlOf(block["cachePoint"]));
  else if (isObject(block["image"])) addMedia(request, "image", JSON.stringify(block["image"]));
  else if (isObject(block["audio"])) addMedia(request, "audio", JSON.stringify(block["audio"]));
  else if (isObject(block["document"]) || isObject(block["video"]))
    addMedia(request, "file", JSON.stringify(block));
  else if (isObject(block["toolResult"])) {
    const parts = arrayIn(block["toolResult"]["content"]).map(objectOrEmpty);
    const text = parts
      .map((part) =>
        typeof part["text"] === "string" ? part["text"] : JSON.stringify(part["json"] ?? part),
      )
      .join("\n");
    addText(request, text);
    request.toolResults.push(text);
  } else addText(request, JSON.stringify(block));
}

function cacheTtlOf(point: JsonObject): "5m" | "1h" {
  return point["ttl"] === "1h" ? "1h" : "5m";
}
