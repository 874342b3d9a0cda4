// Invoices of all accounts with their payments, and the payments that need an operator.

import { maxId, type Page, type PageRequest, toPage } from "../../base/pagination.ts";
import {
  findInvoices,
  type Invoice,
  INVOICE_STATUSES,
  type InvoiceStatus,
  toInvoice,
} from "../../billing/invoices/invoices.ts";
import { type Payment, paymentsOfInvoices } from "../../billing/payments/payment-rows.ts";
import { listUnclearX402Payments } from "../../billing/x402/x402-payment-rows.ts";
import { type Reader, text, textOrNull, integer } from "../../store/db.ts";

export const PAYMENT_FILTERS = INVOICE_STATUSES;
export type PaymentFilter = (typeof PAYMENT_FILTERS)[number];

const UNAPPLIED_MAX = 20;
const UNCLEAR_MAX = 100;

export interface InvoiceWithPayments extends Invoice {
  readonly payments: readonly Payment[];
}

export async function listInvoicesWithPayments(
  reader: Reader,
  page: PageRequest,
  status?: PaymentFilter,
): Promise<Page<InvoiceWithPayments>> {
  const rows = await reader.all(
    `select * from invoice where id < ?${status === undefined ? "" : " and status = ?"} order by id desc limit ?`,
    [page.cursor ?? maxId("inv"), ...(status === undefined ? [] : [status]), page.limit + 1],
  );
  const invoices = rows.map(toInvoice);
  const payments = await paymentsOfInvoices(
    reader,
    invoices.map(({ id }) => id),
  );
  const found: InvoiceWithPayments[] = [];
  for (const invoice of invoices)
    found.push({ ...invoice, payments: payments.get(invoice.id) ?? [] });
  return toPage(found, page.limit);
}

/** A payment event that could not be applied to its invoice. It credited nothing and needs an operator. */
export interface UnappliedFact {
  readonly id: string;
  readonly invoiceId: string;
  readonly kind: string;
  readonly amountCents: number;
  readonly currency: string;
  readonly reason: string | null;
  readonly receivedAt: number;
}

export async function listUnappliedFacts(reader: Reader): Promise<readonly UnappliedFact[]> {
  const rows = await reader.all(
    `select payment_fact.* from payment_fact where reason is not null order by received_at desc, id limit ?`,
    [UNAPPLIED_MAX],
  );
  return rows.map((row) => ({
    id: text(row, "id"),
    invoiceId: text(row, "invoice_id"),
    kind: text(row, "kind"),
    amountCents: integer(row, "amount_cents"),
    currency: text(row, "currency"),
    reason: textOrNull(row, "reason"),
    receivedAt: integer(row, "received_at"),
  }));
}

/** An x402 payment whose signature has expired without a known outcome. */
export interface UnclearPayment {
  readonly id: string;
  readonly accountId: string;
  readonly invoiceId: string;
  readonly invoiceStatus: InvoiceStatus;
  readonly amountCents: number;
  readonly network: string;
  readonly asset: string;
  readonly payer: string;
  readonly payTo: string;
  /** Unique per payer and token: finds the transfer on the chain. */
  readonly nonce: string;
  /** The last known status. */
  readonly reason: string | null;
  readonly createdAt: number;
  readonly expiresAt: number;
}

export async function listUnclearPayments(reader: Reader): Promise<readonly UnclearPayment[]> {
  const unclear: UnclearPayment[] = [];
  const payments = await listUnclearX402Payments(reader, UNCLEAR_MAX);
  const invoices = await findInvoices(
    reader,
    payments.map(({ invoiceId }) => invoiceId),
  );
  for (const { proof, totalCents, ...payment } of payments) {
    const { network, asset } = proof.accepted;
    const { to: payTo, nonce } = proof.payload.authorization;
    const invoice = invoices.get(payment.invoiceId);
    if (invoice === undefined) continue;
    unclear.push({
      ...payment,
      invoiceStatus: invoice.status,
      amountCents: totalCents,
      network,
      asset,
      payTo,
      nonce,
    });
  }
  return unclear;
}

/** The next step for the operator. */
export function nextStepFor({ id, invoiceId, invoiceStatus, payTo }: UnclearPayment): string {
  const look = `Look up the payer and the nonce in a block explorer: is there a transfer to ${payTo}?`;
  const markAbsent = `If no, run \`postern admin mark-absent ${id} --reason <text>\`.`;
  return invoiceStatus === "open" || invoiceStatus === "void"
    ? `${look} If yes, run \`postern admin mark-paid ${invoiceId} --reference <transaction>\`. ${markAbsent}`
    : `The invoice was paid in another way. ${look} If yes, transfer the money back. ${markAbsent}`;
}
