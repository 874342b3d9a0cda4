import {
  addToleratedLoss,
  fieldPath,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest, Tool, ToolChoice } from "../../canonical/canonical-request.ts";
import { addJsonInstruction, outputToolDefinition } from "../../canonical/structured-output.ts";
import type { SchemaEmulation, Target, WrittenRequest } from "../../canonical/wire-interfaces.ts";
import { writeClaudeOutput } from "../../claude-schema.ts";
import { type JsonObject, objectIn } from "../../json-fields.ts";
import { writeScalars } from "../../scalar-fields.ts";
import {
  addNativeChoiceLoss,
  allowedTools,
  checkFunctionTool,
  writeClaudeSchema,
  effectiveToolChoice,
  requiresToolCall,
} from "../../tool-checks.ts";
import { betaOf } from "../messages-mcp.ts";
import { MESSAGES_FIELDS } from "./messages-fields.ts";
import { writeCache } from "./write-messages-blocks.ts";
import { writeThinking } from "./write-messages-thinking.ts";
import { writeTurns } from "./write-messages-turns.ts";

const FALLBACK_MAX_TOKENS = 8_192;

export function writeRequest(original: CanonicalRequest, target: Target): WrittenRequest {
  const losses: Loss[] = [];
  addDescriptionLoss(original, losses);
  const adapted =
    original.output?.type === "json_object" ? addJsonInstruction(original, losses) : original;
  const { request, schema, emulation } = writeClaudeOutput(adapted, target, losses);
  const maxTokens = request.maxOutputTokens ?? target.maxOutputTokens ?? FALLBACK_MAX_TOKENS;
  const choice = effectiveToolChoice(request, emulation);
  const tools = writeTools(request, target, emulation, losses);
  const { thinking, effort } = writeThinking(
    request,
    target,
    { maxTokens, isToolForced: tools !== undefined && requiresToolCall(choice) },
    losses,
  );
  const thinks = thinking !== undefined && thinking["type"] !== "disabled";
  const scalars = writeScalars(MESSAGES_FIELDS, { request, target, losses, thinks });
  const native: JsonObject = takeNativeFields(request.native, "messages", "", losses) ?? {};
  const format = schema === undefined ? undefined : { type: "json_schema", schema };
  const body: JsonObject = {
    ...native,
    model: target.model,
    max_tokens: maxTokens,
    ...writeTurns(request, target, losses),
    tools,
    tool_choice: tools === undefined ? undefined : writeChoice(choice, request, losses),
    thinking,
    output_config: mergeObjects(
      native["output_config"],
      effort === undefined && format === undefined ? undefined : { effort, format },
    ),
    ...scalars,
    stream: request.stream,
    metadata: mergeObjects(native["metadata"], objectIn(scalars["metadata"])),
    cache_control: writeCache(request.cache, "", losses),
  };
  return { body, losses, emulation, beta: betaOf(body) };
}

function addDescriptionLoss(request: CanonicalRequest, losses: Loss[]): void {
  if (request.output?.type === "json_schema" && request.output.description !== undefined) {
    const path = `${fieldPath(request, "output")}.description`;
    addToleratedLoss(losses, path, "This provider does not support a schema description.");
  }
}

function mergeObjects(one: unknown, other: JsonObject | undefined): unknown {
  return typeof one === "object" ? { ...one, ...other } : other;
}

function writeTools(
  request: CanonicalRequest,
  target: Target,
  emulation: SchemaEmulation | undefined,
  losses: Loss[],
): readonly JsonObject[] | undefined {
  const { output } = request;
  const written = allowedTools(request)
    .map((tool) => writeTool(tool, target, losses))
    .filter((tool) => tool !== undefined);
  if (emulation !== undefined && output?.type === "json_schema") {
    const { description, schema } = outputToolDefinition(output);
    written.push({ name: emulation.outputTool, description, input_schema: schema });
  }
  return written.length === 0 ? undefined : written;
}

function writeTool(tool: Tool, target: Target, losses: Loss[]): JsonObject | undefined {
  if (tool.type === "native" && tool.wire === "messages") return tool.value;
  const checked = checkFunctionTool(tool, target, losses);
  if (checked === undefined) return undefined;
  const { tool: fn, path } = checked;
  const { schema, strict } = writeClaudeSchema(checked, losses);
  return {
    name: fn.name,
    description: fn.description,
    input_schema: schema,
    strict,
    cache_control: writeCache(fn.cache, path, losses),
    ...takeNativeFields(fn.native, "messages", path, losses),
  };
}

function writeChoice(
  choice: ToolChoice | undefined,
  request: CanonicalRequest,
  losses: Loss[],
): JsonObject | undefined {
  const isSingle = request.parallelToolCalls === undefined ? undefined : !request.parallelToolCalls;
  switch (choice?.type) {
    case undefined:
      return isSingle === true ? { type: "auto", disable_parallel_tool_use: true } : undefined;
    case "auto":
      return { type: "auto", disable_parallel_tool_use: isSingle };
    case "none":
      return { type: "none" };
    case "required":
      return { type: "any", disable_parallel_tool_use: isSingle };
    case "tool":
      return { type: "tool", name: choice.name, disable_parallel_tool_use: isSingle };
    case "allowed":
      return {
        type: choice.mode === "required" ? "any" : "auto",
        disable_parallel_tool_use: isSingle,
      };
    case "native":
      addNativeChoiceLoss(losses, request);
      return undefined;
  }
}
