// Calendar windows (UTC) of limits and budgets. Spend is totaled for every window at once, so that changing the window
// of a limit needs no history.

import { DAY_MS } from "../time.ts";
import type { Nano } from "./money.ts";

export const LIMIT_WINDOWS = ["day", "week", "month"] as const;
export type LimitWindow = (typeof LIMIT_WINDOWS)[number];

const MONDAY_OFFSET_DAYS = 3;

export interface SpendTotals {
  readonly total: Nano;
  readonly day: Nano;
  readonly week: Nano;
  readonly month: Nano;
  readonly dayStart: number;
  readonly weekStart: number;
  readonly monthStart: number;
}

export function dayStart(now: number): number {
  return now - (now % DAY_MS);
}

/** Weeks begin on Monday; the epoch was a Thursday. */
export function weekStart(now: number): number {
  const days = Math.floor(now / DAY_MS) + MONDAY_OFFSET_DAYS;
  return (days - (days % 7) - MONDAY_OFFSET_DAYS) * DAY_MS;
}

export function monthStart(now: number): number {
  const date = new Date(now);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
}

export function zeroSpend(now: number): SpendTotals {
  const [day, week, month] = [dayStart(now), weekStart(now), monthStart(now)];
  return {
    total: 0n,
    day: 0n,
    week: 0n,
    month: 0n,
    dayStart: day,
    weekStart: week,
    monthStart: month,
  };
}

/** Resets the totals of windows that have ended. A clock that steps back starts no new window. */
export function rollWindows(spent: SpendTotals, now: number): SpendTotals {
  // Weeks and months start at the start of a day.
  if (now < spent.dayStart + DAY_MS) return spent;
  const current = zeroSpend(now);
  return {
    total: spent.total,
    day: current.dayStart > spent.dayStart ? 0n : spent.day,
    week: current.weekStart > spent.weekStart ? 0n : spent.week,
    month: current.monthStart > spent.monthStart ? 0n : spent.month,
    dayStart: Math.max(current.dayStart, spent.dayStart),
    weekStart: Math.max(current.weekStart, spent.weekStart),
    monthStart: Math.max(current.monthStart, spent.monthStart),
  };
}

export function addSpend(spent: SpendTotals, amount: Nano, now: number): SpendTotals {
  const current = rollWindows(spent, now);
  return {
    total: current.total + amount,
    day: current.day + amount,
    week: current.week + amount,
    month: current.month + amount,
    dayStart: current.dayStart,
    weekStart: current.weekStart,
    monthStart: current.monthStart,
  };
}

/** Spend that counts against a limit with this window; without a window, all spend. */
export function spentInWindow(spent: SpendTotals, window: LimitWindow | null, now: number): Nano {
  return window === null ? spent.total : rollWindows(spent, now)[window];
}

/** When the window ends and its limit resets; null without a window. */
export function windowEnd(window: LimitWindow, now: number): number;
export function windowEnd(window: LimitWindow | null, now: number): number | null;
export function windowEnd(window: LimitWindow | null, now: number): number | null {
  switch (window) {
    case null:
      return null;
    case "day":
      return dayStart(now) + DAY_MS;
    case "week":
      return weekStart(now) + 7 * DAY_MS;
    case "month": {
      const date = new Date(now);
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
    }
  }
}

export function toLimitWindow(name: string | null): LimitWindow | null {
  return LIMIT_WINDOWS.find((window) => window === name) ?? null;
}
