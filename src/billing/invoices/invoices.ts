// Invoices for credits. Only payments/payment-facts.ts marks an invoice as paid or refunded.

import { type Buyer, readBillingDetails } from "../../accounts/billing-details.ts";
import { authorize, byActor } from "../../accounts/members.ts";
import { type Act, recordAuditEntry } from "../../activity/audit.ts";
import { Fault, invalid } from "../../base/fault.ts";
import { newId } from "../../base/id.ts";
import { maxId, type Page, type PageRequest, toPage } from "../../base/pagination.ts";
import { findFreeze } from "../../ledger/freezes.ts";
import {
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  integer,
  integerOrNull,
} from "../../store/db.ts";
import { centsFromUsd, formatCents, priceOf, usdOfCredits } from "./cents.ts";

const OPEN_INVOICES_MAX = 100;

export const INVOICE_STATUSES = ["open", "paid", "void", "refunded"] as const;
export type InvoiceStatus = (typeof INVOICE_STATUSES)[number];

export interface Invoice {
  readonly id: string;
  readonly accountId: string;
  readonly status: InvoiceStatus;
  readonly credits: number;
  /** The price of the credits with the fee, before tax. */
  readonly totalCents: number;
  /** 0 until the invoice is paid: tax depends on the payer's address. */
  readonly taxCents: number;
  readonly createdAt: number;
  readonly paidAt: number | null;
  readonly voidedAt: number | null;
  /** In the order of payment, without gaps; null until it is paid. */
  readonly number: number | null;
  /** The buyer at the time of the payment; null until it is paid. */
  readonly buyer: Buyer | null;
}

export interface AmountLimits {
  readonly minCents: number;
  readonly maxCents: number;
}

/** Parses the field `amount_usd` of a purchase. */
export function parseAmount(usd: string | number, limits: AmountLimits): number {
  const { minCents, maxCents } = limits;
  const range = `from ${formatCents(minCents)} to ${formatCents(maxCents)}`;
  const cents = centsFromUsd(usd);
  if (cents === undefined)
    throw invalid(
      "amount_usd",
      `\`amount_usd\` must be a US dollar amount with whole cents, ${range}, such as 10 or "12.50".`,
    );
  if (cents < minCents || cents > maxCents)
    throw invalid("amount_usd", `\`amount_usd\` must be ${range}.`);
  return cents;
}

export async function createInvoice(tx: Tx, act: Act, credits: number): Promise<Invoice> {
  await authorize(tx, act, "billing.buy");
  // Serializes concurrent creations, so that the count is exact.
  await tx.lockMany("account", "id", [act.accountId]);
  await requireOpenInvoiceSlot(tx, act.accountId);
  return insertInvoice(tx, act, credits);
}

/** Skips the limit of open invoices: an automatic top-up must not fail because of it. */
export async function insertInvoice(tx: Tx, act: Act, credits: number): Promise<Invoice> {
  const { accountId, now } = act;
  if ((await findFreeze(tx, accountId))?.by === "closing")
    throw new Fault("workspace_frozen", "a purchase for a closing account", {
      message: "This workspace is closing and takes no payments. Its owner can reopen it first.",
    });
  const id = newId("inv", now);
  await tx.run(
    `insert into invoice (id, account_id, status, credits, total_cents, tax_cents, created_at)
     values (?, ?, 'open', ?, ?, 0, ?)`,
    [id, accountId, credits, priceOf(credits), now],
  );
  const invoice = await getInvoice(tx, id, accountId);
  await auditInvoice(tx, act, "invoice.created", invoice);
  return invoice;
}

/** The act of the gateway itself, such as an automatic top-up. */
export function billingAct(accountId: string, now: number): Act {
  return { accountId, actor: { type: "system", id: "billing" }, network: null, now };
}

/** Throws `not_found` for an invoice of another account too. */
export async function getInvoice(reader: Reader, id: string, accountId: string): Promise<Invoice> {
  const invoice = await findInvoice(reader, id);
  if (invoice?.accountId !== accountId)
    throw new Fault("not_found", "no such invoice", {
      message: "No invoice has this id. List your invoices with GET /v1/billing/invoices.",
      param: "id",
      next: [{ method: "GET", url: "/v1/billing/invoices", why: "List the invoices." }],
    });
  return invoice;
}

export async function findInvoice(reader: Reader, id: string): Promise<Invoice | undefined> {
  const row = await reader.get("select * from invoice where id = ?", [id]);
  return row === undefined ? undefined : toInvoice(row);
}

