import { addFieldLoss, type Loss, takeNativeFields } from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest, RequestField } from "../../canonical/canonical-request.ts";
import { addJsonInstruction } from "../../canonical/structured-output.ts";
import type { Target, WrittenRequest } from "../../canonical/wire-interfaces.ts";
import { writeClaudeOutput } from "../../claude-schema.ts";
import type { JsonObject } from "../../json-fields.ts";
import { effectiveToolChoice, requiresToolCall } from "../../tool-checks.ts";
import { familyOf } from "./converse-model-family.ts";
import { writeSampling } from "./write-converse-sampling.ts";
import { writeThinking } from "./write-converse-thinking.ts";
import { writeTools } from "./write-converse-tools.ts";
import { writeTurns } from "./write-converse-turns.ts";

const SERVICE_TIERS: ReadonlySet<string> = new Set(["default", "flex", "priority", "reserved"]);

/** Fields without an equivalent, with the value that changes nothing (`n: 1`) and so is no loss. */
const UNSUPPORTED_FIELDS: readonly (readonly [RequestField, unknown])[] = [
  ["seed", undefined],
  ["frequencyPenalty", 0],
  ["presencePenalty", 0],
  ["logitBias", undefined],
  ["logprobs", false],
  ["topLogprobs", 0],
  ["n", 1],
  ["store", false],
  ["verbosity", "medium"],
];

/** Fields that do not change the reply: dropped without the caller's permission. */
const TOLERATED_FIELDS: readonly (readonly [RequestField, string])[] = [
  ["cacheKey", "This provider caches only at cache breakpoints."],
  ["cacheRetention", "This provider caches only at cache breakpoints."],
  ["user", "This provider does not accept an end-user ID."],
  ["safetyIdentifier", "This provider does not accept an end-user ID."],
];

export function writeRequest(original: CanonicalRequest, target: Target): WrittenRequest {
  const losses: Loss[] = [];
  addUnsupportedLosses(original, losses);
  const adapted =
    original.output?.type === "json_object" ? addJsonInstruction(original, losses) : original;
  const { request, schema, emulation } = writeClaudeOutput(adapted, target, losses);
  const native: JsonObject = takeNativeFields(request.native, "converse", "", losses) ?? {};
  const maxTokens = request.maxOutputTokens ?? target.maxOutputTokens;
  const isToolRequired = requiresToolCall(effectiveToolChoice(request, emulation));
  const thinking = writeThinking(request, target, { maxTokens, isToolRequired }, losses);
  const sampling = writeSampling(request, target, isThinkingEnabled(thinking), losses);
  const tools = writeTools(request, target, emulation, losses);
  const additional = native["additionalModelRequestFields"];
  const body: JsonObject = {
    ...native,
    ...writeTurns(request, target, losses),
    inferenceConfig: omitIfEmpty({ maxTokens, ...sampling.inferenceConfig }),
    toolConfig: tools.toolConfig,
    additionalModelRequestFields: omitIfEmpty({
      ...(typeof additional === "object" ? additional : undefined),
      ...thinking,
      ...sampling.additionalFields,
      ...tools.additionalFields,
    }),
    additionalModelResponseFieldPaths:
      request.stop !== undefined && familyOf(target) === "claude" ? ["/stop_sequence"] : undefined,
    outputConfig: schema === undefined ? undefined : writeOutput(request, schema),
    requestMetadata: request.metadata,
    serviceTier: writeTier(request, losses),
  };
  const operation = request.stream === true ? "converse-stream" : "converse";
  return { body, losses, emulation, path: operationPath(target.model, operation) };
}

function addUnsupportedLosses(request: CanonicalRequest, losses: Loss[]): void {
  for (const [field, harmless] of UNSUPPORTED_FIELDS)
    if (request[field] !== undefined && request[field] !== harmless)
      addFieldLoss(losses, request, field, "This provider's API has no equivalent.");
  for (const [field, reason] of TOLERATED_FIELDS)
    if (request[field] !== undefined)
      losses.push({ path: request.names?.[field] ?? field, reason, tolerated: true });
}

function isThinkingEnabled(fields: JsonObject | undefined): boolean {
  const thinking = fields?.["thinking"];
  return (
    typeof thinking === "object" &&
    thinking !== null &&
    "type" in thinking &&
    thinking.type !== "disabled"
  );
}

function writeOutput({ output }: CanonicalRequest, schema: JsonObject): JsonObject | undefined {
  if (output?.type !== "json_schema") return undefined;
  const { name, description } = output;
  const jsonSchema: JsonObject = { schema: JSON.stringify(schema), name, description };
  return { textFormat: { type: "json_schema", structure: { jsonSchema } } };
}

function writeTier(request: CanonicalRequest, losses: Loss[]): JsonObject | undefined {
  const { serviceTier } = request;
  if (serviceTier === undefined || serviceTier === "auto") return undefined;
  if (SERVICE_TIERS.has(serviceTier)) return { type: serviceTier };
  addFieldLoss(
    losses,
    request,
    "serviceTier",
    `This provider does not support the service tier ${serviceTier}.`,
  );
  return undefined;
}

function omitIfEmpty(object: JsonObject): JsonObject | undefined {
  return Object.values(object).some((value) => value !== undefined) ? object : undefined;
}

type ConverseOperation = "converse" | "converse-stream";

/** The path below the provider's base URL. The model may be an ARN with slashes and colons. */
function operationPath(model: string, operation: ConverseOperation): string {
  return `/model/${encodeURIComponent(model)}/${operation}`;
}
