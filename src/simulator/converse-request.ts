// Reads a request to Bedrock's Converse.

import {
  addMedia,
  addText,
  addUserText,
  markLast,
  newAsk,
  startUserTurn,
  wrong,
  type Ask,
  type Tool,
  type ToolChoice,
  type Wrong,
} from "./ask.ts";
import { fieldsOf, isFields, listOf, numberOf, textOf, textsOf, type Fields } from "./json.ts";
import type { Arrival } from "./wire.ts";

const MAX_THINKING_TOKENS = 64;

export function readConverse(body: Fields, arrival: Arrival): Ask | Wrong {
  const turns = listOf(body["messages"]);
  if (turns.length === 0)
    return wrong(400, "The request must have at least one message in messages.");
  const ask = newAsk(body, arrival.pathModel);
  ask.stream = arrival.streaming;
  const mistake = readSettings(ask, body);
  if (mistake !== undefined) return mistake;
  for (const entry of listOf(body["system"])) {
    const block = fieldsOf(entry);
    if (isFields(block["cachePoint"])) markLast(ask, lifeOf(block["cachePoint"]));
    else addText(ask, textOf(block["text"]));
  }
  return readTurns(ask, turns) ?? ask;
}

/** Bedrock's CountTokens wraps the request that it counts. */
export function readConverseCount(body: Fields, arrival: Arrival): Ask | Wrong {
  return readConverse(fieldsOf(fieldsOf(body["input"])["converse"]), arrival);
}

function readSettings(ask: Ask, body: Fields): Wrong | undefined {
  const config = fieldsOf(body["inferenceConfig"]);
  const temperature = numberOf(config["temperature"]);
  if (temperature !== undefined && (temperature < 0 || temperature > 1)) {
    return wrong(
      400,
      "Value at 'inferenceConfig.temperature' failed to satisfy constraint: Member must have value between 0 and 1",
    );
  }
  ask.maxTokens = numberOf(config["maxTokens"]);
  if (ask.maxTokens !== undefined && ask.maxTokens < 1) {
    return wrong(
      400,
      "Value at 'inferenceConfig.maxTokens' failed to satisfy constraint: Member must have value greater than or equal to 1",
    );
  }
  ask.stop = textsOf(config["stopSequences"]);
  readTools(ask, fieldsOf(body["toolConfig"]));
  const more = fieldsOf(body["additionalModelRequestFields"]);
  ask.reasoning = readThinking(fieldsOf(more["reasoning_config"] ?? more["thinking"]));
  const format = fieldsOf(fieldsOf(fieldsOf(body["outputConfig"])["textFormat"])["structure"]);
  const schema = fieldsOf(format["jsonSchema"])["schema"];
  if (schema !== undefined)
    ask.format = { kind: "schema", schema: typeof schema === "string" ? parsed(schema) : schema };
  ask.serviceTier = textOf(fieldsOf(body["serviceTier"])["type"]) || undefined;
  return undefined;
}

function parsed(schema: string): unknown {
  try {
    return JSON.parse(schema);
  } catch {
    return {};
  }
}

function readThinking(config: Fields): number | undefined {
  if (config["type"] === "disabled") return 0;
  const budget = numberOf(config["budget_tokens"]);
  if (config["type"] === "enabled" && budget !== undefined)
    return Math.min(MAX_THINKING_TOKENS, Math.floor(budget / 32));
  return config["type"] === undefined ? undefined : MAX_THINKING_TOKENS;
}

function readTools(ask: Ask, config: Fields): void {
  const tools: Tool[] = [];
  for (const entry of listOf(config["tools"])) {
    const { toolSpec: spec, cachePoint } = fieldsOf(entry);
    if (isFields(spec)) {
      tools.push({
        name: textOf(spec["name"]),
        schema: fieldsOf(spec["inputSchema"])["json"],
        freeform: false,
      });
      addText(ask, JSON.stringify(spec));
    } else if (isFields(cachePoint)) markLast(ask, lifeOf(cachePoint));
  }
  ask.tools = tools;
  ask.toolChoice = readChoice(fieldsOf(config["toolChoice"]));
}

function readChoice(choice: Fields): ToolChoice {
  if (isFields(choice["any"])) return { kind: "required" };
  return isFields(choice["tool"])
    ? { kind: "named", names: [textOf(choice["tool"]["name"])] }
    : { kind: "auto" };
}

function readTurns(ask: Ask, turns: readonly unknown[]): Wrong | undefined {
  let last = "";
  for (const [index, entry] of turns.entries()) {
    const turn = fieldsOf(entry);
    const role = textOf(turn["role"]);
    if (role !== "user" && role !== "assistant")
      return wrong(
        400,
        `Value at 'messages.${index}.member.role' failed to satisfy constraint: Member must satisfy enum value set: [user, assistant]`,
      );
    if (index === 0 && role !== "user")
      return wrong(
        400,
        "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
      );
    if (role === last)
      return wrong(
        400,
        "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.",
      );
    last = role;
    const blocks = listOf(turn["content"]).map(fieldsOf);
    if (blocks.length === 0)
      return wrong(
        400,
        `The content field in the Message object at messages.${index} is empty. Add a ContentBlock object to the content field and try again.`,
      );
    const onlyResults = blocks.every(
      (block) => isFields(block["toolResult"]) || isFields(block["cachePoint"]),
    );
    if (role === "user" && !onlyResults) startUserTurn(ask);
    if (role === "assistant") ask.toolResults = [];
    for (const block of blocks) readBlock(ask, block, role === "user");
  }
  return undefined;
}

function readBlock(ask: Ask, block: Fields, fromUser: boolean): void {
  if (typeof block["text"] === "string") {
    addText(ask, block["text"]);
    if (fromUser) addUserText(ask, block["text"]);
  } else if (isFields(block["cachePoint"])) markLast(ask, lifeOf(block["cachePoint"]));
  else if (isFields(block["image"])) addMedia(ask, "image", JSON.stringify(block["image"]));
  else if (isFields(block["audio"])) addMedia(ask, "audio", JSON.stringify(block["audio"]));
  else if (isFields(block["document"]) || isFields(block["video"]))
    addMedia(ask, "file", JSON.stringify(block));
  else if (isFields(block["toolResult"])) {
    const parts = listOf(block["toolResult"]["content"]).map(fieldsOf);
    const text = parts
      .map((part) =>
        typeof part["text"] === "string" ? part["text"] : JSON.stringify(part["json"] ?? part),
      )
      .join("\n");
    addText(ask, text);
    ask.toolResults.push(text);
  } else addText(ask, JSON.stringify(block));
}

function lifeOf(point: Fields): "5m" | "1h" {
  return point["ttl"] === "1h" ? "1h" : "5m";
}
