// The errors for a hold that the ledger refused: what is missing, and what the caller can do.

import {
  CLAIM_STEP,
  endedKeyFault,
  Fault,
  type NextStep,
  READ_OWN_KEY_STEP,
} from "../../../base/fault.ts";
import {
  creditsOf,
  maxNano,
  type Nano,
  NANO_PER_CREDIT,
  NANO_PER_USD,
  usdNumber,
  usdText,
} from "../../../base/money/money.ts";
import { canBuy, type PaymentOptions, purchaseStep } from "../../../base/purchase-steps.ts";
import { formatUsd } from "../../../base/text/format.ts";
import { rateLimitHeaders } from "../../../http/rate-limit-headers.ts";
import type { BudgetState } from "../../../ledger/budget-rules.ts";
import type { HoldOutcome, HoldRequest } from "../../../ledger/decide.ts";
import type { Freeze } from "../../../ledger/freezes.ts";
import type { KeyRateLimit } from "../../../ledger/rate-limit-rules.ts";
import { affordableTokens, type CostEstimate } from "../../metering/cost-estimate.ts";
import { SESSION_LIMIT_HEADER } from "../../request/call-options.ts";
import type { ParsedRequest } from "../../request/parse-request.ts";
import type { HoldAttempt } from "./held-credit.ts";

/** Who can raise the limit of a key: another key, the account's owner, or none until a person claims the account. */
export type LimitRaiser =
  | { readonly by: "key"; readonly keyId: string }
  | { readonly by: "owner" }
  | { readonly by: "none"; readonly canClaim: boolean };

interface HoldFaultContext {
  readonly request: ParsedRequest;
  readonly accountId: string;
  /** Who can raise the limit of the key; looked up only if the limit refuses the call. */
  readonly raiser: LimitRaiser | undefined;
  /** Whether a human owns the account; looked up only where the owner can help. */
  readonly isClaimed: boolean;
  /** If true, no human can claim the account. */
  readonly isSignInDisabled: boolean;
  readonly paymentOptions: PaymentOptions;
  readonly rateLimit: KeyRateLimit | undefined;
  readonly now: number;
}

export function holdFault(
  outcome: Exclude<HoldOutcome, { status: "held" }>,
  estimate: CostEstimate,
  context: HoldFaultContext,
): Fault {
  switch (outcome.status) {
    case "key_rejected":
      return endedKeyFault(`key is ${outcome.reason}`);
    case "key_changed":
      return new Fault("conflict", "key changed since it was read", {
        message: "The policy or the scopes of this key changed during the call. Send it again.",
      });
    case "rate_limited":
      return rateLimitFault(outcome.retryAfterMs, context);
    case "too_many_calls":
      return new Fault("rate_limited", "too many open calls", {
        message: `This key has ${outcome.open} open calls, which is its limit. Wait until one has ended.`,
        retryAfterSeconds: 1,
      });
    case "key_limit":
      return keyLimitFault(outcome, estimate, context);
    case "session_stopped":
      return stoppedSessionFault(outcome.sessionId, outcome.stoppedAt);
    case "session_limit":
      return sessionLimitFault(outcome, estimate, context);
    case "budget":
      return budgetFault(outcome.blocked, estimate, context);
    case "insufficient_credits":
      return insufficientCreditsFault(outcome.available, estimate, context);
    case "frozen":
      return debtFault(outcome.owed, estimate, context);
  }
}

/** Whether a hold was refused only because open calls hold what it needs, and whose they are. */
export function heldBy(
  outcome: HoldOutcome,
  {
    amount,
    upfront = amount,
    onShortage,
    minimum = onShortage?.minimum ?? upfront,
  }: Pick<HoldRequest, "amount" | "upfront" | "minimum" | "onShortage">,
): Exclude<HoldAttempt, "done"> | undefined {
  if (outcome.status === "insufficient_credits")
    return minimum <= outcome.posted ? "held_by_account" : undefined;
  if (outcome.status === "key_limit")
    return minimum <= outcome.remaining + outcome.held ? "held_by_key" : undefined;
  if (outcome.status === "session_limit")
    return minimum <= outcome.limit - outcome.spent ? "held_by_key" : undefined;
  if (outcome.status !== "budget") return undefined;
  const { limit, used } = outcome.blocked;
  return minimum <= (limit ?? 0n) - used ? "held_by_account" : undefined;
}

