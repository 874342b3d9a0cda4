import type { CanonicalRequest, Tool, ToolChoice } from "../../../canonical/request.ts";
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
import { writeCachePoint } from "./write-cache-points.ts";

const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** A conversation with calls in it is refused without tools: where none may be called, this one stands for them. */
const PLACEHOLDER_TOOL: JsonObject = {
  toolSpec: {
    name: "no_tool_available",
    description: "Tools cannot be called now. Never call this; answer in text.",
    inputSchema: { json: { type: "object", properties: {} } },
  },
};

export function writeTools(
  request: CanonicalRequest,
  target: Target,
  emulation: SchemaEmulation | undefined,
  losses: Loss[],
): JsonObject | undefined {
  const { toolChoice, output } = request;
  const choice = emulation === undefined ? toolChoice : outputToolChoice(request, emulation);
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
    return hasCalls(request) ? placeholderTools(request, losses) : undefined;
  addParallelCallsLoss(losses, request);
  return { tools: written, toolChoice: writeChoice(choice, request, losses) };
}

/** Whether a call is forced, which some models refuse to think before. */
export function isToolForced(
  request: CanonicalRequest,
  emulation: SchemaEmulation | undefined,
): boolean {
  const choice =
    emulation === undefined ? request.toolChoice : outputToolChoice(request, emulation);
  return (
    choice?.type === "required" ||
    choice?.type === "tool" ||
    (choice?.type === "allowed" && choice.mode === "required")
  );
}

function allowedTools({ tools = [], toolChoice }: CanonicalRequest): readonly Tool[] {
  if (toolChoice?.type !== "allowed") return tools;
  const allowed = new Set(toolChoice.names);
  return tools.filter((tool) => allowed.has(tool.name));
}

function hasCalls({ turns }: CanonicalRequest): boolean {
  return turns.some((turn) => turn.parts.some((part) => part.type === "tool_call"));
}

function placeholderTools(request: CanonicalRequest, losses: Loss[]): JsonObject {
  if (request.tools !== undefined)
    losses.push({
      path: request.names?.toolChoice ?? "tool_choice",
      reason:
        "This provider has no such choice: the tools were left out, and one that must not be called stands for them.",
      tolerated: true,
    });
  return { tools: [PLACEHOLDER_TOOL] };
}

function writeTool(tool: Tool, target: Target, losses: Loss[]): readonly JsonObject[] {
  const at = tool.path ?? `tools.${tool.name}`;
  if (tool.type === "native" && tool.wire === "converse") return [tool.value];
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
      reason: "At this provider a tool's name has at most 64 letters, digits, _ and -.",
    });
  const strict = target.abilities?.strictTools === false ? undefined : tool.strict;
  if (tool.strict === true && strict === undefined)
    losses.push({ path: `${at}.strict`, reason: "This model has no strict tools." });
  const toolSpec: JsonObject = {
    name: tool.name,
    description: tool.description || undefined,
    inputSchema: { json: { ...(tool.parameters ?? { properties: {} }), type: "object" } },
    strict: strict || undefined,
    ...takeNativeFields(tool.native, "converse", at, losses),
  };
  const cache = writeCachePoint(tool.cache, at, { target, losses, location: "tools" });
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
      addFieldLoss(
        losses,
        request,
        "toolChoice",
        "It chooses a server tool that this provider does not have.",
      );
      return undefined;
  }
}
