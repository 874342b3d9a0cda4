// When a balance is low, wants to be topped up, or is as good as empty: told once, by what takes it below the mark.

import { type Nano, NANO_PER_CREDIT, toNano } from "../base/money.ts";
import type { Reader, Row, Tx } from "../store/db.ts";
import type { BudgetMark } from "./budget-rules.ts";

/** Hardly any call fits into less; to the last nano-USD no balance is ever spent. */
const EMPTY_BELOW: Nano = 100n * NANO_PER_CREDIT;

export interface Fall {
  readonly mark: "low" | "empty" | "top_up";
  readonly accountId: string;
  readonly balance: Nano;
  readonly below: Nano;
  readonly now: number;
}

/** Belongs in the transaction of the charge, or of the refund. */
export type TellFalls = (tx: Tx, falls: readonly Fall[]) => Promise<void>;

/** Belongs in the transaction of the charge, or of the change of the budget. */
export type TellBudgets = (tx: Tx, marks: readonly BudgetMark[]) => Promise<void>;

/** The marks of a wallet's row. */
export interface Marks {
  readonly lowAt: Nano;
  readonly topUpAt?: Nano;
}

export function marksOf(row: Row): Marks {
  const [lowAt, topUpAt] = [toNano(row["low_at"]), toNano(row["top_up_at"])];
  return topUpAt === 0n ? { lowAt } : { lowAt, topUpAt };
}

/** Notes the marks that a charge or a refund took a balance below. */
export function noteFalls(
  falls: Fall[],
  { accountId, now }: { readonly accountId: string; readonly now: number },
  before: Nano,
  {
    promo,
    paid,
    lowAt = 0n,
    topUpAt,
  }: { readonly promo: Nano; readonly paid: Nano } & Partial<Marks>,
): void {
  const balance = promo + paid;
  if (before >= lowAt && balance < lowAt)
    falls.push({ mark: "low", accountId, balance, below: lowAt, now });
  if (topUpAt !== undefined && before >= topUpAt && balance < topUpAt)
    falls.push({ mark: "top_up", accountId, balance, below: topUpAt, now });
  if (before >= EMPTY_BELOW && balance < EMPTY_BELOW)
    falls.push({ mark: "empty", accountId, balance, below: EMPTY_BELOW, now });
}

/** Below which balance an account wants to be told; zero for never. */
export async function getLowMark(reader: Reader, accountId: string): Promise<Nano> {
  const row = await reader.get("select low_at from wallet where account_id = ?", [accountId]);
  if (row === undefined) throw new Error(`account ${accountId} has no wallet`);
  return toNano(row["low_at"]);
}

/** Below which balance credits are bought by themselves; zero for never. */
export async function setTopUpMark(tx: Tx, accountId: string, amount: Nano): Promise<void> {
  await tx.run("update wallet set top_up_at = ? where account_id = ?", [amount, accountId]);
}

export async function setLowMark(tx: Tx, accountId: string, amount: Nano): Promise<void> {
  await tx.run("update wallet set low_at = ? where account_id = ?", [amount, accountId]);
}