/** Finds several invoices; the result maps their ids to them. */
export async function findInvoices(
  reader: Reader,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Invoice>> {
  if (ids.length === 0) return new Map();
  const rows = await reader.all(
    `select * from invoice where id in (${ids.map(() => "?").join(", ")})`,
    [...ids],
  );
  return new Map(rows.map(toInvoice).map((invoice) => [invoice.id, invoice]));
}

/** Newest first. */
export async function listInvoices(
  reader: Reader,
  accountId: string,
  page: PageRequest,
  status?: InvoiceStatus,
): Promise<Page<Invoice>> {
  const filter = status === undefined ? "" : " and status = ?";
  const rows = await reader.all(
    `select * from invoice where account_id = ? and id < ?${filter} order by id desc limit ?`,
    [
      accountId,
      page.cursor ?? maxId("inv"),
      ...(status === undefined ? [] : [status]),
      page.limit + 1,
    ],
  );
  return toPage(rows.map(toInvoice), page.limit);
}

/** Idempotent. Throws if the invoice is paid. */
export async function voidInvoice(tx: Tx, act: Act, id: string): Promise<Invoice> {
  const { accountId } = act;
  await authorize(tx, act, "billing.buy");
  const invoice = await lockInvoice(tx, id);
  if (invoice?.accountId !== accountId) return getInvoice(tx, id, accountId);
  if (invoice.status === "paid" || invoice.status === "refunded")
    throw new Fault("conflict", `invoice is ${invoice.status}`, {
      message: `This invoice is ${invoice.status} and can no longer be voided.`,
    });
  await setVoid(tx, act, invoice);
  return getInvoice(tx, id, accountId);
}

/** Every change of an invoice locks it first. */
export async function lockInvoice(tx: Tx, id: string): Promise<Invoice | undefined> {
  const [row] = await tx.lockMany("invoice", "id", [id]);
  return row === undefined ? undefined : toInvoice(row);
}

/** Does nothing if the invoice is not open. */
export async function setVoid(
  tx: Tx,
  act: Act,
  invoice: Pick<Invoice, "id" | "credits">,
): Promise<void> {
  const changed = await tx.run(
    "update invoice set status = 'void', voided_at = ? where id = ? and status = 'open'",
    [act.now, invoice.id],
  );
  if (changed === 1) await auditInvoice(tx, act, "invoice.voided", invoice);
}

/** `INV-000042`; the id of an invoice that is not paid. */
export function invoiceNumber({ id, number }: Pick<Invoice, "id" | "number">): string {
  return number === null ? id : `INV-${String(number).padStart(6, "0")}`;
}

/** A number that is taken is used: both are in one transaction, and others wait for the row of the series. */
async function takeNumber(tx: Tx): Promise<number> {
  const [row] = await tx.all(
    `insert into invoice_series (id, last) values ('invoice', 1)
     on conflict (id) do update set last = invoice_series.last + 1 returning last`,
  );
  if (row === undefined) throw new Error("the series of invoices has no row");
  return integer(row, "last");
}

/** Also for a void invoice: a payment that arrives late is still credited. */
export async function setPaid(
  tx: Tx,
  id: string,
  { taxCents, at }: { readonly taxCents: number; readonly at: number },
): Promise<void> {
  const invoice = await lockInvoice(tx, id);
  if (invoice === undefined) throw new Error(`no invoice ${id}`);
  const number = invoice.number ?? (await takeNumber(tx));
  const buyer = invoice.buyer ?? (await readBuyer(tx, invoice.accountId));
  await tx.run(
    `update invoice set status = 'paid', paid_at = ?, tax_cents = ?, voided_at = null, number = ?, buyer = ?
     where id = ?`,
    [at, taxCents, number, JSON.stringify(buyer), id],
  );
}

/** `isRefunded` becomes false again if a refund fails. */
export async function setRefunded(tx: Tx, id: string, isRefunded: boolean): Promise<void> {
  await tx.run("update invoice set status = ? where id = ? and status in ('paid', 'refunded')", [
    isRefunded ? "refunded" : "paid",
    id,
  ]);
}

async function auditInvoice(
  tx: Tx,
  act: Act,
  action: "invoice.created" | "invoice.voided",
  { id, credits }: Pick<Invoice, "id" | "credits">,
): Promise<void> {
  const detail = { amount_usd: usdOfCredits(credits), ...(await byActor(tx, act)) };
  await recordAuditEntry(tx, { ...act, action, target: id, detail });
}

async function requireOpenInvoiceSlot(tx: Tx, accountId: string): Promise<void> {
  const row = await tx.get(
    "select count(*) as count from invoice where account_id = ? and status = 'open'",
    [accountId],
  );
  if (row !== undefined && integer(row, "count") >= OPEN_INVOICES_MAX)
    throw new Fault("conflict", "too many open invoices", {
      message: `An account can have at most ${OPEN_INVOICES_MAX} open invoices. Pay one, or void one with POST /v1/billing/invoice/{id}/void.`,
      next: [
        {
          method: "GET",
          url: "/v1/billing/invoices?status=open",
          why: "List the open invoices.",
        },
      ],
    });
}

async function readBuyer(reader: Reader, accountId: string): Promise<Buyer> {
  const row = await reader.get("select name from account where id = ?", [accountId]);
  const workspace = row === undefined ? null : textOrNull(row, "name");
  const { contacts: _contacts, ...details } = await readBillingDetails(reader, accountId);
  return { account_id: accountId, workspace, ...details };
}

/** The buyer of a paid invoice as of its payment, of another one as of now. */
export async function buyerOf(reader: Reader, { accountId, buyer }: Invoice): Promise<Buyer> {
  return buyer ?? (await readBuyer(reader, accountId));
}

export function toInvoice(row: Row): Invoice {
  const buyer = textOrNull(row, "buyer");
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    status: enumValue(row, "status", INVOICE_STATUSES),
    credits: integer(row, "credits"),
    totalCents: integer(row, "total_cents"),
    taxCents: integer(row, "tax_cents"),
    createdAt: integer(row, "created_at"),
    paidAt: integerOrNull(row, "paid_at"),
    voidedAt: integerOrNull(row, "voided_at"),
    number: integerOrNull(row, "number"),
    // Safe because only setPaid writes it, from a Buyer.
    buyer: buyer === null ? null : (JSON.parse(buyer) as Buyer),
  };
}
