// Collects debts: an account owes what its calls cost beyond its credits, and what a dispute took back after it was spent. New
// balance pays the debt first.

import { newId } from "../../base/id.ts";
import { collectDebt, listDebtors } from "../../ledger/payments/payments.ts";
import type { Db } from "../../store/db.ts";
import type { PaymentCallbacks } from "./payment-facts.ts";

const DEBTORS_BATCH_MAX = 500;

export async function collectDebts(
  db: Db,
  { onBalanceThresholds }: Pick<PaymentCallbacks, "onBalanceThresholds">,
  now: number,
): Promise<void> {
  for (const accountId of await listDebtors(db, DEBTORS_BATCH_MAX))
    await db.write(async (tx) => {
      const crossings = await collectDebt(tx, { id: `debt.${newId("tr", now)}`, accountId, now });
      await onBalanceThresholds?.(tx, crossings);
    });
}