/** What open calls hold, what is left beside it, and of what. */
function heldAmounts(outcome: HoldOutcome): readonly [held: Nano, left: Nano, of: string] {
  if (outcome.status === "insufficient_credits")
    return [outcome.posted - outcome.available, outcome.available, "the balance"];
  if (outcome.status === "key_limit")
    return [outcome.held, outcome.remaining, "the key's spending limit"];
  if (outcome.status === "session_limit") {
    const { held, limit, spent, sessionId } = outcome;
    return [held, limit - spent - held, `the limit of the session ${sessionId}`];
  }
  if (outcome.status !== "budget")
    throw new Error(`a hold that is ${outcome.status} does not wait`);
  const { held, remaining, window } = outcome.blocked;
  const name = window === "day" ? "daily" : "monthly";
  return [held, remaining ?? 0n, `the workspace's ${name} budget`];
}

/** For a call that has waited for credits which stayed held. */
export function heldFault(
  outcome: HoldOutcome,
  estimate: CostEstimate,
  { request, openCalls }: { readonly request: ParsedRequest; readonly openCalls: number },
): Fault {
  const required = estimate.minimum ?? estimate.amount;
  const [held, rest, of] = heldAmounts(outcome);
  const left = maxNano(rest, 0n);
  const calls = openCalls === 1 ? "1 open call" : `${openCalls} open calls`;
  return new Fault("rate_limited", "credits are held by open calls", {
    message: `${formatUsd(held)} of ${of} are held by ${calls}, ${formatUsd(left)} are free, and this call may cost up to ${formatUsdCeil(required)}. A hold ends with its call: retry after \`retry-after\` seconds, or limit the output.`,
    retryAfterSeconds: 1,
    fields: {
      held_credits: ceilCredits(held),
      open_calls: openCalls,
      required_credits: ceilCredits(required),
      available_credits: creditsOf(left),
      affordable_max_tokens: affordableMaxTokens(estimate, left, { request }),
    },
  });
}

function rateLimitFault(waitMs: number, { rateLimit, now }: HoldFaultContext): Fault {
  const fault = { retryAfterSeconds: waitMs / 1_000 };
  if (rateLimit === undefined)
    return new Fault("rate_limited", "key exceeded its rate limit", fault);
  const { burst, intervalMs } = rateLimit;
  const fullAt = now + waitMs + (burst - 1) * intervalMs;
  return new Fault("rate_limited", "key exceeded its rate limit", {
    ...fault,
    headers: rateLimitHeaders({ burst, intervalMs, fullAt }, now),
  });
}

function keyLimitFault(
  outcome: Extract<HoldOutcome, { status: "key_limit" }>,
  estimate: CostEstimate,
  context: HoldFaultContext,
): Fault {
  const { remaining, affordable, windowEndsAt } = outcome;
  const required = estimate.minimum ?? estimate.amount;
  const tokens = affordableMaxTokens(estimate, affordable, context);
  const raiser = context.raiser ?? { by: "none", canClaim: false };
  const message = `This call may cost up to ${formatUsdCeil(required)}, and ${formatUsd(remaining)} is left of the key's spending limit.${limitOutput(tokens)}${resetAdvice(windowEndsAt)} ${RAISER_ADVICE[raiser.by](raiser)}`;
  return new Fault("key_limit_reached", "key limit", {
    message,
    fields: {
      required_credits: ceilCredits(required),
      available_credits: creditsOf(remaining),
      affordable_max_tokens: tokens,
      limit_raised_by: raiser.by,
      ...(raiser.by === "key" ? { limit_raised_by_key: raiser.keyId } : {}),
      ...(windowEndsAt === null ? {} : { limit_resets_at: new Date(windowEndsAt).toISOString() }),
    },
    next: keyLimitSteps(raiser, context),
  });
}

function sessionLimitFault(
  { sessionId, limit, spent, held, affordable }: Extract<HoldOutcome, { status: "session_limit" }>,
  estimate: CostEstimate,
  context: HoldFaultContext,
): Fault {
  const required = estimate.minimum ?? estimate.amount;
  const remaining = maxNano(limit - spent - held, 0n);
  const tokens = affordableMaxTokens(estimate, affordable, context);
  const advice = `${limitOutput(tokens).trimStart()} Raise \`${SESSION_LIMIT_HEADER}\`, up to what the key allows, or begin a new session.`;
  return new Fault("session_limit_reached", "session limit", {
    message: `This call may cost up to ${formatUsdCeil(required)}, and ${formatUsd(remaining)} is left of the limit of ${formatUsd(limit)} of the session ${sessionId} (${formatUsd(spent)} spent${held === 0n ? "" : `, ${formatUsd(held)} held by open calls`}). ${advice.trimStart()}`,
    fields: {
      session_id: sessionId,
      session_limit_usd: usdNumber(limit),
      required_credits: ceilCredits(required),
      available_credits: creditsOf(remaining),
      affordable_max_tokens: tokens,
      held_credits: ceilCredits(held),
    },
    // A session without a call is not stored yet.
    next: [spent === 0n && held === 0n ? SESSIONS_STEP : sessionStep(sessionId)],
  });
}

