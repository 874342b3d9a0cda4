// The rules of budgets, without a database: what a calendar window still allows, and which thresholds a charge crosses.

import { type Nano, maxNano } from "../base/money/money.ts";
import { dayStart, monthStart, type SpendTotals, windowEnd } from "../base/money/spend-window.ts";

export const BUDGET_WINDOWS = ["day", "month"] as const;
export type BudgetWindow = (typeof BUDGET_WINDOWS)[number];

/** Webhooks fire at these. */
const BUDGET_THRESHOLDS_PERCENT = [50n, 80n, 100n] as const;

export type BudgetLimits = Readonly<Record<BudgetWindow, Nano | null>>;
export type BudgetSpendTotals = Pick<SpendTotals, "day" | "month" | "dayStart" | "monthStart">;

/** A workspace without any limit has no `Budget`. */
export interface Budget {
  readonly limits: BudgetLimits;
  spent: BudgetSpendTotals;
}

export interface BudgetState {
  readonly window: BudgetWindow;
  readonly limit: Nano | null;
  readonly used: Nano;
  /** Held by open calls; counts against the limit. */
  readonly held: Nano;
  /** null without a limit. */
  readonly remaining: Nano | null;
  readonly endsAt: number;
}

export interface BudgetThresholdCrossing {
  readonly accountId: string;
  readonly window: BudgetWindow;
  readonly percent: number;
  readonly used: Nano;
  readonly limit: Nano;
  readonly endsAt: number;
  readonly now: number;
}

/** A clock that steps back does not return to an earlier window. */
export function rollBudgetWindows(spent: BudgetSpendTotals, now: number): BudgetSpendTotals {
  const day = dayStart(now);
  if (day <= spent.dayStart) return spent;
  const month = monthStart(now);
  return {
    day: 0n,
    month: month > spent.monthStart ? 0n : spent.month,
    dayStart: day,
    monthStart: month,
  };
}

export function addBudgetSpend(
  spent: BudgetSpendTotals,
  amount: Nano,
  at: number,
): BudgetSpendTotals {
  const current = rollBudgetWindows(spent, at);
  return { ...current, day: current.day + amount, month: current.month + amount };
}

export function budgetStateOf(
  { limits, spent }: Budget,
  window: BudgetWindow,
  { held, at }: { readonly held: Nano; readonly at: number },
): BudgetState {
  const current = rollBudgetWindows(spent, at);
  return {
    window,
    limit: limits[window],
    used: current[window],
    held,
    remaining: remainingInWindow(limits, current, window, held),
    // A window started by a process whose clock is ahead ends on that clock.
    endsAt: windowEnd(window, Math.max(at, current.dayStart)),
  };
}

function remainingInWindow(
  limits: BudgetLimits,
  current: BudgetSpendTotals,
  window: BudgetWindow,
  held: Nano,
): Nano | null {
  const limit = limits[window];
  if (limit === null) return null;
  const remaining = limit - current[window] - held;
  return maxNano(remaining, 0n);
}

/** What every window of the budget still allows, at most `wanted`. */
export function remainingBudget(
  budget: Budget | undefined,
  { held, at, wanted }: { readonly held: Nano; readonly at: number; readonly wanted: Nano },
): Nano {
  if (budget === undefined) return wanted;
  const current = rollBudgetWindows(budget.spent, at);
  let remaining = wanted;
  for (const window of BUDGET_WINDOWS) {
    const windowRemaining = remainingInWindow(budget.limits, current, window, held);
    if (windowRemaining !== null && windowRemaining < remaining) remaining = windowRemaining;
  }
  return remaining;
}

/** The window that does not allow `needed`; of two, the one that resets later. */
export function blockingBudget(
  budget: Budget,
  { held, at, needed }: { readonly held: Nano; readonly at: number; readonly needed: Nano },
): BudgetState | undefined {
  if (remainingBudget(budget, { held, at, wanted: needed }) >= needed) return undefined;
  return BUDGET_WINDOWS.map((window) => budgetStateOf(budget, window, { held, at })).findLast(
    ({ remaining }) => remaining !== null && remaining < needed,
  );
}

/** The thresholds that a charge, or a change of the limits, has newly reached. */
export function crossedBudgetThresholds(
  before: Budget | undefined,
  after: Budget,
  { accountId, now }: { readonly accountId: string; readonly now: number },
): readonly BudgetThresholdCrossing[] {
  const spentBefore = before === undefined ? undefined : rollBudgetWindows(before.spent, now);
  const spentAfter = rollBudgetWindows(after.spent, now);
  const crossings: BudgetThresholdCrossing[] = [];
  for (const window of BUDGET_WINDOWS) {
    const [limit, used] = [after.limits[window], spentAfter[window]];
    const [limitBefore, usedBefore] = [before?.limits[window] ?? null, spentBefore?.[window] ?? 0n];
    for (const percent of BUDGET_THRESHOLDS_PERCENT) {
      if (limit === null || !hasReached(limit, used, percent)) break;
      if (limitBefore !== null && hasReached(limitBefore, usedBefore, percent)) continue;
      const endsAt = windowEnd(window, Math.max(now, spentAfter.dayStart));
      crossings.push({ accountId, window, percent: Number(percent), used, limit, endsAt, now });
    }
  }
  return crossings;
}

// A budget of zero pauses a workspace and has no thresholds.
function hasReached(limit: Nano, used: Nano, percent: bigint): boolean {
  return limit > 0n && used * 100n >= limit * percent;
}
