// What accounts owe since their bank took money back that was spent. It is taken out of whatever comes free.

import { newId } from "../base/id.ts";
import { collectDebt, listDebtors } from "../ledger/purchases.ts";
import type { Db } from "../store/db.ts";
import type { DoorParts } from "./payments.ts";

const DEBTORS_MAX = 500;

export async function collectDebts(
  db: Db,
  { onFalls }: Pick<DoorParts, "onFalls">,
  now: number,
): Promise<void> {
  for (const accountId of await listDebtors(db, DEBTORS_MAX))
    await db.write(async (tx) => {
      const falls = await collectDebt(tx, { id: `debt.${newId("tr", now)}`, accountId, now });
      await onFalls?.(tx, falls);
    });
}
