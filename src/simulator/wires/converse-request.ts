// Reads a request to Bedrock's Converse.

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
import {
  objectOrEmpty,
  isJsonObject,
  arrayOrEmpty,
  numberOrUndefined,
  stringOrEmpty,
  stringsOf,
  type JsonObject,
} from "../json.ts";
import type { RequestMetadata } from "./wire.ts";

const MAX_THINKING_TOKENS = 64;

export function parseConverseRequest(
  body: JsonObject,
  metadata: RequestMetadata,
): NormalizedRequest | InvalidRequest {
  const turns = arrayOrEmpty(body["messages"]);
  if (turns.length === 0)
    return invalidRequest(400, "The request must have at least one message in messages.");
  const request = newRequest(body, metadata.pathModel);
  request.isStream = metadata.isStreaming;
  const error = readSettings(request, body);
  if (error !== undefined) return error;
  for (const entry of arrayOrEmpty(body["system"])) {
    const block = objectOrEmpty(entry);
    if (isJsonObject(block["cachePoint"]))
      cacheLastSegment(request, cacheTtlOf(block["cachePoint"]));
    else addText(request, stringOrEmpty(block["text"]));
  }
  return readTurns(request, turns) ?? request;
}

/** Bedrock's CountTokens wraps the request that it counts. */
export function parseConverseCountRequest(
  body: JsonObject,
  metadata: RequestMetadata,
): NormalizedRequest | InvalidRequest {
  return parseConverseRequest(objectOrEmpty(objectOrEmpty(body["input"])["converse"]), metadata);
}

function readSettings(request: NormalizedRequest, body: JsonObject): InvalidRequest | undefined {
  const config = objectOrEmpty(body["inferenceConfig"]);
  const temperature = numberOrUndefined(config["temperature"]);
  if (temperature !== undefined && (temperature < 0 || temperature > 1)) {
    return invalidRequest(
      400,
      "Value at 'inferenceConfig.temperature' failed to satisfy constraint: Member must have value between 0 and 1",
    );
  }
  request.maxTokens = numberOrUndefined(config["maxTokens"]);
  if (request.maxTokens !== undefined && request.maxTokens < 1) {
    return invalidRequest(
      400,
      "Value at 'inferenceConfig.maxTokens' failed to satisfy constraint: Member must have value greater than or equal to 1",
    );
  }
  request.stopSequences = stringsOf(config["stopSequences"]);
  readTools(request, objectOrEmpty(body["toolConfig"]));
  const more = objectOrEmpty(body["additionalModelRequestFields"]);
  request.reasoningTokens = readThinking(
    objectOrEmpty(more["reasoning_config"] ?? more["thinking"]),
  );
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
  const budget = numberOrUndefined(config["budget_tokens"]);
  if (config["type"] === "enabled" && budget !== undefined)
    return Math.min(MAX_THINKING_TOKENS, Math.floor(budget / 32));
  return config["type"] === undefined ? undefined : MAX_THINKING_TOKENS;
}

function readTools(request: NormalizedRequest, config: JsonObject): void {
  const tools: Tool[] = [];
  for (const entry of arrayOrEmpty(config["tools"])) {
    const { toolSpec: spec, cachePoint } = objectOrEmpty(entry);
    if (isJsonObject(spec)) {
      tools.push({
        name: stringOrEmpty(spec["name"]),
        schema: objectOrEmpty(spec["inputSchema"])["json"],
        isFreeform: false,
      });
      addText(request, JSON.stringify(spec));
    } else if (isJsonObject(cachePoint)) cacheLastSegment(request, cacheTtlOf(cachePoint));
  }
  request.tools = tools;
  request.toolChoice = readChoice(objectOrEmpty(config["toolChoice"]));
}

function readChoice(choice: JsonObject): ToolChoice {
  if (isJsonObject(choice["any"])) return { kind: "required" };
  return isJsonObject(choice["tool"])
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
    const blocks = arrayOrEmpty(turn["content"]).map(objectOrEmpty);
    if (blocks.length === 0)
      return invalidRequest(
        400,
        `The content field in the Message object at messages.${index} is empty. Add a ContentBlock object to the content field and try again.`,
      );
    const onlyResults = blocks.every(
      (block) => isJsonObject(block["toolResult"]) || isJsonObject(block["cachePoint"]),
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
  } else if (isJsonObject(block["cachePoint"]))
    cacheLastSegment(request, cacheTtlOf(block["cachePoint"]));
  else if (isJsonObject(block["image"])) addMedia(request, "image", JSON.stringify(block["image"]));
  else if (isJsonObject(block["audio"])) addMedia(request, "audio", JSON.stringify(block["audio"]));
  else if (isJsonObject(block["document"]) || isJsonObject(block["video"]))
    addMedia(request, "file", JSON.stringify(block));
  else if (isJsonObject(block["toolResult"])) {
    const parts = arrayOrEmpty(block["toolResult"]["content"]).map(objectOrEmpty);
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
