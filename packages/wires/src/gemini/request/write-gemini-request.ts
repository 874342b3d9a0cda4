import { type Loss, takeNativeFields } from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest } from "../../canonical/canonical-request.ts";
import { GEMINI_SCHEMA } from "../../canonical/reduced-schema.ts";
import {
  addJsonInstruction,
  emulateByTool,
  reduceOutput,
} from "../../canonical/structured-output.ts";
import type { SchemaEmulation, Target, WrittenRequest } from "../../canonical/wire-interfaces.ts";
import { type JsonObject, objectIn, omitIfEmpty } from "../../json-fields.ts";
import { writeScalars } from "../../scalar-fields.ts";
import { GEMINI_FIELDS } from "./gemini-fields.ts";
import { isGenerationThreeOrLater } from "./gemini-model-generation.ts";
import { writeThinking } from "./write-gemini-thinking.ts";
import { isGoogleSchema, writeTools } from "./write-gemini-tools.ts";
import { writeTurns } from "./write-gemini-turns.ts";

export function writeRequest(original: CanonicalRequest, target: Target): WrittenRequest {
  const losses: Loss[] = [];
  const scalars = writeScalars(GEMINI_FIELDS, { request: original, target, losses });
  const needsJsonInstruction =
    original.output?.type === "json_object" && !acceptsSchemaWithTools(original, target);
  const request = needsJsonInstruction ? addJsonInstruction(original, losses) : original;
  const emulation = emulate(request, target, losses);
  const native = nested(takeNativeFields(request.native, "gemini", "", losses) ?? {});
  const config = objectIn(native["generationConfig"]);
  const { tools, toolConfig } = mustOmitTools(request, target)
    ? {}
    : writeTools(request, target, emulation, losses);
  const body: JsonObject = {
    ...native,
    ...scalars,
    ...writeTurns(request, target, losses),
    tools,
    toolConfig: omitIfEmpty({ ...objectIn(native["toolConfig"]), ...toolConfig }),
    generationConfig: omitIfEmpty({
      ...config,
      ...objectIn(scalars["generationConfig"]),
      ...(emulation === undefined ? writeOutput(request, losses) : undefined),
      thinkingConfig: omitIfEmpty({
        ...objectIn(config?.["thinkingConfig"]),
        ...writeThinking(request, target, losses),
      }),
    }),
  };
  return { body, losses, emulation, path: operationPath(target.model, request.stream === true) };
}

/** The reader lists the fields of an object by their path, such as `generationConfig.speechConfig`. */
function nested(fields: JsonObject): JsonObject {
  const result: Record<string, unknown> = {};
  for (const [path, value] of Object.entries(fields)) {
    const names = path.split(".");
    let holder = result;
    for (const name of names.slice(0, -1)) {
      const inner: Record<string, unknown> = { ...objectIn(holder[name]) };
      holder[name] = inner;
      holder = inner;
    }
    holder[names.at(-1) ?? path] = value;
  }
  return result;
}

// Models before Gemini 3 reject functions together with JSON output, even if no call is allowed.
function mustOmitTools({ output, toolChoice }: CanonicalRequest, target: Target): boolean {
  const isJson = output !== undefined && output.type !== "text";
  return isJson && toolChoice?.type === "none" && !isGenerationThreeOrLater(target);
}

function writeOutput(request: CanonicalRequest, losses: Loss[]): JsonObject | undefined {
  const { output } = request;
  if (output === undefined || output.type === "text") return undefined;
  const responseMimeType = "application/json";
  if (output.type === "json_object") return { responseMimeType };
  const { description } = output;
  const isGoogle = isGoogleSchema(output.schema);
  const schema = isGoogle
    ? output.schema
    : (reduceOutput(output, request, GEMINI_SCHEMA, losses) ?? output.schema);
  return {
    responseMimeType,
    [isGoogle ? "responseSchema" : "responseJsonSchema"]:
      description === undefined || schema["description"] !== undefined
        ? schema
        : { ...schema, description },
  };
}

/** Models before Gemini 3 reject JSON output together with functions that may be called. */
function acceptsSchemaWithTools(
  { tools = [], toolChoice }: CanonicalRequest,
  target: Target,
): boolean {
  const allowsCalls = toolChoice?.type !== "none" && tools.some((tool) => tool.type === "function");
  return !allowsCalls || isGenerationThreeOrLater(target);
}

// If JSON output cannot be combined with functions, the schema is emulated by a tool.
function emulate(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): SchemaEmulation | undefined {
  const { output } = request;
  if (output?.type !== "json_schema") return undefined;
  return target.abilities?.jsonSchema !== false && acceptsSchemaWithTools(request, target)
    ? undefined
    : emulateByTool(request, output, losses);
}

/** The path below the provider's base URL. A name with a slash (`tunedModels/x`) includes its own collection. */
export function operationPath(model: string, isStream: boolean): string {
  const name = model.includes("/") ? model : `models/${encodeURIComponent(model)}`;
  return `/${name}:${isStream ? "streamGenerateContent?alt=sse" : "generateContent"}`;
}
