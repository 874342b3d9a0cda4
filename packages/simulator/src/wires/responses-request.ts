// Parses a request to the Responses API.

import {
  arrayIn,
  numberIn,
  type JsonObject,
  objectOrEmpty,
  stringOrEmpty,
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
import { refusedEffort } from "./model-rules.ts";
import {
  cacheTtlOf,
  checkName,
  checkRange,
  checkSampling,
  effortTokens,
  checkToolChoice,
  EFFORTS,
  FORMAT_TYPES,
  readToolChoice,
  servedTier,
  unsupportedValue,
} from "./openai-common.ts";
import type { RequestMetadata } from "./simulated-wire.ts";

const MIN_OUTPUT_TOKENS = 16;
const PART_TYPES = [
  "input_text",
  "input_image",
  "output_text",
  "refusal",
  "input_file",
  "input_audio",
];

export function parseResponsesRequest(
  body: JsonObject,
  metadata: RequestMetadata,
): NormalizedRequest | InvalidRequest {
  const model = stringOrEmpty(body["model"]);
  if (model === "")
    return invalidRequest(
      400,
      "Missing required parameter: 'model'.",
      "model",
      "missing_required_parameter",
    );
  const input = body["input"];
  if (input === undefined && body["prompt"] === undefined) {
    return invalidRequest(
      400,
      "Missing required parameter: 'input'.",
      "input",
      "missing_required_parameter",
    );
  }
  const { effort } = objectOrEmpty(body["reasoning"]);
  const error =
    checkSampling(body) ??
    refusedEffort(stringOrEmpty(body["model"]), effort, "reasoning.effort") ??
    checkName(objectOrEmpty(body["reasoning"])["effort"], "reasoning.effort", EFFORTS) ??
    checkName(
      objectOrEmpty(objectOrEmpty(body["text"])["format"])["type"],
      "text.format.type",
      FORMAT_TYPES,
    ) ??
    checkRange(body, "max_output_tokens", {
      min: MIN_OUTPUT_TOKENS,
      max: Infinity,
      kind: "integer",
    });
  if (error !== undefined) return error;
  const previous = stringOrEmpty(body["previous_response_id"]);
  const previousItems = previous === "" ? [] : metadata.findConversation(previous);
  if (previousItems === undefined) {
    const message = `Previous response with id '${previous}' not found.`;
    return invalidRequest(400, message, "previous_response_id", "previous_response_not_found");
  }
  const request = newRequest(body, model);
  readSettings(request, body);
  const newItems =
    typeof input === "string"
      ? [{ type: "message", role: "user", content: input }]
      : arrayIn(input);
  request.items = [...previousItems, ...newItems];
  return readItems(request, request.items) ?? checkToolChoice(request) ?? request;
}

function readSettings(request: NormalizedRequest, body: JsonObject): void {
  const tools = arrayIn(body["tools"]);
  request.tools = readTools(tools);
  if (request.tools.length > 0) addText(request, JSON.stringify(body["tools"]));
  if (stringOrEmpty(body["instructions"]) !== "")
    addText(request, stringOrEmpty(body["instructions"]));
  request.toolChoice = readToolChoice(body["tool_choice"], (choice) =>
    stringOrEmpty(choice["name"]),
  );
  const hasProviderToolsOnly = tools.length > 0 && request.tools.length === 0;
  if (request.toolChoice.kind === "required" && hasProviderToolsOnly)
    request.toolChoice = { kind: "auto" };
  request.allowsParallelCalls = body["parallel_tool_calls"] !== false;
  request.responseFormat = readResponseFormat(objectOrEmpty(objectOrEmpty(body["text"])["format"]));
  if (request.responseFormat.kind === "schema")
    addText(request, JSON.stringify(request.responseFormat.schema));
  request.maxTokens = numberIn(body["max_output_tokens"]);
  request.reasoningTokens = effortTokens(objectOrEmpty(body["reasoning"])["effort"]);
  request.serviceTier = servedTier(body);
}

function readTools(entries: readonly unknown[], namespace?: string): Tool[] {
  const tools: Tool[] = [];
  for (const entry of entries) {
    const tool = objectOrEmpty(entry);
    const named = {
      name: stringOrEmpty(tool["name"]),
      ...(namespace === undefined ? {} : { namespace }),
    };
    if (tool["type"] === "function")
      tools.push({
        ...named,
        schema: tool["parameters"],
        isFreeform: false,
        isStrict: tool["strict"] === true,
      });
    if (tool["type"] === "custom") tools.push({ ...named, schema: undefined, isFreeform: true });
    if (tool["type"] === "namespace") tools.push(...readTools(arrayIn(tool["tools"]), named.name));
  }
  return tools;
}

function readResponseFormat(format: JsonObject): ResponseFormat {
  if (format["type"] === "json_object") return { kind: "object" };
  if (format["type"] !== "json_schema") return { kind: "text" };
  const { name, schema = {}, strict } = format;
  return { kind: "schema", schema, name: stringOrEmpty(name), isStrict: strict === true };
}

function readItems(
  request: NormalizedRequest,
  items: readonly unknown[],
): InvalidRequest | undefined {
  const called = new Set<string>();
  for (const [index, entry] of items.entries()) {
    const item = objectOrEmpty(entry);
    const type = stringOrEmpty(item["type"]) || "message";
    if (type === "message") {
      const error = readMessage(request, item, index);
      if (error !== undefined) return error;
    } else if (type === "function_call" || type === "custom_tool_call") {
      called.add(stringOrEmpty(item["call_id"]));
      request.toolResults = [];
      addText(
        request,
        `${stringOrEmpty(item["name"])} ${stringOrEmpty(item["arguments"] ?? item["input"])}`,
      );
    } else if (type === "function_call_output" || type === "custom_tool_call_output") {
      const id = stringOrEmpty(item["call_id"]);
      if (!called.has(id))
        return invalidRequest(
          400,
          `No tool call found for function call output with call_id ${id}.`,
          "input",
        );
      called.delete(id);
      readToolOutput(request, item["output"]);
    } else if (type === "reasoning") {
      addText(request, stringOrEmpty(item["encrypted_content"]));
    } else if (type === "additional_tools") {
      request.tools = [...request.tools, ...readTools(arrayIn(item["tools"]))];
      addText(request, JSON.stringify(item["tools"]));
    } else addText(request, JSON.stringify(item));
  }
  const [open] = called;
  return open === undefined
    ? undefined
    : invalidRequest(400, `No tool output found for function call ${open}.`, "input");
}

function readMessage(
  request: NormalizedRequest,
  item: JsonObject,
  index: number,
): InvalidRequest | undefined {
  const role = stringOrEmpty(item["role"]);
  const roles = ["assistant", "system", "developer", "user"];
  if (!roles.includes(role)) return unsupportedValue(`input[${index}].role`, role, roles);
  if (role === "user") startUserTurn(request);
  const content =
    typeof item["content"] === "string"
      ? [{ type: "input_text", text: item["content"] }]
      : arrayIn(item["content"]);
  for (const [partIndex, entry] of content.entries()) {
    const part = objectOrEmpty(entry);
    const type = stringOrEmpty(part["type"]);
    if (!PART_TYPES.includes(type))
      return unsupportedValue(`input[${index}].content[${partIndex}]`, type, PART_TYPES);
    readPart(request, part, role === "user");
  }
  return undefined;
}

function readPart(request: NormalizedRequest, part: JsonObject, fromUser: boolean): void {
  const type = stringOrEmpty(part["type"]);
  const cacheTtl = cacheTtlOf(part);
  if (type === "input_image")
    addMedia(
      request,
      "image",
      stringOrEmpty(part["image_url"]) || stringOrEmpty(part["file_id"]),
      cacheTtl,
    );
  else if (type === "input_file") addMedia(request, "file", JSON.stringify(part), cacheTtl);
  else if (type === "input_audio")
    addMedia(request, "audio", JSON.stringify(part["input_audio"] ?? null), cacheTtl);
  else {
    const text = stringOrEmpty(part["text"]) || stringOrEmpty(part["refusal"]);
    addText(request, text, cacheTtl);
    if (fromUser) addUserText(request, text);
  }
}

function readToolOutput(request: NormalizedRequest, output: unknown): void {
  if (typeof output === "string") {
    addText(request, output);
    request.toolResults.push(output);
    return;
  }
  for (const entry of arrayIn(output)) {
    const part = objectOrEmpty(entry);
    readPart(request, part, false);
    if (stringOrEmpty(part["text"]) !== "") request.toolResults.push(stringOrEmpty(part["text"]));
  }
}