export function stoppedSessionFault(sessionId: string, stoppedAt?: number): Fault {
  const when = stoppedAt === undefined ? "" : ` at ${new Date(stoppedAt).toISOString()}`;
  return new Fault("session_stopped", "session was stopped", {
    message: `The session ${sessionId} was stopped${when}. Its calls are refused. Begin a new session to go on.`,
    fields: { session_id: sessionId },
    next: [sessionStep(sessionId)],
  });
}

const SESSIONS_STEP: NextStep = {
  method: "GET",
  url: "/v1/sessions",
  why: "List the sessions of the account, with what each spent.",
};

function sessionStep(sessionId: string): NextStep {
  return {
    method: "GET",
    url: `/v1/sessions/${encodeURIComponent(sessionId)}`,
    why: "Read what each agent of the session spent.",
  };
}

const RAISER_ADVICE = {
  key: (raiser: LimitRaiser) =>
    `The key ${raiser.by === "key" ? raiser.keyId : ""} of this account can raise the limit.`,
  owner: () => "Ask the owner of the workspace to raise the limit in the console.",
  none: () =>
    "No other key can raise the limit, and no person owns the account yet: a person who claims it can.",
};

function limitOutput(tokens: number): string {
  return tokens > 0 ? ` Limit the output to at most ${tokens} tokens.` : "";
}

function resetAdvice(windowEndsAt: number | null): string {
  return windowEndsAt === null
    ? ""
    : ` The limit resets at ${new Date(windowEndsAt).toISOString()}.`;
}

/** What the refused key itself can do. */
function keyLimitSteps(
  raiser: LimitRaiser,
  { accountId, isSignInDisabled }: HoldFaultContext,
): readonly NextStep[] {
  if (raiser.by === "owner")
    return [
      READ_OWN_KEY_STEP,
      {
        method: "GET",
        url: `/console/${accountId}/keys`,
        why: "A console page where the workspace's owner can raise the limit.",
      },
    ];
  const canClaim = raiser.by === "none" && raiser.canClaim && !isSignInDisabled;
  return canClaim ? [READ_OWN_KEY_STEP, CLAIM_STEP] : [READ_OWN_KEY_STEP];
}

function affordableMaxTokens(
  estimate: CostEstimate,
  available: Nano,
  { request }: Pick<HoldFaultContext, "request">,
): number {
  const smallest = estimate.fewerToolCalls?.at(-1) ?? estimate;
  return Math.floor(affordableTokens(smallest, available) / request.choices);
}

function budgetFault(
  { window, limit, used, held, remaining, endsAt }: BudgetState,
  estimate: CostEstimate,
  { isClaimed, now }: { readonly isClaimed: boolean; readonly now: number },
): Fault {
  const required = estimate.minimum ?? estimate.amount;
  const name = window === "day" ? "daily" : "monthly";
  const resetsAt = new Date(endsAt).toISOString();
  const holds = held === 0n ? "" : `, ${formatUsd(held)} held by open calls`;
  const advice = isClaimed
    ? "Wait until then, or ask the workspace's owner to raise it in the console."
    : "Wait until then, or raise it with PATCH /v1/account/budgets.";
  return new Fault("workspace_budget_reached", `${window} budget`, {
    message: `This call may cost up to ${formatUsdCeil(required)}, more than is left of the workspace's ${name} budget of ${formatUsd(limit ?? 0n)} (${formatUsd(used)} spent${holds}). The budget resets at ${resetsAt}. ${advice}`,
    retryAfterSeconds: (endsAt - now) / 1_000,
    fields: {
      budget_window: window,
      budget_usd: usdNumber(limit ?? 0n),
      required_credits: ceilCredits(required),
      available_credits: creditsOf(remaining ?? 0n),
      budget_resets_at: resetsAt,
    },
    next: [
      {
        method: "GET",
        url: "/v1/account/budgets",
        why: "Read the budgets, what is spent of them, and when they reset.",
      },
    ],
  });
}

/** New credits pay the debt first, so what is required includes it. */
function debtFault(owed: Nano, estimate: CostEstimate, context: FundingContext): Fault {
  const required = owed + (estimate.minimum ?? estimate.amount);
  return new Fault("insufficient_credits", "the account has a debt", {
    message: `This workspace owes ${formatUsdCeil(owed)}: a call cost more than its credits, or a bank reversed a payment. Calls that cost credits are blocked until that debt is paid. New credits pay it first.`,
    fields: {
      owed_usd: usdText(owed),
      required_credits: ceilCredits(required),
      available_credits: 0,
      affordable_max_tokens: 0,
    },
    next: fundingStepsFor(context, required, "Pay the debt and the call"),
  });
}

