// POST /v1/quote: what a call would hold and can cost, as a signed offer. Runs the stages of a call up to its estimate;
// nothing is held or sent.

import { Fault } from "../../base/fault.ts";
import { minNano, type Nano, NANO_PER_CREDIT, usdText } from "../../base/money/money.ts";
import type { Caller } from "../../http/route.ts";
import { timestamp } from "../../http/schemas.ts";
import { maxCost } from "../../models/price-bound.ts";
import { affordableTokens } from "../metering/cost-estimate.ts";
import { type Api, type ParsedRequest, parseRequest } from "../request/parse-request.ts";
import { mostExpensive, type PricedCandidates } from "../routing/priced-candidates.ts";
import type { RoutingDeps } from "../routing/routing.ts";
import type { RecentOutputs } from "../streaming/recent-outputs.ts";
import { firstHold } from "../streaming/rolling-hold.ts";
import { batchTargetOf, priceInBatch } from "./batch-target.ts";
import type { CallInput } from "./call.ts";
import type { DataPolicyDeps } from "./enforce-data-policy.ts";
import { priceAllowed } from "./enforce-key-policy.ts";
import { expandPreset, type FindPreset } from "./expand-preset.ts";
import { ceilCredits } from "./hold/hold-faults.ts";
import { canRoll, type FreezeDeps, rejectIfFrozen } from "./hold/hold.ts";
import { type OfferDeps, signOffer } from "./offer.ts";
import { routeCall } from "./route-call.ts";

export interface QuoteDeps extends FreezeDeps {
  readonly findPreset: FindPreset;
  readonly route: RoutingDeps & DataPolicyDeps;
  readonly offers: OfferDeps;
  readonly recentOutputs: Pick<RecentOutputs, "firstTokens">;
  /** The largest hold that the balance, the key's limit and the budgets cover. */
  readonly affordableOf: (caller: Caller, now: number) => Promise<Nano>;
}

export interface Quote {
  readonly object: "quote";
  readonly id: string;
  readonly api: Api;
  readonly model: string;
  readonly provider: string;
  readonly byok: boolean;
  readonly input_tokens_max: number;
  readonly output_tokens_max: number;
  readonly input_usd_max: string;
  readonly cost_usd_max: string;
  readonly batch_usd_max: string | null;
  readonly hold_credits: number;
  readonly stream_hold_credits: number;
  readonly available_credits: number;
  readonly affordable_output_tokens: number;
  readonly offer: string;
  readonly expires_at: string;
}

/** A model that cannot serve the request. */
export interface RefusedQuote {
  readonly object: "quote_error";
  readonly model: string;
  readonly error: { readonly code: string; readonly message: string };
}

export async function quote(deps: QuoteDeps, sent: CallInput): Promise<Quote> {
  const input = await expandPreset(deps.findPreset, sent);
  const { accountId } = input.caller;
  const request = parseRequest(input.api, input.text);
  await rejectIfFrozen(deps, accountId);
  const routed = await routeCall(deps.route, { input, request, statefulCall: undefined });
  const candidates = priceAllowed(routed);
  const available = await deps.affordableOf(input.caller, input.now);
  const [{ candidate }] = candidates;
  const canBatch = batchTargetOf(deps.route, routed, candidate) !== undefined;
  const inBatch = canBatch ? priceInBatch(routed, candidate)?.amount : undefined;
  return toQuote(deps, { input, request, candidates, inBatch }, available);
}

/** The same request at several models, in their order. */
export async function quoteModels(
  deps: QuoteDeps,
  sent: CallInput,
  models: readonly string[],
): Promise<readonly (Quote | RefusedQuote)[]> {
  const input = await expandPreset(deps.findPreset, sent);
  const { json } = parseRequest(input.api, input.text);
  const quotes: (Quote | RefusedQuote)[] = [];
  for (const model of models) {
    try {
      const text = JSON.stringify({ ...json, model });
      quotes.push(await quote(deps, { ...input, text }));
    } catch (error) {
      if (!(error instanceof Fault) || error.code === "workspace_frozen") throw error;
      const { code, publicMessage: message } = error;
      quotes.push({ object: "quote_error", model, error: { code, message } });
    }
  }
  return quotes;
}

interface QuotedRequest {
  readonly input: CallInput;
  readonly request: ParsedRequest;
  readonly candidates: PricedCandidates;
  /** The most that it costs in a batch of the provider. */
  readonly inBatch: Nano | undefined;
}

function toQuote(
  { offers, recentOutputs }: Pick<QuoteDeps, "offers" | "recentOutputs">,
  { input, request, candidates, inBatch }: QuotedRequest,
  available: Nano,
): Quote {
  const [{ candidate, estimate: first }] = candidates;
  const { byok, provider } = candidate.credential;
  const estimate = byok ? first : mostExpensive(candidates);
  const hold = byok ? 0n : estimate.amount;
  const streamed = { request: { ...request, stream: true }, holdsAll: false };
  const firstTokens = recentOutputs.firstTokens(candidate.model.id);
  const firstPart = canRoll(streamed, candidates[0])
    ? minNano(firstHold(first, firstTokens), hold)
    : hold;
  const signed = signOffer(offers, { input, request, candidates, estimate, max: hold });
  return {
    object: "quote",
    id: signed.id,
    api: input.api,
    model: candidate.model.id,
    provider: provider.id,
    byok,
    input_tokens_max: estimate.inputTokens,
    output_tokens_max: estimate.outputTokens,
    input_usd_max: usdText(byok ? 0n : maxCost(estimate.bound, 0)),
    cost_usd_max: usdText(hold),
    batch_usd_max: inBatch === undefined ? null : usdText(inBatch),
    hold_credits: ceilCredits(hold),
    stream_hold_credits: ceilCredits(firstPart),
    available_credits: Number(available / NANO_PER_CREDIT),
    affordable_output_tokens: byok ? estimate.outputTokens : affordableTokens(estimate, available),
    offer: signed.offer,
    expires_at: timestamp(signed.expiresAt),
  };
}
