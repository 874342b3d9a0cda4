// Money that only the operator can see, such as a bank transfer: what they say of it is a payment fact like any other.

import { Fault } from "../base/fault.ts";
import { refundableOf } from "../ledger/purchases.ts";
import type { Db } from "../store/db.ts";
import { findInvoice, type Invoice } from "./billing.ts";
import { moneyOfCents, nanoOfCents, partsBetween, partsLeft } from "./cents.ts";
import { enter, type TillParts } from "./checkouts.ts";
import { findFact, paymentsOf } from "./payment-rows.ts";
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
  if (known === undefined && (invoice.status === "paid" || invoice.status === "refunded"))
    throw refusal(`${invoiceId} is ${invoice.status} already. Nothing was changed.`);
  const [applied] = await enter(parts, [fact], now);
  if (applied === undefined || applied.state === "known") return false;
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
  const payments = await paymentsOf(parts.db, invoiceId);
  const payment = payments.find(({ processor, state }) => processor === ID && state === "credited");
  if (payment === undefined)
    throw refusal(`${invoiceId} was not paid by transfer; refund it where it was paid.`);
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
  if ((await findFact(parts.db, fact)) !== undefined) return false;
  const gone = payment.refundedCents + payment.disputedCents;
  if (gone + amountCents > payment.amountCents)
    throw refusal(`Only ${moneyOfCents(payment.amountCents - gone)} of it are left to give back.`);
  const { credit } = partsBetween(partsLeft(payment, gone), partsLeft(payment, gone + amountCents));
  const free = await refundableOf(parts.db, accountId);
  if (credit > free)
    throw refusal(
      `Credits of ${moneyOfCents(Number(free / nanoOfCents(1)))} are unspent, which is less than this refund takes back.`,
    );
  await enter(parts, [fact], now);
  return true;
}

async function knownInvoice(db: Db, id: string): Promise<Invoice> {
  const invoice = await findInvoice(db, id);
  if (invoice === undefined) throw refusal(`There is no invoice ${id}.`);
  return invoice;
}

function refusal(message: string): Fault {
  return new Fault("conflict", message, { message });
}
