// The rules of a workspace's budgets, without a database: what a calendar window still lets it spend, and which marks it
// is taken past. A budget is held and settled as a key's limit is, in the same step as the balance.

import type { Nano } from "../base/money.ts";
import { dayStart, monthStart, type Spent, windowEnd } from "../base/window.ts";

export const BUDGET_WINDOWS = ["day", "month"] as const;
export type BudgetWindow = (typeof BUDGET_WINDOWS)[number];

/** Of a budget's hundred, the parts that are told of when they are reached. */
const BUDGET_MARKS = [50, 80, 100] as const;

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
  const [day, month] = [dayStart(at), monthStart(at)];
  return {
    day: day > spent.dayStart ? 0n : spent.day,
    month: month > spent.monthStart ? 0n : spent.month,
    dayStart: Math.max(day, spent.dayStart),
    monthStart: Math.max(month, spent.monthStart),
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
  const limit = limits[window];
  const used = open[window];
  const left = limit === null ? null : limit - used - held;
  return {
    window,
    limit,
    used,
    held,
    room: left === null || left > 0n ? left : 0n,
    // A window that another clock has opened ends by that clock.
    endsAt: windowEnd(window, Math.max(at, open.dayStart)),
  };
}

/** What the budget still lets a workspace spend: the less of its windows, and at most what is wanted. */
export function budgetRoom(
  budget: Budget | undefined,
  { held, at, wanted }: { readonly held: Nano; readonly at: number; readonly wanted: Nano },
): Nano {
  if (budget === undefined) return wanted;
  let least = wanted;
  for (const window of BUDGET_WINDOWS) {
    const { room } = stateOf(budget, window, { held, at });
    if (room !== null && room < least) least = room;
  }
  return least;
}

/** The window that has no room for so much; of two, the one that one must wait for longer. */
export function blockedBy(
  budget: Budget,
  { held, at, needed }: { readonly held: Nano; readonly at: number; readonly needed: Nano },
): BudgetState | undefined {
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
  return BUDGET_WINDOWS.flatMap((window) => {
    const { limit, used, endsAt } = stateOf(after, window, { held: 0n, at: now });
    const was = before === undefined ? undefined : stateOf(before, window, { held: 0n, at: now });
    if (limit === null) return [];
    return BUDGET_MARKS.filter(
      (percent) => hasReached({ limit, used }, percent) && !hasReached(was, percent),
    ).map((percent) => ({ accountId, window, percent, used, limit, endsAt, now }));
  });
}

// A budget of nothing is a pause, and nothing is ever spent of it.
function hasReached(
  state: Pick<BudgetState, "limit" | "used"> | undefined,
  percent: number,
): boolean {
  if (state === undefined || state.limit === null || state.limit === 0n) return false;
  return state.used * 100n >= state.limit * BigInt(percent);
}
