// Decides what happens at the provider when a client disconnects: whether the gateway closes its connection too, or keeps
// reading for the provider's usage. docs/site/providers.md has the facts per provider.

import type { AbortSignalLike } from "@postern/http-client";
import { isReplyComplete, type UpstreamWireName, usageSoFar, WIRE_TRAITS } from "@postern/wires";
import { isObject, type JsonObject, parseObject } from "../../../base/json.ts";
import { limitsOf } from "../../../models/catalog.ts";
import { hasInputTokens } from "../../metering/charge.ts";
import type { CostEstimate } from "../../metering/cost-estimate.ts";
import { estimateInputTokens } from "../../metering/input-estimate.ts";
import { isInputCountable, isOpenAiWire } from "../../metering/tokens/count-input.ts";
import { encodingOf } from "../../metering/tokens/tokenizer.ts";
import type { ParsedRequest } from "../../request/parse-request.ts";
import type { EventPipeline } from "../../streaming/event-pipeline.ts";
import type { Drain, ShutdownSignals } from "../../streaming/relay-options.ts";
import type { HeldCall } from "../call.ts";

export type OngoingCall = Pick<HeldCall, "candidate" | "request" | "plan" | "estimate">;

/** A provider sends its usage right after the reply, or not at all. */
const USAGE_WAIT_MAX_MS = 30_000;

/**
 * Whether closing the connection stops the provider's billing, and the gateway can tell what was used until then without
 * the provider's usage: it has the tokenizer of the model. No provider stops a reply that is not streamed.
 */
function canHangUp({ candidate, request, plan, estimate }: OngoingCall): boolean {
  const { credential, model } = candidate;
  if (credential.byok) return true;
  if (!credential.provider.stopsBillingOnAbort || !request.stream) return false;
  if (encodingOf(model.id) === undefined || request.choices > 1) return false;
  const mayReason = model.supported.includes("reasoning") && !isReasoningOff(request, plan.wire);
  return !mayReason && !usesProviderTools(request, estimate) && !hasMediaOutput(request.json);
}

/** Returns whether to end a request to a provider: on shutdown, or if the caller has left and the gateway can hang up. */
export function cancelCheckOf(
  caller: Pick<AbortSignalLike, "aborted">,
  { drained, forced }: ShutdownSignals,
  call: OngoingCall,
): () => boolean {
  // The check is polled, so what it costs to decide is paid once, and only if the caller leaves.
  let isCancelable: boolean | undefined;
  return () => {
    if (forced.aborted) return true;
    if (!caller.aborted) return drained.aborted;
    isCancelable ??= canHangUp(call) && isInputCounted(call);
    return isCancelable;
  };
}

/**
 * How to read a stream on for the provider's usage. The wait continues after the end of the reply: otherwise a client could
 * avoid paying for hidden tokens, such as reasoning, by disconnecting before the usage arrives.
 */
export function drainOf(
  call: OngoingCall,
  { meter, parser }: Pick<EventPipeline, "meter" | "parser">,
  drainMs: number,
): Drain {
  const isBillOpen = !call.candidate.credential.byok && !canHangUp(call);
  const isCounted = !isBillOpen && isInputCounted(call);
  const isKnown = (): boolean => isCounted || (!isBillOpen && hasInputTokens(usageSoFar(meter)));
  if (meter.finished) return { waitMs: 0, isBillOpen, isKnown };
  if (!isKnown()) return { waitMs: drainMs, isBillOpen, isKnown };
  // An event that is too long is the one that repeats the whole reply, and its end has the usage.
  const isUsageNext = isReplyComplete(meter) || parser.hasCutEvent;
  const waitMs = isUsageNext ? USAGE_WAIT_MAX_MS : 0;
  return { waitMs, isBillOpen, isKnown: () => false };
}

/** Whether the gateway can count the input as the provider does. */
function isInputCounted(call: OngoingCall): boolean {
  const { candidate, plan } = call;
  if (candidate.credential.byok) return true;
  const body = isOpenAiWire(plan.wire) ? parseObject(plan.body) : undefined;
  return body !== undefined && isInputCountable(body) && !mayBeCached(call);
}

/** OpenAI's prompt caching guide: shorter prompts are never cached. */
const CACHED_INPUT_MIN_TOKENS = 1_024;

// Callers share the provider's account, so another caller or process may have filled its cache. Only the usage has what was cached.
function mayBeCached({ candidate: { model }, request, estimate }: OngoingCall): boolean {
  const isCheaper = estimate.cards.some(
    ({ base: { input = 0n, cache_read = input } }) => cache_read < input,
  );
  if (!isCheaper) return false;
  const context = { model: model.id, contextTokens: limitsOf(model).input };
  return estimateInputTokens(request.json, context) >= CACHED_INPUT_MIN_TOKENS;
}

// A translated request may ask for reasoning by any of several fields, so only Anthropic's own is read.
function isReasoningOff({ api, json }: ParsedRequest, wire: UpstreamWireName): boolean {
  if (api !== wire || !WIRE_TRAITS[wire].reasonsOnRequest) return false;
  const { thinking } = json;
  return thinking === undefined || (isObject(thinking) && thinking["type"] === "disabled");
}

// Only the provider's usage has the fees of its tools and the tokens that they read.
function usesProviderTools(
  { toolTokens, toolCalls, advisors }: ParsedRequest,
  { hasFees }: CostEstimate,
): boolean {
  return hasFees || toolTokens > 0 || toolCalls > 0 || advisors.length > 0;
}

function hasMediaOutput({ modalities, audio }: JsonObject): boolean {
  return isObject(audio) || (Array.isArray(modalities) && modalities.some((one) => one !== "text"));
}
