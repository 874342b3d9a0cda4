// The most that the caller wants to pay for a call: no candidate above it is tried, no hold is larger, and no charge is.

import { Fault } from "../../../base/fault.ts";
import { creditsOf, type Nano, usdText } from "../../../base/money/money.ts";
import { affordableTokens } from "../../metering/cost-estimate.ts";
import type { CostCeiling } from "../../request/call-options.ts";
import type { PricedCandidate, PricedCandidates } from "../../routing/priced-candidates.ts";

/** The candidates whose cost can stay below the ceiling. Throws if there is none, with what would fit. */
export function withinCeiling(
  candidates: PricedCandidates,
  ceiling: CostCeiling | undefined,
  choices: number,
): PricedCandidates {
  if (ceiling === undefined) return candidates;
  const [first, ...rest] = candidates.filter((priced) => canFit(priced, ceiling, choices));
  if (first === undefined) throw ceilingFault(candidates, ceiling, choices);
  return [first, ...rest];
}

/** Calls on the caller's own provider key cost no credits. */
function canFit(
  { candidate, estimate }: PricedCandidate,
  { max, canShorten }: CostCeiling,
  choices: number,
): boolean {
  if (candidate.credential.byok || estimate.amount <= max) return true;
  return canShorten && affordableTokens(estimate, max) >= choices;
}

function ceilingFault(
  candidates: PricedCandidates,
  { max, canShorten }: CostCeiling,
  choices: number,
): Fault {
  const [cheapest] = candidates.map(({ estimate }) => estimate).toSorted(byAmount);
  if (cheapest === undefined) throw new Error("no candidates");
  const fitting = Math.floor(affordableTokens(cheapest, max) / choices);
  const advice =
    fitting > 0
      ? `Lower the output limit to ${fitting} tokens, raise the ceiling, or send \`on_max_cost: "shorten"\`.`
      : "Raise the ceiling, shorten the request, or use a cheaper model.";
  const reason = canShorten && fitting === 0 ? "Its input alone costs more. " : "";
  return new Fault("invalid_request", "the call may cost more than the caller's ceiling", {
    message: `This call may cost up to $${usdText(cheapest.amount)}, more than \`max_cost_usd\` (${usdText(max)}). ${reason}${advice}`,
    param: "postern.max_cost_usd",
    fields: {
      required_usd: usdText(cheapest.amount),
      required_credits: creditsOf(cheapest.amount),
      affordable_max_tokens: fitting,
    },
    next: [
      { method: "POST", url: "/v1/quote", why: "Read what the call can cost at other models." },
    ],
  });
}

function byAmount(left: { readonly amount: Nano }, right: { readonly amount: Nano }): number {
  return left.amount < right.amount ? -1 : left.amount > right.amount ? 1 : 0;
}

export function cappedAt(amount: Nano, ceiling: CostCeiling | undefined): Nano {
  return ceiling !== undefined && ceiling.max < amount ? ceiling.max : amount;
}
