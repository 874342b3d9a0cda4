// Counts the input tokens of a request to OpenAI as its API reports them: a message has three tokens more than its role and
// text, and functions are rendered as TypeScript. Checked against recorded calls by test/inference/metering/token-counts.test.ts.

import { isObject, type JsonObject, arrayIn } from "../../../base/json.ts";
import type { Encoding } from "./count-worker.ts";
import { countTextTokens } from "./tokenizer.ts";

const REPLY_TOKENS = 3;
const MESSAGE_TOKENS = 3;
const NAME_TOKENS = 1;
const TOOL_CALL_TOKENS = 3;
/** The highest excess of the package's formula over the tools of a recorded request. */
const FUNCTIONS_EXCESS_TOKENS = 8;

interface InputText {
  /** Each is tokenized on its own. */
  readonly texts: string[];
  tokens: number;
  /** False if the request has content whose count is not known without the provider. */
  isKnown: boolean;
}

/** The wires whose bodies are read here. */
export function isOpenAiWire(wire: string): boolean {
  return OPENAI_WIRES.has(wire);
}

const OPENAI_WIRES: ReadonlySet<string> = new Set(["chat", "responses"]);

/** Whether all of the input is text and functions, which are counted to within a few tokens. */
export function isInputCountable(body: JsonObject): boolean {
  return inputText(body).isKnown;
}

/** `isFree`: as for `countTextTokens`. */
export async function countInput(
  body: JsonObject,
  encoding: Encoding,
  isFree = false,
): Promise<number> {
  const { texts, tokens } = inputText(body);
  const countText = (text: string): Promise<number> => countTextTokens(text, encoding, isFree);
  const counts = await Promise.all(texts.map(countText));
  let total = tokens + (await functionTokens(body["tools"], countText));
  for (const count of counts) total += count;
  return total;
}

function inputText(body: JsonObject): InputText {
  const input: InputText = { texts: [], tokens: REPLY_TOKENS, isKnown: true };
  const { messages, input: items, instructions, tools } = body;
  input.isKnown = !UNCOUNTED_FIELDS.some((field) => hasContent(body[field]));
  if (typeof instructions === "string")
    addMessage(input, { role: "system", content: instructions });
  if (typeof items === "string") addMessage(input, { role: "user", content: items });
  else for (const item of arrayIn(items)) addItem(input, item);
  for (const message of arrayIn(messages)) addItem(input, message);
  if (!arrayIn(tools).every((tool) => isCountable(functionOf(tool)))) input.isKnown = false;
  const { text } = body;
  if (isObject(text) && isObject(text["format"]) && text["format"]["type"] !== "text")
    input.isKnown = false;
  return input;
}

/** Schemas of the output, stored prompts, and what the provider adds, also to the output. */
const UNCOUNTED_FIELDS = [
  "response_format",
  "prompt",
  "conversation",
  "previous_response_id",
  "context_management",
  "functions",
  "web_search_options",
  "prediction",
] as const;

function addItem(input: InputText, item: unknown): void {
  if (!isObject(item)) input.isKnown = false;
  else if (item["type"] === undefined || item["type"] === "message") addMessage(input, item);
  else if (item["type"] === "function_call") addCall(input, item);
  else if (item["type"] === "function_call_output" && hasOnly(item, OUTPUT_MEMBERS))
    addMessage(input, { role: "tool", content: item["output"] });
  else input.isKnown = false;
}

/** Others, such as `refusal` and `function_call`, are input, too. */
const MESSAGE_MEMBERS = names("type id status phase role name content tool_calls tool_call_id");
const TOOL_CALL_MEMBERS = names("type id index function");
const CALL_MEMBERS = names("type id status name arguments call_id");
const OUTPUT_MEMBERS = names("type id status call_id output");
const PART_MEMBERS = names("type text annotations");
const TEXT_PART = /^(?:text|input_text|output_text)$/;
/** The members of functions and their schemas that are counted; the package leaves out others, such as `default`. */
const FUNCTION_MEMBERS = names("type name description parameters strict");
const SCHEMA_MEMBERS = names(
  "type description properties required items enum anyOf additionalProperties",
);

