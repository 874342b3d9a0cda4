import type { CanonicalRequest, RequestField } from "../../../canonical/request.ts";
import { type Loss, addFieldLoss, takeNativeFields } from "../../../canonical/loss.ts";
import type { JsonObject } from "../../../../base/json.ts";
import { clampEffort, budgetToEffort } from "../../../canonical/reasoning.ts";
import type { Target, WrittenRequest } from "../../../canonical/wire.ts";
import { writeResponseFormat } from "./write-response-format.ts";
import { writeTools } from "./write-tools.ts";
import { writeTurns } from "./write-turns.ts";

const OPENAI_ONLY_FIELDS: readonly (readonly [RequestField, string])[] = [
  ["metadata", "metadata"],
  ["store", "store"],
  ["verbosity", "verbosity"],
  ["safetyIdentifier", "safety_identifier"],
  ["cacheRetention", "prompt_cache_retention"],
];
const STOPS_MAX = 4;

export function writeRequest(request: CanonicalRequest, target: Target): WrittenRequest {
  const abilities = target.abilities ?? {};
  const losses: Loss[] = [];
  const openai = abilities.openaiFields !== false;
  const stream = request.stream === true;
  const output = writeResponseFormat(request, target, losses);
  const body: JsonObject = {
    model: target.model,
    messages: writeTurns(output.request, target, losses),
    stream: request.stream,
    stream_options:
      stream && abilities.streamOptions !== false ? { include_usage: true } : undefined,
    [abilities.maxTokensField ?? "max_completion_tokens"]: request.maxOutputTokens,
    ...writeSampling(request, target, losses),
    ...writeTools(request, target, output.emulation, losses),
    response_format: output.format,
    reasoning_effort: writeEffort(request, target, losses),
    ...writeFields(request, openai, losses),
    service_tier: request.serviceTier,
    prompt_cache_key: openai ? request.cacheKey : undefined,
    user: request.user,
    ...takeNativeFields(request.native, "chat", "", losses),
  };
  if (request.cache !== undefined)
    losses.push({
      path: request.names?.cache ?? "cache",
      reason: "This provider caches by itself.",
      tolerated: true,
    });
  if (!openai && request.cacheKey !== undefined)
    losses.push({
      path: request.names?.cacheKey ?? "cacheKey",
      reason: "This provider has no cache key.",
      tolerated: true,
    });
  return { body, losses, emulation: output.emulation };
}

function writeSampling(request: CanonicalRequest, target: Target, losses: Loss[]): JsonObject {
  const { temperature, topP, topK, stop } = request;
  const openai = target.abilities?.openaiFields !== false;
  const settable = target.abilities?.sampling !== false;
  if (!settable) addSamplingLosses(request, losses);
  if (openai && topK !== undefined)
    addFieldLoss(losses, request, "topK", "This provider's API has no top_k.");
  const stops = openai ? stop?.slice(0, STOPS_MAX) : stop;
  if (stops?.length !== stop?.length)
    addFieldLoss(
      losses,
      request,
      "stop",
      `This provider takes at most ${STOPS_MAX} stop sequences.`,
    );
  return {
    temperature: settable ? temperature : undefined,
    top_p: settable ? topP : undefined,
    top_k: openai ? undefined : topK,
    seed: request.seed,
    frequency_penalty: request.frequencyPenalty,
    presence_penalty: request.presencePenalty,
    logit_bias: request.logitBias,
    logprobs: request.logprobs,
    top_logprobs: request.topLogprobs,
    stop: stops,
    n: request.n,
  };
}

function addSamplingLosses(request: CanonicalRequest, losses: Loss[]): void {
  for (const field of ["temperature", "topP"] as const) {
    if ((request[field] ?? 1) !== 1)
      addFieldLoss(losses, request, field, "This model takes no such setting.");
  }
}

function writeFields(request: CanonicalRequest, openai: boolean, losses: Loss[]): JsonObject {
  const fields: Record<string, unknown> = {};
  for (const [key, name] of OPENAI_ONLY_FIELDS) {
    const value = request[key];
    if (value === undefined) continue;
    if (openai) fields[name] = value;
    else if (value !== false)
      addFieldLoss(losses, request, key, "This model's provider has no such field.");
  }
  return fields;
}

function writeEffort(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): string | undefined {
  const { reasoning } = request;
  if (reasoning === undefined) return undefined;
  const { effort, budgetTokens, mode, summary } = reasoning;
  const path = request.names?.reasoning ?? "reasoning";
  const asked =
    mode === "off"
      ? "none"
      : (effort ?? (budgetTokens === undefined ? undefined : budgetToEffort(budgetTokens)));
  if (summary !== undefined)
    losses.push({
      path,
      reason: "This API does not let the caller choose how reasoning is shown.",
      tolerated: true,
    });
  if (asked === undefined) {
    if (mode !== undefined)
      losses.push({
        path,
        reason: "Without an effort, the model's own way to reason holds.",
        tolerated: true,
      });
    return undefined;
  }
  const abilities = target.abilities ?? {};
  if (abilities.reasoning === "none") {
    if (asked !== "none")
      addFieldLoss(losses, request, "reasoning", "This model does not reason by request.");
    return undefined;
  }
  const clamped = clampEffort(asked, abilities.efforts);
  if (clamped !== asked)
    losses.push({
      path,
      reason: `This model has no effort ${asked}; ${clamped} is the nearest.`,
      tolerated: true,
    });
  return clamped;
}
