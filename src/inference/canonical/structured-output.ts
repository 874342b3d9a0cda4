// An answer by a JSON schema from a model that has no field for one. Either it must call a tool whose input is the answer,
// or, where a call cannot be forced, its JSON output is switched on and the schema stands among the instructions.
import type { CanonicalRequest, ToolChoice, OutputFormat } from "./request.ts";
import { type Loss, addFieldLoss } from "./loss.ts";
import { type JsonObject, isObject } from "../../base/json.ts";
import type { SchemaEmulation } from "./wire.ts";

const DEFAULT_TOOL_NAME = "structured_output";
const DEFAULT_TOOL_DESCRIPTION = "Gives the answer.";
/** What every provider takes as a tool's name, with room for what tells it from others. */
const TOOL_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,55}$/;

type SchemaFormat = Extract<OutputFormat, { type: "json_schema" }>;

/** The tool trick: the name of the tool that stands for the answer. */
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
      'This model has no output by JSON schema but through a tool, whose input must be of type "object".',
    );
  const usedNames = new Set((request.tools ?? []).map((tool) => tool.name));
  let outputTool = outputToolName(output.name);
  while (usedNames.has(outputTool)) outputTool += "_";
  return { outputTool };
}

function outputToolName(name: string | undefined): string {
  return name !== undefined && TOOL_NAME.test(name) ? name : DEFAULT_TOOL_NAME;
}

/** What the tool that stands for the answer is told to be: its description, and its input's schema. */
export function outputToolDefinition({
  description = DEFAULT_TOOL_DESCRIPTION,
  schema,
}: SchemaFormat): {
  readonly description: string;
  readonly schema: JsonObject;
} {
  return { description, schema: { ...schema, type: "object" } };
}

/** Beside the caller's own tools one of all must be called; else it is the answer's own. A tool that the caller forces comes first. */
export function outputToolChoice(
  { tools = [], toolChoice }: CanonicalRequest,
  { outputTool: name }: SchemaEmulation,
): ToolChoice {
  if (toolChoice?.type === "tool" || toolChoice?.type === "required") return toolChoice;
  return tools.length > 0 && toolChoice?.type !== "none"
    ? { type: "required" }
    : { type: "tool", name };
}

/** The schema as an instruction, for a model whose JSON output is switched on beside it; after the caller's own instructions. */
export function addSchemaInstruction(
  request: CanonicalRequest,
  output: SchemaFormat,
  losses: Loss[],
): CanonicalRequest {
  addStrictnessLoss(output, losses);
  const text = [
    "Give your answer as JSON, with nothing before or after it, that is valid by this JSON Schema:",
    JSON.stringify(output.schema),
    ...(output.description === undefined ? [] : [`What it is: ${output.description}`]),
  ].join("\n");
  return addInstruction(request, text);
}

/** JSON of any form, for a model that has it by a schema alone: it is asked for, and the field for it is not sent. */
export function addJsonInstruction(request: CanonicalRequest, losses: Loss[]): CanonicalRequest {
  losses.push({
    path: request.names?.output ?? "output",
    reason: "This model is asked for a JSON object; nothing makes it.",
    tolerated: true,
  });
  const text =
    "Give your answer as one JSON object, with nothing before or after it, and in no code block.";
  return { ...addInstruction(request, text), output: undefined };
}

function addInstruction(request: CanonicalRequest, text: string): CanonicalRequest {
  const { turns } = request;
  const index = turns.findIndex(({ role }) => role !== "system" && role !== "developer");
  const instruction = { role: "system", parts: [{ type: "text", text }] } as const;
  return { ...request, turns: turns.toSpliced(Math.max(0, index), 0, instruction) };
}

/**
 * Whether a provider that has the field is told to keep the model to the schema. An API that always does has no word for it
 * (Messages); where the schema is not of the form that may be strict, the promise is not made.
 */
export function strictFlag(output: SchemaFormat, losses: Loss[]): boolean | undefined {
  if (output.strict !== undefined || output.strictPath === undefined) return output.strict;
  if (isStrictCompatible(output.schema)) return true;
  addStrictnessLoss(output, losses);
  return undefined;
}

// OpenAI's rule: every object is closed, and all of its members are required.
function isStrictCompatible(schema: unknown): boolean {
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

// No provider keeps the model to the schema then, and what was said cannot be taken back: so the promise is not made. Its
// `strictPath` is where the caller asked for it; like every path, it is no part of equality.
function addStrictnessLoss(output: SchemaFormat, losses: Loss[]): void {
  if (output.strictPath === undefined) return;
  losses.push({
    path: output.strictPath,
    reason: "This model is asked to keep to the schema; nothing makes it.",
    tolerated: true,
  });
}
