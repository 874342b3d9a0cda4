// Reads a Chat Completions request.

import {
  addMedia,
  addText,
  addUserText,
  newAsk,
  startUserTurn,
  wrong,
  type Ask,
  type Format,
  type Tool,
  type Wrong,
} from "./ask.ts";
import { fieldsOf, isFields, listOf, numberOf, textOf, textsOf, type Fields } from "./json.ts";
import {
  cacheMark,
  checkRange,
  checkSampling,
  effortTokens,
  limitTools,
  missing,
  readToolChoice,
  servedTier,
  unknownValue,
} from "./openai.ts";
import type { Arrival } from "./wire.ts";

const ROLES = ["system", "assistant", "user", "function", "tool", "developer"];
const MAX_STOPS = 4;
const MAX_CHOICES = 128;

export function readChat(body: Fields, _arrival: Arrival): Ask | Wrong {
  const model = textOf(body["model"]);
  if (model === "") return wrong(400, "you must provide a model parameter");
  const messages = body["messages"];
  if (messages === undefined) return missing("messages");
  if (!Array.isArray(messages))
    return wrong(
      400,
      "Invalid type for 'messages': expected an array of objects.",
      "messages",
      "invalid_type",
    );
  if (messages.length === 0) {
    const message =
      "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.";
    return wrong(400, message, "messages", "empty_array");
  }
  const mistake = checkSettings(body);
  if (mistake !== undefined) return mistake;
  const ask = newAsk(body, model);
  readSettings(ask, body);
  return readMessages(ask, messages) ?? limitTools(ask) ?? ask;
}

function checkSettings(body: Fields): Wrong | undefined {
  if (textsOf(body["stop"]).length > MAX_STOPS) {
    const message = `Invalid 'stop': array too long. Expected an array with maximum length ${MAX_STOPS}.`;
    return wrong(400, message, "stop", "array_above_max_length");
  }
  return (
    checkSampling(body) ??
    checkRange(body, "max_tokens", { least: 1, most: Infinity, kind: "integer" }) ??
    checkRange(body, "max_completion_tokens", { least: 1, most: Infinity, kind: "integer" }) ??
    checkRange(body, "n", { least: 1, most: MAX_CHOICES, kind: "integer" })
  );
}

function readSettings(ask: Ask, body: Fields): void {
  ask.tools = readTools(body);
  if (ask.tools.length > 0) addText(ask, JSON.stringify(body["tools"] ?? body["functions"]));
  ask.toolChoice = readToolChoice(body["tool_choice"] ?? body["function_call"], nameOfChoice);
  ask.parallel = body["parallel_tool_calls"] !== false;
  ask.format = readFormat(fieldsOf(body["response_format"]));
  if (ask.format.kind === "schema") addText(ask, JSON.stringify(ask.format.schema));
  ask.maxTokens = numberOf(body["max_completion_tokens"]) ?? numberOf(body["max_tokens"]);
  ask.stop = textsOf(body["stop"]);
  ask.count = numberOf(body["n"]) ?? 1;
  ask.reasoning = effortTokens(body["reasoning_effort"] ?? fieldsOf(body["reasoning"])["effort"]);
  ask.serviceTier = servedTier(body);
}

function readTools(body: Fields): Tool[] {
  const tools: Tool[] = [];
  for (const entry of listOf(body["tools"])) {
    const tool = fieldsOf(entry);
    if (isFields(tool["custom"]))
      tools.push({ name: textOf(tool["custom"]["name"]), schema: undefined, freeform: true });
    else if (isFields(tool["function"])) {
      tools.push({
        name: textOf(tool["function"]["name"]),
        schema: tool["function"]["parameters"],
        freeform: false,
      });
    }
  }
  for (const entry of listOf(body["functions"])) {
    const tool = fieldsOf(entry);
    tools.push({ name: textOf(tool["name"]), schema: tool["parameters"], freeform: false });
  }
  return tools;
}

function nameOfChoice(choice: Fields): string {
  return textOf(fieldsOf(choice["function"] ?? choice["custom"])["name"]) || textOf(choice["name"]);
}

function readFormat(format: Fields): Format {
  if (format["type"] === "json_object") return { kind: "object" };
  return format["type"] === "json_schema"
    ? { kind: "schema", schema: fieldsOf(format["json_schema"])["schema"] ?? {} }
    : { kind: "text" };
}

function readMessages(ask: Ask, messages: readonly unknown[]): Wrong | undefined {
  let pending: string[] = [];
  for (const [index, entry] of messages.entries()) {
    const message = fieldsOf(entry);
    const role = textOf(message["role"]);
    if (!ROLES.includes(role)) return unknownValue(`messages[${index}].role`, role, ROLES);
    if (role === "tool" || role === "function") {
      const id = textOf(message["tool_call_id"]);
      if (role === "tool" && !pending.includes(id)) {
        const sentence =
          "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
        return wrong(400, `Invalid parameter: ${sentence}`, `messages.[${index}].role`);
      }
      pending = pending.filter((open) => open !== id);
    } else {
      if (pending.length > 0) return unanswered(pending, index);
      pending = listOf(message["tool_calls"]).map((call) => textOf(fieldsOf(call)["id"]));
      if (role === "user") startUserTurn(ask);
      else ask.toolResults = [];
    }
    const mistake = readContent(ask, message, index);
    if (mistake !== undefined) return mistake;
  }
  return pending.length > 0 ? unanswered(pending, messages.length) : undefined;
}

function unanswered(pending: readonly string[], index: number): Wrong {
  const sentence =
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.";
  const message = `${sentence} The following tool_call_ids did not have response messages: ${pending.join(", ")}`;
  return wrong(400, message, `messages.[${index}].role`);
}

function readContent(ask: Ask, message: Fields, index: number): Wrong | undefined {
  const role = textOf(message["role"]);
  const content = message["content"];
  const say = (text: string, part: Fields): void => {
    addText(ask, text, cacheMark(part));
    if (role === "user") addUserText(ask, text);
    if (role === "tool" || role === "function") ask.toolResults.push(text);
  };
  if (message["tool_calls"] !== undefined) addText(ask, JSON.stringify(message["tool_calls"]));
  if (typeof content === "string") say(content, message);
  else if (content === undefined || content === null) {
    if (role !== "assistant")
      return wrong(
        400,
        `Invalid value for 'content': expected a string, got null.`,
        `messages.[${index}].content`,
      );
  } else {
    for (const [place, entry] of listOf(content).entries()) {
      const part = fieldsOf(entry);
      const known = readPart(ask, part, say);
      if (!known) {
        return unknownValue(`messages[${index}].content[${place}].type`, textOf(part["type"]), [
          "text",
          "image_url",
          "input_audio",
          "refusal",
          "file",
        ]);
      }
    }
  }
  return undefined;
}

function readPart(ask: Ask, part: Fields, say: (text: string, part: Fields) => void): boolean {
  switch (part["type"]) {
    case "text":
      say(textOf(part["text"]), part);
      return true;
    case "refusal":
      addText(ask, textOf(part["refusal"]));
      return true;
    case "image_url":
      addMedia(ask, "image", textOf(fieldsOf(part["image_url"])["url"]), cacheMark(part));
      return true;
    case "input_audio":
      addMedia(ask, "audio", textOf(fieldsOf(part["input_audio"])["data"]), cacheMark(part));
      return true;
    case "file":
      addMedia(ask, "file", JSON.stringify(part["file"] ?? null), cacheMark(part));
      return true;
    default:
      return false;
  }
}
