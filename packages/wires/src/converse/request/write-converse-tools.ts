import {
  addParallelCallsLoss,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest, Tool, ToolChoice } from "../../canonical/canonical-request.ts";
import { outputToolDefinition } from "../../canonical/structured-output.ts";
import type { SchemaEmulation, Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import {
  addNativeChoiceLoss,
  allowedTools,
  checkFunctionTool,
  writeClaudeSchema,
  effectiveToolChoice,
} from "../../tool-checks.ts";
import { acceptsSingleCall } from "./converse-model-family.ts";
import { writeCachePoint } from "./write-converse-cache-points.ts";

/** Sent if no tool may be called: the provider rejects a conversation with tool calls but without tools. */
const PLACEHOLDER_TOOL: JsonObject = {
  toolSpec: {
    name: "no_tool_available",
    description: "Tools cannot be called now. Never call this; answer in text.",
    inputSchema: { json: { type: "object", properties: {} } },
  },
};

export interface WrittenTools {
  readonly toolConfig?: JsonObject | undefined;
  /** Fields of `additionalModelRequestFields`. */
  readonly additionalFields?: JsonObject | undefined;
}

export function writeTools(
  request: CanonicalRequest,
  target: Target,
  emulation: SchemaEmulation | undefined,
  losses: Loss[],
): WrittenTools {
  const { output } = request;
  const choice = effectiveToolChoice(request, emulation);
  const tools = choice?.type === "none" ? [] : allowedTools(request);
  const written: JsonObject[] = [];
  for (const tool of tools) written.push(...writeTool(tool, target, losses));
  if (emulation !== undefined && output?.type === "json_schema") {
    const { description, schema } = outputToolDefinition(output);
    written.push({
      toolSpec: { name: emulation.outputTool, description, inputSchema: { json: schema } },
    });
  }
  if (written.length === 0)
    return hasCalls(request) ? { toolConfig: placeholderTools(request, losses) } : {};
  const toolChoice = writeChoice(choice, request, losses);
  if (request.parallelToolCalls !== false || !acceptsSingleCall(target)) {
    addParallelCallsLoss(losses, request);
    return { toolConfig: { tools: written, toolChoice } };
  }
  return forbidParallelCalls(written, toolChoice);
}

/** Claude's own field, which Converse merges with its `toolChoice`: the type may be in only one of them. */
function forbidParallelCalls(
  tools: readonly JsonObject[],
  toolChoice: JsonObject | undefined,
): WrittenTools {
  const common = { disable_parallel_tool_use: true };
  const isForced = toolChoice !== undefined && !("auto" in toolChoice);
  return isForced
    ? { toolConfig: { tools, toolChoice }, additionalFields: { tool_choice: common } }
    : { toolConfig: { tools }, additionalFields: { tool_choice: { type: "auto", ...common } } };
}

function hasCalls({ turns }: CanonicalRequest): boolean {
  return turns.some((turn) => turn.parts.some((part) => part.type === "tool_call"));
}

function placeholderTools(request: CanonicalRequest, losses: Loss[]): JsonObject {
  if (request.tools !== undefined)
    losses.push({
      path: request.names?.toolChoice ?? "tool_choice",
      reason:
        "This provider cannot forbid tool calls, so a placeholder tool is sent instead of the tools.",
      tolerated: true,
    });
  return { tools: [PLACEHOLDER_TOOL] };
}

function writeTool(tool: Tool, target: Target, losses: Loss[]): readonly JsonObject[] {
  if (tool.type === "native" && tool.wire === "converse") return [tool.value];
  const checked = checkFunctionTool(tool, target, losses);
  if (checked === undefined) return [];
  const { tool: fn, path } = checked;
  const { schema, strict } = writeClaudeSchema(checked, losses);
  const toolSpec: JsonObject = {
    name: fn.name,
    description: fn.description || undefined,
    inputSchema: { json: schema },
    strict: strict || undefined,
    ...takeNativeFields(fn.native, "converse", path, losses),
  };
  const cache = writeCachePoint(fn.cache, path, { target, losses, location: "tools" });
  return cache === undefined ? [{ toolSpec }] : [{ toolSpec }, cache];
}

function writeChoice(
  choice: ToolChoice | undefined,
  request: CanonicalRequest,
  losses: Loss[],
): JsonObject | undefined {
  switch (choice?.type) {
    case undefined:
    case "none":
      return undefined;
    case "auto":
      return { auto: {} };
    case "required":
      return { any: {} };
    case "tool":
      return { tool: { name: choice.name } };
    case "allowed":
      return choice.mode === "required" ? { any: {} } : { auto: {} };
    case "native":
      if (choice.wire === "converse") return choice.value;
      addNativeChoiceLoss(losses, request);
      return undefined;
  }
}
