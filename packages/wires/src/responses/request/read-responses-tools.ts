import type {
  FunctionTool,
  NativeTool,
  Tool,
  ToolChoice,
} from "../../canonical/canonical-request.ts";
import {
  isObject,
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  mustBeString,
  oneOf,
  optionalArray,
  optionalBoolean,
  optionalObject,
  optionalString,
  unknownFields,
} from "../../json-fields.ts";
import {
  flatToolName,
  isNamespacedTool,
  type NamespacedTool,
  rejectDuplicateNames,
  toNamespacedTool,
} from "../items/responses-namespaces.ts";

const FUNCTION_FIELDS: ReadonlySet<string> = new Set(
  "type name description parameters strict cache_control".split(" "),
);

export function readTools(value: unknown, field = "tools"): readonly Tool[] | undefined {
  const tools = optionalArray(value, field)?.flatMap((one, at): readonly Tool[] => {
    const path = `${field}[${at}]`;
    const tool = mustBeObject(one, path);
    return tool["type"] === "namespace" ? readNamespace(tool, path) : [readTool(tool, path)];
  });
  if (tools !== undefined) rejectDuplicateNames(tools);
  return tools;
}

// A namespace with native tools, or with fields that other APIs do not have, is kept as a native tool.
function readNamespace(value: JsonObject, path: string): readonly Tool[] {
  const namespace = {
    name: mustBeName(value["name"], `${path}.name`),
    description: optionalString(value["description"], `${path}.description`),
  };
  const members: NamespacedTool[] = [];
  for (const [at, one] of mustBeArray(value["tools"], `${path}.tools`).entries()) {
    const inner = `${path}.tools[${at}]`;
    const tool = readTool(mustBeObject(one, inner), inner);
    if (tool.type === "native") return [nativeTool(value, path)];
    members.push(toNamespacedTool(tool, namespace, at === 0));
  }
  const isPlain = members.length > 0 && unknownFields(value, NAMESPACE_FIELDS) === undefined;
  return isPlain ? members : [nativeTool(value, path)];
}

const NAMESPACE_FIELDS: ReadonlySet<string> = new Set("type name description tools".split(" "));

function nativeTool(value: JsonObject, path: string): NativeTool {
  const type = mustBeName(value["type"], `${path}.type`);
  return { type: "native", wire: "responses", name: nativeName(value, type), value, path };
}

function readTool(tool: JsonObject, path: string): Tool {
  const type = optionalString(tool["type"], `${path}.type`) ?? "function";
  if (type === "function") return readFunction(flatFunction(tool), path);
  if (type !== "custom") return nativeTool(tool, path);
  const fields = unknownFields(tool, CUSTOM_TOOL_FIELDS);
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
    native: fields && { wire: "responses", fields },
    path,
  };
}

const CUSTOM_TOOL_FIELDS: ReadonlySet<string> = new Set("type name description format".split(" "));

function nativeName(tool: JsonObject, type: string): string {
  return typeof tool["name"] === "string" && tool["name"] !== "" ? tool["name"] : type;
}

// Some clients nest the definition in `function`, as on Chat Completions.
function flatFunction(tool: JsonObject): JsonObject {
  const { function: nested, ...outer } = tool;
  return isObject(nested) ? { ...outer, ...nested } : tool;
}

function readFunction(tool: JsonObject, path: string): FunctionTool {
  const fields = unknownFields(tool, FUNCTION_FIELDS);
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

/** A choice that includes server tools is native. */
export function readToolChoice(value: unknown, tools: readonly Tool[]): ToolChoice | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string")
    return { type: oneOf(value, "tool_choice", ["auto", "none", "required"]) };
  const choice = flatFunction(mustBeObject(value, "tool_choice"));
  const type = optionalString(choice["type"], "tool_choice.type") ?? "function";
  if (type === "function" || type === "custom") {
    const name = chosenToolName(choice, "tool_choice", tools);
    return { type: "tool", name, custom: type === "custom" || undefined };
  }
  const names = type === "allowed_tools" ? allowedNames(choice, tools) : undefined;
  if (names === undefined) return { type: "native", wire: "responses", value: choice };
  const mode = oneOf(choice["mode"] ?? "auto", "tool_choice.mode", ["auto", "required"]);
  return { type: "allowed", mode, names };
}

// A namespace allows all of its tools. Repeated namespaces are looked up once.
function allowedNames(choice: JsonObject, tools: readonly Tool[]): readonly string[] | undefined {
  const names = new Set<string>();
  const namespaces = new Set<string>();
  for (const [at, value] of mustBeArray(choice["tools"], "tool_choice.tools").entries()) {
    const path = `tool_choice.tools[${at}]`;
    const tool = mustBeObject(value, path);
    if (tool["type"] === "namespace") {
      const namespace = mustBeName(tool["name"], `${path}.name`);
      if (namespaces.has(namespace)) continue;
      const members = toolsInNamespace(tools, namespace);
      if (members.length === 0) return undefined;
      namespaces.add(namespace);
      for (const { name } of members) names.add(name);
    } else if (tool["type"] === "function" || tool["type"] === "custom")
      names.add(chosenToolName(tool, path, tools));
    else return undefined;
  }
  return [...names];
}

function toolsInNamespace(tools: readonly Tool[], namespace: string): readonly NamespacedTool[] {
  return tools.filter(isNamespacedTool).filter(({ member }) => member.namespace.name === namespace);
}

function chosenToolName(choice: JsonObject, path: string, tools: readonly Tool[]): string {
  return flatToolName(tools, {
    name: mustBeName(choice["name"], `${path}.name`),
    namespace: optionalString(choice["namespace"], `${path}.namespace`),
    path,
  });
}
