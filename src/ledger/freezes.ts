// An account that makes no calls: since its operator froze it, or since a bank took money back that was spent. The hold
// reads both from the wallet's row under its lock, so no call begins after the freeze is committed.

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

/** Why an account makes no calls; undefined where it may. An operator's word comes first: buying does not lift it. */
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

/** The row is locked by whoever calls this. */
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
