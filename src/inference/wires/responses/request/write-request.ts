import type { CanonicalRequest, RequestField } from "../../../canonical/request.ts";
import { type Loss, addFieldLoss, takeNativeFields } from "../../../canonical/loss.ts";
import { type JsonObject, isObject } from "../../../../base/json.ts";
import { strictFlag } from "../../../canonical/structured-output.ts";
import { clampEffort, budgetToEffort } from "../../../canonical/reasoning.ts";
import type { Target, WrittenRequest } from "../../../canonical/wire.ts";
import { INCLUDE_ENCRYPTED_REASONING, INCLUDE_LOGPROBS } from "./read-request.ts";
import { writeItems } from "./write-input-items.ts";
import { writeTools } from "../items/write-tools.ts";

const OUTPUT_TOKENS_MIN = 16;

const UNSUPPORTED_FIELDS: readonly (readonly [RequestField, string])[] = [
  ["topK", "top_k"],
  ["seed", "seed"],
  ["logitBias", "logit bias"],
  ["stop", "stop sequences"],
];

const OPENAI_ONLY_FIELDS: readonly (readonly [RequestField, string])[] = [
  ["metadata", "metadata"],
  ["safetyIdentifier", "safety_identifier"],
  ["cacheRetention", "prompt_cache_retention"],
];

// What a provider keeps for one of its accounts is shared by all who use the gateway: none of it is ever referred to.
const STATEFUL_FIELDS: ReadonlySet<string> = new Set([
  "previous_response_id",
  "conversation",
  "background",
]);

export function writeRequest(request: CanonicalRequest, target: Target): WrittenRequest {
  const losses: Loss[] = [];
  const openai = target.abilities?.openaiFields !== false;
  const { items, replaysReasoning } = writeItems(request, target, losses);
  const native = writeNative(request, losses);
  const { text, reasoning, include, ...extra } = native;
  addToleratedLosses(request, openai, losses);
  const body: JsonObject = {
    model: target.model,
    input: items,
    stream: request.stream,
    max_output_tokens: writeLimit(request, openai, losses),
    ...writeSampling(request, target, losses),
    ...writeTools(request, target, losses),
    text: mergeObjects(writeText(request, target, losses), text),
    reasoning: mergeObjects(writeReasoning(request, target, losses), reasoning),
    include: writeInclude(request, target, replaysReasoning, include),
    ...writeFields(request, openai, losses),
    service_tier: request.serviceTier,
    prompt_cache_key: openai ? request.cacheKey : undefined,
    user: request.user,
    store: false,
    ...extra,
  };
  return { body, losses };
}

function writeNative(request: CanonicalRequest, losses: Loss[]): JsonObject {
  const out: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(
    takeNativeFields(request.native, "responses", "", losses) ?? {},
  )) {
    const [holder = "", ...rest] = key.split(".");
    if (STATEFUL_FIELDS.has(key))
      losses.push({ path: key, reason: "Nothing is stored at this model's provider." });
    else if (rest.length === 0) out[key] = value;
    else out[holder] = { ...(isObject(out[holder]) ? out[holder] : {}), [rest.join(".")]: value };
  }
  return out;
}

function addToleratedLosses(request: CanonicalRequest, openai: boolean, losses: Loss[]): void {
  const { names } = request;
  const tolerated = true;
  if (request.cache !== undefined)
    losses.push({
      path: names?.cache ?? "cache",
      reason: "This provider caches by itself.",
      tolerated,
    });
  if (!openai && request.cacheKey !== undefined)
    losses.push({
      path: names?.cacheKey ?? "cacheKey",
      reason: "This provider has no cache key.",
      tolerated,
    });
  if (request.store === true)
    losses.push({
      path: names?.store ?? "store",
      reason:
        "Replies are never stored at a provider, whose account all users of the gateway share.",
      tolerated,
    });
}

function writeLimit(
  request: CanonicalRequest,
  openai: boolean,
  losses: Loss[],
): number | undefined {
  const limit = request.maxOutputTokens;
  if (limit === undefined || !openai || limit >= OUTPUT_TOKENS_MIN) return limit;
  addFieldLoss(
    losses,
    request,
    "maxOutputTokens",
    `This model's provider takes no limit below ${OUTPUT_TOKENS_MIN} tokens.`,
  );
  return OUTPUT_TOKENS_MIN;
}

