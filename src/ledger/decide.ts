// The rules for holds and settlements, without a database: what an operation does to its rows. The rows of a batch are
// locked while these functions run, so every decision is the one that is written.

import { type Nano, maxNano, minNano, NANO_PER_USD } from "../base/money/money.ts";
import {
  type LimitWindow,
  type SpendTotals,
  addSpend,
  spentInWindow,
  windowEnd,
} from "../base/money/spend-window.ts";
import {
  blockingBudget,
  type Budget,
  remainingBudget,
  type BudgetState,
  addBudgetSpend,
} from "./budget-rules.ts";
import type { LeaseShare, LeaseState } from "./credit-lease.ts";
import { countArrivals, type KeyRateLimit, rateLimitWaitMs } from "./rate-limit-rules.ts";

export interface HoldRequest {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly amount: Nano;
  /** If given, the hold is lowered to what is affordable, but not below this. */
  readonly minimum?: Nano | undefined;
  /** The same for a wallet with enough paid credit: what the call costs beyond its hold may become a debt. */
  readonly payingMinimum?: Nano | undefined;
  /** If given, only this part of `amount` is held at first; the call raises its hold as it needs more. */
  readonly upfront?: Nano | undefined;
  /** If given, these apply if `amount` would not be affordable even without any open call, or left nothing for another one. */
  readonly onShortage?: { readonly upfront: Nano; readonly minimum: Nano } | undefined;
  /** Whether the hold is refused if it would be larger without the other holds. */
  readonly refuseShortened?: boolean;
  readonly now: number;
  readonly expiresAt: number;
  /** Absent for no limit. */
  readonly rateLimit?: KeyRateLimit | undefined;
  readonly openCallsMax?: number | undefined;
  /** What the caller knows of the key. It may be some seconds old, so the hold is refused if the key has changed since. */
  readonly restrictions?: KeyRestrictions | undefined;
  readonly session?: SessionRequest | undefined;
  /** Whether other rows name the hold by the id of its call, so that it must not be a part of a lease. */
  readonly needsRow?: boolean;
}

/** The session of a call. */
export interface SessionRequest {
  readonly id: string;
  /** The limit that the call sets for its session; without it, the session keeps the one it has. */
  readonly limit?: Nano | undefined;
  /** The highest limit that the key allows. */
  readonly limitMax?: Nano | undefined;
}

/** The columns of a key that decide whether it may make a call, as they are stored. */
export interface KeyRestrictions {
  readonly policy: string | null;
  readonly scopes: string | null;
}

export type HoldOutcome =
  | {
      readonly status: "held";
      /** When the whole burst of the rate limit can be sent again, if the caller is told. */
      readonly burstFullAt?: number;
      readonly amount: Nano;
      /** For a hold with an `upfront` part: what could be held of the requested amount. */
      readonly limit?: Nano;
      /** Set if the wallet has enough paid credit to be a customer's; unknown for a hold of zero. */
      readonly isPaying?: true;
      /** The row that holds the credits, if the hold is a part of a lease. */
      readonly leaseId?: string;
    }
  | {
      readonly status: "insufficient_credits";
      readonly available: Nano;
      readonly posted: Nano;
      /** Set if the hold fits, but smaller: it was refused because of `refuseShortened`. */
      readonly isShortened?: true;
    }
  | { readonly status: "frozen"; readonly owed: Nano }
  | {
      readonly status: "key_limit";
      readonly remaining: Nano;
      /** What is left of the limit once the open calls of the key have ended at no cost, beyond `remaining`. */
      readonly held: Nano;
      /** What the limit, the budgets and the credits all cover. */
      readonly affordable: Nano;
      readonly windowEndsAt: number | null;
    }
  | { readonly status: "budget"; readonly blocked: BudgetState }
  | { readonly status: "session_stopped"; readonly sessionId: string; readonly stoppedAt: number }
  | {
      readonly status: "session_limit";
      readonly sessionId: string;
      readonly limit: Nano;
      readonly spent: Nano;
      /** Held by open calls of the session. */
      readonly held: Nano;
      /** What the limits, the budgets and the credits all cover. */
      readonly affordable: Nano;
    }
  | { readonly status: "key_rejected"; readonly reason: "unknown" | "revoked" | "expired" }
  | { readonly status: "key_changed" }
  | { readonly status: "rate_limited"; readonly retryAfterMs: number }
  | { readonly status: "too_many_calls"; readonly open: number };

