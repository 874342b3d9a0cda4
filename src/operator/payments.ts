// Invoices of all accounts with what was paid of them and what went back, and the money that an operator should look at.

import { findInvoice, type Invoice, INVOICE_STATUSES } from "../billing/billing.ts";
import { type Payment, paymentsOf } from "../billing/payment-rows.ts";
import { afterEveryId, type Page, type PageRequest, toPage } from "../base/page.ts";
import { type Reader, text, textOrNull, whole } from "../store/db.ts";

export const PAYMENT_FILTERS = INVOICE_STATUSES;
export type PaymentFilter = (typeof PAYMENT_FILTERS)[number];

const ASIDE_SHOWN = 20;

export interface InvoiceLine extends Invoice {
  readonly payments: readonly Payment[];
}

export async function listPayments(
  reader: Reader,
  page: PageRequest,
  status?: PaymentFilter,
): Promise<Page<InvoiceLine>> {
  const rows = await reader.all(
    `select id from invoice where id < ?${status === undefined ? "" : " and status = ?"} order by id desc limit ?`,
    [page.cursor ?? afterEveryId("inv"), ...(status === undefined ? [] : [status]), page.limit + 1],
  );
  const lines: InvoiceLine[] = [];
  for (const id of rows.map((row) => text(row, "id"))) {
    const invoice = await findInvoice(reader, id);
    if (invoice !== undefined) lines.push({ ...invoice, payments: await paymentsOf(reader, id) });
  }
  return toPage(lines, page.limit);
}

/** What a processor said that did not fit: it bought nothing, and waits for a human. */
export interface AsideFact {
  readonly id: string;
  readonly invoiceId: string;
  readonly kind: string;
  readonly amountCents: number;
  readonly currency: string;
  readonly reason: string | null;
  readonly heardAt: number;
}

export async function listAside(reader: Reader): Promise<readonly AsideFact[]> {
  const rows = await reader.all(
    `select payment_fact.* from payment_fact where reason is not null order by heard_at desc, id limit ?`,
    [ASIDE_SHOWN],
  );
  return rows.map((row) => ({
    id: text(row, "id"),
    invoiceId: text(row, "invoice_id"),
    kind: text(row, "kind"),
    amountCents: whole(row, "amount_cents"),
    currency: text(row, "currency"),
    reason: textOrNull(row, "reason"),
    heardAt: whole(row, "heard_at"),
  }));
}
