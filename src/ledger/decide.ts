// The rules of the money, without a database: what each operation of a batch does to the rows that it concerns. The
// batch's rows are locked while this runs, so what it decides is what is written.

import type { Nano } from "../base/money.ts";
import { type LimitWindow, type Spent, spend, spentInWindow, windowEnd } from "../base/window.ts";
import { blockedBy, type Budget, budgetRoom, type BudgetState, spendOf } from "./budget-rules.ts";

/** Clocks of processes differ by so much without anything being wrong. */
const CLOCKS_DIFFER_MS = 10_000;

export interface Pace {
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
  readonly pace?: Pace | undefined;
  readonly openCallsMax?: number | undefined;
}

export type HoldOutcome =
  | { readonly status: "held"; readonly amount: Nano }
  | { readonly status: "insufficient_credits"; readonly available: Nano; readonly posted: Nano }
  | { readonly status: "frozen"; readonly owed: Nano }
  | { readonly status: "key_limit"; readonly room: Nano; readonly windowEndsAt: number | null }
  | { readonly status: "budget"; readonly blocked: BudgetState }
  | { readonly status: "key_refused"; readonly why: "unknown" | "revoked" | "expired" }
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
  readonly lowAt?: Nano;
  /** The balance below which credits are bought by themselves. Absent for never. */
  readonly topUpAt?: Nano;
  /** Absent where nothing bounds what the workspace may spend but its balance. */
  readonly budget?: Budget;
}

export interface Spender {
  held: Nano;
  openCalls: number;
  pacedUntil: number;
  spent: Spent;
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

export interface Charge {
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
  spender: Spender | undefined,
  key: KeyRules | undefined,
): HoldOutcome {
  if (wallet === undefined || spender === undefined || key?.accountId !== request.accountId)
    return { status: "key_refused", why: "unknown" };
  if (key.revokedAt !== null) return { status: "key_refused", why: "revoked" };
  if (key.expiresAt !== null && key.expiresAt <= request.now)
    return { status: "key_refused", why: "expired" };
  if (request.openCallsMax !== undefined && spender.openCalls >= request.openCallsMax) {
    return { status: "too_many_open", open: spender.openCalls };
  }
  const wait = request.pace === undefined ? 0 : paceWait(request.pace, spender, request.now);
  if (wait > 0) return { status: "too_fast", retryAfterMs: wait };

  const money = decideAmount(request, wallet, spender, key);
  if (money.status !== "held") return money;
  wallet.held += money.amount;
  spender.held += money.amount;
  spender.openCalls += 1;
  if (request.pace !== undefined)
    spender.pacedUntil =
      Math.max(soonest(request.pace, spender, request.now), request.now) + request.pace.intervalMs;
  return money;
}

function paceWait(pace: Pace, spender: Spender, now: number): number {
  return soonest(pace, spender, now) - pace.intervalMs * (pace.burst - 1) - now;
}

// What was paced by a clock that was ahead, or at a slower pace, may lie far ahead. A refusal writes nothing, so a key that
// were made to wait for it would wait until then: its next call goes through, and its pace is counted from there.
function soonest({ intervalMs, burst }: Pace, { pacedUntil }: Spender, now: number): number {
  const furthest = now + intervalMs * burst;
  return pacedUntil > furthest + CLOCKS_DIFFER_MS
    ? furthest - intervalMs
    : Math.min(pacedUntil, furthest);
}

function decideAmount(
  request: HoldRequest,
  wallet: Wallet,
  spender: Spender,
  key: KeyRules,
): HoldOutcome {
  // A call that costs nothing needs no balance, and no room below a limit.
  if (request.amount === 0n) return { status: "held", amount: 0n };
  if (wallet.owed !== undefined) return { status: "frozen", owed: wallet.owed };
  const funds = available(wallet);
  const at = countedAt(request.now, wallet, spender);
  const room = keyRoom(key, spender, at, request.amount);
  const needed = smallest(request.minimum ?? request.amount, request.amount);
  if (needed > room) return { status: "key_limit", room, windowEndsAt: windowEnd(key.window, at) };
  const { budget, held } = wallet;
  const blocked = budget === undefined ? undefined : blockedBy(budget, { held, at, needed });
  if (blocked !== undefined) return { status: "budget", blocked };
  if (needed > funds)
    return { status: "insufficient_credits", available: funds, posted: wallet.promo + wallet.paid };
  const allowed = budgetRoom(budget, { held, at, wanted: room });
  return { status: "held", amount: smallest(request.amount, smallest(allowed, funds)) };
}

/**
 * A day that the key or its workspace has begun is not left again when a clock steps back, also not by a transfer: so
 * what was spent in a window is the sum of the transfers since it began.
 */
function countedAt(now: number, { budget }: Wallet, { spent }: Spender): number {
  return Math.max(now, spent.dayStart, budget?.spent.dayStart ?? 0);
}

/** What a settle finds: the hold is gone where it was swept, and the key's rules where the key is no more. */
export interface Settling {
  readonly hold: OpenHold | undefined;
  readonly wallet: Wallet;
  readonly spender: Spender;
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
  { hold, wallet, spender, key }: Settling,
): Charge {
  if (hold !== undefined) {
    wallet.held -= hold.amount;
    spender.held -= hold.amount;
    spender.openCalls -= 1;
  }
  const at = countedAt(now, wallet, spender);
  const { budget, held } = wallet;
  const wanted = key === undefined ? cost : keyRoom(key, spender, at, cost);
  const room = budgetRoom(budget, { held, at, wanted });
  const cap = hold !== undefined && hold.amount > room ? hold.amount : room;
  const charged = smallest(smallest(cost, cap), atLeastNothing(available(wallet)));
  const promo = smallest(charged, wallet.promo);
  const paid = charged - promo;
  wallet.promo -= promo;
  wallet.paid -= paid;
  spender.spent = spend(spender.spent, charged, at);
  if (budget !== undefined) budget.spent = spendOf(budget.spent, charged, at);
  return { promo, paid, overrun: cost - charged, at };
}

/** What the key's limit still lets it spend; a key without a limit may spend what is wanted. */
function keyRoom(key: KeyRules, spender: Spender, now: number, wanted: Nano): Nano {
  if (key.limit === null) return wanted;
  const room = key.limit - spentInWindow(spender.spent, key.window, now) - spender.held;
  return atLeastNothing(room);
}

function atLeastNothing(amount: Nano): Nano {
  return amount > 0n ? amount : 0n;
}

function smallest(a: Nano, b: Nano): Nano {
  return a < b ? a : b;
}
