// The rules of a workspace's budgets, without a database: what a calendar window still lets it spend, and which marks it
// is taken past. A budget is held and settled as a key's limit is, in the same step as the balance.

import type { Nano } from "../base/money.ts";
import { dayStart, monthStart, type Spent, windowEnd } from "../base/window.ts";

export const BUDGET_WINDOWS = ["day", "month"] as const;
export type BudgetWindow = (typeof BUDGET_WINDOWS)[number];

/** Of a budget's hundred, the parts that are told of when they are reached. */
const BUDGET_MARKS = [50n, 80n, 100n] as const;

export type BudgetLimits = Readonly<Record<BudgetWindow, Nano | null>>;
export type BudgetSpent = Pick<Spent, "day" | "month" | "dayStart" | "monthStart">;

/** A workspace without any limit has none, and pays for none. */
export interface Budget {
  readonly limits: BudgetLimits;
  spent: BudgetSpent;
}

export interface BudgetState {
  readonly window: BudgetWindow;
  readonly limit: Nano | null;
  readonly used: Nano;
  /** Held by open calls, which counts against the limit. */
  readonly held: Nano;
  /** null where there is no limit. */
  readonly room: Nano | null;
  readonly endsAt: number;
}

/** A part of a budget that was reached. */
export interface BudgetMark {
  readonly accountId: string;
  readonly window: BudgetWindow;
  readonly percent: number;
  readonly used: Nano;
  readonly limit: Nano;
  readonly endsAt: number;
  readonly now: number;
}

/** A window that has begun is not left again when a clock steps back. */
export function openedBy(spent: BudgetSpent, at: number): BudgetSpent {
  const day = dayStart(at);
  if (day <= spent.dayStart) return spent;
  const month = monthStart(at);
  return {
    day: 0n,
    month: month > spent.monthStart ? 0n : spent.month,
    dayStart: day,
    monthStart: month,
  };
}

export function spendOf(spent: BudgetSpent, amount: Nano, at: number): BudgetSpent {
  const open = openedBy(spent, at);
  return { ...open, day: open.day + amount, month: open.month + amount };
}

export function stateOf(
  { limits, spent }: Budget,
  window: BudgetWindow,
  { held, at }: { readonly held: Nano; readonly at: number },
): BudgetState {
  const open = openedBy(spent, at);
  return {
    window,
    limit: limits[window],
    used: open[window],
    held,
    room: roomIn(limits, open, window, held),
    // A window that another clock has opened ends by that clock.
    endsAt: windowEnd(window, Math.max(at, open.dayStart)),
  };
}

function roomIn(
  limits: BudgetLimits,
  open: BudgetSpent,
  window: BudgetWindow,
  held: Nano,
): Nano | null {
  const limit = limits[window];
  if (limit === null) return null;
  const left = limit - open[window] - held;
  return left > 0n ? left : 0n;
}

/** What the budget still lets a workspace spend: the less of its windows, and at most what is wanted. */
export function budgetRoom(
  budget: Budget | undefined,
  { held, at, wanted }: { readonly held: Nano; readonly at: number; readonly wanted: Nano },
): Nano {
  if (budget === undefined) return wanted;
  const open = openedBy(budget.spent, at);
  let least = wanted;
  for (const window of BUDGET_WINDOWS) {
    const room = roomIn(budget.limits, open, window, held);
    if (room !== null && room < least) least = room;
  }
  return least;
}

/** The window that has no room for so much; of two, the one that one must wait for longer. */
export function blockedBy(
  budget: Budget,
  { held, at, needed }: { readonly held: Nano; readonly at: number; readonly needed: Nano },
): BudgetState | undefined {
  if (budgetRoom(budget, { held, at, wanted: needed }) >= needed) return undefined;
  return BUDGET_WINDOWS.map((window) => stateOf(budget, window, { held, at })).findLast(
    ({ room }) => room !== null && room < needed,
  );
}

/** The marks that are reached after a charge, or a change of the limits, and were not before. */
export function passedMarks(
  before: Budget | undefined,
  after: Budget,
  { accountId, now }: { readonly accountId: string; readonly now: number },
): readonly BudgetMark[] {
  const former = before === undefined ? undefined : openedBy(before.spent, now);
  const open = openedBy(after.spent, now);
  const passed: BudgetMark[] = [];
  for (const window of BUDGET_WINDOWS) {
    const [limit, used] = [after.limits[window], open[window]];
    const [formerLimit, formerUsed] = [before?.limits[window] ?? null, former?.[window] ?? 0n];
    for (const percent of BUDGET_MARKS) {
      if (limit === null || !hasReached(limit, used, percent)) break;
      if (formerLimit !== null && hasReached(formerLimit, formerUsed, percent)) continue;
      const endsAt = windowEnd(window, Math.max(now, open.dayStart));
      passed.push({ accountId, window, percent: Number(percent), used, limit, endsAt, now });
    }
  }
  return passed;
}

// A budget of nothing is a pause, and nothing is ever spent of it.
function hasReached(limit: Nano, used: Nano, percent: bigint): boolean {
  return limit > 0n && used * 100n >= limit * percent;
}
