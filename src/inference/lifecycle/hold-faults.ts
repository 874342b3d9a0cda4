// What is asked of the ledger for a call, and what is said when it does not fit: a hold is the most that the call can cost;
// an output limit that the caller left open is lowered to what the balance affords.

import { Fault, type NextStep } from "../../base/fault.ts";
import {
  type Nano,
  NANO_PER_CREDIT,
  NANO_PER_USD,
  creditsOf,
  maxNano,
  usdText,
} from "../../base/money.ts";
import type { BudgetState } from "../../ledger/budget-rules.ts";
import type { HoldOutcome } from "../../ledger/decide.ts";
import type { Freeze } from "../../ledger/freezes.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { affordableTokens, type CostEstimate } from "../metering/cost-estimate.ts";

const MIN_SUGGESTED_PURCHASE_USD = 10n;

interface HoldFaultContext {
  readonly request: ParsedRequest;
  readonly accountId: string;
  readonly keyId: string;
  /** Whether a human owns the account; asked where the owner is who can mend it. */
  readonly isClaimed: boolean;
  /** Then no human can take the account over either. */
  readonly isSignInDisabled: boolean;
  readonly now: number;
}

export function holdFault(
  outcome: Exclude<HoldOutcome, { status: "held" }>,
  estimate: CostEstimate,
  context: HoldFaultContext,
): Fault {
  switch (outcome.status) {
    case "key_rejected":
      return new Fault("invalid_api_key", `key is ${outcome.reason}`);
    case "rate_limited":
      return new Fault("rate_limited", "key calls too often", {
        retryAfterSeconds: outcome.retryAfterMs / 1_000,
      });
    case "too_many_calls":
      return new Fault("rate_limited", "too many open calls", {
        message: `This key has ${outcome.open} calls open, which is its limit. Wait for one to end.`,
        retryAfterSeconds: 1,
      });
    case "key_limit":
      return keyLimitFault(outcome, estimate, context);
    case "budget":
      return budgetFault(outcome.blocked, estimate, context);
    case "insufficient_credits":
      return insufficientCreditsFault(outcome.available, estimate, context);
    case "frozen":
      return debtFreezeFault(outcome.owed);
  }
}

function keyLimitFault(
  { remaining, windowEndsAt }: Extract<HoldOutcome, { status: "key_limit" }>,
  estimate: CostEstimate,
  { accountId, keyId, isClaimed }: HoldFaultContext,
): Fault {
  const raise: NextStep = isClaimed
    ? {
        method: "GET",
        url: `/console/${accountId}/keys`,
        why: "A page for humans: there the workspace's owner raises the limit.",
      }
    : {
        method: "PATCH",
        url: `/v1/keys/${keyId}`,
        body: { limit_usd: null },
        why: "Take the limit away, or send a greater one.",
      };
  const advice = isClaimed
    ? "The workspace's owner can raise it in the console."
    : "Raise it with PATCH /v1/keys/{id}.";
  return new Fault("key_limit_reached", "key limit", {
    message: `This key has reached its own spending limit. ${advice} Or use another key.`,
    fields: {
      required_credits: ceilCredits(estimate.minimum ?? estimate.amount),
      available_credits: creditsOf(remaining),
      ...(windowEndsAt === null ? {} : { limit_resets_at: new Date(windowEndsAt).toISOString() }),
    },
    next: [raise],
  });
}

function budgetFault(
  { window, limit, used, held, remaining, endsAt }: BudgetState,
  estimate: CostEstimate,
  { isClaimed, now }: { readonly isClaimed: boolean; readonly now: number },
): Fault {
  const required = estimate.minimum ?? estimate.amount;
  const name = window === "day" ? "daily" : "monthly";
  const opens = new Date(endsAt).toISOString();
  const open = held === 0n ? "" : ` and ${usdText(held)} USD are held by open calls`;
  const advice = isClaimed
    ? "Wait until then, or ask the workspace's owner to raise the budget in the console."
    : "Wait until then, or raise the budget with PATCH /v1/account/budgets.";
  return new Fault("workspace_budget_reached", `${window} budget`, {
    message: `The workspace's ${name} budget is ${usdText(limit ?? 0n)} USD, of which ${usdText(used)} USD are spent${open}; this call may cost up to ${usdText(required)} USD. The budget opens again at ${opens}. ${advice}`,
    retryAfterSeconds: (endsAt - now) / 1_000,
    fields: {
      budget_window: window,
      budget_usd: Number(usdText(limit ?? 0n)),
      required_credits: ceilCredits(required),
      available_credits: creditsOf(remaining ?? 0n),
      budget_resets_at: opens,
    },
    next: [
      {
        method: "GET",
        url: "/v1/account/budgets",
        why: "Read what the workspace may spend, and when that opens again.",
      },
    ],
  });
}

