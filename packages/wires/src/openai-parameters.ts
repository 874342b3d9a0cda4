// Request parameters that Chat Completions and Responses have in the same form.

import {
  addFieldLoss,
  addToleratedLoss,
  fieldPath,
  type Loss,
} from "./canonical/canonical-losses.ts";
import type {
  CanonicalRequest,
  Effort,
  OutputFormat,
  RequestField,
} from "./canonical/canonical-request.ts";
import { checkSchema } from "./canonical/check-request.ts";
import { budgetToEffort, supportedEffort } from "./canonical/reasoning-blobs.ts";
import type { Abilities, Target } from "./canonical/wire-interfaces.ts";
import {
  type JsonObject,
  mustBeString,
  optionalBoolean,
  optionalObject,
  optionalString,
} from "./json-fields.ts";
import {
  byRule,
  flag,
  ifIgnored,
  ifOpenai,
  integerFrom,
  lost,
  missing,
  numberFrom,
  scalar,
  type ScalarField,
  tolerated,
  type WriteContext,
} from "./scalar-fields.ts";

/** For a field that providers of OpenAI's APIs other than OpenAI do not have. */
export const OPENAI_FIELD = ifOpenai(lost("This provider does not support this parameter.", false));
const NO_LOGPROBS = lost("This model does not return log probabilities.", false);
const CACHES_BY_ITSELF = tolerated("This provider caches automatically.");

export const OPENAI_FIELDS: readonly ScalarField[] = [
  scalar("parallelToolCalls", "parallel_tool_calls", flag, byRule),
  scalar("temperature", "temperature", numberFrom(0, 2), openaiSampling),
  scalar("topP", "top_p", numberFrom(0, 1), openaiSampling),
  scalar("topLogprobs", "top_logprobs", integerFrom(0, 20), ifLogprobs),
  scalar("metadata", "metadata", readMetadata, OPENAI_FIELD),
  scalar("safetyIdentifier", "safety_identifier", optionalString, OPENAI_FIELD),
  scalar("cacheRetention", "prompt_cache_retention", optionalString, OPENAI_FIELD),
  scalar("serviceTier", "service_tier", optionalString, ifIgnored()),
  missing("cache", CACHES_BY_ITSELF),
  scalar("cacheKey", "prompt_cache_key", optionalString, ifOpenai(CACHES_BY_ITSELF)),
  scalar("user", "user", optionalString, ifIgnored()),
];

const SCHEMA_NAME = "response";

/** The output format that both APIs have, each at its own path. */
export function readSchemaFormat(format: JsonObject, path: string): OutputFormat {
  checkSchema(format["schema"] ?? {}, `${path}.schema`);
  const strict = optionalBoolean(format["strict"], `${path}.strict`);
  return {
    type: "json_schema",
    // OpenAI requires a name; other servers and their clients do not.
    name: optionalString(format["name"], `${path}.name`) || SCHEMA_NAME,
    description: optionalString(format["description"], `${path}.description`),
    schema: optionalObject(format["schema"], `${path}.schema`) ?? {},
    strict,
    strictPath: strict === true ? `${path}.strict` : undefined,
  };
}

export function ifLogprobs(value: unknown, context: WriteContext, field: RequestField): unknown {
  const { logprobs, rejectsUnknownFields } = context.target.abilities ?? {};
  if (logprobs !== false && rejectsUnknownFields !== true) return value;
  return NO_LOGPROBS(value, context, field);
}

function readMetadata(value: unknown): Readonly<Record<string, string>> | undefined {
  const object = optionalObject(value, "metadata");
  if (object === undefined || Object.keys(object).length === 0) return undefined;
  const metadata: Record<string, string> = {};
  for (const key in object) metadata[key] = mustBeString(object[key], `metadata.${key}`);
  return metadata;
}

/** Whether the model takes `temperature` and `top_p` with the effort that is sent. */
export function canSample(
  { sampling = true, reasonsOnRequest }: Abilities,
  effort: Effort | undefined,
): boolean {
  if (sampling !== "without_reasoning") return sampling;
  return effort === "none" || (effort === undefined && reasonsOnRequest === true);
}

/** `temperature` or `top_p`, if the model takes it. The value 1 is every model's default and no loss. */
function openaiSampling(
  value: number,
  { request, target: { abilities = {} }, effort, losses }: WriteContext,
  field: RequestField,
): number | undefined {
  if (canSample(abilities, effort)) return value;
  const reason =
    abilities.sampling === "without_reasoning"
      ? "This model supports it only with the effort `none`."
      : "This model does not support this parameter.";
  if (value !== 1) addFieldLoss(losses, request, field, reason);
  return undefined;
}

/** The effort to send for the caller's effort or budget. */
export function writeEffort(
  request: CanonicalRequest,
  { abilities = {} }: Target,
  losses: Loss[],
): Effort | undefined {
  const { effort, budgetTokens, mode } = request.reasoning ?? {};
  const budgetEffort = budgetTokens === undefined ? undefined : budgetToEffort(budgetTokens);
  const wanted = mode === "off" ? "none" : (effort ?? budgetEffort);
  if (wanted === undefined) return undefined;
  if (abilities.reasoning === "none") {
    if (wanted !== "none")
      addFieldLoss(losses, request, "reasoning", "This model's reasoning cannot be configured.");
    return undefined;
  }
  return supportedEffort(wanted, abilities.efforts, (reason) =>
    addToleratedLoss(losses, fieldPath(request, "reasoning"), reason),
  );
}
