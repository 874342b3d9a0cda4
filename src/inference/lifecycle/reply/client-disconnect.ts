// Decides what happens at the provider when a client disconnects: whether the gateway closes its connection too, or keeps
// reading for the provider's usage. docs/site/providers.md has the facts per provider.

import type { AbortSignalLike } from "@postern/http-client";
import {
  API_TRAITS,
  isReplyComplete,
  type StreamMeter,
  usageSoFar,
  WIRE_TRAITS,
} from "@postern/wires";
import { isObject, type JsonObject, parseObject } from "../../../base/json.ts";
import { limitsOf } from "../../../models/catalog.ts";
import { abilitiesOf } from "../../../models/model-abilities.ts";
import { hasInputTokens } from "../../metering/charge.ts";
import type { CostEstimate } from "../../metering/cost-estimate.ts";
import { estimateInputTokens } from "../../metering/input-estimate.ts";
import { isInputCountable, isOpenAiWire } from "../../metering/tokens/count-input.ts";
import { encodingOf } from "../../metering/tokens/tokenizer.ts";
import { commonForm } from "../../request/common-form.ts";
import type { ParsedRequest } from "../../request/parse-request.ts";
import type { EventPipeline } from "../../streaming/event-pipeline.ts";
import type { Drain, ShutdownSignals } from "../../streaming/relay-options.ts";
import type { HeldCall } from "../call.ts";
import type { ProviderCount } from "./count-at-provider.ts";

export type OngoingCall = Pick<
  HeldCall,
  "candidate" | "request" | "plan" | "estimate" | "isCollected"
>;

/** A provider sends its usage right after the reply, or not at all. */
const USAGE_WAIT_MAX_MS = 30_000;

/**
 * Whether closing the connection stops the provider's billing, and the gateway can tell what was used until then without
 * the provider's usage: it has the tokenizer of the model. No provider stops a reply that is not streamed.
 */
function canHangUp(call: OngoingCall): boolean {
  const { credential, model } = call.candidate;
  if (credential.byok) return true;
  return call.request.stream && encodingOf(model.id) !== undefined && endsBill(call);
}

/** Whether closing the connection stops the provider's billing, and all output that it bills is relayed. */
export function endsBill(call: OngoingCall): boolean {
  const { candidate, plan } = call;
  const mayReason =
    candidate.model.supported.includes("reasoning") && !isReasoningOff(candidate, plan);
  return !mayReason && stopsByClosing(call);
}

/** Whether closing the connection stops the provider's billing of a stream that has text alone, of which some may be hidden. */
export function stopsByClosing({
  candidate: { credential },
  request,
  estimate,
  isCollected = false,
}: Pick<OngoingCall, "candidate" | "request" | "estimate" | "isCollected">): boolean {
  const isStream = request.stream || isCollected;
  if (!credential.provider.stopsBillingOnAbort || !isStream || request.choices > 1) return false;
  // What an image or a recording costs is known at its end only.
  if (API_TRAITS[request.api].relayed !== undefined) return false;
  return !usesProviderTools(request, estimate) && !hasMediaOutput(commonForm(request));
}

/** Whether the provider can count what was relayed. A call of a tool has more tokens than its text. */
export function isCountedByProvider(
  call: OngoingCall,
  { toolCalls }: Pick<StreamMeter, "toolCalls">,
): boolean {
  const { credential, model } = call.candidate;
  const { countWire } = WIRE_TRAITS[call.plan.wire];
  if (credential.byok || encodingOf(model.id) !== undefined || toolCalls > 0) return false;
  return (
    countWire !== undefined && credential.provider.paths[countWire] !== undefined && endsBill(call)
  );
}

/** Nothing of a whole reply was relayed, so only its input is charged, which the gateway estimates. */
function stopsWholeReply({ candidate, request, estimate }: OngoingCall): boolean {
  const { provider } = candidate.credential;
  return (
    provider.stopsWholeReplies === true && !request.stream && !usesProviderTools(request, estimate)
  );
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
    isCancelable ??= stopsWholeReply(call) || (canHangUp(call) && isInputCounted(call));
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
  { drainMs, count }: { readonly drainMs: number; readonly count: ProviderCount | undefined },
): Drain {
  const isBillOpen = !call.candidate.credential.byok && !canHangUp(call);
  const isCounted = !isBillOpen && isInputCounted(call);
  const isOutputKnown = (): boolean =>
    !isBillOpen || (count?.tokens !== undefined && isCountedByProvider(call, meter));
  const isKnown = (): boolean =>
    isCounted || (isOutputKnown() && hasInputTokens(usageSoFar(meter)));
  if (meter.finished) return { waitMs: 0, isBillOpen, isKnown };
  if (!isKnown()) return { waitMs: drainMs, isBillOpen, isKnown, counting: count?.ended };
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
  return estimateInputTokens(commonForm(request), context) >= CACHED_INPUT_MIN_TOKENS;
}

// The newest models think unless the request turns it off.
function isReasoningOff(
  { model }: OngoingCall["candidate"],
  { wire, body }: OngoingCall["plan"],
): boolean {
  if (!WIRE_TRAITS[wire].reasonsOnRequest) return false;
  const thinking = parseObject(body)?.["thinking"];
  if (thinking === undefined) return abilitiesOf(model).thinkingBudget !== false;
  return isObject(thinking) && thinking["type"] === "disabled";
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
