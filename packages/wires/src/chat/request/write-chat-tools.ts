import {
  addLoss,
  type Loss,
  nativeToolLossReason,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest, Tool, ToolChoice } from "../../canonical/canonical-request.ts";
import { outputToolDefinition } from "../../canonical/structured-output.ts";
import type { SchemaEmulation, Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import {
  addNativeChoiceLoss,
  allowedTools,
  effectiveToolChoice,
  writeOpenAiStrict,
} from "../../tool-checks.ts";
import { writeCache } from "./write-chat-parts.ts";

// Only OpenAI supports a list of allowed tools; other providers get only the allowed tools.
export function writeTools(
  request: CanonicalRequest,
  target: Target,
  emulation: SchemaEmulation | undefined,
  losses: Loss[],
): JsonObject {
  const { tools = [], output } = request;
  const toolChoice = effectiveToolChoice(request, emulation);
  const isFiltered = toolChoice?.type === "allowed" && target.abilities?.openaiFields === false;
  const written = (isFiltered ? allowedTools(request) : tools)
    .map((tool) => writeTool(tool, target, losses))
    .filter((tool) => tool !== undefined);
  if (emulation !== undefined && output?.type === "json_schema") {
    const { description, schema } = outputToolDefinition(output);
    const fn = { name: emulation.outputTool, description, parameters: schema };
    written.push({ type: "function", function: fn });
  }
  if (written.length === 0) return {};
  const choice = isFiltered ? { type: toolChoice.mode } : toolChoice;
  return {
    tools: written,
    tool_choice: choice && writeChoice(choice, request, losses),
    parallel_tool_calls: request.parallelToolCalls,
  };
}

function writeTool(tool: Tool, target: Target, losses: Loss[]): JsonObject | undefined {
  const path = tool.path ?? `tools.${tool.name}`;
  if (tool.type === "native") {
    if (tool.wire === "chat") return tool.value;
    return addLoss(losses, path, nativeToolLossReason(tool));
  }
  if (tool.type === "custom") {
    const format = tool.format && {
      type: "grammar",
      grammar: { syntax: tool.format.syntax, definition: tool.format.definition },
    };
    const custom = { name: tool.name, description: tool.description, format };
    return {
      type: "custom",
      custom,
      ...takeNativeFields(tool.native, "chat", path, losses),
    };
  }
  const strict = writeOpenAiStrict(tool, path, target, losses);
  const { function: extra, ...rest } = takeNativeFields(tool.native, "chat", path, losses) ?? {};
  const fn: JsonObject = {
    name: tool.name,
    description: tool.description,
    parameters: tool.parameters,
    strict,
  };
  return {
    type: "function",
    function: typeof extra === "object" ? { ...fn, ...extra } : fn,
    ...writeCache(tool.cache, target, path, losses),
    ...rest,
  };
}

function writeChoice(choice: ToolChoice, request: CanonicalRequest, losses: Loss[]): unknown {
  switch (choice.type) {
    case "auto":
    case "none":
    case "required":
      return choice.type;
    case "tool":
      return choice.custom === true
        ? { type: "custom", custom: { name: choice.name } }
        : { type: "function", function: { name: choice.name } };
    case "allowed":
      return {
        type: "allowed_tools",
        allowed_tools: {
          mode: choice.mode,
          tools: choice.names.map((name) => ({ type: "function", function: { name } })),
        },
      };
    case "native":
      if (choice.wire === "chat") return choice.value;
      addNativeChoiceLoss(losses, request);
      return undefined;
  }
}
