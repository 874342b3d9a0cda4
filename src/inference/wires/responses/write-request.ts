import type { CanonicalRequest, JsonObject, Loss, RequestField } from "../../canonical.ts";
import { strictnessOf } from "../../canonical-output.ts";
import { clampEffort, effortOfBudget } from "../../canonical-reasoning.ts";
import { loseField, nativeFields } from "../../canonical-wire.ts";
import type { Target, WrittenRequest } from "../../canonical-wire.ts";
import { isObject } from "../../canonical-json.ts";
import { ENCRYPTED, LOGPROBS } from "./read-request.ts";
import { writeItems } from "./write-items.ts";
import { writeTools } from "./write-tools.ts";

const OUTPUT_TOKENS_MIN = 16;

const UNKNOWN: readonly (readonly [RequestField, string])[] = [
  ["topK", "top_k"],
  ["seed", "seed"],
  ["logitBias", "logit bias"],
  ["stop", "stop sequences"],
];

const OPENAI_ONLY: readonly (readonly [RequestField, string])[] = [
  ["metadata", "metadata"],
  ["safetyIdentifier", "safety_identifier"],
  ["cacheRetention", "prompt_cache_retention"],
];

// What a provider keeps for one of its accounts is shared by all who use the gateway: none of it is ever referred to.
const STATE: ReadonlySet<string> = new Set(["previous_response_id", "conversation", "background"]);

export function writeRequest(request: CanonicalRequest, target: Target): WrittenRequest {
  const losses: Loss[] = [];
  const openai = target.abilities?.openaiFields !== false;
  const { items, replays } = writeItems(request, target, losses);
  const native = writeNative(request, losses);
  const { text, reasoning, include, ...extra } = native;
  noteRules(request, openai, losses);
  const body: JsonObject = {
    model: target.model,
    input: items,
    stream: request.stream,
    max_output_tokens: writeLimit(request, openai, losses),
    ...writeSampling(request, target, losses),
    ...writeTools(request, target, losses),
    text: merged(writeText(request, target, losses), text),
    reasoning: merged(writeReasoning(request, target, losses), reasoning),
    include: writeInclude(request, target, replays, include),
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
    nativeFields(request.native, "responses", "", losses) ?? {},
  )) {
    const [holder = "", ...rest] = key.split(".");
    if (STATE.has(key))
      losses.push({ path: key, why: "Nothing is stored at this model's provider." });
    else if (rest.length === 0) out[key] = value;
    else out[holder] = { ...(isObject(out[holder]) ? out[holder] : {}), [rest.join(".")]: value };
  }
  return out;
}

function noteRules(request: CanonicalRequest, openai: boolean, losses: Loss[]): void {
  const { names } = request;
  const byRule = true;
  if (request.cache !== undefined)
    losses.push({ path: names?.cache ?? "cache", why: "This provider caches by itself.", byRule });
  if (!openai && request.cacheKey !== undefined)
    losses.push({
      path: names?.cacheKey ?? "cacheKey",
      why: "This provider has no cache key.",
      byRule,
    });
  if (request.store === true)
    losses.push({
      path: names?.store ?? "store",
      why: "Replies are never stored at a provider, whose account all users of the gateway share.",
      byRule,
    });
}

function writeLimit(
  request: CanonicalRequest,
  openai: boolean,
  losses: Loss[],
): number | undefined {
  const limit = request.maxOutputTokens;
  if (limit === undefined || !openai || limit >= OUTPUT_TOKENS_MIN) return limit;
  loseField(
    losses,
    request,
    "maxOutputTokens",
    `This model's provider takes no limit below ${OUTPUT_TOKENS_MIN} tokens.`,
  );
  return OUTPUT_TOKENS_MIN;
}

function writeSampling(request: CanonicalRequest, target: Target, losses: Loss[]): JsonObject {
  const { sampling, openaiFields } = target.abilities ?? {};
  noteUnknown(request, openaiFields !== false, losses);
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
      loseField(losses, request, key, "This model takes no temperature and no top_p.");
  return rest;
}

function noteUnknown(request: CanonicalRequest, openai: boolean, losses: Loss[]): void {
  for (const [key, name] of UNKNOWN)
    if (request[key] !== undefined)
      loseField(losses, request, key, `This model's provider has no ${name} on its API.`);
  if (request.n !== undefined && request.n !== 1)
    loseField(losses, request, "n", "This model's provider gives one reply to a request.");
  for (const key of ["frequencyPenalty", "presencePenalty"] as const)
    if (request[key] !== undefined && request[key] !== 0 && openai)
      loseField(losses, request, key, "This model's provider has no penalties on its API.");
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
    const strict = strictnessOf(output, losses) ?? false;
    format = { type: "json_schema", name, description, schema, strict };
    if (target.abilities?.jsonSchema === false) {
      loseField(losses, request, "output", "This model has no output by JSON schema.");
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
        : effortOfBudget(budgetTokens));
  const shown = summary === "none" ? undefined : summary;
  if (asked === undefined && shown === undefined) return undefined;
  const { reasoning, efforts } = target.abilities ?? {};
  if (reasoning === "none") {
    if (asked !== "none")
      loseField(losses, request, "reasoning", "This model does not reason by request.");
    return undefined;
  }
  const clamped = asked && clampEffort(asked, efforts);
  if (clamped !== asked)
    losses.push({
      path: request.names?.reasoning ?? "reasoning",
      why: `This model has no effort ${asked}; ${clamped} is the nearest.`,
      byRule: true,
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
  if (reasons) list.push(ENCRYPTED);
  if (request.logprobs === true) list.push(LOGPROBS);
  if (Array.isArray(include)) list.push(...(include as readonly unknown[])); // Array.isArray gives any[].
  return list.length > 0 ? list : undefined;
}

function writeFields(request: CanonicalRequest, openai: boolean, losses: Loss[]): JsonObject {
  const fields: Record<string, unknown> = {};
  for (const [key, name] of OPENAI_ONLY) {
    if (request[key] === undefined) continue;
    if (openai) fields[name] = request[key];
    else loseField(losses, request, key, "This model's provider has no such field.");
  }
  return fields;
}

function merged(own: JsonObject | undefined, extra: unknown): JsonObject | undefined {
  return isObject(extra) ? { ...own, ...extra } : own;
}
