import type {
  CanonicalRequest,
  FieldNames,
  OutputFormat,
  Reasoning,
  Tool,
  ToolChoice,
} from "../../canonical/canonical-request.ts";
import { checkRequest, checkSchema } from "../../canonical/check-request.ts";
import { invalid } from "../../invalid-request.ts";
import {
  isObject,
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  objectIn,
  oneOf,
  optionalArray,
  optionalBoolean,
  optionalInteger,
  optionalObject,
  optionalOneOf,
  optionalString,
  unknownFields,
} from "../../json-fields.ts";
import { readScalars, scalarNames, TOKENS_MAX } from "../../scalar-fields.ts";
import { KNOWN_MESSAGES_FIELDS, MESSAGES_FIELDS, METADATA_FIELDS } from "./messages-fields.ts";
import { readCache } from "./read-messages-blocks.ts";
import { MESSAGES_EFFORTS, readTurnEffort, readTurns } from "./read-messages-turns.ts";

const FIELD_NAMES: FieldNames = {
  ...scalarNames(MESSAGES_FIELDS),
  turns: "messages",
  toolChoice: "tool_choice",
  output: "output_config.format",
  reasoning: "thinking",
  cache: "cache_control",
};

/** Without `thinking`, reasoning is requested by the effort. */
const EFFORT_FIELD_NAMES: FieldNames = { ...FIELD_NAMES, reasoning: "output_config.effort" };

const OUTPUT_FIELDS: ReadonlySet<string> = new Set(["effort", "format"]);
const THINKING_FIELDS: ReadonlySet<string> = new Set(["type", "budget_tokens", "display"]);
const TOOL_FIELDS: ReadonlySet<string> = new Set([
  "type",
  "name",
  "description",
  "input_schema",
  "strict",
  "cache_control",
]);

export function readRequest(input: unknown): CanonicalRequest {
  const body = mustBeObject(input, "");
  const config = optionalObject(body["output_config"], "output_config");
  const metadata = optionalObject(body["metadata"], "metadata");
  const choice = optionalObject(body["tool_choice"], "tool_choice");
  const messages = mustBeArray(body["messages"], "messages");
  const reasoning = readReasoning(
    optionalObject(body["thinking"], "thinking"),
    config,
    body["max_tokens"] ?? Infinity,
  );
  const effort = readTurnEffort(messages);
  return checkRequest(
    {
      model: mustBeName(body["model"], "model"),
      turns: readTurns(body["system"], messages),
      stream: optionalBoolean(body["stream"], "stream"),
      tools: readAllTools(body["tools"], messages),
      toolChoice: choice && readToolChoice(choice),
      output: readOutput(config?.["format"] ?? body["output_format"], "output_config.format"),
      reasoning: effort === undefined ? reasoning : { ...reasoning, effort },
      ...readScalars(MESSAGES_FIELDS, body),
      cache: readCache(body, ""),
      native: readNative(body, config, metadata),
      names: (body["thinking"] ?? undefined) === undefined ? EFFORT_FIELD_NAMES : FIELD_NAMES,
    },
    "input_schema",
  );
}

function readNative(
  body: JsonObject,
  config: JsonObject | undefined,
  metadata: JsonObject | undefined,
): CanonicalRequest["native"] {
  const outputRest = config && unknownFields(config, OUTPUT_FIELDS);
  const thinking = objectIn(body["thinking"]);
  const thinkingRest = thinking && unknownFields(thinking, THINKING_FIELDS);
  const metadataRest = metadata && unknownFields(metadata, METADATA_FIELDS);
  const fields: JsonObject = {
    ...unknownFields(body, KNOWN_MESSAGES_FIELDS),
    ...Object.fromEntries(
      Object.entries(thinkingRest ?? {}).map(([key, one]) => [`thinking.${key}`, one]),
    ),
    ...(outputRest && { output_config: outputRest }),
    ...(metadataRest && { metadata: metadataRest }),
  };
  return Object.keys(fields).length === 0 ? undefined : { wire: "messages", fields };
}

