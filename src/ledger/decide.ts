// The rules of the money, without a database: what each operation of a batch does to the rows that it concerns. The
// batch's rows are locked while this runs, so what it decides is what is written.

import { type Nano, maxNano, minNano } from "../base/money.ts";
import {
  type LimitWindow,
  type SpendTotals,
  addSpend,
  spentInWindow,
  windowEnd,
} from "../base/spend-window.ts";
import {
  blockingBudget,
  type Budget,
  remainingBudget,
  type BudgetState,
  addBudgetSpend,
} from "./budget-rules.ts";

/** Clocks of processes differ by so much without anything being wrong. */
const CLOCK_SKEW_MAX_MS = 10_000;

export interface KeyRateLimit {
  readonly intervalMs: number;
  readonly burst: number;
}

export interface HoldRequest {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly amount: Nano;
  /** Where given, the hold is lowered to what is affordable, but not below this. */
  readonly minimum?: Nano | undefined;
  readonly now: number;
  readonly expiresAt: number;
  /** The key's pace; absent for no limit. */
  readonly rateLimit?: KeyRateLimit | undefined;
  readonly openCallsMax?: number | undefined;
}

export type HoldOutcome =
  | { readonly status: "held"; readonly amount: Nano }
  | { readonly status: "insufficient_credits"; readonly available: Nano; readonly posted: Nano }
  | { readonly status: "frozen"; readonly owed: Nano }
  | { readonly status: "key_limit"; readonly remaining: Nano; readonly windowEndsAt: number | null }
  | { readonly status: "budget"; readonly blocked: BudgetState }
  | { readonly status: "key_refused"; readonly reason: "unknown" | "revoked" | "expired" }
  | { readonly status: "too_fast"; readonly retryAfterMs: number }
  | { readonly status: "too_many_open"; readonly open: number };

export interface SettleRequest<Record> {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly cost: Nano;
  readonly now: number;
  /** The usage record that is written in the same step. */
  readonly record?: Record;
}

export type SettleOutcome =
  | {
      readonly status: "settled";
      readonly charged: Nano;
      readonly overrun: Nano;
      readonly late: boolean;
    }
  | { readonly status: "already" };

export interface Wallet {
  promo: Nano;
  paid: Nano;
  held: Nano;
  /** Where given, it begins no call that costs: it owes this much after a dispute, or 0 and an operator froze it. */
  readonly owed?: Nano;
  /** The mark below which the account wants to be told. */
  readonly lowThreshold?: Nano;
  /** The balance below which credits are bought by themselves. Absent for never. */
  readonly topUpThreshold?: Nano;
  /** Absent where nothing bounds what the workspace may spend but its balance. */
  readonly budget?: Budget;
}

export interface KeySpend {
  held: Nano;
  openCalls: number;
  theoreticalArrivalAt: number;
  spent: SpendTotals;
}

export interface KeyRules {
  readonly accountId: string;
  readonly revokedAt: number | null;
  readonly expiresAt: number | null;
  readonly limit: Nano | null;
  readonly window: LimitWindow | null;
}

export interface OpenHold {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly amount: Nano;
}

export interface ChargeSplit {
  readonly promo: Nano;
  readonly paid: Nano;
  readonly overrun: Nano;
  /** The time at which it counts. */
  readonly at: number;
}

function available(wallet: Wallet): Nano {
  return wallet.promo + wallet.paid - wallet.held;
}

/** Decides a hold and, when it fits, takes it from the wallet and the key. */
export function decideHold(
  request: HoldRequest,
  wallet: Wallet | undefined,
  keySpend: KeySpend | undefined,
  key: KeyRules | undefined,
): HoldOutcome {
  if (wallet === undefined || keySpend === undefined || key?.accountId !== request.accountId)
    return { status: "key_refused", reason: "unknown" };
  if (key.revokedAt !== null) return { status: "key_refused", reason: "revoked" };
  if (key.expiresAt !== null && key.expiresAt <= request.now)
    return { status: "key_refused", reason: "expired" };
  if (request.openCallsMax !== undefined && keySpend.openCalls >= request.openCallsMax) {
    return { status: "too_many_open", open: keySpend.openCalls };
  }
  const waitMs =
    request.rateLimit === undefined ? 0 : rateLimitWaitMs(request.rateLimit, keySpend, request.now);
  if (waitMs > 0) return { status: "too_fast", retryAfterMs: waitMs };

  const outcome = decideAmount(request, wallet, keySpend, key);
  if (outcome.status !== "held") return outcome;
  wallet.held += outcome.amount;
  keySpend.held += outcome.amount;
  keySpend.openCalls += 1;
  if (request.rateLimit !== undefined)
    keySpend.theoreticalArrivalAt =
      Math.max(theoreticalArrival(request.rateLimit, keySpend, request.now), request.now) +
      request.rateLimit.intervalMs;
  return outcome;
}

