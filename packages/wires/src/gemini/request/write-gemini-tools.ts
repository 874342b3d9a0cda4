import {
  addParallelCallsLoss,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest, Tool } from "../../canonical/canonical-request.ts";
import { outputToolDefinition } from "../../canonical/structured-output.ts";
import type { SchemaEmulation, Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { addNativeChoiceLoss, checkFunctionTool, effectiveToolChoice } from "../../tool-checks.ts";

export interface WrittenTools {
  readonly tools?: readonly JsonObject[] | undefined;
  readonly toolConfig?: JsonObject | undefined;
}

/** All functions are declared in one tool; each server tool is a tool of its own. */
export function writeTools(
  request: CanonicalRequest,
  target: Target,
  emulation: SchemaEmulation | undefined,
  losses: Loss[],
): WrittenTools {
  const { tools = [], output } = request;
  const functions: JsonObject[] = [];
  const serverTools: JsonObject[] = [];
  for (const tool of tools) {
    if (tool.type === "native" && tool.wire === "gemini") serverTools.push(tool.value);
    else functions.push(...writeFunction(tool, target, losses));
  }
  if (emulation !== undefined && output?.type === "json_schema") {
    const { description, schema } = outputToolDefinition(output);
    functions.push({ name: emulation.outputTool, description, parametersJsonSchema: schema });
  }
  const written = [
    ...(functions.length === 0 ? [] : [{ functionDeclarations: functions }]),
    ...serverTools,
  ];
  if (written.length === 0) return {};
  addParallelCallsLoss(losses, request);
  const config = functions.length === 0 ? undefined : writeToolConfig(request, emulation, losses);
  return { tools: written, toolConfig: config && { functionCallingConfig: config } };
}

function writeFunction(tool: Tool, target: Target, losses: Loss[]): readonly JsonObject[] {
  const checked = checkFunctionTool(tool, target, losses);
  if (checked === undefined) return [];
  const { tool: fn, path } = checked;
  if (fn.cache !== undefined)
    losses.push({
      path: `${path}.cache_control`,
      reason: "This provider caches automatically.",
      tolerated: true,
    });
  return [
    {
      name: fn.name,
      description: fn.description,
      [isGoogleSchema(fn.parameters) ? "parameters" : "parametersJsonSchema"]: fn.parameters,
      ...takeNativeFields(fn.native, "gemini", path, losses),
    },
  ];
}

/** Whether the schema has Gemini's older form, with types in capitals, which goes in a separate field. */
export function isGoogleSchema(schema: JsonObject | undefined): boolean {
  const type = schema?.["type"];
  return typeof type === "string" && /^[A-Z]+$/.test(type);
}

// VALIDATED enforces the schemas of all tools; ANY, which requires a call, always does.
function writeToolConfig(
  request: CanonicalRequest,
  emulation: SchemaEmulation | undefined,
  losses: Loss[],
): JsonObject | undefined {
  const strict = request.tools?.some((tool) => tool.type === "function" && tool.strict === true);
  const choice = effectiveToolChoice(request, emulation);
  switch (choice?.type) {
    case undefined:
      return strict === true ? { mode: "VALIDATED" } : undefined;
    case "auto":
      return { mode: strict === true ? "VALIDATED" : "AUTO" };
    case "none":
      return { mode: "NONE" };
    case "required":
      return { mode: "ANY" };
    case "tool":
      return { mode: "ANY", allowedFunctionNames: [choice.name] };
    case "allowed":
      return {
        mode: choice.mode === "required" ? "ANY" : "VALIDATED",
        allowedFunctionNames: choice.names,
      };
    case "native":
      if (choice.wire === "gemini") return choice.value;
      addNativeChoiceLoss(losses, request);
      return undefined;
  }
}