/** Raises an open hold while its call runs. */
export interface RaiseRequest {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  /** What the call is to hold, all together. If that is not affordable, it holds as much of it as is. */
  readonly amount: Nano;
  readonly now: number;
  readonly sessionId?: string | undefined;
}

export type RaiseOutcome =
  | { readonly status: "raised"; readonly amount: Nano }
  /** Nothing more is affordable. */
  | { readonly status: "refused" }
  /** The hold was swept or settled. */
  | { readonly status: "lost" };

export interface SettleRequest<UsageRecord> {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly cost: Nano;
  readonly now: number;
  /** Charges nothing if the hold was swept and the credits no longer cover the cost: the caller gets no reply. */
  readonly refuseUncovered?: boolean;
  /** Written in the same transaction. */
  readonly record?: UsageRecord;
  /** As in the request of the hold. */
  readonly sessionId?: string | undefined;
  /** Set for the last call of an item of a batch. */
  readonly batch?: BatchShare | undefined;
  /** Set if the call's hold is a part of a lease. */
  readonly lease?: LeaseShare | undefined;
}

/** What the hold of a batch has for one of its items. It is released when the item is settled. */
export interface BatchShare {
  readonly holdId: string;
  readonly share: Nano;
  /** The item was run by its provider: there is no hold but that of the batch. */
  readonly hasNoCall?: boolean | undefined;
}

export type SettleOutcome =
  | {
      readonly status: "settled";
      readonly charged: Nano;
      /** The part of the cost that the credits did not cover: the account owes it. */
      readonly overrun: Nano;
      /** Whether the hold was swept before this settlement. */
      readonly late: boolean;
    }
  | {
      readonly status: "already";
      /** Set if the earlier settlement did not charge the whole cost. */
      readonly overrun?: Nano;
    }
  /** The store is unavailable or the rows are locked. The settlement is kept and retried. */
  | { readonly status: "deferred" };

export interface Wallet {
  promo: Nano;
  paid: Nano;
  held: Nano;
  /** Set if the account is frozen: its debt, or 0 if only the operator froze it. */
  owed?: Nano;
  /** The balance below which the low-balance alert fires. */
  readonly lowThreshold?: Nano;
  /** The balance below which auto top-up buys credits; absent if it is off. */
  readonly topUpThreshold?: Nano;
  readonly budget?: Budget;
}

export interface KeySpend {
  held: Nano;
  openCalls: number;
  theoreticalArrivalAt: number;
  spent: SpendTotals;
}

export interface SessionSpend {
  /** The key of its first call. */
  readonly keyId: string;
  readonly createdAt: number;
  lastCallAt: number;
  limit: Nano | undefined;
  held: Nano;
  spent: Nano;
  readonly stoppedAt: number | null;
}

export interface KeyRules extends KeyRestrictions {
  readonly accountId: string;
  readonly revokedAt: number | null;
  readonly expiresAt: number | null;
  readonly limit: Nano | null;
  readonly window: LimitWindow | null;
  /** The percentages of the limit that are reported; null for none. */
  readonly alertPercents: readonly number[] | null;
}

export interface OpenHold {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly amount: Nano;
  readonly sessionId?: string | undefined;
  /** How many open calls of the key it counts as; 1 by default. */
  readonly calls?: number;
  /** Set for a lease. */
  readonly lease?: LeaseState | undefined;
}

export interface ChargeSplit {
  readonly promo: Nano;
  readonly paid: Nano;
  /** What the available credits did not cover: it is added to the account's debt. */
  readonly overrun: Nano;
  /** The time that decides the spend windows, see `chargeTime`. */
  readonly at: number;
  /** Set if the hold was swept and the credits no longer covered the cost. */
  readonly isUncovered?: true;
}

function availableOf(wallet: Wallet): Nano {
  return wallet.promo + wallet.paid - wallet.held;
}

