// Parses a Chat Completions request.

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
  newRequest,
  startUserTurn,
  invalidRequest,
  type NormalizedRequest,
  type ResponseFormat,
  type Tool,
  type InvalidRequest,
} from "../reply/normalized-request.ts";
import { refusedChatField, refusedEffort } from "./model-rules.ts";
import {
  cacheTtlOf,
  checkName,
  checkRange,
  checkSampling,
  effortTokens,
  checkToolChoice,
  EFFORTS,
  FORMAT_TYPES,
  missingParameter,
  readToolChoice,
  servedTier,
  unsupportedValue,
} from "./openai-common.ts";
import type { RequestMetadata } from "./simulated-wire.ts";

const ROLES = ["system", "assistant", "user", "function", "tool", "developer"];
const MAX_STOPS = 4;
const MAX_CHOICES = 128;

export function parseChatRequest(
  body: JsonObject,
  _metadata: RequestMetadata,
): NormalizedRequest | InvalidRequest {
  const model = stringOrEmpty(body["model"]);
  if (model === "") return invalidRequest(400, "you must provide a model parameter");
  const messages = body["messages"];
  if (messages === undefined) return missingParameter("messages");
  if (!Array.isArray(messages))
    return invalidRequest(
      400,
      "Invalid type for 'messages': expected an array of objects.",
      "messages",
      "invalid_type",
    );
  if (messages.length === 0) {
    const message =
      "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.";
    return invalidRequest(400, message, "messages", "empty_array");
  }
  const error =
    validateSettings(body) ??
    refusedEffort(model, body["reasoning_effort"], "reasoning_effort") ??
    refusedChatField(body);
  if (error !== undefined) return error;
  const request = newRequest(body, model);
  readSettings(request, body);
  return (
    readMessages(request, messages) ??
    checkToolChoice(request) ??
    checkReasoningTools(request, body) ??
    request
  );
}

const REASONS_BY_DEFAULT = /(?:^|\/)gpt-(5\.[6-9]|[6-9])(?!.*-chat)/;
const REASONS_WITH_EFFORT = /(?:^|\/)gpt-5\.[245](?!.*-chat)/;

/** OpenAI's newer models take functions and reasoning together only on /v1/responses. */
function checkReasoningTools(
  { model, tools }: NormalizedRequest,
  { reasoning_effort: effort }: JsonObject,
): InvalidRequest | undefined {
  if (tools.length === 0 || effort === "none") return undefined;
  const isRefused =
    REASONS_BY_DEFAULT.test(model) || (effort !== undefined && REASONS_WITH_EFFORT.test(model));
  return isRefused
    ? invalidRequest(
        400,
        `Function tools with reasoning_effort are not supported for ${model} in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.`,
        "reasoning_effort",
      )
    : undefined;
}

function validateSettings(body: JsonObject): InvalidRequest | undefined {
  if (stringsOf(body["stop"]).length > MAX_STOPS) {
    const message = `Invalid 'stop': array too long. Expected an array with maximum length ${MAX_STOPS}.`;
    return invalidRequest(400, message, "stop", "array_above_max_length");
  }
  return (
    checkSampling(body) ??
    checkName(
      objectOrEmpty(body["response_format"])["type"],
      "response_format.type",
      FORMAT_TYPES,
    ) ??
    checkName(body["reasoning_effort"], "reasoning_effort", EFFORTS) ??
    checkRange(body, "max_tokens", { min: 1, max: Infinity, kind: "integer" }) ??
    checkRange(body, "max_completion_tokens", { min: 1, max: Infinity, kind: "integer" }) ??
    checkRange(body, "n", { min: 1, max: MAX_CHOICES, kind: "integer" })
  );
}

function readSettings(request: NormalizedRequest, body: JsonObject): void {
  request.tools = readTools(body);
  if (request.tools.length > 0)
    addText(request, JSON.stringify(body["tools"] ?? body["functions"]));
  request.toolChoice = readToolChoice(body["tool_choice"] ?? body["function_call"], nameOfChoice);
  request.allowsParallelCalls = body["parallel_tool_calls"] !== false;
  request.responseFormat = readResponseFormat(objectOrEmpty(body["response_format"]));
  if (request.responseFormat.kind === "schema")
    addText(request, JSON.stringify(request.responseFormat.schema));
  request.maxTokens = numberIn(body["max_completion_tokens"]) ?? numberIn(body["max_tokens"]);
  request.stopSequences = stringsOf(body["stop"]);
  request.choiceCount = numberIn(body["n"]) ?? 1;
  request.reasoningTokens = effortTokens(
    body["reasoning_effort"] ?? objectOrEmpty(body["reasoning"])["effort"],
  );
  request.serviceTier = servedTier(body);
}

