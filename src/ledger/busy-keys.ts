// Which keys of this process are busy, and what a lease of such a key should reserve.

import { minNano, type Nano, NANO_PER_USD } from "../base/money/money.ts";

/** A key with so many holds in a second gets a lease. */
const BUSY_HOLDS = 8;
const BUSY_WINDOW_MS = 1_000;
const AMOUNT_MAX = NANO_PER_USD;
const CALLS_MIN = 8;
const CALLS_MAX = 1_024;

/** The calls of a key in this process. */
export interface KeyActivity {
  windowStartedAt: number;
  holds: number;
  busyUntil: number;
  open: number;
  peak: number;
  perCall: Nano;
}

interface NewHold {
  readonly amount: Nano;
  /** On the monotonic clock. */
  readonly at: number;
  readonly busyHolds: number | undefined;
}

export function newActivity(): KeyActivity {
  return { windowStartedAt: -Infinity, holds: 0, busyUntil: 0, open: 0, peak: 0, perCall: 0n };
}

export function noteHold(
  activity: KeyActivity,
  { amount, at, busyHolds = BUSY_HOLDS }: NewHold,
): void {
  if (at - activity.windowStartedAt >= BUSY_WINDOW_MS) {
    activity.windowStartedAt = at;
    activity.holds = 0;
    activity.peak = activity.open;
  }
  activity.holds += 1;
  if (activity.holds >= busyHolds) activity.busyUntil = at + BUSY_WINDOW_MS;
  activity.open += 1;
  activity.peak = Math.max(activity.peak, activity.open);
  const { perCall } = activity;
  activity.perCall = amount > perCall ? amount : perCall - (perCall - amount) / 8n;
}

/** Twice the calls that were open at a time, at what they held. */
export function leaseSize({ peak, perCall }: KeyActivity): { amount: Nano; calls: number } {
  const calls = Math.min(Math.max(2 * peak, CALLS_MIN), CALLS_MAX);
  return { amount: minNano(perCall * BigInt(calls), AMOUNT_MAX), calls };
}
