// Searches for tools, tools that are loaded in the conversation, and programs that call tools save tokens. At a provider of
// another API the model gets all tools at once and calls them itself, so it can do the same without them. An advisor only
// comments on the model's plan, so the model answers without it, too.

import { addHintLoss, type Loss } from "../canonical/canonical-losses.ts";
import type { NativePart, Part, ToolResultPart, WireName } from "../canonical/canonical-parts.ts";
import type { CanonicalRequest, NativeTool, Tool, Turn } from "../canonical/canonical-request.ts";
import { isObject, type JsonObject } from "../json-fields.ts";
import { isChosen } from "../server-tool-fields.ts";

const ADVISOR_REASON = "This provider has no advisors; the model answers on its own.";
const REASON =
  "The model gets all tools at once and calls them itself, because this provider neither loads them later nor runs programs that call them.";

/** The request for a wire, without these features. What is left out is added to the losses. */
export function withAllToolsLoaded(
  request: CanonicalRequest,
  wire: WireName,
  losses: Loss[],
): CanonicalRequest {
  const isForeign = (one: Tool | Part): boolean => one.type === "native" && one.wire !== wire;
  const { tools, turns } = request;
  const hasNative =
    tools?.some(isForeign) === true ||
    turns.some(({ parts }) =>
      parts.some((part) =>
        part.type === "tool_result" ? part.content.some(isForeign) : isForeign(part),
      ),
    );
  if (!hasNative) return request;
  const drop = (path: string | undefined, name: string, reason = REASON): false => {
    addHintLoss(losses, path ?? name, reason);
    return false;
  };
  const kept = tools?.filter((tool) => {
    if (tool.type !== "native" || tool.wire === wire) return true;
    if (isAdvisor(tool) && !isChosen(request, tool))
      return drop(tool.path, "tools", ADVISOR_REASON);
    return isToolSearch(tool) ? drop(tool.path, "tools") : true;
  });
  return {
    ...request,
    tools: kept?.length === 0 ? undefined : kept,
    turns: turns.flatMap((turn): readonly Turn[] => {
      const parts = turn.parts
        .filter((part) =>
          part.type === "native" && part.wire !== wire && isToolLoading(part)
            ? drop(part.path, "messages")
            : true,
        )
        .map((part) => (part.type === "tool_result" ? nameLoadedTools(part, wire, losses) : part));
      return parts.length === 0 && turn.parts.length > 0 && turn.native === undefined
        ? []
        : [{ ...turn, parts }];
    }),
  };
}

function isAdvisor({ wire, value: { type } }: NativeTool): boolean {
  return wire === "messages" && typeof type === "string" && type.startsWith("advisor_");
}

/** A tool search or programmatic calls that the provider runs. A search that the client runs is a function instead. */
function isToolSearch({ wire, value }: NativeTool): boolean {
  const { type, execution } = value;
  if (wire === "responses")
    return (
      (type === "tool_search" && execution !== "client") || type === "programmatic_tool_calling"
    );
  return wire === "messages" && typeof type === "string" && type.startsWith("tool_search_tool_");
}

function isToolLoading({ wire, value }: NativePart): boolean {
  const { type, name, tool } = value;
  if (wire === "responses")
    return (
      type === "tool_search_call" ||
      // The calls that a program made, and their results, are items of their own.
      type === "program" ||
      type === "program_output" ||
      isLoadingItem(value)
    );
  if (wire !== "messages") return false;
  return (
    type === "tool_search_tool_result" ||
    (type === "server_tool_use" && String(name).startsWith("tool_search_tool_")) ||
    type === "mcp_tool_listing" ||
    (type === "tool_addition" &&
      isObject(tool) &&
      (tool["type"] === "tool_reference" || isFunctionDefinition(tool)))
  );
}

/** Its reader adds the tool to the others. */
function isFunctionDefinition({ type, definition }: JsonObject): boolean {
  return (
    type === "tool_definition" &&
    isObject(definition) &&
    (definition["type"] ?? "custom") === "custom"
  );
}

/** An item of the responses API with tools, whose tools its reader adds to the others. */
function isLoadingItem({ type, tools }: JsonObject): boolean {
  return (
    (type === "tool_search_output" || type === "additional_tools") &&
    Array.isArray(tools) &&
    tools.every(
      (tool: unknown) =>
        isObject(tool) && ["function", "custom", "namespace"].includes(String(tool["type"])),
    )
  );
}

// A result must have content, so a reference becomes the name of its tool.
function nameLoadedTools(result: ToolResultPart, wire: WireName, losses: Loss[]): ToolResultPart {
  const content = result.content.map((part): ToolResultPart["content"][number] => {
    if (part.type !== "native" || part.wire === wire) return part;
    const { type, tool_name: name } = part.value;
    if (type !== "tool_reference" || typeof name !== "string") return part;
    addHintLoss(losses, part.path ?? "messages", REASON);
    return { type: "text", text: `Loaded the tool ${name}.`, path: part.path };
  });
  return { ...result, content };
}
