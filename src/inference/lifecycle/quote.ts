// POST /v1/quote: what a chat completion would hold and can cost. Runs the stages of a call up to its estimate; nothing is
// held or sent.

import { type Nano, NANO_PER_CREDIT, usdText } from "../../base/money/money.ts";
import { maxCost } from "../../models/price-bound.ts";
import { affordableTokens } from "../metering/cost-estimate.ts";
import { parseRequest } from "../request/parse-request.ts";
import { mostExpensive, type PricedCandidates } from "../routing/priced-candidates.ts";
import type { RoutingDeps } from "../routing/routing.ts";
import type { CallInput } from "./call.ts";
import { priceAllowed } from "./enforce-key-policy.ts";
import { type FreezeDeps, rejectIfFrozen } from "./hold/hold.ts";
import { routeCall } from "./route-call.ts";

export interface QuoteDeps extends FreezeDeps {
  readonly route: RoutingDeps;
  /** The balance that calls can hold. */
  readonly availableOf: (accountId: string) => Promise<Nano>;
}

export interface Quote {
  readonly object: "quote";
  readonly model: string;
  readonly provider: string;
  readonly byok: boolean;
  readonly input_tokens_max: number;
  readonly output_tokens_max: number;
  readonly input_usd_max: string;
  readonly cost_usd_max: string;
  readonly hold_credits: number;
  readonly available_credits: number;
  readonly affordable_output_tokens: number;
}

export async function quote(deps: QuoteDeps, input: CallInput): Promise<Quote> {
  const { accountId } = input.caller;
  const request = parseRequest(input.api, input.text);
  await rejectIfFrozen(deps, accountId);
  const routed = await routeCall(deps.route, { input, request, statefulCall: undefined });
  const candidates = priceAllowed(routed);
  const available = await deps.availableOf(accountId);
  return toQuote(candidates, available);
}

function toQuote(candidates: PricedCandidates, available: Nano): Quote {
  const [{ candidate, estimate: first }] = candidates;
  const { byok, provider } = candidate.credential;
  const estimate = byok ? first : mostExpensive(candidates);
  const hold = byok ? 0n : estimate.amount;
  return {
    object: "quote",
    model: candidate.model.id,
    provider: provider.id,
    byok,
    input_tokens_max: estimate.inputTokens,
    output_tokens_max: estimate.outputTokens,
    input_usd_max: usdText(byok ? 0n : maxCost(estimate.bound, 0)),
    cost_usd_max: usdText(hold),
    hold_credits: Number((hold + NANO_PER_CREDIT - 1n) / NANO_PER_CREDIT),
    available_credits: Number(available / NANO_PER_CREDIT),
    affordable_output_tokens: byok ? estimate.outputTokens : affordableTokens(estimate, available),
  };
}
