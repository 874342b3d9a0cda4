// Balance thresholds: low balance, auto top-up and empty. A crossing is reported once, by the transaction that causes
// it.

import { type Nano, NANO_PER_CREDIT, toNano } from "../base/money/money.ts";
import type { Reader, Row, Tx } from "../store/db.ts";

/** A balance below this counts as empty: it covers almost no call, and is rarely spent to the last nano-USD. */
const EMPTY_THRESHOLD: Nano = 100n * NANO_PER_CREDIT;

export interface ThresholdCrossing {
  readonly kind: "low" | "empty" | "top_up";
  readonly accountId: string;
  readonly balance: Nano;
  readonly threshold: Nano;
  readonly now: number;
}

/** Called in the transaction of the charge, with all crossings; those of the kind `top_up` schedule a purchase. */
export type ScheduleTopUps = (tx: Tx, crossings: readonly ThresholdCrossing[]) => Promise<void>;

export interface BalanceThresholds {
  readonly lowThreshold: Nano;
  readonly topUpThreshold?: Nano;
}

export function balanceThresholdsOf(row: Row): BalanceThresholds {
  const [lowThreshold, topUpThreshold] = [toNano(row["low_at"]), toNano(row["top_up_at"])];
  return topUpThreshold === 0n ? { lowThreshold } : { lowThreshold, topUpThreshold };
}

/** Appends the thresholds that the balance fell below. */
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

/** Zero if the alert is off. */
export async function getLowBalanceThreshold(reader: Reader, accountId: string): Promise<Nano> {
  const row = await reader.get("select low_at from wallet where account_id = ?", [accountId]);
  if (row === undefined) throw new Error(`account ${accountId} has no wallet`);
  return toNano(row["low_at"]);
}

/** Zero turns auto top-up off. */
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
