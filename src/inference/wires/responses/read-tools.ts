import type { FunctionTool, JsonObject, Tool, ToolChoice } from "../../canonical.ts";
import {
  isObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  mustBeString,
  oneOf,
  optionalBoolean,
  optionalObject,
  optionalString,
  unknownFields,
} from "../../canonical-json.ts";

const FUNCTION_KNOWN: ReadonlySet<string> = new Set(
  "type name description parameters strict cache_control".split(" "),
);

export function readTool(value: unknown, at: number): Tool {
  const path = `tools[${at}]`;
  const tool = mustBeObject(value, path);
  const type = mustBeName(tool["type"], `${path}.type`);
  if (type === "function") return readFunction(tool, path);
  if (type !== "custom" || unknownFields(tool, CUSTOM_KNOWN) !== undefined)
    return { type: "native", wire: "responses", name: nativeName(tool, type), value: tool, path };
  const format = optionalObject(tool["format"], `${path}.format`);
  return {
    type: "custom",
    name: mustBeName(tool["name"], `${path}.name`),
    description: optionalString(tool["description"], `${path}.description`),
    format:
      format?.["type"] === "grammar"
        ? {
            syntax: oneOf(format["syntax"], `${path}.format.syntax`, ["lark", "regex"]),
            definition: mustBeString(format["definition"], `${path}.format.definition`),
          }
        : undefined,
    path,
  };
}

// A custom tool that other tools may call, or that is loaded late, is known to no other API.
const CUSTOM_KNOWN: ReadonlySet<string> = new Set("type name description format".split(" "));

function nativeName(tool: JsonObject, type: string): string {
  return typeof tool["name"] === "string" && tool["name"] !== "" ? tool["name"] : type;
}

function readFunction(tool: JsonObject, path: string): FunctionTool {
  const fields = unknownFields(tool, FUNCTION_KNOWN);
  return {
    type: "function",
    name: mustBeName(tool["name"], `${path}.name`),
    description: optionalString(tool["description"], `${path}.description`),
    parameters: optionalObject(tool["parameters"], `${path}.parameters`),
    strict: optionalBoolean(tool["strict"], `${path}.strict`),
    cache: isObject(tool["cache_control"]) ? {} : undefined,
    native: fields && { wire: "responses", fields },
    path,
  };
}

/** A choice among server tools stays as it is; one among functions and custom tools has a form of its own. */
export function readToolChoice(value: unknown): ToolChoice | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string")
    return { type: oneOf(value, "tool_choice", ["auto", "none", "required"]) };
  const choice = mustBeObject(value, "tool_choice");
  const type = mustBeName(choice["type"], "tool_choice.type");
  if (type === "function" || type === "custom") {
    const name = mustBeName(choice["name"], "tool_choice.name");
    return { type: "tool", name, custom: type === "custom" || undefined };
  }
  const names = type === "allowed_tools" ? allowedNames(choice) : undefined;
  if (names === undefined) return { type: "native", wire: "responses", value: choice };
  const mode = oneOf(choice["mode"] ?? "auto", "tool_choice.mode", ["auto", "required"]);
  return { type: "allowed", mode, names };
}

function allowedNames(choice: JsonObject): readonly string[] | undefined {
  const names: string[] = [];
  for (const [at, value] of mustBeArray(choice["tools"], "tool_choice.tools").entries()) {
    const path = `tool_choice.tools[${at}]`;
    const tool = mustBeObject(value, path);
    if (tool["type"] !== "function" && tool["type"] !== "custom") return undefined;
    names.push(mustBeName(tool["name"], `${path}.name`));
  }
  return names;
}
