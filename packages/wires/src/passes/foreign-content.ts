// Content of a conversation that only one provider can read or use: compactions, calls of tools that it ran, tools that it loads
// in the conversation, and labels. The rest of the conversation says enough without it.

import { addHintLoss, type Loss, takeNativeFields } from "../canonical/canonical-losses.ts";
import type { NativePart, Part, ToolResultPart, WireName } from "../canonical/canonical-parts.ts";
import type { CanonicalRequest, NativeTool, Tool, Turn } from "../canonical/canonical-request.ts";
import { isObject, type JsonObject } from "../json-fields.ts";
import { isForeignCallBlock, isServerCallBlock } from "../messages/messages-server-calls.ts";
import { isForeignRun, isServerCallItem } from "../responses/responses-server-calls.ts";
import { isChosen } from "../server-tool-fields.ts";
import type { ChangedRequest, StepContext } from "./translation-step.ts";

/** The turns with the parts that are kept. A turn that loses all is left out. */
function keepParts(
  turns: readonly Turn[],
  isKept: (part: Part, turn: Turn) => boolean,
): readonly Turn[] {
  return turns.flatMap((turn): readonly Turn[] => {
    const parts = turn.parts.filter((part) => isKept(part, turn));
    return parts.length === 0 && turn.parts.length > 0 && turn.native === undefined
      ? []
      : [{ ...turn, parts }];
  });
}

/**
 * A compaction can be dropped if the conversation still has the turns that it summarizes. OpenAI's own compaction removes the
 * assistant's turns, so a turn of the assistant before it means that the client has kept them.
 */
export function withoutCompactions(
  request: CanonicalRequest,
  { drop, losses }: StepContext,
): ChangedRequest {
  if (!request.turns.some(({ parts }) => parts.some((part) => unreadableType(part) !== undefined)))
    return { request };
  let hasHistory = false;
  const turns = keepParts(request.turns, (part, { role }) => {
    const type = unreadableType(part);
    if (type === undefined) {
      hasHistory ||= role === "assistant" && part.type !== "native";
      return true;
    }
    // The text of a message between agents.
    const isMessage = type === "encrypted_content";
    if (isMessage) addHintLoss(losses, part.path ?? "input", "Only OpenAI can read it.");
    else if (hasHistory) drop(part.path ?? "input");
    return !isMessage && !hasHistory;
  });
  return { request: { ...request, turns } };
}

const UNREADABLE = ["compaction", "context_compaction", "encrypted_content"] as const;

function unreadableType(part: Part): (typeof UNREADABLE)[number] | undefined {
  if (part.type !== "native" || part.wire !== "responses") return undefined;
  return UNREADABLE.find((type) => type === part.value["type"]);
}

/** Calls of tools that another provider ran, and their results. */
export function withoutForeignCalls(
  request: CanonicalRequest,
  { provider, drop }: StepContext,
): ChangedRequest {
  const isForeign = (part: Part): boolean =>
    part.type === "native" && isForeignCall(part, provider);
  if (!request.turns.some(({ parts }) => parts.some(isForeign))) return { request };
  const turns = keepParts(request.turns, (part) => {
    if (isForeign(part)) drop(part.path ?? "messages");
    return !isForeign(part);
  });
  return { request: { ...request, turns } };
}

function isForeignCall({ wire: own, value }: NativePart, wire: WireName): boolean {
  if (own === "responses") return own === wire ? isForeignRun(value) : isServerCallItem(value);
  if (own !== "messages") return false;
  return own === wire ? isForeignCallBlock(value) : isServerCallBlock(value);
}

/**
 * Searches for tools, tools that are loaded in the conversation, and programs that call tools save tokens. At a provider of
 * another API the model gets all tools at once and calls them itself, so it can do the same without them. An advisor only
 * comments on the model's plan, so the model answers without it, too.
 */
export function withAllToolsLoaded(
  request: CanonicalRequest,
  { provider: wire, drop, losses }: StepContext,
): ChangedRequest {
  const isForeign = (one: Tool | Part): one is NativeTool | NativePart =>
    one.type === "native" && one.wire !== wire;
  const { tools, turns } = request;
  const hasNative =
    tools?.some(isForeign) === true ||
    turns.some(({ parts }) =>
      parts.some((part) =>
        part.type === "tool_result" ? part.content.some(isForeign) : isForeign(part),
      ),
    );
  if (!hasNative) return { request };
  const removed = wire === "messages" ? NOTHING : removedTools(turns);
  const kept = tools?.filter((tool) => {
    if (removed.has(tool.name)) return false;
    if (tool.type !== "native" || tool.wire === wire) return true;
    if (isAdvisor(tool) && !isChosen(request, tool)) {
      addHintLoss(losses, tool.path ?? "tools", ADVISOR_REASON);
      return false;
    }
    if (isToolSearch(tool)) drop(tool.path ?? "tools");
    return !isToolSearch(tool);
  });
  const used = keepParts(turns, (part) => {
    const isLoading = part.type === "native" && part.wire !== wire && isToolLoading(part);
    if (isLoading) drop(part.path ?? "messages");
    return !isLoading;
  });
  return {
    request: {
      ...request,
      tools: kept?.length === 0 ? undefined : kept,
      turns: used.map((turn) =>
        Object.assign({}, turn, { parts: nameLoadedTools(turn.parts, wire, drop) }),
      ),
    },
  };
}

const NOTHING: ReadonlySet<string> = new Set();

/** The names of tools that the conversation removed and did not add again. */
function removedTools(turns: readonly Turn[]): ReadonlySet<string> {
  const removed = new Set<string>();
  for (const { parts } of turns)
    for (const part of parts) {
      if (part.type !== "native" || part.wire !== "messages") continue;
      const { type, tool } = part.value;
      const name = isObject(tool) ? tool["tool_name"] : undefined;
      if (typeof name !== "string") continue;
      if (type === "tool_removal") removed.add(name);
      else if (type === "tool_addition") removed.delete(name);
    }
  return removed;
}

const ADVISOR_REASON = "This provider has no advisors; the model answers on its own.";

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
    (type === "tool_removal" && isObject(tool) && typeof tool["tool_name"] === "string") ||
    (type === "tool_addition" &&
      isObject(tool) &&
      (tool["type"] === "tool_reference" || isFunctionDefinition(tool)))
  );
}

/** A tool that the conversation defines. The reader of the API adds it to `tools`. */
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
function nameLoadedTools(
  parts: readonly Part[],
  wire: WireName,
  drop: StepContext["drop"],
): readonly Part[] {
  return parts.map((part) => {
    if (part.type !== "tool_result") return part;
    const content = part.content.map((one): ToolResultPart["content"][number] => {
      if (one.type !== "native" || one.wire === wire) return one;
      const { type, tool_name: name } = one.value;
      if (type !== "tool_reference" || typeof name !== "string") return one;
      drop(one.path ?? "messages");
      return { type: "text", text: `Loaded the tool ${name}.`, path: one.path };
    });
    return { ...part, content };
  });
}

/** Lists fields of content that no other API has, such as labels of the caller's framework: writers read only the content. */
export function listPartLabels(
  request: CanonicalRequest,
  { provider, losses }: StepContext,
): ChangedRequest {
  for (const { parts } of request.turns) addLabelLosses(parts, provider, losses);
  return { request };
}

function addLabelLosses(parts: readonly Part[], wire: WireName, losses: Loss[]): void {
  for (const part of parts) {
    if (part.type === "native") continue;
    if (part.native !== undefined) takeNativeFields(part.native, wire, part.path, losses);
    if (part.type === "tool_result") addLabelLosses(part.content, wire, losses);
  }
}