function debtFreezeFault(owed: Nano): Fault {
  return new Fault("workspace_frozen", "the account owes", {
    message: `A bank took back a payment of this workspace, and ${usdText(owed)} USD of it were spent. It makes no calls until that is made good: credits that are bought go to it first.`,
    fields: { owed_usd: usdText(owed) },
    next: [purchaseStep(owed, "Make good for what is missing; a human can pay at the `pay_url`.")],
  });
}

/** What no purchase mends. */
export function operatorFreezeFault(freeze: Freeze & { readonly by: "operator" }): Fault {
  const since = new Date(freeze.since).toISOString();
  return new Fault("workspace_frozen", "frozen by an operator", {
    message: `The operator of this gateway froze this workspace at ${since}: ${freeze.reason}. It makes no calls until the operator lifts that; everything can still be read.`,
    fields: { frozen_by: "operator", frozen_since: since, frozen_reason: freeze.reason },
    next: [
      { method: "GET", url: "/v1/account", why: "See whether the workspace is frozen still." },
    ],
  });
}

/** A purchase after which the same call goes through. */
function purchaseStep(missing: Nano, why: string): NextStep {
  const dollars = (missing + NANO_PER_USD - 1n) / NANO_PER_USD;
  const amount = dollars > MIN_SUGGESTED_PURCHASE_USD ? dollars : MIN_SUGGESTED_PURCHASE_USD;
  return {
    method: "POST",
    url: "/v1/billing/invoice",
    body: { amount_usd: Number(amount) },
    why,
  };
}

function insufficientCreditsFault(
  available: Nano,
  estimate: CostEstimate,
  {
    request,
    isClaimed,
    isSignInDisabled,
  }: Pick<HoldFaultContext, "request" | "isClaimed" | "isSignInDisabled">,
): Fault {
  const required = estimate.minimum ?? estimate.amount;
  const affordable = Math.floor(affordableTokens(estimate, available) / request.choices);
  const buy = purchaseStep(
    required - available,
    "Buy credits; a human can pay at the `pay_url` of the answer.",
  );
  const claim: NextStep = {
    method: "POST",
    url: "/agent/identity/claim",
    body: { email: "<the human's email>" },
    why: "Let a human take the account over; the first claim adds 1 USD.",
  };
  const sentence = `This call may cost up to ${usdText(required)} USD, and ${usdText(maxNano(available, 0n))} USD is available.`;
  const advice =
    affordable > 0
      ? ` Ask for at most ${affordable} output tokens, or buy credits with POST /v1/billing/invoice.`
      : " Buy credits with POST /v1/billing/invoice.";
  return new Fault("insufficient_credits", "hold does not fit", {
    message: sentence + advice,
    fields: {
      required_credits: ceilCredits(required),
      available_credits: Math.max(0, creditsOf(available)),
      affordable_max_tokens: affordable,
    },
    next: isClaimed || isSignInDisabled ? [buy] : [buy, claim],
  });
}

function ceilCredits(amount: Nano): number {
  return Number((amount + NANO_PER_CREDIT - 1n) / NANO_PER_CREDIT);
}

/** Adds to the fault of a caller's own provider key how the gateway's account could be paid for instead. */
export function withShortfall(fault: Fault, shortfall: Fault | undefined): Fault {
  if (shortfall?.code !== "insufficient_credits") return fault;
  const { code, message, status, publicMessage, options } = fault;
  const next = [...(options.next ?? []), ...(shortfall.options.next ?? [])];
  return new Fault(code, message, {
    ...options,
    message: publicMessage,
    status,
    next,
    balanceFault: shortfall,
  });
}
