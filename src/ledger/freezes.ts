// Freezes: an account cannot make calls while the operator has frozen it or while it owes a debt after a dispute. A
// hold reads both from the locked wallet row, so no call starts after a freeze is committed.

import { type Nano, toNano } from "../base/money.ts";
import { type Reader, textOrNull, type Tx, integerOrNull } from "../store/db.ts";

export type Freeze =
  | {
      readonly by: "operator";
      readonly since: number;
      readonly reason: string;
      readonly owed: Nano;
    }
  | { readonly by: "debt"; readonly owed: Nano };

/** The operator's freeze takes precedence, because a payment does not lift it. */
export async function findFreeze(reader: Reader, accountId: string): Promise<Freeze | undefined> {
  const row = await reader.get(
    "select owed, frozen_at, frozen_reason from wallet where account_id = ?",
    [accountId],
  );
  if (row === undefined) return undefined;
  const [owed, since] = [toNano(row["owed"]), integerOrNull(row, "frozen_at")];
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
  await tx.run("update wallet set frozen_at = ?, frozen_reason = ? where account_id = ?", [
    freeze?.at ?? null,
    freeze?.reason ?? null,
    accountId,
  ]);
}
