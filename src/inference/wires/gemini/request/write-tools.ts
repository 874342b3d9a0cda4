import type { CanonicalRequest, Tool } from "../../../canonical/request.ts";
import {
  type Loss,
  addFieldLoss,
  addParallelCallsLoss,
  takeNativeFields,
  nativeToolLossReason,
} from "../../../canonical/loss.ts";
import type { JsonObject } from "../../../../base/json.ts";
import { outputToolChoice, outputToolDefinition } from "../../../canonical/structured-output.ts";
import type { SchemaEmulation, Target } from "../../../canonical/wire.ts";

const TOOL_NAME = /^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$/;

export interface WrittenTools {
  readonly tools?: readonly JsonObject[] | undefined;
  readonly toolConfig?: JsonObject | undefined;
}

/** All functions stand in one tool; each server tool is one of its own. */
export function writeTools(
  request: CanonicalRequest,
  target: Target,
  emulation: SchemaEmulation | undefined,
  losses: Loss[],
): WrittenTools {
  const { tools = [], output } = request;
  const functions: JsonObject[] = [];
  const others: JsonObject[] = [];
  for (const tool of tools) {
    if (tool.type === "native" && tool.wire === "gemini") others.push(tool.value);
    else functions.push(...writeFunction(tool, target, losses));
  }
  if (emulation !== undefined && output?.type === "json_schema") {
    const { description, schema } = outputToolDefinition(output);
    functions.push({ name: emulation.outputTool, description, parametersJsonSchema: schema });
  }
  const written = [
    ...(functions.length === 0 ? [] : [{ functionDeclarations: functions }]),
    ...others,
  ];
  if (written.length === 0) return {};
  addParallelCallsLoss(losses, request);
  const config = functions.length === 0 ? undefined : writeToolConfig(request, emulation, losses);
  return { tools: written, toolConfig: config && { functionCallingConfig: config } };
}

function writeFunction(tool: Tool, target: Target, losses: Loss[]): readonly JsonObject[] {
  const at = tool.path ?? `tools.${tool.name}`;
  if (tool.type !== "function") {
    losses.push({
      path: at,
      reason:
        tool.type === "custom"
          ? "This provider has no tools with free text for input."
          : nativeToolLossReason(tool),
    });
    return [];
  }
  if (!TOOL_NAME.test(tool.name))
    losses.push({
      path: `${at}.name`,
      reason:
        "At this provider a tool's name has letters, digits and _ . : - only, and begins with a letter or _.",
    });
  if (tool.strict === true && target.abilities?.strictTools === false)
    losses.push({ path: `${at}.strict`, reason: "This model has no strict tools." });
  if (tool.cache !== undefined)
    losses.push({
      path: `${at}.cache_control`,
      reason: "This provider caches by itself.",
      tolerated: true,
    });
  return [
    {
      name: tool.name,
      description: tool.description,
      [isGoogleSchema(tool.parameters) ? "parameters" : "parametersJsonSchema"]: tool.parameters,
      ...takeNativeFields(tool.native, "gemini", at, losses),
    },
  ];
}

/** Whether it is a schema in this API's older form, with its types in capitals, which has a field of its own. */
export function isGoogleSchema(schema: JsonObject | undefined): boolean {
  const type = schema?.["type"];
  return typeof type === "string" && /^[A-Z]+$/.test(type);
}

// Decoding that keeps to the schemas is a mode of all tools together; where a call is forced, it is always kept to.
function writeToolConfig(
  request: CanonicalRequest,
  emulation: SchemaEmulation | undefined,
  losses: Loss[],
): JsonObject | undefined {
  const strict = request.tools?.some((tool) => tool.type === "function" && tool.strict === true);
  const choice =
    emulation === undefined ? request.toolChoice : outputToolChoice(request, emulation);
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
      addFieldLoss(
        losses,
        request,
        "toolChoice",
        "It chooses a server tool that this provider does not have.",
      );
      return undefined;
  }
}