/** The tools of the request, and those that its messages define. */
function readAllTools(value: unknown, messages: readonly unknown[]): readonly Tool[] | undefined {
  const tools = optionalArray(value, "tools")?.map((tool, at) =>
    readTool(mustBeObject(tool, `tools[${at}]`), `tools[${at}]`),
  );
  const names = new Set(tools?.map(({ name }) => name));
  const added: Tool[] = [];
  for (const [at, message] of messages.entries()) {
    if (!isObject(message) || !Array.isArray(message["content"])) continue;
    for (const [index, block] of message["content"].entries()) {
      if (!isObject(block) || block["type"] !== "tool_addition") continue;
      const definition = objectIn(objectIn(block["tool"])?.["definition"]);
      if (definition === undefined) continue;
      const path = `messages[${at}].content[${index}].tool.definition`;
      const tool = readTool(definition, path);
      if (tool.type === "native" || names.has(tool.name)) continue;
      names.add(tool.name);
      added.push(tool);
    }
  }
  return added.length === 0 ? tools : [...(tools ?? []), ...added];
}

function readTool(tool: JsonObject, path: string): Tool {
  const type = optionalString(tool["type"], `${path}.type`);
  if (type !== undefined && type !== "custom")
    return {
      type: "native",
      wire: "messages",
      name: optionalString(tool["name"], `${path}.name`) ?? type,
      value: tool,
      path,
    };
  const native = unknownFields(tool, TOOL_FIELDS);
  return {
    type: "function",
    name: mustBeName(tool["name"], `${path}.name`),
    description: optionalString(tool["description"], `${path}.description`),
    parameters: mustBeObject(tool["input_schema"], `${path}.input_schema`),
    strict: optionalBoolean(tool["strict"], `${path}.strict`),
    cache: readCache(tool, path),
    native: native && { wire: "messages", fields: native },
    path,
  };
}

function readToolChoice(choice: JsonObject): ToolChoice {
  const type = oneOf(
    choice["type"] ?? (choice["name"] === undefined ? "auto" : "tool"),
    "tool_choice.type",
    ["auto", "any", "none", "tool"],
  );
  if (type === "tool") return { type, name: mustBeName(choice["name"], "tool_choice.name") };
  return { type: type === "any" ? "required" : type };
}

function readOutput(value: unknown, path: string): OutputFormat | undefined {
  const format = optionalObject(value, path);
  if (format === undefined) return undefined;
  oneOf(format["type"], `${path}.type`, ["json_schema"]);
  const schema = mustBeObject(format["schema"], `${path}.schema`);
  checkSchema(schema, `${path}.schema`);
  // This API has no `strict` flag and always enforces the schema.
  return { type: "json_schema", schema, strictPath: path };
}

function readReasoning(
  thinking: JsonObject | undefined,
  config: JsonObject | undefined,
  limit: unknown,
): Reasoning | undefined {
  const effort = optionalOneOf(config?.["effort"], "output_config.effort", MESSAGES_EFFORTS);
  if (thinking === undefined) return effort && { effort };
  const type = oneOf(thinking["type"], "thinking.type", [
    "enabled",
    "adaptive",
    "disabled",
    "between_tools",
  ]);
  const display = optionalOneOf(thinking["display"], "thinking.display", ["summarized", "omitted"]);
  const budgetTokens = optionalInteger(
    thinking["budget_tokens"],
    "thinking.budget_tokens",
    1,
    TOKENS_MAX,
  );
  if (type === "enabled" && budgetTokens === undefined)
    throw invalid(
      "thinking.budget_tokens",
      "`thinking.budget_tokens` is required if thinking is enabled.",
    );
  if (budgetTokens !== undefined && type === "enabled" && budgetTokens >= Number(limit))
    throw invalid(
      "thinking.budget_tokens",
      "`thinking.budget_tokens` must be less than `max_tokens`, which includes the thinking.",
    );
  return {
    effort,
    budgetTokens,
    mode: type === "enabled" ? "on" : type === "disabled" ? "off" : type,
    summary: display === undefined ? undefined : display === "summarized" ? "auto" : "none",
  };
}