export function operatorFreezeFault(freeze: Freeze & { readonly by: "operator" }): Fault {
  const since = new Date(freeze.since).toISOString();
  return new Fault("workspace_frozen", "frozen by an operator", {
    message: `The operator of this gateway froze this workspace at ${since}: ${freeze.reason}. Model calls are blocked until the operator unfreezes it. Everything can still be read.`,
    fields: { frozen_by: "operator", frozen_since: since, frozen_reason: freeze.reason },
    next: [
      { method: "GET", url: "/v1/account", why: "Check whether the workspace is still frozen." },
    ],
  });
}

export function closingFault(
  { since }: Freeze & { readonly by: "closing" },
  reopen: NextStep,
): Fault {
  return new Fault("workspace_frozen", "the account is closing", {
    message: `This workspace has been closing since ${new Date(since).toISOString()}, so model calls are blocked. Its owner can reopen it in the console, or with POST /v1/account/reopen if no person owns it.`,
    fields: { frozen_by: "closing", frozen_since: new Date(since).toISOString() },
    next: [reopen],
  });
}

type FundingContext = Pick<HoldFaultContext, "isClaimed" | "isSignInDisabled" | "paymentOptions">;

/** The smallest purchase that covers what is missing, and the claim, which adds credit. */
function fundingStepsFor(
  { isClaimed, isSignInDisabled, paymentOptions }: FundingContext,
  missing: Nano,
  buys: string,
): readonly NextStep[] {
  const usd = Number((missing + NANO_PER_USD - 1n) / NANO_PER_USD);
  const buy = purchaseStep(paymentOptions, { usd, buys });
  return isClaimed || isSignInDisabled ? [buy] : [buy, CLAIM_STEP];
}

function insufficientCreditsFault(
  available: Nano,
  estimate: CostEstimate,
  context: FundingContext & Pick<HoldFaultContext, "request">,
): Fault {
  const required = estimate.minimum ?? estimate.amount;
  const smallest = estimate.fewerToolCalls?.at(-1) ?? estimate;
  const { request } = context;
  const affordable = affordableMaxTokens(estimate, available, context);
  const sentence = `This call may cost up to ${formatUsdCeil(required)}, and ${formatUsd(maxNano(available, 0n))} is available.`;
  const limit = affordable > 0 ? `Limit the output to at most ${affordable} tokens` : undefined;
  const buy = canBuy(context.paymentOptions)
    ? "buy credits with POST /v1/billing/invoice"
    : undefined;
  const choices = [limit, buy].filter((choice) => choice !== undefined).join(", or ");
  const tools =
    request.toolCalls === 0
      ? ""
      : ` The tools that the provider runs may read up to ${smallest.inputTokens} tokens: ${request.toolCalls > 1 ? "lower `max_tool_calls` or `max_uses`, or use" : "use"} a model that costs less or has a shorter context.`;
  const funding =
    choices === ""
      ? " This gateway sells no credits."
      : ` ${choices.charAt(0).toUpperCase()}${choices.slice(1)}.`;
  const advice = tools + funding;
  return new Fault("insufficient_credits", "hold does not fit", {
    message: sentence + advice,
    fields: {
      required_credits: ceilCredits(required),
      available_credits: Math.max(0, creditsOf(available)),
      affordable_max_tokens: affordable,
    },
    next: fundingStepsFor(context, required - available, "Buy credits"),
  });
}

/** For a call of which nothing was relayed when no more could be held for it. */
export function spentFault(): Fault {
  return new Fault("insufficient_credits", "no more credits could be held", {
    message:
      "The credits that this call could still hold were spent by other calls before its reply began. What the model may have reasoned is charged. Buy credits, or send the call with the header `x-postern-hold: full`.",
  });
}

/** A fallback costs more than the candidate before it, and no more could be held. */
export function unaffordableFault(model: string): Fault {
  return new Fault("insufficient_credits", "the hold could not be raised for a fallback", {
    message: `The credits that this call can hold do not cover its input at ${model}.`,
    next: [{ method: "POST", url: "/v1/quote", why: "Read what the call needs at each model." }],
  });
}

/** Rounded up, so that the amount is enough. */
function formatUsdCeil(amount: Nano): string {
  const step = amount < NANO_PER_USD ? NANO_PER_USD / 1_000_000n : NANO_PER_USD / 100n;
  return formatUsd(((amount + step - 1n) / step) * step);
}

export function ceilCredits(amount: Nano): number {
  return Number((amount + NANO_PER_CREDIT - 1n) / NANO_PER_CREDIT);
}

/** Adds to the fault of the caller's provider key how to pay for the gateway's account instead. */
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
