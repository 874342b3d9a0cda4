// Refuses schemas that OpenAI's and Anthropic's strict mode does not take, with their error messages. It applies to models named
// like theirs; other models take any schema.

import { arrayIn, isObject, type JsonObject, stringsOf } from "../json-readers.ts";
import type { SimulatedWire } from "../wires/simulated-wire.ts";
import {
  invalidRequest,
  type InvalidRequest,
  type NormalizedRequest,
} from "./normalized-request.ts";

const OPENAI_MODELS = /(^|\/)(gpt-|o\d)/;
const CLAUDE_MODELS = /claude-/;

export function strictSchemaError(
  wire: SimulatedWire["name"],
  request: NormalizedRequest,
): InvalidRequest | undefined {
  if (wire === "chat" || wire === "responses")
    return OPENAI_MODELS.test(request.model) ? openAiError(wire, request) : undefined;
  if (wire === "gemini" || !CLAUDE_MODELS.test(request.model)) return undefined;
  const message = claudeError(request);
  if (message === undefined) return undefined;
  const prefix = wire === "converse" ? "The model returned the following errors: " : "";
  return invalidRequest(400, `${prefix}${message}`);
}

function openAiError(
  wire: "chat" | "responses",
  { tools, responseFormat }: NormalizedRequest,
): InvalidRequest | undefined {
  for (const [index, { name, schema, isStrict }] of tools.entries()) {
    const problem = isStrict === true ? openAiProblem(schema, []) : undefined;
    if (problem === undefined) continue;
    const param = `tools[${index}].${wire === "chat" ? "function.parameters" : "parameters"}`;
    const message = `Invalid schema for function '${name}': ${problem}`;
    return invalidRequest(400, message, param, "invalid_function_parameters");
  }
  if (responseFormat.kind !== "schema" || responseFormat.isStrict !== true) return undefined;
  const problem = openAiProblem(responseFormat.schema, []);
  if (problem === undefined) return undefined;
  const message = `Invalid schema for response_format '${responseFormat.name ?? ""}': ${problem}`;
  return invalidRequest(400, message, wire === "chat" ? "response_format" : "text.format.schema");
}

/** Objects are closed, and all of their properties are required. */
function openAiProblem(schema: unknown, path: readonly string[]): string | undefined {
  if (!isObject(schema)) return undefined;
  const context = `In context=(${path.map((step) => `'${step}'`).join(", ")}${path.length === 1 ? "," : ""})`;
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  if (schema["type"] === "object" && schema["additionalProperties"] !== false)
    return `${context}, 'additionalProperties' is required to be supplied and to be false.`;
  const required = stringsOf(schema["required"]);
  const missing = Object.keys(properties).find((name) => !required.includes(name));
  if (missing !== undefined)
    return `${context}, 'required' is required to be supplied and to be an array including every key in properties. Missing '${missing}'.`;
  return firstOf(childSchemas(schema), ({ path: steps, schema: child }) =>
    openAiProblem(child, [...path, ...steps]),
  );
}

function claudeError({ tools, responseFormat }: NormalizedRequest): string | undefined {
  for (const [index, { schema, isStrict }] of tools.entries()) {
    const problem = isStrict === true ? claudeSchemaProblem(schema) : undefined;
    if (problem !== undefined) return `tools.${index}.custom: ${problem}`;
  }
  if (responseFormat.kind !== "schema") return undefined;
  const problem = claudeSchemaProblem(responseFormat.schema);
  return problem === undefined ? undefined : `output_config.format.schema: ${problem}`;
}

function claudeSchemaProblem(schema: unknown): string | undefined {
  const definitions = isObject(schema) ? (schema["$defs"] ?? schema["definitions"]) : undefined;
  const circle = isObject(definitions)
    ? firstOf(Object.keys(definitions), (name) => circularReference(definitions, [name]))
    : undefined;
  return circle === undefined
    ? claudeProblem(schema)
    : `Circular reference detected in schema definitions: ${circle.join(" -> ")}. Self-referencing or mutually-referencing definitions are not supported.`;
}

/** The definitions from the first of `path` back to it. */
function circularReference(
  definitions: JsonObject,
  path: readonly string[],
): readonly string[] | undefined {
  const text = JSON.stringify(definitions[path.at(-1) ?? ""]) ?? "";
  const names = [...text.matchAll(/"\$ref":"#\/(?:\$defs|definitions)\/([^"]+)"/g)];
  return firstOf(names, ([, name = ""]) => {
    if (name === path[0]) return [...path, name];
    return path.includes(name) ? undefined : circularReference(definitions, [...path, name]);
  });
}

const CLAUDE_UNSUPPORTED: Readonly<Record<string, readonly string[]>> = {
  string: ["minLength", "maxLength"],
  integer: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  array: ["maxItems", "uniqueItems"],
};

function claudeProblem(schema: unknown): string | undefined {
  if (!isObject(schema)) return undefined;
  const type = typeof schema["type"] === "string" ? schema["type"] : "";
  if (type === "object" && schema["additionalProperties"] !== false)
    return "For 'object' type, 'additionalProperties' must be explicitly set to false";
  const unsupported = Object.entries(CLAUDE_UNSUPPORTED)
    .flatMap(([name, keywords]) => (name === type ? keywords : []))
    .filter((keyword) => keyword in schema);
  if (unsupported.length === 1)
    return `For '${type}' type, property '${unsupported[0]}' is not supported`;
  if (unsupported.length > 1)
    return `For '${type}' type, properties ${unsupported.toSorted().join(", ")} are not supported`;
  return firstOf(childSchemas(schema), ({ schema: child }) => claudeProblem(child));
}

interface ChildSchema {
  readonly path: readonly string[];
  readonly schema: unknown;
}

function childSchemas(schema: JsonObject): ChildSchema[] {
  const named = ["properties", "$defs", "definitions"].flatMap((key) =>
    Object.entries(isObject(schema[key]) ? schema[key] : {}).map(([name, child]) => ({
      path: [key, name],
      schema: child,
    })),
  );
  const listed = ["anyOf", "allOf", "oneOf"].flatMap((key) =>
    arrayIn(schema[key]).map((child, index) => ({ path: [key, String(index)], schema: child })),
  );
  return [...named, ...listed, { path: ["items"], schema: schema["items"] }];
}

function firstOf<T, R>(values: readonly T[], find: (value: T) => R | undefined): R | undefined {
  for (const value of values) {
    const found = find(value);
    if (found !== undefined) return found;
  }
  return undefined;
}
