import type { CanonicalRequest, Tool, ToolChoice } from "../../../canonical/request.ts";
import {
  type Loss,
  addFieldLoss,
  takeNativeFields,
  nativeToolLossReason,
} from "../../../canonical/loss.ts";
import type { JsonObject } from "../../../../base/json.ts";
import type { Target } from "../../../canonical/wire.ts";
import {
  namespacedNameOf,
  groupByNamespace,
  isNamespacedTool,
  type NamespacedTool,
} from "./namespaces.ts";

export function writeTools(request: CanonicalRequest, target: Target, losses: Loss[]): JsonObject {
  const { tools, toolChoice } = request;
  const written = groupByNamespace(tools ?? [], (tool) => writeTool(tool, target, losses));
  if (written.length === 0) return {};
  return {
    tools: written,
    tool_choice: toolChoice && writeChoice(toolChoice, request, losses),
    parallel_tool_calls: request.parallelToolCalls,
  };
}

// Without `strict` this API tries to make any schema strict, which other APIs do not: it is always said.
function writeTool(tool: Tool, target: Target, losses: Loss[]): JsonObject | undefined {
  const at = tool.path ?? `tools.${tool.name}`;
  if (tool.type !== "function") return writeUnsupportedTool(tool, at, losses);
  const strict = target.abilities?.strictTools === false ? false : (tool.strict ?? false);
  if (tool.strict === true && !strict)
    losses.push({ path: `${at}.strict`, reason: "This model has no strict tools." });
  if (tool.cache !== undefined)
    losses.push({
      path: `${at}.cache_control`,
      reason: "This provider has no cache mark on a tool.",
      tolerated: true,
    });
  return {
    ...toolObject(tool),
    strict,
    ...takeNativeFields(tool.native, "responses", at, losses),
  };
}

function writeUnsupportedTool(
  tool: Exclude<Tool, { type: "function" }>,
  at: string,
  losses: Loss[],
): JsonObject | undefined {
  if (tool.type === "custom" || tool.wire === "responses") return toolObject(tool);
  losses.push({
    path: at,
    reason: nativeToolLossReason(tool),
  });
  return undefined;
}

/** A tool in this API's flat form; a reply repeats the caller's tools in it. */
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
  addFieldLoss(
    losses,
    request,
    "toolChoice",
    "It chooses a server tool that this provider does not have.",
  );
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
