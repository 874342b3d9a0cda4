// Money that only the operator can see, such as a bank transfer: what they say of it is a payment fact like any other.

import { Fault } from "../base/fault.ts";
import { lockRefundable } from "../ledger/purchases.ts";
import type { Db, Reader, Tx } from "../store/db.ts";
import { findInvoice, type Invoice, lockInvoice } from "./billing.ts";
import { moneyOfCents, nanoOfCents, partsBetween, partsLeft } from "./cents.ts";
import { enter, type TillParts } from "./checkouts.ts";
import { findFact, type Payment, paymentsOf } from "./payment-rows.ts";
import type { PaymentFact } from "./processor.ts";

const ID = "manual";

export interface Told {
  readonly invoiceId: string;
  /** What the bank calls it: of the transfer that came, or of the one that went back. */
  readonly reference: string;
  readonly now: number;
}

/** The operator has seen the whole amount of an invoice. Answers false where it was said before. */
export async function markPaid(parts: TillParts, told: Told): Promise<boolean> {
  const { invoiceId, reference, now } = told;
  const invoice = await knownInvoice(parts.db, invoiceId);
  const fact: PaymentFact = {
    processor: ID,
    ref: reference,
    kind: "paid",
    payment: reference,
    invoiceId,
    amountCents: invoice.amountCents + invoice.feeCents,
    taxCents: 0,
    currency: "usd",
    at: now,
  };
  const known = await findFact(parts.db, fact);
  if (known !== undefined && known.invoiceId !== invoiceId)
    throw refusal(`The reference ${reference} belongs to ${known.invoiceId}.`);
  // Whoever says it with another reference at the same moment has been heard by the time that the invoice is locked.
  const demandOpen = async (tx: Tx): Promise<void> => {
    const status = (await lockInvoice(tx, invoiceId))?.status;
    if ((status === "paid" || status === "refunded") && (await findFact(tx, fact)) === undefined)
      throw refusal(`${invoiceId} is ${status} already. Nothing was changed.`);
  };
  const [applied] = await enter(parts, [fact], now, demandOpen);
  if (applied === undefined || (applied.state === "known" && applied.reason === null)) return false;
  if (applied.reason !== null) throw refusal(`It was not credited: ${applied.reason}.`);
  return true;
}

/** The operator has given money of a payment back that came by `markPaid`. */
export async function markRefunded(
  parts: TillParts,
  told: Told & { readonly amountCents: number },
): Promise<boolean> {
  const { invoiceId, reference, amountCents, now } = told;
  const { accountId } = await knownInvoice(parts.db, invoiceId);
  const payment = await demandTransfer(parts.db, invoiceId);
  const fact: PaymentFact = {
    processor: ID,
    ref: reference,
    kind: "refunded",
    payment: payment.id.slice(ID.length + 1),
    invoiceId,
    amountCents,
    taxCents: 0,
    currency: "usd",
    at: now,
  };
  // Of two refunds at once, and of a refund and a call, the second is judged by what the first has left.
  const demandRoom = async (tx: Tx): Promise<void> => {
    await lockInvoice(tx, invoiceId);
    if ((await findFact(tx, fact)) !== undefined) return;
    const before = await demandTransfer(tx, invoiceId);
    const gone = before.refundedCents + before.disputedCents;
    if (gone + amountCents > before.amountCents)
      throw refusal(`Only ${moneyOfCents(before.amountCents - gone)} of it are left to give back.`);
    const { credit } = partsBetween(partsLeft(before, gone), partsLeft(before, gone + amountCents));
    const free = await lockRefundable(tx, accountId);
    if (credit > free)
      throw refusal(
        `Credits of ${moneyOfCents(Number(free / nanoOfCents(1)))} are unspent, which is less than this refund takes back.`,
      );
  };
  const [applied] = await enter(parts, [fact], now, demandRoom);
  return applied !== undefined && applied.state !== "known";
}

async function demandTransfer(reader: Reader, invoiceId: string): Promise<Payment> {
  const payments = await paymentsOf(reader, invoiceId);
  const payment = payments.find(({ processor, state }) => processor === ID && state === "credited");
  if (payment === undefined)
    throw refusal(`${invoiceId} was not paid by transfer; refund it where it was paid.`);
  return payment;
}

async function knownInvoice(db: Db, id: string): Promise<Invoice> {
  const invoice = await findInvoice(db, id);
  if (invoice === undefined) throw refusal(`There is no invoice ${id}.`);
  return invoice;
}

function refusal(message: string): Fault {
  return new Fault("conflict", message, { message });
}
