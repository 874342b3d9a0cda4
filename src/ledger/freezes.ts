// Freezes: an account cannot make calls while it is closing, while the operator has frozen it, or while it owes a debt.
// A hold reads all of them from the locked wallet row, and leases are recalled, so no call starts after the write that sets one.

import { type Nano, toNano } from "../base/money/money.ts";
import { type Reader, textOrNull, type Tx, integerOrNull } from "../store/db.ts";
import { recallLeases } from "./recall-leases.ts";

export type Freeze =
  | {
      readonly by: "operator";
      readonly since: number;
      readonly reason: string;
      readonly owed: Nano;
    }
  | { readonly by: "closing"; readonly since: number; readonly owed: Nano }
  | { readonly by: "debt"; readonly owed: Nano };

/** A debt comes last, because a payment lifts it. */
export async function findFreeze(reader: Reader, accountId: string): Promise<Freeze | undefined> {
  const row = await reader.get(
    "select owed, frozen_at, frozen_reason, closing_at from wallet where account_id = ?",
    [accountId],
  );
  if (row === undefined) return undefined;
  const [owed, since] = [toNano(row["owed"]), integerOrNull(row, "frozen_at")];
  const closingSince = integerOrNull(row, "closing_at");
  if (closingSince !== null) return { by: "closing", since: closingSince, owed };
  if (since !== null)
    return { by: "operator", since, reason: textOrNull(row, "frozen_reason") ?? "", owed };
  return owed > 0n ? { by: "debt", owed } : undefined;
}

/** The caller must have locked the wallet row. */
export async function setFreeze(
  tx: Tx,
  accountId: string,
  freeze: { readonly at: number; readonly reason: string } | null,
): Promise<void> {
  if (freeze !== null) await recallLeases(tx, accountId);
  await tx.run("update wallet set frozen_at = ?, frozen_reason = ? where account_id = ?", [
    freeze?.at ?? null,
    freeze?.reason ?? null,
    accountId,
  ]);
}

/** The caller must have locked the wallet row. */
export async function setClosing(tx: Tx, accountId: string, at: number | null): Promise<void> {
  if (at !== null) await recallLeases(tx, accountId);
  await tx.run("update wallet set closing_at = ? where account_id = ?", [at, accountId]);
}
