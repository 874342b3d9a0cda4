// Payments that the operator confirms, such as bank transfers. They become payment facts like any other.

import { type Actor, recordAuditEntry } from "../../activity/audit.ts";
import { conflict } from "../../base/fault.ts";
import { type Nano, toNano, usdText } from "../../base/money/money.ts";
import { getWallet } from "../../ledger/ledger.ts";
import { lockRefundable } from "../../ledger/payments/payments.ts";
import { type Db, type Reader, text, type Tx } from "../../store/db.ts";
import { formatCents, nanoOfCents, amountsDelta, remainingAmounts } from "../invoices/cents.ts";
import { findInvoice, type Invoice, lockInvoice } from "../invoices/invoices.ts";
import {
  type AppliedFact,
  applyFact,
  freeLeasedCredits,
  logOutcome,
  type PaymentDeps,
} from "./payment-facts.ts";
import type { PaymentFact } from "./payment-processor.ts";
import { findFact, type Payment, paymentsOfInvoice } from "./payment-rows.ts";

const PROCESSOR = "manual";

export interface ManualPayment {
  readonly invoiceId: string;
  /** The bank's reference of the incoming or outgoing transfer. */
  readonly reference: string;
  /** The operator, for the audit log. */
  readonly by: Actor;
  readonly now: number;
}

/** Records that the whole amount of an invoice arrived. Returns false if that was recorded before. */
export async function markPaid(deps: PaymentDeps, transfer: ManualPayment): Promise<boolean> {
  const { invoiceId, reference, by, now } = transfer;
  const invoice = await requireInvoice(deps.db, invoiceId);
  const fact: PaymentFact = {
    processor: PROCESSOR,
    ref: reference,
    kind: "paid",
    payment: reference,
    invoiceId,
    amountCents: invoice.totalCents,
    taxCents: 0,
    currency: "usd",
    at: now,
  };
  const recorded = await findFact(deps.db, fact);
  if (recorded !== undefined && recorded.invoiceId !== invoiceId)
    throw conflict(`The reference ${reference} is already used for ${recorded.invoiceId}.`);
  // Under the lock, so that a concurrent payment with another reference is seen.
  const requireOpen = async (tx: Tx): Promise<void> => {
    const status = (await lockInvoice(tx, invoiceId))?.status;
    if ((status === "paid" || status === "refunded") && (await findFact(tx, fact)) === undefined)
      throw conflict(`${invoiceId} is already ${status}. Nothing was changed.`);
  };
  const applied = await applyManualFact(deps, fact, { by, now, precondition: requireOpen });
  if (applied === undefined || (applied.state === "known" && applied.reason === null)) return false;
  if (applied.reason !== null) throw conflict(`The payment was not credited: ${applied.reason}.`);
  return true;
}

/** Records a refund, in part or in full, of a payment that was entered with `markPaid`. */
export async function markRefunded(
  deps: PaymentDeps,
  refund: ManualPayment & { readonly amountCents: number },
): Promise<boolean> {
  const { invoiceId, reference, amountCents, by, now } = refund;
  const { accountId } = await requireInvoice(deps.db, invoiceId);
  const payment = await requireBankTransfer(deps.db, invoiceId);
  const fact: PaymentFact = {
    processor: PROCESSOR,
    ref: reference,
    kind: "refunded",
    payment: payment.id.slice(PROCESSOR.length + 1),
    invoiceId,
    amountCents,
    taxCents: 0,
    currency: "usd",
    at: now,
  };
  // Under the locks of invoice and wallet, so that a concurrent refund or model call is counted.
  const requireRefundable = async (tx: Tx): Promise<void> => {
    await lockInvoice(tx, invoiceId);
    if ((await findFact(tx, fact)) !== undefined) return;
    const before = await requireBankTransfer(tx, invoiceId);
    const returned = before.refundedCents + before.disputedCents;
    if (returned + amountCents > before.amountCents)
      throw conflict(
        `Only ${formatCents(before.amountCents - returned)} of this payment can still be refunded.`,
      );
    const { credit } = amountsDelta(
      remainingAmounts(before, returned),
      remainingAmounts(before, returned + amountCents),
    );
    const free = await lockRefundable(tx, accountId);
    if (credit > free)
      throw conflict(
        `This refund takes back more than the unspent credits, which are ${formatCents(Number(free / nanoOfCents(1)))}.`,
      );
  };
  const applied = await applyManualFact(deps, fact, { by, now, precondition: requireRefundable });
  return applied !== undefined && applied.state !== "known";
}

interface ManualFactContext extends Pick<ManualPayment, "by" | "now"> {
  /** Runs in the transaction of the fact, and throws to reject it. */
  readonly precondition: (tx: Tx) => Promise<void>;
}

/** Applies and audits the fact in one transaction. Undefined if it was recorded before. */
async function applyManualFact(
  { db, log }: PaymentDeps,
  fact: PaymentFact,
  { by, now, precondition }: ManualFactContext,
): Promise<AppliedFact | undefined> {
  if ((await findFact(db, fact)) !== undefined) return undefined;
  await freeLeasedCredits(db, fact);
  const applied = await db.write(async (tx) => {
    await precondition(tx);
    const outcomes = await applyFact(tx, fact, now);
    const [outcome] = outcomes;
    if (outcome !== undefined && outcome.state !== "known")
      await auditManualFact(tx, outcome, { by, now });
    return outcomes;
  });
  for (const outcome of applied) logOutcome(log, outcome);
  return applied[0];
}

async function auditManualFact(
  tx: Tx,
  { fact, reason }: AppliedFact,
  { by, now }: Pick<ManualPayment, "by" | "now">,
): Promise<void> {
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

async function requireBankTransfer(reader: Reader, invoiceId: string): Promise<Payment> {
  const payments = await paymentsOfInvoice(reader, invoiceId);
  const payment = payments.find(
    ({ processor, state }) => processor === PROCESSOR && state === "credited",
  );
  if (payment === undefined)
    throw conflict(
      `${invoiceId} was not paid by bank transfer. Refund it at its payment processor.`,
    );
  return payment;
}

async function requireInvoice(db: Db, id: string): Promise<Invoice> {
  const invoice = await findInvoice(db, id);
  if (invoice === undefined) throw conflict(`No invoice has the id ${id}.`);
  return invoice;
}