/** The rows of a hold; the first three are undefined if the store has no such row. */
export interface HoldRows {
  readonly wallet: Wallet | undefined;
  readonly keySpend: KeySpend | undefined;
  readonly key: KeyRules | undefined;
  /** Undefined for a call without a session. */
  readonly session?: SessionSpend | undefined;
}

/** Decides a hold and, if it fits, adds it to the wallet, the key and the session. */
export function decideHold(request: HoldRequest, rows: HoldRows): HoldOutcome {
  const { wallet, keySpend, key, session } = rows;
  if (wallet === undefined || keySpend === undefined || key?.accountId !== request.accountId)
    return { status: "key_rejected", reason: "unknown" };
  const refusal = refusalOf(request, { key, keySpend, session });
  if (refusal !== undefined) return refusal;
  const limit = sessionLimitOf(request.session, session);
  const limited = session && { ...session, limit };
  const outcome = decideAmount(request, { wallet, keySpend, key, session: limited });
  if (outcome.status !== "held") return outcome;
  if (session !== undefined) {
    session.held += outcome.amount;
    session.limit = limit;
    session.lastCallAt = Math.max(session.lastCallAt, request.now);
  }
  wallet.held += outcome.amount;
  keySpend.held += outcome.amount;
  keySpend.openCalls += 1;
  if (request.rateLimit === undefined) return outcome;
  countArrivals(request.rateLimit, keySpend, { calls: 1, now: request.now });
  return request.rateLimit.isTold === true
    ? { ...outcome, burstFullAt: keySpend.theoreticalArrivalAt }
    : outcome;
}

export type FoundRows = {
  readonly [R in "wallet" | "keySpend" | "key"]: NonNullable<HoldRows[R]>;
} & Pick<HoldRows, "session">;

/** Refuses a call whatever it costs. */
function refusalOf(
  request: HoldRequest,
  { key, keySpend, session }: Omit<FoundRows, "wallet">,
): HoldOutcome | undefined {
  if (key.revokedAt !== null) return { status: "key_rejected", reason: "revoked" };
  if (key.expiresAt !== null && key.expiresAt <= request.now)
    return { status: "key_rejected", reason: "expired" };
  if (hasChanged(key, request.restrictions)) return { status: "key_changed" };
  if (session !== undefined && session.stoppedAt !== null) {
    const { stoppedAt } = session;
    return { status: "session_stopped", sessionId: request.session?.id ?? "", stoppedAt };
  }
  if (request.openCallsMax !== undefined && keySpend.openCalls >= request.openCallsMax)
    return { status: "too_many_calls", open: keySpend.openCalls };
  const waitMs =
    request.rateLimit === undefined ? 0 : rateLimitWaitMs(request.rateLimit, keySpend, request.now);
  return waitMs > 0 ? { status: "rate_limited", retryAfterMs: waitMs } : undefined;
}

/** The limit of the call, else that of the session; never above the highest that the key allows. */
function sessionLimitOf(
  { limit: sent, limitMax }: Partial<SessionRequest> = {},
  session: SessionSpend | undefined,
): Nano | undefined {
  const limit = sent ?? session?.limit;
  if (limit === undefined || limitMax === undefined) return limit ?? limitMax;
  return minNano(limit, limitMax);
}

export function hasChanged(key: KeyRules, known: KeyRestrictions | undefined): boolean {
  return known !== undefined && (key.policy !== known.policy || key.scopes !== known.scopes);
}

/** What accounts with less cause changes nothing for others: cents would buy any number of accounts. */
const PAYING_MIN = 5n * NANO_PER_USD;

export function isPayingWallet({ paid }: Pick<Wallet, "paid">): boolean {
  return paid >= PAYING_MIN;
}

