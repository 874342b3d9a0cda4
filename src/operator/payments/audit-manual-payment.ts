// Audit entries of bank transfers that an operator has recorded: payments and refunds.

import { type Actor, recordAuditEntry } from "../../activity/audit.ts";
import { type Nano, toNano, usdText } from "../../base/money/money.ts";
import { nanoOfCents } from "../../billing/invoices/cents.ts";
import { findInvoice } from "../../billing/invoices/invoices.ts";
import type { AppliedFact } from "../../billing/payments/payment-facts.ts";
import { getWallet } from "../../ledger/ledger.ts";
import { type Reader, text, type Tx } from "../../store/db.ts";

/** A callback for the transaction that applies the payment fact. */
export function auditManualPayment(
  by: Actor,
  now: number,
): (tx: Tx, applied: readonly AppliedFact[]) => Promise<void> {
  return async (tx, [manualFact]) => {
    if (manualFact === undefined || manualFact.state === "known") return;
    const { fact, reason } = manualFact;
    const invoice = await findInvoice(tx, fact.invoiceId);
    if (invoice === undefined) return;
    const { accountId, id, status } = invoice;
    const { paid } = await getWallet(tx, accountId);
    const change = await paidChange(tx, accountId, `${fact.processor}:${fact.ref}.${fact.kind}.`);
    await recordAuditEntry(tx, {
      accountId,
      actor: by,
      action: fact.kind === "paid" ? "invoice.marked_paid" : "invoice.marked_refunded",
      target: id,
      detail: {
        usd: usdText(nanoOfCents(fact.amountCents)),
        reference: fact.ref,
        status,
        ...(reason === null ? {} : { not_applied: reason }),
        paid_before: usdText(paid - change),
        paid_after: usdText(paid),
      },
      network: null,
      now,
    });
  };
}

/** The change of paid credit by the transfer. */
async function paidChange(reader: Reader, accountId: string, idPrefix: string): Promise<Nano> {
  const row = await reader.get(
    "select from_account, amount from transfer where account_id = ? and id = ?",
    [accountId, `${idPrefix}credit`],
  );
  if (row === undefined) return 0n;
  const amount = toNano(row["amount"]);
  return text(row, "from_account").startsWith(accountId) ? -amount : amount;
}
