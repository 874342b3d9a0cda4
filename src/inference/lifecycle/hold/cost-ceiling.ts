// The most that the caller wants to pay for a call: no candidate above it is tried, no hold is larger, and no charge is.

import { Fault } from "../../../base/fault.ts";
import { creditsOf, type Nano, usdText } from "../../../base/money/money.ts";
import { affordableTokens, type CostEstimate } from "../../metering/cost-estimate.ts";
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
  if (candidate.credential.byok) return true;
  // A lower output limit does not lower what the operator would pay.
  if (estimate.unlimitedAmount !== undefined) return estimate.unlimitedAmount <= max;
  if (estimate.amount <= max) return true;
  return canShorten && affordableTokens(estimate, max) >= choices;
}

function ceilingFault(
  candidates: PricedCandidates,
  { max, canShorten }: CostCeiling,
  choices: number,
): Fault {
  const [cheapest] = candidates.map(({ estimate }) => estimate).toSorted(byCost);
  if (cheapest === undefined) throw new Error("no candidates");
  const isUnlimited = cheapest.unlimitedAmount !== undefined;
  const cost = isUnlimited ? sendable(costOf(cheapest)) : costOf(cheapest);
  const fitting = isUnlimited ? 0 : Math.floor(affordableTokens(cheapest, max) / choices);
  const advice =
    fitting > 0
      ? `Lower the output limit to ${fitting} tokens, raise the ceiling, or send \`on_max_cost: "shorten"\`.`
      : isUnlimited
        ? "Raise the ceiling to that amount, or use the model at another provider."
        : "Raise the ceiling, shorten the request, or use a cheaper model.";
  const reason = isUnlimited
    ? "This provider may exceed the output limit of a model that reasons. "
    : canShorten && fitting === 0
      ? "Its input alone costs more. "
      : "";
  return new Fault("invalid_request", "the call may cost more than the caller's ceiling", {
    message: `This call may cost up to $${usdText(cost)}, more than \`max_cost_usd\` (${usdText(max)}). ${reason}${advice}`,
    param: "postern.max_cost_usd",
    fields: {
      required_usd: usdText(cost),
      required_credits: creditsOf(cost),
      affordable_max_tokens: fitting,
    },
    next: [
      {
        method: "GET",
        url: "/docs/api/create-quote.md",
        why: "Read how to learn what the call can cost at other models.",
      },
    ],
  });
}

const STEP_NANO = 1_000_000n;
const SLACK_NANO = 100_000n;

/** Rounded up with some slack, because a request with this ceiling is longer by its digits. */
function sendable(cost: Nano): Nano {
  return ((cost + SLACK_NANO + STEP_NANO - 1n) / STEP_NANO) * STEP_NANO;
}

function costOf({ amount, unlimitedAmount = amount }: CostEstimate): Nano {
  return unlimitedAmount;
}

function byCost(left: CostEstimate, right: CostEstimate): number {
  const [first, second] = [costOf(left), costOf(right)];
  return first < second ? -1 : first > second ? 1 : 0;
}

export function cappedAt(amount: Nano, ceiling: CostCeiling | undefined): Nano {
  return ceiling !== undefined && ceiling.max < amount ? ceiling.max : amount;
}