function decideAmount(asked: HoldRequest, rows: FoundRows): HoldOutcome {
  const { wallet, keySpend, key, session } = rows;
  // A free call needs neither a balance nor a limit.
  if (asked.amount === 0n) return { status: "held", amount: 0n };
  if (wallet.owed !== undefined) return { status: "frozen", owed: wallet.owed };
  const available = availableOf(wallet);
  const at = chargeTime(asked.now, wallet, keySpend);
  const request = asked.onShortage === undefined ? asked : withShortage(asked, rows, at);
  const keyRemaining = remainingKeyLimit(key, keySpend, at, request.amount);
  const { budget, held } = wallet;
  const isPaying = isPayingWallet(wallet);
  const needed = leastHold(request, isPaying);
  if (needed > keyRemaining)
    return {
      status: "key_limit",
      remaining: keyRemaining,
      held: remainingKeyLimit(key, { ...keySpend, held: 0n }, at, keyRemaining) - keyRemaining,
      affordable: minNano(remainingBudget(budget, { held, at, wanted: keyRemaining }), available),
      windowEndsAt: windowEnd(key.window, at),
    };
  const remaining = remainingSessionLimit(session, keyRemaining);
  if (session?.limit !== undefined && needed > remaining)
    return {
      status: "session_limit",
      sessionId: request.session?.id ?? "",
      limit: session.limit,
      spent: session.spent,
      held: session.held,
      affordable: minNano(remainingBudget(budget, { held, at, wanted: remaining }), available),
    };
  const blocked = budget === undefined ? undefined : blockingBudget(budget, { held, at, needed });
  if (blocked !== undefined) return { status: "budget", blocked };
  const posted = wallet.promo + wallet.paid;
  if (needed > available) return { status: "insufficient_credits", available, posted };
  const budgetRemaining = remainingBudget(budget, { held, at, wanted: remaining });
  const limit = minNano(request.amount, minNano(budgetRemaining, available));
  if (request.refuseShortened === true && limit < affordableAlone(rows, at, request.amount))
    return { status: "insufficient_credits", available, posted, isShortened: true };
  return grantedHold(request, limit, isPaying);
}

function leastHold(request: HoldRequest, isPaying: boolean): Nano {
  const wanted = firstPart(request);
  const minimum = (isPaying ? request.payingMinimum : undefined) ?? request.minimum;
  return minNano(minimum ?? wanted, wanted);
}

/** What could be held of `wanted` if nothing else was held. */
function affordableAlone(
  { wallet, keySpend, key, session }: FoundRows,
  at: number,
  wanted: Nano,
): Nano {
  const ofKey = remainingKeyLimit(key, { ...keySpend, held: 0n }, at, wanted);
  const ofSession = remainingSessionLimit(session && { ...session, held: 0n }, ofKey);
  const ofBudget = remainingBudget(wallet.budget, { held: 0n, at, wanted: ofSession });
  return minNano(wanted, minNano(ofBudget, wallet.promo + wallet.paid));
}

function withShortage(request: HoldRequest, rows: FoundRows, at: number): HoldRequest {
  const { onShortage } = request;
  if (onShortage === undefined) return request;
  const wanted = request.amount + onShortage.upfront;
  return affordableAlone(rows, at, wanted) >= wanted
    ? request
    : { ...request, ...onShortage, payingMinimum: onShortage.minimum };
}

/** What is held at first. */
export function firstPart({ amount, upfront = amount }: HoldRequest): Nano {
  return minNano(upfront, amount);
}

function grantedHold(request: HoldRequest, limit: Nano, isPaying: boolean): HoldOutcome {
  const amount = minNano(firstPart(request), limit);
  const held = { status: "held", amount } as const;
  const hold = request.upfront === undefined ? held : { ...held, limit };
  return isPaying ? { ...hold, isPaying: true } : hold;
}

/** Decides how far an open hold is raised, and raises it. A debt that the account has made since refuses it. */
export function decideRaise(
  { amount: wanted, now }: RaiseRequest,
  hold: { amount: Nano },
  { wallet, keySpend, key, session }: FoundRows,
): RaiseOutcome {
  const missing = wanted - hold.amount;
  const { owed, budget, held } = wallet;
  if (missing <= 0n) return { status: "raised", amount: hold.amount };
  if (owed !== undefined) return { status: "refused" };
  const at = chargeTime(now, wallet, keySpend);
  const ofKey = remainingKeyLimit(key, keySpend, at, missing);
  const ofSession = remainingSessionLimit(session, ofKey);
  const ofBudget = remainingBudget(budget, { held, at, wanted: ofSession });
  const added = minNano(missing, minNano(ofBudget, availableOf(wallet)));
  if (added <= 0n) return { status: "refused" };
  hold.amount += added;
  wallet.held += added;
  keySpend.held += added;
  if (session !== undefined) session.held += added;
  return { status: "raised", amount: hold.amount };
}

