// The percentages of a key's spending limit that are reported. A crossing is reported once per window, by the transaction
// that causes it.

import type { Nano } from "../base/money/money.ts";
import { type SpendTotals, spentInWindow, windowEnd } from "../base/money/spend-window.ts";
import type { KeyRules } from "./decide.ts";

export interface KeyAlert {
  readonly accountId: string;
  readonly keyId: string;
  readonly percent: number;
  readonly spent: Nano;
  readonly limit: Nano;
  readonly endsAt: number | null;
  readonly now: number;
}

interface KeyCharge {
  readonly keyId: string;
  readonly before: SpendTotals;
  readonly after: SpendTotals;
  readonly now: number;
}

const NO_ALERTS: readonly KeyAlert[] = [];

export function crossedKeyAlerts(
  key: KeyRules | undefined,
  { keyId, before, after, now }: KeyCharge,
): readonly KeyAlert[] {
  if (key === undefined || key.alertPercents === null || key.limit === null) return NO_ALERTS;
  const { accountId, limit, window } = key;
  const spentBefore = spentInWindow(before, window, now);
  const spent = spentInWindow(after, window, now);
  const hasReached = (amount: Nano, percent: number): boolean =>
    amount * 100n >= limit * BigInt(percent);
  const endsAt = windowEnd(window, now);
  return key.alertPercents
    .filter((percent) => hasReached(spent, percent) && !hasReached(spentBefore, percent))
    .map((percent) => ({ accountId, keyId, percent, spent, limit, endsAt, now }));
}
