import type { CanonicalRequest, JsonObject, Loss, Tool, ToolChoice } from "../../canonical.ts";
import { outputChoice, outputTool } from "../../canonical-output.ts";
import { loseField, loseParallel, nativeFields, whyNative } from "../../canonical-wire.ts";
import type { Emulation, Target } from "../../canonical-wire.ts";
import { writeCache } from "./write-cache.ts";

const NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** A conversation with calls in it is refused without tools: where none may be called, this one stands for them. */
const NO_TOOL: JsonObject = {
  toolSpec: {
    name: "no_tool_available",
    description: "Tools cannot be called now. Never call this; answer in text.",
    inputSchema: { json: { type: "object", properties: {} } },
  },
};

export function writeTools(
  request: CanonicalRequest,
  target: Target,
  emulation: Emulation | undefined,
  losses: Loss[],
): JsonObject | undefined {
  const { toolChoice, output } = request;
  const choice = emulation === undefined ? toolChoice : outputChoice(request, emulation);
  const tools = choice?.type === "none" ? [] : allowedTools(request);
  const written: JsonObject[] = [];
  for (const tool of tools) written.push(...writeTool(tool, target, losses));
  if (emulation !== undefined && output?.type === "json_schema") {
    const { description, schema } = outputTool(output);
    written.push({
      toolSpec: { name: emulation.outputTool, description, inputSchema: { json: schema } },
    });
  }
  if (written.length === 0) return hasCalls(request) ? noTools(request, losses) : undefined;
  loseParallel(losses, request);
  return { tools: written, toolChoice: writeChoice(choice, request, losses) };
}

/** Whether a call is forced, which some models refuse to think before. */
export function isForced(request: CanonicalRequest, emulation: Emulation | undefined): boolean {
  const choice = emulation === undefined ? request.toolChoice : outputChoice(request, emulation);
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

function noTools(request: CanonicalRequest, losses: Loss[]): JsonObject {
  if (request.tools !== undefined)
    losses.push({
      path: request.names?.toolChoice ?? "tool_choice",
      why: "This provider has no such choice: the tools were left out, and one that must not be called stands for them.",
      byRule: true,
    });
  return { tools: [NO_TOOL] };
}

function writeTool(tool: Tool, target: Target, losses: Loss[]): readonly JsonObject[] {
  const at = tool.path ?? `tools.${tool.name}`;
  if (tool.type === "native" && tool.wire === "converse") return [tool.value];
  if (tool.type !== "function") {
    losses.push({
      path: at,
      why:
        tool.type === "custom"
          ? "This provider has no tools with free text for input."
          : whyNative(tool),
    });
    return [];
  }
  if (!NAME.test(tool.name))
    losses.push({
      path: `${at}.name`,
      why: "At this provider a tool's name has at most 64 letters, digits, _ and -.",
    });
  const strict = target.abilities?.strictTools === false ? undefined : tool.strict;
  if (tool.strict === true && strict === undefined)
    losses.push({ path: `${at}.strict`, why: "This model has no strict tools." });
  const toolSpec: JsonObject = {
    name: tool.name,
    description: tool.description || undefined,
    inputSchema: { json: { ...(tool.parameters ?? { properties: {} }), type: "object" } },
    strict: strict || undefined,
    ...nativeFields(tool.native, "converse", at, losses),
  };
  const cache = writeCache(tool.cache, at, { target, losses, place: "tools" });
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
      loseField(
        losses,
        request,
        "toolChoice",
        "It chooses a server tool that this provider does not have.",
      );
      return undefined;
  }
}