function readTools(body: JsonObject): Tool[] {
  const tools: Tool[] = [];
  for (const entry of arrayIn(body["tools"])) {
    const tool = objectOrEmpty(entry);
    if (isObject(tool["custom"]))
      tools.push({
        name: stringOrEmpty(tool["custom"]["name"]),
        schema: undefined,
        isFreeform: true,
      });
    else if (isObject(tool["function"])) {
      tools.push({
        name: stringOrEmpty(tool["function"]["name"]),
        schema: tool["function"]["parameters"],
        isFreeform: false,
        isStrict: tool["function"]["strict"] === true,
      });
    }
  }
  for (const entry of arrayIn(body["functions"])) {
    const tool = objectOrEmpty(entry);
    tools.push({
      name: stringOrEmpty(tool["name"]),
      schema: tool["parameters"],
      isFreeform: false,
    });
  }
  return tools;
}

function nameOfChoice(choice: JsonObject): string {
  return (
    stringOrEmpty(objectOrEmpty(choice["function"] ?? choice["custom"])["name"]) ||
    stringOrEmpty(choice["name"])
  );
}

function readResponseFormat(format: JsonObject): ResponseFormat {
  if (format["type"] === "json_object") return { kind: "object" };
  if (format["type"] !== "json_schema") return { kind: "text" };
  const { name, schema = {}, strict } = objectOrEmpty(format["json_schema"]);
  return { kind: "schema", schema, name: stringOrEmpty(name), isStrict: strict === true };
}

function readMessages(
  request: NormalizedRequest,
  messages: readonly unknown[],
): InvalidRequest | undefined {
  let pending: string[] = [];
  for (const [index, entry] of messages.entries()) {
    const message = objectOrEmpty(entry);
    const role = stringOrEmpty(message["role"]);
    if (!ROLES.includes(role)) return unsupportedValue(`messages[${index}].role`, role, ROLES);
    if (role === "tool" || role === "function") {
      const id = stringOrEmpty(message["tool_call_id"]);
      if (role === "tool" && !pending.includes(id)) {
        const sentence =
          "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
        return invalidRequest(400, `Invalid parameter: ${sentence}`, `messages.[${index}].role`);
      }
      pending = pending.filter((open) => open !== id);
    } else {
      if (pending.length > 0) return unansweredToolCalls(pending, index);
      pending = arrayIn(message["tool_calls"]).map((call) =>
        stringOrEmpty(objectOrEmpty(call)["id"]),
      );
      if (role === "user") startUserTurn(request);
      else request.toolResults = [];
    }
    const error = readContent(request, message, index);
    if (error !== undefined) return error;
  }
  return pending.length > 0 ? unansweredToolCalls(pending, messages.length) : undefined;
}

function unansweredToolCalls(pending: readonly string[], index: number): InvalidRequest {
  const sentence =
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.";
  const message = `${sentence} The following tool_call_ids did not have response messages: ${pending.join(", ")}`;
  return invalidRequest(400, message, `messages.[${index}].role`);
}

function readContent(
  request: NormalizedRequest,
  message: JsonObject,
  index: number,
): InvalidRequest | undefined {
  const role = stringOrEmpty(message["role"]);
  const content = message["content"];
  const addPartText = (text: string, part: JsonObject): void => {
    addText(request, text, cacheTtlOf(part));
    if (role === "user") addUserText(request, text);
    if (role === "tool" || role === "function") request.toolResults.push(text);
  };
  if (message["tool_calls"] !== undefined) addText(request, JSON.stringify(message["tool_calls"]));
  if (typeof content === "string") addPartText(content, message);
  else if (content === undefined || content === null) {
    if (role !== "assistant")
      return invalidRequest(
        400,
        `Invalid value for 'content': expected a string, got null.`,
        `messages.[${index}].content`,
      );
  } else if (!Array.isArray(content)) {
    return invalidRequest(
      400,
      `Invalid type for 'messages[${index}].content': expected a string or an array of objects.`,
      `messages[${index}].content`,
      "invalid_type",
    );
  } else {
    for (const [partIndex, entry] of arrayIn(content).entries()) {
      const part = objectOrEmpty(entry);
      const isKnown = readPart(request, part, addPartText);
      if (!isKnown) {
        return unsupportedValue(
          `messages[${index}].content[${partIndex}].type`,
          stringOrEmpty(part["type"]),
          ["text", "image_url", "input_audio", "refusal", "file"],
        );
      }
    }
  }
  return undefined;
}

function readPart(
  request: NormalizedRequest,
  part: JsonObject,
  addPartText: (text: string, part: JsonObject) => void,
): boolean {
  switch (part["type"]) {
    case "text":
      addPartText(stringOrEmpty(part["text"]), part);
      return true;
    case "refusal":
      addText(request, stringOrEmpty(part["refusal"]));
      return true;
    case "image_url":
      addMedia(
        request,
        "image",
        stringOrEmpty(objectOrEmpty(part["image_url"])["url"]),
        cacheTtlOf(part),
      );
      return true;
    case "input_audio":
      addMedia(
        request,
        "audio",
        stringOrEmpty(objectOrEmpty(part["input_audio"])["data"]),
        cacheTtlOf(part),
      );
      return true;
    case "file":
      addMedia(request, "file", JSON.stringify(part["file"] ?? null), cacheTtlOf(part));
      return true;
    default:
      return false;
  }
}
