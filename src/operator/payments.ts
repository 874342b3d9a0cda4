// Invoices of all accounts with what was paid of them and what went back, and the money that an operator should look at.

import {
  findInvoice,
  type Invoice,
  INVOICE_STATUSES,
  type InvoiceStatus,
} from "../billing/billing.ts";
import { type Payment, paymentsOf } from "../billing/payment-rows.ts";
import { unclearX402 } from "../billing/x402-rows.ts";
import { afterEveryId, type Page, type PageRequest, toPage } from "../base/page.ts";
import { type Reader, text, textOrNull, whole } from "../store/db.ts";

export const PAYMENT_FILTERS = INVOICE_STATUSES;
export type PaymentFilter = (typeof PAYMENT_FILTERS)[number];

const ASIDE_SHOWN = 20;
const UNCLEAR_SHOWN = 100;

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

/** An x402 payment that may have moved money, or may not: its time is over, and nobody could say. */
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
  /** Of one payer a token takes each once: it finds the transfer on the chain. */
  readonly nonce: string;
  /** The last that was heard of it. */
  readonly reason: string | null;
  readonly createdAt: number;
  readonly expiresAt: number;
}

export async function listUnclear(reader: Reader): Promise<readonly UnclearPayment[]> {
  const unclear: UnclearPayment[] = [];
  for (const { signed, totalCents, ...payment } of await unclearX402(reader, UNCLEAR_SHOWN)) {
    const { network, asset } = signed.accepted;
    const { to: payTo, nonce } = signed.payload.authorization;
    const invoice = await findInvoice(reader, payment.invoiceId);
    if (invoice === undefined) continue;
    const about = { invoiceStatus: invoice.status, amountCents: totalCents };
    unclear.push({ ...payment, ...about, network, asset, payTo, nonce });
  }
  return unclear;
}

/** What an operator does about it. */
export function nextStepOf({ id, invoiceId, invoiceStatus, payTo }: UnclearPayment): string {
  const look = `Look the payer and the nonce up in a block explorer, for a transfer to ${payTo}.`;
  const absent = `postern admin mark-absent ${id} --reason <text>.`;
  return invoiceStatus === "open" || invoiceStatus === "void"
    ? `${look} If it is there: postern admin mark-paid ${invoiceId} --reference <transaction>. If it is not: ${absent}`
    : `The invoice was paid otherwise. ${look} If it is not there: ${absent} If it is there too, transfer it back.`;
}
