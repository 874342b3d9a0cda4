import type { Tool, ToolChoice } from "../../canonical/canonical-request.ts";
import {
  isObject,
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  mustBeString,
  oneOf,
  optionalBoolean,
  optionalObject,
  optionalString,
  unknownFields,
} from "../../json-fields.ts";

const TOOL_FIELDS: ReadonlySet<string> = new Set(["type", "function", "cache_control"]);
const FUNCTION_FIELDS: ReadonlySet<string> = new Set([
  "name",
  "description",
  "parameters",
  "strict",
]);
const KNOWN_FIELDS: ReadonlySet<string> = new Set([...TOOL_FIELDS, ...FUNCTION_FIELDS]);

export function readTool(value: unknown, path: string): Tool {
  const tool = mustBeObject(value, path);
  const type = optionalString(tool["type"], `${path}.type`) ?? "function";
  if (type === "function") return readFunctionTool(tool, path);
  if (type !== "custom") return { type: "native", wire: "chat", name: type, value: tool, path };
  // Cursor sends the fields in the tool itself, as on Responses.
  const isFlat = tool["custom"] === undefined && tool["name"] !== undefined;
  const custom = isFlat ? tool : mustBeObject(tool["custom"], `${path}.custom`);
  const format = optionalObject(custom["format"], `${path}.custom.format`);
  const grammar =
    format?.["type"] !== "grammar"
      ? undefined
      : isFlat
        ? format
        : mustBeObject(format["grammar"], `${path}.custom.format.grammar`);
  return {
    type: "custom",
    name: mustBeName(custom["name"], `${path}.custom.name`),
    description: optionalString(custom["description"], `${path}.custom.description`),
    format: grammar && {
      syntax: oneOf(grammar["syntax"], `${path}.custom.format.grammar.syntax`, ["lark", "regex"]),
      definition: mustBeString(grammar["definition"], `${path}.custom.format.grammar.definition`),
    },
    path,
  };
}

// The definition is in `function`. Some clients send its fields in the tool itself, as on Responses, or in both; then the
// nested definition counts.
function readFunctionTool(tool: JsonObject, path: string): Tool {
  const isNested = isObject(tool["function"]);
  const at = isNested ? `${path}.function` : path;
  const read = readFunction(isNested ? tool["function"] : omitToolFields(tool), at, isCached(tool));
  const fields = isNested ? unknownFields(tool, KNOWN_FIELDS) : undefined;
  return fields === undefined ? read : { ...read, native: { wire: "chat", fields } };
}

function isCached(tool: JsonObject): boolean {
  return tool["cache_control"] !== undefined && tool["cache_control"] !== null;
}

function omitToolFields(tool: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(tool).filter(([name]) => !TOOL_FIELDS.has(name)));
}

function readFunction(
  value: unknown,
  path: string,
  cached: boolean,
): Extract<Tool, { type: "function" }> {
  const fn = mustBeObject(value, path);
  // llama-stack repeats the type of the tool.
  const { type, ...fields } = fn;
  const native = unknownFields(type === "function" ? fields : fn, FUNCTION_FIELDS);
  return {
    type: "function",
    name: mustBeName(fn["name"], `${path}.name`),
    description: optionalString(fn["description"], `${path}.description`),
    parameters: optionalObject(fn["parameters"], `${path}.parameters`),
    strict: optionalBoolean(fn["strict"], `${path}.strict`),
    cache: cached ? {} : undefined,
    native: native && { wire: "chat", fields: { function: native } },
    path,
  };
}

export function readToolChoice(value: unknown): ToolChoice | undefined {
  if (value === undefined || value === null) return undefined;
  // Mistral's name for `required`.
  if (value === "any") return { type: "required" };
  if (typeof value === "string")
    return { type: oneOf(value, "tool_choice", ["auto", "none", "required"]) };
  const choice = mustBeObject(value, "tool_choice");
  const word = ["auto", "none", "required"].find((one) => one === choice["type"]);
  if (word !== undefined) return readToolChoice(word);
  const type = oneOf(choice["type"] ?? "function", "tool_choice.type", [
    "function",
    "custom",
    "allowed_tools",
  ]);
  if (type !== "allowed_tools") {
    // Without the nested object, the name is in the choice itself, as on Responses.
    const isFlat = choice[type] === undefined && choice["name"] !== undefined;
    const named = isFlat ? choice : mustBeObject(choice[type], `tool_choice.${type}`);
    const name = mustBeName(named["name"], `tool_choice.${isFlat ? "" : `${type}.`}name`);
    return { type: "tool", name, custom: type === "custom" || undefined };
  }
  const allowed = mustBeObject(choice["allowed_tools"], "tool_choice.allowed_tools");
  const names = mustBeArray(allowed["tools"], "tool_choice.allowed_tools.tools").map((tool, at) => {
    const path = `tool_choice.allowed_tools.tools[${at}]`;
    const one = mustBeObject(tool, path);
    const callee = one["function"] ?? one["custom"];
    return mustBeName(isObject(callee) ? callee["name"] : undefined, `${path}.function.name`);
  });
  return {
    type: "allowed",
    mode: oneOf(allowed["mode"], "tool_choice.allowed_tools.mode", ["auto", "required"]),
    names,
  };
}

export function readLegacyTools(value: unknown): readonly Tool[] {
  return mustBeArray(value, "functions").map((one, at) =>
    readFunction(one, `functions[${at}]`, false),
  );
}

export function readLegacyChoice(value: unknown): ToolChoice | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string") return { type: oneOf(value, "function_call", ["auto", "none"]) };
  return {
    type: "tool",
    name: mustBeName(mustBeObject(value, "function_call")["name"], "function_call.name"),
  };
}
