import type { Tool, ToolChoice } from "../../canonical/canonical-request.ts";
import { isStrictCompatible } from "../../canonical/structured-output.ts";
import {
  type JsonObject,
  mustBeName,
  mustBeObject,
  oneOf,
  optionalArray,
  optionalObject,
  optionalString,
  unknownFields,
} from "../../json-fields.ts";
import { readGeminiSchema } from "./read-gemini-schema.ts";

const FUNCTION_FIELDS: ReadonlySet<string> = new Set([
  "name",
  "description",
  "parameters",
  "parametersJsonSchema",
]);
const CONFIG_FIELDS: ReadonlySet<string> = new Set(["functionCallingConfig"]);
const MODES = ["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"] as const;

interface ReadTools {
  readonly tools: readonly Tool[] | undefined;
  readonly toolChoice: ToolChoice | undefined;
  /** Settings of tools that only this API has. */
  readonly rest: JsonObject | undefined;
}

/** A tool of this API holds functions, and each other field of it is a tool that Google runs. */
export function readAllTools(value: unknown, configValue: unknown): ReadTools {
  const config = optionalObject(configValue, "toolConfig");
  const path = "toolConfig.functionCallingConfig";
  const calling = optionalObject(config?.["functionCallingConfig"], path);
  const mode = oneOf(calling?.["mode"] ?? "MODE_UNSPECIFIED", `${path}.mode`, MODES);
  const names = optionalArray(calling?.["allowedFunctionNames"], `${path}.allowedFunctionNames`);
  const allowed = names?.map((one, at) => mustBeName(one, `${path}.allowedFunctionNames[${at}]`));
  const isValidated = mode === "VALIDATED" && (allowed ?? []).length === 0;
  const tools = optionalArray(value, "tools")?.flatMap((tool, at) =>
    readTool(mustBeObject(tool, `tools[${at}]`), `tools[${at}]`, isValidated),
  );
  const hasTools = tools !== undefined && tools.length > 0;
  return {
    tools: hasTools ? tools : undefined,
    toolChoice: hasTools ? choiceOf(mode, allowed ?? []) : undefined,
    rest: config && unknownFields(config, CONFIG_FIELDS),
  };
}

function readTool(tool: JsonObject, path: string, isValidated: boolean): readonly Tool[] {
  const { functionDeclarations, ...others } = tool;
  const at = `${path}.functionDeclarations`;
  const functions = (optionalArray(functionDeclarations, at) ?? []).map((one, index) =>
    readFunction(mustBeObject(one, `${at}[${index}]`), `${at}[${index}]`, isValidated),
  );
  const served = Object.entries(others).flatMap(([name, settings]): readonly Tool[] =>
    settings === undefined || settings === null
      ? []
      : [
          {
            type: "native",
            wire: "gemini",
            name,
            value: { [name]: settings },
            path: `${path}.${name}`,
          },
        ],
  );
  return [...functions, ...served];
}

function readFunction(fn: JsonObject, path: string, isValidated: boolean): Tool {
  const own = optionalObject(fn["parameters"], `${path}.parameters`);
  const standard = optionalObject(fn["parametersJsonSchema"], `${path}.parametersJsonSchema`);
  const parameters = standard ?? (own && readGeminiSchema(own));
  const native = unknownFields(fn, FUNCTION_FIELDS);
  return {
    type: "function",
    name: mustBeName(fn["name"], `${path}.name`),
    description: optionalString(fn["description"], `${path}.description`),
    parameters,
    strict: (isValidated && isStrictCompatible(parameters)) || undefined,
    native: native && { wire: "gemini", fields: native },
    path,
  };
}

function choiceOf(
  mode: (typeof MODES)[number],
  allowed: readonly string[],
): ToolChoice | undefined {
  const [only, ...more] = allowed;
  switch (mode) {
    case "MODE_UNSPECIFIED":
      return undefined;
    case "AUTO":
      return { type: "auto" };
    case "NONE":
      return { type: "none" };
    case "VALIDATED":
      return only === undefined
        ? { type: "auto" }
        : { type: "allowed", mode: "auto", names: allowed };
    case "ANY":
      if (only === undefined) return { type: "required" };
      return more.length === 0
        ? { type: "tool", name: only }
        : { type: "allowed", mode: "required", names: allowed };
  }
}
