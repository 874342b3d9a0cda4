import {
  addLoss,
  addToleratedLoss,
  type Loss,
  nativeToolLossReason,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest, Tool, ToolChoice } from "../../canonical/canonical-request.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { addNativeChoiceLoss, writeOpenAiStrict } from "../../tool-checks.ts";
import {
  groupByNamespace,
  isNamespacedTool,
  namespacedNameOf,
  type NamespacedTool,
} from "./responses-namespaces.ts";

export function writeTools(request: CanonicalRequest, target: Target, losses: Loss[]): JsonObject {
  const { tools, toolChoice } = request;
  const written = groupByNamespace(listedTools(tools), (tool) => writeTool(tool, target, losses));
  if (written.length === 0) return {};
  return {
    tools: written,
    tool_choice: toolChoice && writeChoice(toolChoice, request, losses),
    parallel_tool_calls: request.parallelToolCalls,
  };
}

// `strict` is always sent: without it this API makes schemas strict, unlike other APIs.
function writeTool(tool: Tool, target: Target, losses: Loss[]): JsonObject | undefined {
  const path = tool.path ?? `tools.${tool.name}`;
  if (tool.type === "native" && tool.wire !== "responses")
    return addLoss(losses, path, nativeToolLossReason(tool));
  if (tool.type === "native") return toolObject(tool);
  if (tool.type === "custom")
    return { ...toolObject(tool), ...takeNativeFields(tool.native, "responses", path, losses) };
  const strict = writeOpenAiStrict(tool, path, target, losses) ?? false;
  if (tool.cache !== undefined) {
    const reason = "This provider does not support this cache breakpoint.";
    addToleratedLoss(losses, `${path}.cache_control`, reason);
  }
  return {
    ...toolObject(tool),
    strict,
    ...takeNativeFields(tool.native, "responses", path, losses),
  };
}

/** Excludes the tools that items of the conversation load. */
export function listedTools(tools: readonly Tool[] = []): readonly Tool[] {
  return tools.filter((tool) => tool.type === "native" || tool.isLoaded !== true);
}

/** A tool in this API's format, in requests and repeated in responses. */
export function toolObject(one: Tool): JsonObject {
  const tool = isNamespacedTool(one) ? { ...one, ...namesOf(one) } : one;
  switch (tool.type) {
    case "function":
      return {
        type: "function",
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters ?? { type: "object", properties: {} },
        strict: tool.strict,
      };
    case "custom":
      return {
        type: "custom",
        name: tool.name,
        description: tool.description,
        format: tool.format && {
          type: "grammar",
          syntax: tool.format.syntax,
          definition: tool.format.definition,
        },
      };
    case "native":
      return tool.value;
  }
}

function namesOf({ member }: NamespacedTool): Pick<NamespacedTool, "name" | "description"> {
  return { name: member.name, description: member.description };
}

function writeChoice(choice: ToolChoice, request: CanonicalRequest, losses: Loss[]): unknown {
  if (choice.type !== "native" || choice.wire === "responses")
    return toolChoiceObject(choice, request);
  addNativeChoiceLoss(losses, request);
  return undefined;
}

export function toolChoiceObject(choice: ToolChoice, { tools = [] }: CanonicalRequest): unknown {
  switch (choice.type) {
    case "auto":
    case "none":
    case "required":
      return choice.type;
    case "tool":
      return {
        type: choice.custom === true ? "custom" : "function",
        ...namespacedNameOf(tools, choice.name),
      };
    case "allowed": {
      const custom = new Set(
        tools.filter((tool) => tool.type === "custom").map(({ name }) => name),
      );
      const allowed = choice.names.map((name) => ({
        type: custom.has(name) ? "custom" : "function",
        ...namespacedNameOf(tools, name),
      }));
      return { type: "allowed_tools", mode: choice.mode, tools: allowed };
    }
    case "native":
      return choice.value;
  }
}