function addMessage(input: InputText, message: JsonObject): void {
  const { role, name, content, tool_calls } = message;
  if (!hasOnly(message, MESSAGE_MEMBERS)) input.isKnown = false;
  input.tokens += MESSAGE_TOKENS;
  input.texts.push(isText(role) ? role : "user");
  if (isText(name)) {
    input.texts.push(name);
    input.tokens += NAME_TOKENS;
  }
  if (isText(content)) input.texts.push(content);
  else if (isObject(content)) input.isKnown = false;
  else
    for (const part of arrayIn(content)) {
      if (isTextPart(part)) input.texts.push(part.text);
      else input.isKnown = false;
    }
  for (const call of arrayIn(tool_calls)) {
    const called =
      isObject(call) && hasOnly(call, TOOL_CALL_MEMBERS) ? call["function"] : undefined;
    if (isObject(called)) addCall(input, called);
    else input.isKnown = false;
  }
}

function isTextPart(part: unknown): part is { readonly text: string } {
  return (
    isObject(part) &&
    isText(part["type"]) &&
    TEXT_PART.test(part["type"]) &&
    isText(part["text"]) &&
    hasOnly(part, PART_MEMBERS)
  );
}

function addCall(input: InputText, call: JsonObject): void {
  const { name, arguments: args } = call;
  if (!hasOnly(call, CALL_MEMBERS)) input.isKnown = false;
  input.tokens += TOOL_CALL_TOKENS;
  if (isText(name)) input.texts.push(name);
  if (isText(args)) input.texts.push(args);
}

/** The package's text of the functions is counted piece by piece, as every text. */
async function functionTokens(
  tools: unknown,
  countText: (text: string) => Promise<number>,
): Promise<number> {
  const functions = arrayIn(tools).flatMap((tool) => functionOf(tool) ?? []);
  if (functions.length === 0) return 0;
  const { formatFunctionDefinitions, FUNCTION_DEFINITION_TOKEN_OVERHEAD } =
    await import("gpt-tokenizer/functionCalling");
  // Safe because the function reads only these members, and any of their schemas.
  const text = formatFunctionDefinitions(
    functions as Parameters<typeof formatFunctionDefinitions>[0],
  );
  return Math.max(
    0,
    (await countText(text)) + FUNCTION_DEFINITION_TOKEN_OVERHEAD - FUNCTIONS_EXCESS_TOKENS,
  );
}

/** Chat Completions nests the function, Responses does not. */
function functionOf(tool: unknown): JsonObject | undefined {
  if (!isObject(tool) || tool["type"] !== "function") return undefined;
  const nested = tool["function"];
  return isObject(nested) ? nested : tool;
}

function isCountable(definition: JsonObject | undefined): boolean {
  return (
    definition !== undefined &&
    hasOnly(definition, FUNCTION_MEMBERS) &&
    isCountableSchema(definition["parameters"])
  );
}

function isCountableSchema(schema: unknown): boolean {
  if (!isObject(schema)) return !hasContent(schema);
  const { properties, items, anyOf } = schema;
  const inner = [
    ...Object.values(isObject(properties) ? properties : {}),
    ...arrayIn(anyOf),
    items,
  ];
  return hasOnly(schema, SCHEMA_MEMBERS) && inner.every(isCountableSchema);
}

function hasOnly(object: JsonObject, members: ReadonlySet<string>): boolean {
  return Object.keys(object).every((name) => members.has(name) || !hasContent(object[name]));
}

/** Whether a value can have text for the model. */
function hasContent(value: unknown): boolean {
  return Array.isArray(value)
    ? value.length > 0
    : isObject(value) || (isText(value) && value !== "");
}

function names(list: string): ReadonlySet<string> {
  return new Set(list.split(" "));
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
