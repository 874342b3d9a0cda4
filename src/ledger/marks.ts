// When a balance is low, and when it is as good as empty: told once, by the charge that takes it below the mark.

import { type Nano, NANO_PER_CREDIT, toNano } from "../base/money.ts";
import type { Reader, Tx } from "../store/db.ts";

/** Hardly any call fits into less; to the last nano-USD no balance is ever spent. */
const EMPTY_BELOW: Nano = 100n * NANO_PER_CREDIT;

export interface Fall {
  readonly mark: "low" | "empty";
  readonly accountId: string;
  readonly balance: Nano;
  readonly below: Nano;
  readonly now: number;
}

/** Belongs in the transaction of the charge. */
export type TellFalls = (tx: Tx, falls: readonly Fall[]) => Promise<void>;

/** Notes the marks that a charge took a balance below. */
export function noteFalls(
  falls: Fall[],
  { accountId, now }: { readonly accountId: string; readonly now: number },
  before: Nano,
  { promo, paid, lowAt = 0n }: { readonly promo: Nano; readonly paid: Nano; readonly lowAt?: Nano },
): void {
  const balance = promo + paid;
  if (before >= lowAt && balance < lowAt)
    falls.push({ mark: "low", accountId, balance, below: lowAt, now });
  if (before >= EMPTY_BELOW && balance < EMPTY_BELOW)
    falls.push({ mark: "empty", accountId, balance, below: EMPTY_BELOW, now });
}

/** Below which balance an account wants to be told; zero for never. */
export async function getLowMark(reader: Reader, accountId: string): Promise<Nano> {
  const row = await reader.get("select low_at from wallet where account_id = ?", [accountId]);
  if (row === undefined) throw new Error(`account ${accountId} has no wallet`);
  return toNano(row["low_at"]);
}

export async function setLowMark(tx: Tx, accountId: string, amount: Nano): Promise<void> {
  await tx.run("update wallet set low_at = ? where account_id = ?", [amount, accountId]);
}
