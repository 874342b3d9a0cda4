// The events of thresholds that a charge, a refund or a change of limits crosses, written in its transaction.

import { emitEvent } from "../activity/events.ts";
import { creditsOf, usdNumber, usdOf } from "../base/money/money.ts";
import type { Tx } from "../store/db.ts";
import type { ThresholdCrossing } from "./balance-thresholds.ts";
import type { BudgetThresholdCrossing } from "./budget-rules.ts";
import type { KeyAlert } from "./key-alerts.ts";

export async function emitBalanceEvents(
  tx: Tx,
  crossings: readonly ThresholdCrossing[],
): Promise<void> {
  for (const { kind, accountId, balance, threshold, now } of crossings) {
    // Billing schedules the top-up.
    if (kind === "top_up") continue;
    const type = kind === "low" ? "balance.low" : "balance.empty";
    const data = { credits: creditsOf(balance), usd: usdOf(balance), below_usd: usdOf(threshold) };
    await emitEvent(tx, { type, accountId, data, now });
  }
}

export async function emitBudgetEvents(
  tx: Tx,
  crossings: readonly BudgetThresholdCrossing[],
): Promise<void> {
  for (const { accountId, window, percent, used, limit, endsAt, now } of crossings) {
    const data = {
      window,
      percent,
      used_usd: usdNumber(used),
      limit_usd: usdNumber(limit),
      resets_at: new Date(endsAt).toISOString(),
    };
    await emitEvent(tx, { type: "budget.reached", accountId, data, now });
  }
}

export async function emitKeyAlerts(tx: Tx, alerts: readonly KeyAlert[]): Promise<void> {
  for (const { accountId, keyId, percent, spent, limit, endsAt, now } of alerts) {
    const data = {
      key_id: keyId,
      percent,
      spent_usd: usdNumber(spent),
      limit_usd: usdNumber(limit),
      resets_at: endsAt === null ? null : new Date(endsAt).toISOString(),
    };
    await emitEvent(tx, { type: "key.limit_reached", accountId, data, now });
  }
}