function rateLimitWaitMs(rateLimit: KeyRateLimit, keySpend: KeySpend, now: number): number {
  return (
    theoreticalArrival(rateLimit, keySpend, now) -
    rateLimit.intervalMs * (rateLimit.burst - 1) -
    now
  );
}

// What was paced by a clock that was ahead, or at a slower pace, may lie far ahead. A refusal writes nothing, so a key that
// were made to wait for it would wait until then: its next call goes through, and its pace is counted from there.
function theoreticalArrival(
  { intervalMs, burst }: KeyRateLimit,
  { theoreticalArrivalAt }: KeySpend,
  now: number,
): number {
  const furthest = now + intervalMs * burst;
  return theoreticalArrivalAt > furthest + CLOCK_SKEW_MAX_MS
    ? furthest - intervalMs
    : Math.min(theoreticalArrivalAt, furthest);
}

function decideAmount(
  request: HoldRequest,
  wallet: Wallet,
  keySpend: KeySpend,
  key: KeyRules,
): HoldOutcome {
  // A call that costs nothing needs no balance, and no room below a limit.
  if (request.amount === 0n) return { status: "held", amount: 0n };
  if (wallet.owed !== undefined) return { status: "frozen", owed: wallet.owed };
  const availableNano = available(wallet);
  const at = chargeTime(request.now, wallet, keySpend);
  const keyRemaining = remainingKeyLimit(key, keySpend, at, request.amount);
  const needed = minNano(request.minimum ?? request.amount, request.amount);
  if (needed > keyRemaining)
    return {
      status: "key_limit",
      remaining: keyRemaining,
      windowEndsAt: windowEnd(key.window, at),
    };
  const { budget, held } = wallet;
  const blocked = budget === undefined ? undefined : blockingBudget(budget, { held, at, needed });
  if (blocked !== undefined) return { status: "budget", blocked };
  if (needed > availableNano)
    return {
      status: "insufficient_credits",
      available: availableNano,
      posted: wallet.promo + wallet.paid,
    };
  const budgetRemaining = remainingBudget(budget, { held, at, wanted: keyRemaining });
  return {
    status: "held",
    amount: minNano(request.amount, minNano(budgetRemaining, availableNano)),
  };
}

/**
 * A day that the key or its workspace has begun is not left again when a clock steps back, also not by a transfer: so
 * what was spent in a window is the sum of the transfers since it began.
 */
function chargeTime(now: number, { budget }: Wallet, { spent }: KeySpend): number {
  return Math.max(now, spent.dayStart, budget?.spent.dayStart ?? 0);
}

/** What a settle finds: the hold is gone where it was swept, and the key's rules where the key is no more. */
export interface SettleRows {
  readonly hold: OpenHold | undefined;
  readonly wallet: Wallet;
  readonly keySpend: KeySpend;
  readonly key: KeyRules | undefined;
}

/**
 * Gives a hold back and charges what the call cost: promo first, then paid, never below zero, never what other calls
 * hold, and never past the key's limit or the workspace's budget by more than was held for it. What cannot be charged is
 * the gateway's own loss.
 */
export function decideSettle(
  cost: Nano,
  now: number,
  { hold, wallet, keySpend, key }: SettleRows,
): ChargeSplit {
  if (hold !== undefined) {
    wallet.held -= hold.amount;
    keySpend.held -= hold.amount;
    keySpend.openCalls -= 1;
  }
  const at = chargeTime(now, wallet, keySpend);
  const { budget, held } = wallet;
  const wanted = key === undefined ? cost : remainingKeyLimit(key, keySpend, at, cost);
  const remaining = remainingBudget(budget, { held, at, wanted });
  const cap = hold !== undefined && hold.amount > remaining ? hold.amount : remaining;
  const charged = minNano(minNano(cost, cap), maxNano(available(wallet), 0n));
  const promo = minNano(charged, wallet.promo);
  const paid = charged - promo;
  wallet.promo -= promo;
  wallet.paid -= paid;
  keySpend.spent = addSpend(keySpend.spent, charged, at);
  if (budget !== undefined) budget.spent = addBudgetSpend(budget.spent, charged, at);
  return { promo, paid, overrun: cost - charged, at };
}

/** What the key's limit still lets it spend; a key without a limit may spend what is wanted. */
function remainingKeyLimit(key: KeyRules, keySpend: KeySpend, now: number, wanted: Nano): Nano {
  if (key.limit === null) return wanted;
  const remaining = key.limit - spentInWindow(keySpend.spent, key.window, now) - keySpend.held;
  return maxNano(remaining, 0n);
}
