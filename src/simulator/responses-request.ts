// Reads a request to the Responses API.

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
import { fieldsOf, listOf, numberOf, textOf, type Fields } from "./json.ts";
import {
  cacheMark,
  checkRange,
  checkSampling,
  effortTokens,
  limitTools,
  readToolChoice,
  servedTier,
  unknownValue,
} from "./openai.ts";
import type { Arrival } from "./wire.ts";

const LEAST_OUTPUT_TOKENS = 16;
const PART_TYPES = [
  "input_text",
  "input_image",
  "output_text",
  "refusal",
  "input_file",
  "input_audio",
];

export function readResponses(body: Fields, arrival: Arrival): Ask | Wrong {
  const model = textOf(body["model"]);
  if (model === "")
    return wrong(
      400,
      "Missing required parameter: 'model'.",
      "model",
      "missing_required_parameter",
    );
  const input = body["input"];
  if (input === undefined && body["prompt"] === undefined) {
    return wrong(
      400,
      "Missing required parameter: 'input'.",
      "input",
      "missing_required_parameter",
    );
  }
  const mistake =
    checkSampling(body) ??
    checkRange(body, "max_output_tokens", {
      least: LEAST_OUTPUT_TOKENS,
      most: Infinity,
      kind: "integer",
    });
  if (mistake !== undefined) return mistake;
  const previous = textOf(body["previous_response_id"]);
  const earlier = previous === "" ? [] : arrival.earlier(previous);
  if (earlier === undefined) {
    const message = `Previous response with id '${previous}' not found.`;
    return wrong(400, message, "previous_response_id", "previous_response_not_found");
  }
  const ask = newAsk(body, model);
  readSettings(ask, body);
  const own =
    typeof input === "string" ? [{ type: "message", role: "user", content: input }] : listOf(input);
  ask.items = [...earlier, ...own];
  return readItems(ask, ask.items) ?? limitTools(ask) ?? ask;
}

function readSettings(ask: Ask, body: Fields): void {
  ask.tools = readTools(listOf(body["tools"]));
  if (ask.tools.length > 0) addText(ask, JSON.stringify(body["tools"]));
  if (textOf(body["instructions"]) !== "") addText(ask, textOf(body["instructions"]));
  ask.toolChoice = readToolChoice(body["tool_choice"], (choice) => textOf(choice["name"]));
  ask.parallel = body["parallel_tool_calls"] !== false;
  ask.format = readFormat(fieldsOf(fieldsOf(body["text"])["format"]));
  if (ask.format.kind === "schema") addText(ask, JSON.stringify(ask.format.schema));
  ask.maxTokens = numberOf(body["max_output_tokens"]);
  ask.reasoning = effortTokens(fieldsOf(body["reasoning"])["effort"]);
  ask.serviceTier = servedTier(body);
}

function readTools(entries: readonly unknown[]): Tool[] {
  const tools: Tool[] = [];
  for (const entry of entries) {
    const tool = fieldsOf(entry);
    if (tool["type"] === "function")
      tools.push({ name: textOf(tool["name"]), schema: tool["parameters"], freeform: false });
    if (tool["type"] === "custom")
      tools.push({ name: textOf(tool["name"]), schema: undefined, freeform: true });
  }
  return tools;
}

function readFormat(format: Fields): Format {
  if (format["type"] === "json_object") return { kind: "object" };
  return format["type"] === "json_schema"
    ? { kind: "schema", schema: format["schema"] ?? {} }
    : { kind: "text" };
}

function readItems(ask: Ask, items: readonly unknown[]): Wrong | undefined {
  const called = new Set<string>();
  for (const [index, entry] of items.entries()) {
    const item = fieldsOf(entry);
    const type = textOf(item["type"]) || "message";
    if (type === "message") {
      const mistake = readMessage(ask, item, index);
      if (mistake !== undefined) return mistake;
    } else if (type === "function_call" || type === "custom_tool_call") {
      called.add(textOf(item["call_id"]));
      ask.toolResults = [];
      addText(ask, `${textOf(item["name"])} ${textOf(item["arguments"] ?? item["input"])}`);
    } else if (type === "function_call_output" || type === "custom_tool_call_output") {
      const id = textOf(item["call_id"]);
      if (!called.has(id))
        return wrong(
          400,
          `No tool call found for function call output with call_id ${id}.`,
          "input",
        );
      called.delete(id);
      readToolOutput(ask, item["output"]);
    } else if (type === "reasoning") addText(ask, textOf(item["encrypted_content"]));
    else addText(ask, JSON.stringify(item));
  }
  const [open] = called;
  return open === undefined
    ? undefined
    : wrong(400, `No tool output found for function call ${open}.`, "input");
}

function readMessage(ask: Ask, item: Fields, index: number): Wrong | undefined {
  const role = textOf(item["role"]);
  const roles = ["assistant", "system", "developer", "user"];
  if (!roles.includes(role)) return unknownValue(`input[${index}].role`, role, roles);
  if (role === "user") startUserTurn(ask);
  const content =
    typeof item["content"] === "string"
      ? [{ type: "input_text", text: item["content"] }]
      : listOf(item["content"]);
  for (const [place, entry] of content.entries()) {
    const part = fieldsOf(entry);
    const type = textOf(part["type"]);
    if (!PART_TYPES.includes(type))
      return unknownValue(`input[${index}].content[${place}]`, type, PART_TYPES);
    readPart(ask, part, role === "user");
  }
  return undefined;
}

function readPart(ask: Ask, part: Fields, fromUser: boolean): void {
  const type = textOf(part["type"]);
  const mark = cacheMark(part);
  if (type === "input_image")
    addMedia(ask, "image", textOf(part["image_url"]) || textOf(part["file_id"]), mark);
  else if (type === "input_file") addMedia(ask, "file", JSON.stringify(part), mark);
  else if (type === "input_audio")
    addMedia(ask, "audio", JSON.stringify(part["input_audio"] ?? null), mark);
  else {
    const text = textOf(part["text"]) || textOf(part["refusal"]);
    addText(ask, text, mark);
    if (fromUser) addUserText(ask, text);
  }
}

function readToolOutput(ask: Ask, output: unknown): void {
  if (typeof output === "string") {
    addText(ask, output);
    ask.toolResults.push(output);
    return;
  }
  for (const entry of listOf(output)) {
    const part = fieldsOf(entry);
    readPart(ask, part, false);
    if (textOf(part["text"]) !== "") ask.toolResults.push(textOf(part["text"]));
  }
}
