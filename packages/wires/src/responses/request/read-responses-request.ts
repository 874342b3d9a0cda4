import {
  type CanonicalRequest,
  type Effort,
  EFFORTS,
  type FieldNames,
  type OutputFormat,
  type Reasoning,
  type Turn,
  type Tool,
} from "../../canonical/canonical-request.ts";
import { checkRequest } from "../../canonical/check-request.ts";
import {
  isObject,
  type JsonObject,
  mustBeName,
  mustBeObject,
  oneOf,
  optionalArray,
  optionalBoolean,
  optionalInteger,
  optionalObject,
  optionalOneOf,
  optionalString,
  unknownFields,
} from "../../json-fields.ts";
import { readSchemaFormat } from "../../openai-parameters.ts";
import { knownMembers, readScalars, scalarNames, TOKENS_MAX } from "../../scalar-fields.ts";
import { readTurns } from "./read-responses-input-items.ts";
import { readToolChoice, readTools } from "./read-responses-tools.ts";
import { KNOWN_RESPONSES_FIELDS, RESPONSES_FIELDS } from "./responses-fields.ts";

const FIELD_NAMES: FieldNames = {
  ...scalarNames(RESPONSES_FIELDS),
  turns: "input",
  toolChoice: "tool_choice",
  output: "text.format",
  logprobs: "include",
};

const REASONING_FIELDS: ReadonlySet<string> = new Set(
  "effort summary generate_summary max_tokens enabled".split(" "),
);
const TEXT_FIELDS = knownMembers(RESPONSES_FIELDS, "text", "format");
const FORMAT_PATH = "text.format";
export const INCLUDE_ENCRYPTED_REASONING = "reasoning.encrypted_content";
export const INCLUDE_LOGPROBS = "message.output_text.logprobs";

/**
 * References to state (`previous_response_id`, `conversation`, `background`, `prompt`) become native fields. The module that
 * stores responses prepends the earlier items to `input` and removes the reference before this is called.
 */
export function readRequest(input: unknown): CanonicalRequest {
  const body = mustBeObject(input, "");
  const text = optionalObject(body["text"], "text");
  const include = readInclude(body["include"]);
  const tools = readAllTools(body["tools"], body["input"]);
  const update = readUpdates(body["input"]);
  return checkRequest({
    model: mustBeName(body["model"], "model"),
    turns: [...readInstructions(body["instructions"]), ...readTurns(body["input"], tools)],
    stream: optionalBoolean(body["stream"], "stream"),
    tools,
    toolChoice: readToolChoice(body["tool_choice"], tools ?? []),
    output: update.output ?? readFormat(text?.["format"], FORMAT_PATH),
    reasoning: update.effort
      ? { ...readReasoning(body["reasoning"]), effort: update.effort }
      : readReasoning(body["reasoning"]),
    ...readScalars(RESPONSES_FIELDS, body),
    logprobs: include.includes(INCLUDE_LOGPROBS) || undefined,
    native: readNative(body, text, include),
    names: FIELD_NAMES,
  });
}

interface ConfigurationUpdates {
  readonly effort?: Effort | undefined;
  readonly output?: OutputFormat | undefined;
}

/** Each setting stays in effect until a later item of the conversation replaces it. */
function readUpdates(input: unknown): ConfigurationUpdates {
  let updates: ConfigurationUpdates = {};
  if (!Array.isArray(input)) return updates;
  for (const [at, item] of input.entries()) {
    if (!isObject(item) || item["type"] !== "configuration_update") continue;
    const path = `input[${at}]`;
    const reasoning = optionalObject(item["reasoning"], `${path}.reasoning`);
    const text = optionalObject(item["text"], `${path}.text`);
    updates = {
      effort:
        optionalOneOf(reasoning?.["effort"], `${path}.reasoning.effort`, EFFORTS) ?? updates.effort,
      output: readFormat(text?.["format"], `${path}.text.format`) ?? updates.output,
    };
  }
  return updates;
}

function readInstructions(value: unknown): readonly Turn[] {
  const text = optionalString(value, "instructions");
  if (!text) return [];
  const path = "instructions";
  return [{ role: "system", parts: [{ type: "text", text, path }], path }];
}