/** The largest hold that the balance, the key's limit and the budgets cover. */
export function largestHold(wallet: Wallet, keySpend: KeySpend, key: KeyRules, now: number): Nano {
  if (wallet.owed !== undefined) return 0n;
  const at = chargeTime(now, wallet, keySpend);
  const wanted = remainingKeyLimit(key, keySpend, at, maxNano(availableOf(wallet), 0n));
  const { budget, held } = wallet;
  const remaining = remainingBudget(budget, { held, at, wanted });
  return minNano(remaining, maxNano(availableOf(wallet), 0n));
}

/**
 * Never before the current day of the key or its workspace, even if the clock steps back, so that the spend of a window
 * is always the sum of the transfers since its start.
 */
function chargeTime(now: number, { budget }: Wallet, { spent }: KeySpend): number {
  return Math.max(now, spent.dayStart, budget?.spent.dayStart ?? 0);
}

/** `hold` is undefined if it was swept, `key` if the key does not exist. */
export interface SettleRows {
  readonly hold: Pick<OpenHold, "amount" | "calls"> | undefined;
  readonly wallet: Wallet;
  readonly keySpend: KeySpend;
  readonly key: KeyRules | undefined;
  /** Undefined for a call without a session. */
  readonly session?: SessionSpend | undefined;
}

/**
 * Releases a hold and charges the cost: promo first, then paid, and never what other calls hold. The account owes the
 * rest. The whole cost counts towards the key's limit and the budget, also beyond them: it blocks the next calls.
 */
export function decideSettle(
  { cost, now, refuseUncovered }: Pick<SettleRequest<never>, "cost" | "now" | "refuseUncovered">,
  { hold, wallet, keySpend, key, session }: SettleRows,
): ChargeSplit {
  if (hold !== undefined) {
    if (session !== undefined) session.held -= hold.amount;
    wallet.held -= hold.amount;
    keySpend.held -= hold.amount;
    keySpend.openCalls -= hold.calls ?? 1;
  }
  const at = chargeTime(now, wallet, keySpend);
  const { budget, held } = wallet;
  const available = maxNano(availableOf(wallet), 0n);
  if (hold === undefined && refuseUncovered === true) {
    const ofKey = key === undefined ? cost : remainingKeyLimit(key, keySpend, at, cost);
    const wanted = remainingSessionLimit(session, ofKey);
    if (cost > minNano(remainingBudget(budget, { held, at, wanted }), available))
      return { promo: 0n, paid: 0n, overrun: 0n, at, isUncovered: true };
  }
  const charged = minNano(cost, available);
  const promo = minNano(charged, wallet.promo);
  const paid = charged - promo;
  const overrun = cost - charged;
  wallet.promo -= promo;
  wallet.paid -= paid;
  if (overrun > 0n) wallet.owed = (wallet.owed ?? 0n) + overrun;
  keySpend.spent = addSpend(keySpend.spent, cost, at);
  if (session !== undefined) session.spent += cost;
  if (budget !== undefined) budget.spent = addBudgetSpend(budget.spent, cost, at);
  const split = { promo, paid, overrun, at };
  return hold === undefined && overrun > 0n ? { ...split, isUncovered: true } : split;
}

/** What is left of the session's limit, at most `wanted`; `wanted` without a limit. */
function remainingSessionLimit(session: SessionSpend | undefined, wanted: Nano): Nano {
  if (session?.limit === undefined) return wanted;
  return minNano(maxNano(session.limit - session.spent - session.held, 0n), wanted);
}

/** What the key's limit still allows; `wanted` for a key without a limit. */
function remainingKeyLimit(key: KeyRules, keySpend: KeySpend, now: number, wanted: Nano): Nano {
  if (key.limit === null) return wanted;
  const remaining = key.limit - spentInWindow(keySpend.spent, key.window, now) - keySpend.held;
  return maxNano(remaining, 0n);
}
