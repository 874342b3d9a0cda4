// JSON schema output for models that have no field for a schema: by a forced tool call whose input is the output, or, if a
// call cannot be forced, by JSON mode with the schema in the instructions.

import { isObject, type JsonObject } from "../json-fields.ts";
import { addFieldLoss, addToleratedLoss, fieldPath, type Loss } from "./canonical-losses.ts";
import type { CanonicalRequest, OutputFormat, ToolChoice } from "./canonical-request.ts";
import { reduceSchema, type SchemaRules } from "./reduced-schema.ts";
import type { SchemaEmulation, Target } from "./wire-interfaces.ts";

const DEFAULT_TOOL_NAME = "structured_output";
const DEFAULT_TOOL_DESCRIPTION = "Returns the answer.";
/** Accepted by every provider, and short enough for the `_` that make it unique. */
const TOOL_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,55}$/;

type SchemaFormat = Extract<OutputFormat, { type: "json_schema" }>;

export function emulateByTool(
  request: CanonicalRequest,
  output: SchemaFormat,
  losses: Loss[],
): SchemaEmulation {
  addStrictnessLoss(output, losses);
  const { type } = output.schema;
  if (type !== undefined && !(typeof type === "string" && /^object$/i.test(type)))
    addFieldLoss(
      losses,
      request,
      "output",
      'This model supports only JSON schemas of type "object".',
    );
  const usedNames = new Set((request.tools ?? []).map((tool) => tool.name));
  let outputTool = outputToolName(output.name);
  while (usedNames.has(outputTool)) outputTool += "_";
  return { outputTool };
}

/** The schema in the part of JSON Schema that the provider supports; undefined if it has to be emulated by a tool. Changes are listed as losses. */
export function reduceOutput(
  output: SchemaFormat,
  request: CanonicalRequest,
  rules: SchemaRules,
  losses: Loss[],
): JsonObject | undefined {
  const reduced = reduceSchema(output.schema, rules);
  if (reduced?.isChanged === true)
    addToleratedLoss(
      losses,
      `${fieldPath(request, "output")}.schema`,
      "This provider supports only a part of JSON Schema; other keywords are in the description.",
    );
  return reduced?.schema;
}

function outputToolName(name: string | undefined): string {
  return name !== undefined && TOOL_NAME.test(name) ? name : DEFAULT_TOOL_NAME;
}

export function outputToolDefinition({
  description = DEFAULT_TOOL_DESCRIPTION,
  schema,
}: SchemaFormat): {
  readonly description: string;
  readonly schema: JsonObject;
} {
  return { description, schema: { ...schema, type: "object" } };
}

/** A tool that the caller forces takes precedence. Next to other tools the model must call any of them, else the output tool. */
export function outputToolChoice(
  { tools = [], toolChoice }: CanonicalRequest,
  { outputTool: name }: SchemaEmulation,
): ToolChoice {
  if (toolChoice?.type === "tool" || toolChoice?.type === "required") return toolChoice;
  return tools.length > 0 && toolChoice?.type !== "none"
    ? { type: "required" }
    : { type: "tool", name };
}

/** Adds the schema as an instruction after the caller's own. */
export function addSchemaInstruction(
  request: CanonicalRequest,
  output: SchemaFormat,
  losses: Loss[],
): CanonicalRequest {
  addStrictnessLoss(output, losses);
  const text = [
    "Answer only with JSON, without any other text and without a code block, that is valid against this JSON Schema:",
    JSON.stringify(output.schema),
    ...(output.description === undefined ? [] : [`Description: ${output.description}`]),
  ].join("\n");
  return addInstruction(request, text);
}

/** Asks for JSON without a schema, for a model that has no JSON mode. */
export function addJsonInstruction(request: CanonicalRequest, losses: Loss[]): CanonicalRequest {
  addToleratedLoss(
    losses,
    fieldPath(request, "output"),
    "This model is instructed to return a JSON object; the provider does not enforce it.",
  );
  const text = "Answer only with one JSON object, without any other text and without a code block.";
  return { ...addInstruction(request, text), output: undefined };
}

/** Adds the text after the caller's own instructions. */
export function addInstruction(request: CanonicalRequest, text: string): CanonicalRequest {
  const { turns } = request;
  const index = turns.findIndex(({ role }) => role !== "system" && role !== "developer");
  const instruction = { role: "system", parts: [{ type: "text", text }] } as const;
  return { ...request, turns: turns.toSpliced(Math.max(0, index), 0, instruction) };
}

/**
 * The `strict` flag for a provider that has one. `strictPath` is set for a schema of the Messages API, which has no flag and
 * always enforces, and for a strict schema that OpenAI refuses: it is sent as strict if it can be, and is a tolerated loss otherwise.
 */
export function strictFlag(
  output: SchemaFormat,
  { abilities }: Target,
  losses: Loss[],
): boolean | undefined {
  if (output.strictPath === undefined) return output.strict;
  if (output.strict === true && abilities?.openaiFields === false) return true;
  if (isStrictCompatible(output.schema)) return true;
  addStrictnessLoss(output, losses);
  return undefined;
}

/** OpenAI's rule: objects have no additional properties, and every property is required. */
export function isStrictCompatible(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(isStrictCompatible);
  if (!isObject(schema)) return true;
  const { properties, required, additionalProperties } = schema;
  const names = isObject(properties) ? Object.keys(properties) : [];
  const requiredNames = Array.isArray(required) ? required : [];
  const isClosed =
    additionalProperties === false && names.every((name) => requiredNames.includes(name));
  if ((schema["type"] === "object" || isObject(properties)) && !isClosed) return false;
  if (schema["oneOf"] !== undefined || schema["allOf"] !== undefined) return false;
  return ["properties", "$defs", "definitions"]
    .flatMap((key) => (isObject(schema[key]) ? Object.values(schema[key]) : []))
    .concat([schema["items"], schema["anyOf"]])
    .every(isStrictCompatible);
}

function addStrictnessLoss(output: SchemaFormat, losses: Loss[]): void {
  if (output.strictPath === undefined) return;
  addToleratedLoss(
    losses,
    output.strictPath,
    "This model is instructed to follow the schema; the provider does not enforce it.",
  );
}
