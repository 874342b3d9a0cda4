import type { CanonicalRequest, JsonObject, Loss, RequestField } from "../../canonical.ts";
import { emulateByTool, instructJson } from "../../canonical-output.ts";
import { loseField, nativeFields } from "../../canonical-wire.ts";
import type { Emulation, Target, WrittenRequest } from "../../canonical-wire.ts";
import { familyOf } from "./model-family.ts";
import { pathOf } from "./operations.ts";
import { writeSampling } from "./write-sampling.ts";
import { writeThinking } from "./write-thinking.ts";
import { isForced, writeTools } from "./write-tools.ts";
import { writeTurns } from "./write-turns.ts";

const TIERS: ReadonlySet<string> = new Set(["default", "flex", "priority", "reserved"]);

/** What this API has no word for. A value that changes nothing (`n: 1`) is no loss. */
const UNSAID: readonly (readonly [RequestField, unknown])[] = [
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

/** What changes no answer. */
const BY_RULE: readonly (readonly [RequestField, string])[] = [
  ["cacheKey", "This provider caches by marks alone."],
  ["cacheRetention", "This provider caches by marks alone."],
  ["user", "This provider takes no name of the end user."],
  ["safetyIdentifier", "This provider takes no name of the end user."],
];

export function writeRequest(asked: CanonicalRequest, target: Target): WrittenRequest {
  const losses: Loss[] = [];
  noteUnsaid(asked, losses);
  const request = asked.output?.type === "json_object" ? instructJson(asked, losses) : asked;
  const emulation = emulate(request, target, losses);
  const native: JsonObject = nativeFields(request.native, "converse", "", losses) ?? {};
  const maxTokens = request.maxOutputTokens ?? target.maxOutputTokens;
  const forced = isForced(request, emulation);
  const thinking = writeThinking(request, target, { maxTokens, forced }, losses);
  const sampling = writeSampling(request, target, thinks(thinking), losses);
  const additional = native["additionalModelRequestFields"];
  const body: JsonObject = {
    ...native,
    ...writeTurns(request, target, losses),
    inferenceConfig: clean({ maxTokens, ...sampling.common }),
    toolConfig: writeTools(request, target, emulation, losses),
    additionalModelRequestFields: clean({
      ...(typeof additional === "object" ? additional : undefined),
      ...thinking,
      ...sampling.own,
    }),
    additionalModelResponseFieldPaths:
      request.stop !== undefined && familyOf(target) === "claude" ? ["/stop_sequence"] : undefined,
    outputConfig: emulation === undefined ? writeOutput(request) : undefined,
    requestMetadata: request.metadata,
    serviceTier: writeTier(request, losses),
  };
  const operation = request.stream === true ? "converse-stream" : "converse";
  return { body, losses, emulation, path: pathOf(target.model, operation) };
}

function noteUnsaid(request: CanonicalRequest, losses: Loss[]): void {
  for (const [field, harmless] of UNSAID)
    if (request[field] !== undefined && request[field] !== harmless)
      loseField(losses, request, field, "This provider's API has no equivalent.");
  for (const [field, why] of BY_RULE)
    if (request[field] !== undefined)
      losses.push({ path: request.names?.[field] ?? field, why, byRule: true });
}

function thinks(fields: JsonObject | undefined): boolean {
  const thinking = fields?.["thinking"];
  return (
    typeof thinking === "object" &&
    thinking !== null &&
    "type" in thinking &&
    thinking.type !== "disabled"
  );
}

function emulate(request: CanonicalRequest, target: Target, losses: Loss[]): Emulation | undefined {
  const { output } = request;
  return output?.type === "json_schema" && target.abilities?.jsonSchema === false
    ? emulateByTool(request, output, losses)
    : undefined;
}

function writeOutput({ output }: CanonicalRequest): JsonObject | undefined {
  if (output?.type !== "json_schema") return undefined;
  const { schema, name, description } = output;
  const jsonSchema: JsonObject = { schema: JSON.stringify(schema), name, description };
  return { textFormat: { type: "json_schema", structure: { jsonSchema } } };
}

function writeTier(request: CanonicalRequest, losses: Loss[]): JsonObject | undefined {
  const { serviceTier } = request;
  if (serviceTier === undefined || serviceTier === "auto") return undefined;
  if (TIERS.has(serviceTier)) return { type: serviceTier };
  loseField(losses, request, "serviceTier", `This provider has no service tier ${serviceTier}.`);
  return undefined;
}

function clean(object: JsonObject): JsonObject | undefined {
  return Object.values(object).some((value) => value !== undefined) ? object : undefined;
}
