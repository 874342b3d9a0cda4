import {
  addFieldLoss,
  addToleratedLoss,
  fieldPath,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type {
  CanonicalRequest,
  RequestField,
  Tool,
  ToolChoice,
} from "../../canonical/canonical-request.ts";
import { addJsonInstruction, outputToolDefinition } from "../../canonical/structured-output.ts";
import type { SchemaEmulation, Target, WrittenRequest } from "../../canonical/wire-interfaces.ts";
import { clampTemperature, dropSecondSampling } from "../../claude-sampling.ts";
import { writeClaudeOutput } from "../../claude-schema.ts";
import type { JsonObject } from "../../json-fields.ts";
import { nonBlankStops } from "../../stop-sequences.ts";
import {
  addNativeChoiceLoss,
  allowedTools,
  checkFunctionTool,
  writeClaudeSchema,
  effectiveToolChoice,
  requiresToolCall,
} from "../../tool-checks.ts";
import { writeCache } from "./write-messages-blocks.ts";
import { writeThinking } from "./write-messages-thinking.ts";
import { writeTurns } from "./write-messages-turns.ts";

const FALLBACK_MAX_TOKENS = 8_192;
const TOP_P_MIN_THINKING = 0.95;

/** Fields that this API does not have, with the value that has no effect and is no loss. */
const UNSUPPORTED_FIELDS: readonly (readonly [RequestField, unknown])[] = [
  ["seed", undefined],
  ["frequencyPenalty", 0],
  ["presencePenalty", 0],
  ["logitBias", undefined],
  ["logprobs", false],
  ["topLogprobs", 0],
  ["n", 1],
  ["metadata", undefined],
  ["store", false],
  ["verbosity", "medium"],
];

export function writeRequest(original: CanonicalRequest, target: Target): WrittenRequest {
  const losses: Loss[] = [];
  addUnsupportedLosses(original, losses);
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
    ...writeSampling(
      request,
      target,
      thinking !== undefined && thinking["type"] !== "disabled",
      losses,
    ),
    stop_sequences: nonBlankStops(request, losses),
    stream: request.stream,
    service_tier: writeTier(request, losses),
    metadata: mergeObjects(native["metadata"], writeUser(request, losses)),
    cache_control: writeCache(request.cache, "", losses),
  };
  return { body, losses, emulation };
}

function addUnsupportedLosses(request: CanonicalRequest, losses: Loss[]): void {
  for (const [field, defaultValue] of UNSUPPORTED_FIELDS) {
    if (request[field] !== undefined && request[field] !== defaultValue)
      addFieldLoss(losses, request, field, "This provider's API has no equivalent.");
  }
  if (request.output?.type === "json_schema" && request.output.description !== undefined) {
    const path = `${fieldPath(request, "output")}.description`;
    addToleratedLoss(losses, path, "This provider does not support a schema description.");
  }
  for (const field of ["cacheKey", "cacheRetention"] as const) {
    const reason = "This provider caches only at cache breakpoints.";
    if (request[field] !== undefined) addToleratedLoss(losses, fieldPath(request, field), reason);
  }
}

function mergeObjects(one: unknown, other: JsonObject | undefined): unknown {
  return typeof one === "object" ? { ...one, ...other } : other;
}

function writeSampling(
  request: CanonicalRequest,
  target: Target,
  thinks: boolean,
  losses: Loss[],
): JsonObject {
  const { temperature, topP, topK } = request;
  const canSample = target.abilities?.sampling !== false;
  const reason = canSample
    ? "This model supports it only with reasoning off."
    : "This model does not support this parameter.";
  const writeIf = (
    isSupported: boolean,
    field: "temperature" | "topP" | "topK",
    value: number | undefined,
  ) => {
    if (value === undefined || isSupported) return value;
    if (field === "topK" || value !== 1) addFieldLoss(losses, request, field, reason);
    return undefined;
  };
  return {
    temperature: clampTemperature(
      writeIf(canSample && !thinks, "temperature", temperature),
      request,
      losses,
    ),
    top_p: dropSecondSampling(
      writeIf(canSample && (!thinks || (topP ?? 0) >= TOP_P_MIN_THINKING), "topP", topP),
      request,
      target,
      losses,
    ),
    top_k: writeIf(canSample && !thinks, "topK", topK),
  };
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

function writeTier(request: CanonicalRequest, losses: Loss[]): string | undefined {
  const { serviceTier } = request;
  if (serviceTier === undefined || serviceTier === "auto") return serviceTier;
  if (serviceTier === "default") return "standard_only";
  addFieldLoss(
    losses,
    request,
    "serviceTier",
    `This provider does not support the service tier ${serviceTier}.`,
  );
  return undefined;
}

function writeUser(request: CanonicalRequest, losses: Loss[]): JsonObject | undefined {
  const { user, safetyIdentifier } = request;
  if (user !== undefined && safetyIdentifier !== undefined && user !== safetyIdentifier)
    addFieldLoss(
      losses,
      request,
      "safetyIdentifier",
      "This provider accepts only one end-user ID, and `user` is set, too.",
    );
  const id = user ?? safetyIdentifier;
  return id === undefined ? undefined : { user_id: id };
}