function writeSampling(request: CanonicalRequest, target: Target, losses: Loss[]): JsonObject {
  const { sampling, openaiFields } = target.abilities ?? {};
  addUnsupportedLosses(request, openaiFields !== false, losses);
  const penalties =
    openaiFields === false
      ? {
          frequency_penalty: request.frequencyPenalty,
          presence_penalty: request.presencePenalty,
        }
      : undefined;
  const rest = { ...penalties, top_logprobs: request.topLogprobs };
  if (sampling !== false) return { temperature: request.temperature, top_p: request.topP, ...rest };
  for (const key of ["temperature", "topP"] as const)
    if (request[key] !== undefined && request[key] !== 1)
      addFieldLoss(losses, request, key, "This model takes no temperature and no top_p.");
  return rest;
}

function addUnsupportedLosses(request: CanonicalRequest, openai: boolean, losses: Loss[]): void {
  for (const [key, name] of UNSUPPORTED_FIELDS)
    if (request[key] !== undefined)
      addFieldLoss(losses, request, key, `This model's provider has no ${name} on its API.`);
  if (request.n !== undefined && request.n !== 1)
    addFieldLoss(losses, request, "n", "This model's provider gives one reply to a request.");
  for (const key of ["frequencyPenalty", "presencePenalty"] as const)
    if (request[key] !== undefined && request[key] !== 0 && openai)
      addFieldLoss(losses, request, key, "This model's provider has no penalties on its API.");
}

function writeText(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const { output, verbosity } = request;
  let format: JsonObject | undefined = output && { type: output.type };
  if (output?.type === "json_schema") {
    const { name = "structured_output", description, schema } = output;
    const strict = strictFlag(output, losses) ?? false;
    format = { type: "json_schema", name, description, schema, strict };
    if (target.abilities?.jsonSchema === false) {
      addFieldLoss(losses, request, "output", "This model has no output by JSON schema.");
      format = undefined;
    }
  }
  return format === undefined && verbosity === undefined ? undefined : { format, verbosity };
}

function writeReasoning(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const { effort, budgetTokens, mode, summary } = request.reasoning ?? {};
  const asked =
    effort ??
    (mode === "off"
      ? "none"
      : budgetTokens === undefined
        ? undefined
        : budgetToEffort(budgetTokens));
  const shown = summary === "none" ? undefined : summary;
  if (asked === undefined && shown === undefined) return undefined;
  const { reasoning, efforts } = target.abilities ?? {};
  if (reasoning === "none") {
    if (asked !== "none")
      addFieldLoss(losses, request, "reasoning", "This model does not reason by request.");
    return undefined;
  }
  const clamped = asked && clampEffort(asked, efforts);
  if (clamped !== asked)
    losses.push({
      path: request.names?.reasoning ?? "reasoning",
      reason: `This model has no effort ${asked}; ${clamped} is the nearest.`,
      tolerated: true,
    });
  return { effort: clamped, summary: shown };
}

// A model that does not reason refuses to be asked for encrypted reasoning.
function writeInclude(
  request: CanonicalRequest,
  target: Target,
  replays: boolean,
  include: unknown,
): readonly unknown[] | undefined {
  const { reasoning } = target.abilities ?? {};
  const reasons =
    reasoning !== "none" && (reasoning !== undefined || request.reasoning !== undefined || replays);
  const list: unknown[] = [];
  if (reasons) list.push(INCLUDE_ENCRYPTED_REASONING);
  if (request.logprobs === true) list.push(INCLUDE_LOGPROBS);
  if (Array.isArray(include)) list.push(...(include as readonly unknown[])); // Array.isArray gives any[].
  return list.length > 0 ? list : undefined;
}

function writeFields(request: CanonicalRequest, openai: boolean, losses: Loss[]): JsonObject {
  const fields: Record<string, unknown> = {};
  for (const [key, name] of OPENAI_ONLY_FIELDS) {
    if (request[key] === undefined) continue;
    if (openai) fields[name] = request[key];
    else addFieldLoss(losses, request, key, "This model's provider has no such field.");
  }
  return fields;
}

function mergeObjects(own: JsonObject | undefined, extra: unknown): JsonObject | undefined {
  return isObject(extra) ? { ...own, ...extra } : own;
}
