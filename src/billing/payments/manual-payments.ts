// Money that only the operator can see, such as a bank transfer: what they say of it is a payment fact like any other.

import { Fault } from "../../base/fault.ts";
import { lockRefundable } from "../../ledger/payments/payments.ts";
import type { Db, Reader, Tx } from "../../store/db.ts";
import { findInvoice, type Invoice, lockInvoice } from "../invoices/invoices.ts";
import { formatCents, nanoOfCents, amountsDelta, remainingAmounts } from "../invoices/cents.ts";
import { ingestFacts, type PaymentDeps } from "./checkouts.ts";
import { findFact, type Payment, paymentsOfInvoice } from "./payment-rows.ts";
import type { PaymentFact } from "./payment-processor.ts";

const PROCESSOR = "manual";

export interface ManualPayment {
  readonly invoiceId: string;
  /** What the bank calls it: of the transfer that came, or of the one that went back. */
  readonly reference: string;
  readonly now: number;
}

/** The operator has seen the whole amount of an invoice. Answers false where it was said before. */
export async function markPaid(deps: PaymentDeps, transfer: ManualPayment): Promise<boolean> {
  const { invoiceId, reference, now } = transfer;
  const invoice = await requireInvoice(deps.db, invoiceId);
  const fact: PaymentFact = {
    processor: PROCESSOR,
    ref: reference,
    kind: "paid",
    payment: reference,
    invoiceId,
    amountCents: invoice.amountCents + invoice.feeCents,
    taxCents: 0,
    currency: "usd",
    at: now,
  };
  const known = await findFact(deps.db, fact);
  if (known !== undefined && known.invoiceId !== invoiceId)
    throw conflict(`The reference ${reference} belongs to ${known.invoiceId}.`);
  // Whoever says it with another reference at the same moment has been heard by the time that the invoice is locked.
  const requireOpen = async (tx: Tx): Promise<void> => {
    const status = (await lockInvoice(tx, invoiceId))?.status;
    if ((status === "paid" || status === "refunded") && (await findFact(tx, fact)) === undefined)
      throw conflict(`${invoiceId} is ${status} already. Nothing was changed.`);
  };
  const [applied] = await ingestFacts(deps, [fact], now, requireOpen);
  if (applied === undefined || (applied.state === "known" && applied.reason === null)) return false;
  if (applied.reason !== null) throw conflict(`It was not credited: ${applied.reason}.`);
  return true;
}

/** The operator has given money of a payment back that came by `markPaid`. */
export async function markRefunded(
  deps: PaymentDeps,
  refund: ManualPayment & { readonly amountCents: number },
): Promise<boolean> {
  const { invoiceId, reference, amountCents, now } = refund;
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
  // Of two refunds at once, and of a refund and a call, the second is judged by what the first has left.
  const requireRefundable = async (tx: Tx): Promise<void> => {
    await lockInvoice(tx, invoiceId);
    if ((await findFact(tx, fact)) !== undefined) return;
    const before = await requireBankTransfer(tx, invoiceId);
    const returned = before.refundedCents + before.disputedCents;
    if (returned + amountCents > before.amountCents)
      throw conflict(
        `Only ${formatCents(before.amountCents - returned)} of it are left to give back.`,
      );
    const { credit } = amountsDelta(
      remainingAmounts(before, returned),
      remainingAmounts(before, returned + amountCents),
    );
    const free = await lockRefundable(tx, accountId);
    if (credit > free)
      throw conflict(
        `Credits of ${formatCents(Number(free / nanoOfCents(1)))} are unspent, which is less than this refund takes back.`,
      );
  };
  const [applied] = await ingestFacts(deps, [fact], now, requireRefundable);
  return applied !== undefined && applied.state !== "known";
}

async function requireBankTransfer(reader: Reader, invoiceId: string): Promise<Payment> {
  const payments = await paymentsOfInvoice(reader, invoiceId);
  const payment = payments.find(
    ({ processor, state }) => processor === PROCESSOR && state === "credited",
  );
  if (payment === undefined)
    throw conflict(`${invoiceId} was not paid by transfer; refund it where it was paid.`);
  return payment;
}

async function requireInvoice(db: Db, id: string): Promise<Invoice> {
  const invoice = await findInvoice(db, id);
  if (invoice === undefined) throw conflict(`There is no invoice ${id}.`);
  return invoice;
}

function conflict(message: string): Fault {
  return new Fault("conflict", message, { message });
}