function readInclude(value: unknown): readonly string[] {
  return (optionalArray(value, "include") ?? []).map((one, at) =>
    mustBeName(one, `include[${at}]`),
  );
}

// Encrypted reasoning is always included, and default values have no effect, so neither is a native field.
function readNative(
  body: JsonObject,
  text: JsonObject | undefined,
  include: readonly string[],
): CanonicalRequest["native"] {
  const fields: Record<string, unknown> = { ...unknownFields(body, KNOWN_RESPONSES_FIELDS) };
  const others = include.filter(
    (one) => one !== INCLUDE_ENCRYPTED_REASONING && one !== INCLUDE_LOGPROBS,
  );
  if (others.length > 0) fields["include"] = others;
  if (optionalOneOf(body["truncation"], "truncation", ["auto", "disabled"]) === "auto")
    fields["truncation"] = "auto";
  if (optionalBoolean(body["background"], "background") === true) fields["background"] = true;
  const options = optionalObject(body["stream_options"], "stream_options");
  if (options !== undefined && options["include_obfuscation"] !== false)
    addNestedNativeFields(fields, "stream_options", options, new Set());
  addNestedNativeFields(
    fields,
    "reasoning",
    optionalObject(body["reasoning"], "reasoning"),
    REASONING_FIELDS,
  );
  addNestedNativeFields(fields, "text", text, TEXT_FIELDS);
  return Object.keys(fields).length === 0 ? undefined : { wire: "responses", fields };
}

// Keyed by the full path, so that an error names the field and not its parent.
function addNestedNativeFields(
  fields: Record<string, unknown>,
  path: string,
  object: JsonObject | undefined,
  known: ReadonlySet<string>,
): void {
  if (object === undefined) return;
  for (const [key, value] of Object.entries(unknownFields(object, known) ?? {}))
    fields[`${path}.${key}`] = value;
}

// `max_tokens` and `enabled` are OpenRouter's fields.
function readReasoning(value: unknown): Reasoning | undefined {
  const object = optionalObject(value, "reasoning");
  if (object === undefined) return undefined;
  const reasoning = {
    effort: optionalOneOf(object["effort"], "reasoning.effort", EFFORTS),
    budgetTokens: optionalInteger(object["max_tokens"], "reasoning.max_tokens", 0, TOKENS_MAX),
    mode:
      optionalBoolean(object["enabled"], "reasoning.enabled") === false
        ? ("off" as const)
        : undefined,
    summary: optionalOneOf(object["summary"] ?? object["generate_summary"], "reasoning.summary", [
      "auto",
      "concise",
      "detailed",
    ]),
  };
  return Object.values(reasoning).some((one) => one !== undefined) ? reasoning : undefined;
}

function readFormat(value: unknown, path: string): OutputFormat | undefined {
  const format = optionalObject(value, path);
  if (format === undefined) return undefined;
  const type = oneOf(format["type"], `${path}.type`, ["text", "json_object", "json_schema"]);
  return type === "json_schema" ? readSchemaFormat(format, path) : { type };
}

// Tools that items of the conversation load. This API reads them there, so that a prompt cache stays valid; other APIs get
// them with the rest.

/** The tools of the request, and those of its items that it does not list. */
function readAllTools(tools: unknown, input: unknown): readonly Tool[] | undefined {
  const listed = readTools(tools);
  if (!Array.isArray(input)) return listed;
  const names = new Set(listed?.map(({ name }) => name));
  const loaded: Tool[] = [];
  for (const [at, item] of input.entries()) {
    if (!isObject(item) || !LOADING_ITEMS.has(item["type"])) continue;
    for (const tool of readTools(item["tools"], `input[${at}].tools`) ?? []) {
      if (tool.type === "native" || names.has(tool.name)) continue;
      names.add(tool.name);
      loaded.push({ ...tool, isLoaded: true });
    }
  }
  return loaded.length === 0 ? listed : [...(listed ?? []), ...loaded];
}

const LOADING_ITEMS: ReadonlySet<unknown> = new Set(["tool_search_output", "additional_tools"]);
