import type { CanonicalRequest, Tool, ToolChoice } from "../../../canonical/request.ts";
import {
  type Loss,
  addFieldLoss,
  takeNativeFields,
  nativeToolLossReason,
} from "../../../canonical/loss.ts";
import type { JsonObject } from "../../../../base/json.ts";
import { outputToolChoice, outputToolDefinition } from "../../../canonical/structured-output.ts";
import type { SchemaEmulation, Target } from "../../../canonical/wire.ts";
import { writeCache } from "./write-parts.ts";

// Which of the tools are allowed is OpenAI's own way to say; elsewhere the others are left out.
export function writeTools(
  request: CanonicalRequest,
  target: Target,
  emulation: SchemaEmulation | undefined,
  losses: Loss[],
): JsonObject {
  const { tools = [], output } = request;
  const toolChoice =
    emulation === undefined ? request.toolChoice : outputToolChoice(request, emulation);
  const filtered =
    toolChoice?.type === "allowed" && target.abilities?.openaiFields === false
      ? toolChoice
      : undefined;
  const written = tools
    .filter((tool) => filtered === undefined || filtered.names.includes(tool.name))
    .map((tool) => writeTool(tool, target, losses))
    .filter((tool) => tool !== undefined);
  if (emulation !== undefined && output?.type === "json_schema") {
    const { description, schema } = outputToolDefinition(output);
    const fn = { name: emulation.outputTool, description, parameters: schema };
    written.push({ type: "function", function: fn });
  }
  if (written.length === 0) return {};
  const choice = filtered === undefined ? toolChoice : { type: filtered.mode };
  return {
    tools: written,
    tool_choice: choice && writeChoice(choice, request, losses),
    parallel_tool_calls: request.parallelToolCalls,
  };
}

function writeTool(tool: Tool, target: Target, losses: Loss[]): JsonObject | undefined {
  const at = tool.path ?? `tools.${tool.name}`;
  if (tool.type === "native") {
    if (tool.wire === "chat") return tool.value;
    losses.push({
      path: at,
      reason: nativeToolLossReason(tool),
    });
    return undefined;
  }
  if (tool.type === "custom") {
    const format = tool.format && {
      type: "grammar",
      grammar: { syntax: tool.format.syntax, definition: tool.format.definition },
    };
    return { type: "custom", custom: { name: tool.name, description: tool.description, format } };
  }
  const strict = target.abilities?.strictTools === false ? undefined : tool.strict;
  if (tool.strict === true && strict === undefined)
    losses.push({ path: `${at}.strict`, reason: "This model has no strict tools." });
  const { function: extra, ...rest } = takeNativeFields(tool.native, "chat", at, losses) ?? {};
  const fn: JsonObject = {
    name: tool.name,
    description: tool.description,
    parameters: tool.parameters,
    strict,
  };
  return {
    type: "function",
    function: typeof extra === "object" ? { ...fn, ...extra } : fn,
    ...writeCache(tool.cache, target, at, losses),
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
      addFieldLoss(
        losses,
        request,
        "toolChoice",
        "It chooses a server tool that this provider does not have.",
      );
      return undefined;
  }
}
