// When a balance is low, wants to be topped up, or is as good as empty: told once, by what takes it below the mark.

import { type Nano, NANO_PER_CREDIT, toNano } from "../base/money.ts";
import type { Reader, Row, Tx } from "../store/db.ts";
import type { BudgetThresholdCrossing } from "./budget-rules.ts";

/** Hardly any call fits into less; to the last nano-USD no balance is ever spent. */
const EMPTY_THRESHOLD: Nano = 100n * NANO_PER_CREDIT;

export interface ThresholdCrossing {
  readonly kind: "low" | "empty" | "top_up";
  readonly accountId: string;
  readonly balance: Nano;
  readonly threshold: Nano;
  readonly now: number;
}

/** Belongs in the transaction of the charge, or of the refund. */
export type OnBalanceThresholds = (
  tx: Tx,
  crossings: readonly ThresholdCrossing[],
) => Promise<void>;

/** Belongs in the transaction of the charge, or of the change of the budget. */
export type OnBudgetThresholds = (
  tx: Tx,
  crossings: readonly BudgetThresholdCrossing[],
) => Promise<void>;

/** The marks of a wallet's row. */
export interface BalanceThresholds {
  readonly lowThreshold: Nano;
  readonly topUpThreshold?: Nano;
}

export function balanceThresholdsOf(row: Row): BalanceThresholds {
  const [lowThreshold, topUpThreshold] = [toNano(row["low_at"]), toNano(row["top_up_at"])];
  return topUpThreshold === 0n ? { lowThreshold } : { lowThreshold, topUpThreshold };
}

/** Notes the marks that a charge or a refund took a balance below. */
export function collectCrossings(
  crossings: ThresholdCrossing[],
  { accountId, now }: { readonly accountId: string; readonly now: number },
  balanceBefore: Nano,
  {
    promo,
    paid,
    lowThreshold = 0n,
    topUpThreshold,
  }: { readonly promo: Nano; readonly paid: Nano } & Partial<BalanceThresholds>,
): void {
  const balance = promo + paid;
  if (balanceBefore >= lowThreshold && balance < lowThreshold)
    crossings.push({ kind: "low", accountId, balance, threshold: lowThreshold, now });
  if (topUpThreshold !== undefined && balanceBefore >= topUpThreshold && balance < topUpThreshold)
    crossings.push({ kind: "top_up", accountId, balance, threshold: topUpThreshold, now });
  if (balanceBefore >= EMPTY_THRESHOLD && balance < EMPTY_THRESHOLD)
    crossings.push({ kind: "empty", accountId, balance, threshold: EMPTY_THRESHOLD, now });
}

/** Below which balance an account wants to be told; zero for never. */
export async function getLowBalanceThreshold(reader: Reader, accountId: string): Promise<Nano> {
  const row = await reader.get("select low_at from wallet where account_id = ?", [accountId]);
  if (row === undefined) throw new Error(`account ${accountId} has no wallet`);
  return toNano(row["low_at"]);
}

/** Below which balance credits are bought by themselves; zero for never. */
export async function setTopUpThreshold(tx: Tx, accountId: string, amount: Nano): Promise<void> {
  await tx.run("update wallet set top_up_at = ? where account_id = ?", [amount, accountId]);
}

export async function setLowBalanceThreshold(
  tx: Tx,
  accountId: string,
  amount: Nano,
): Promise<void> {
  await tx.run("update wallet set low_at = ? where account_id = ?", [amount, accountId]);
}
