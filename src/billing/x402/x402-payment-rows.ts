// Rows of the table agent_payment: one per signed transfer, inserted before it is settled.

import {
  type Db,
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  integer,
  integerOrNull,
} from "../../store/db.ts";
import type { InvoiceDraft } from "../payments/payment-protocol.ts";
import { createInvoice, findInvoice, setVoid } from "../invoices/invoices.ts";
import { expiresAtOf, transferIdOf, type SignedPayment } from "./protocol.ts";

/**
 * `open`: sent to the facilitator, or about to be; the outcome is unknown. `unclear`: expired with unknown outcome, and the
 * operator was notified. `paid` and `refused` are final.
 */
const X402_STATES = ["open", "paid", "refused", "unclear"] as const;
export type X402State = (typeof X402_STATES)[number];

export interface X402Payment {
  /** Chain, token, payer and nonce. */
  readonly id: string;
  readonly accountId: string;
  readonly invoiceId: string;
  /** The invoice was created for this payment, and is voided if the payment is refused. */
  readonly hasOwnInvoice: boolean;
  readonly signed: SignedPayment;
  readonly payer: string;
  readonly totalCents: number;
  readonly state: X402State;
  readonly reason: string | null;
  readonly transaction: string | null;
  readonly createdAt: number;
  readonly expiresAt: number;
  /** When the payment is resumed next. Moving it is the lease. */
  readonly dueAt: number | null;
}

export interface NewX402Payment {
  readonly accountId: string;
  readonly signed: SignedPayment;
  readonly totalCents: number;
  /** An existing invoice, or a draft to create one. */
  readonly invoice: { readonly id: string } | InvoiceDraft;
  readonly now: number;
  readonly dueAt: number;
}

/** Undefined if this transfer is stored already. Waits for another transaction that inserts it. */
export async function insertX402Payment(
  tx: Tx,
  payment: NewX402Payment,
): Promise<X402Payment | undefined> {
  const { accountId, signed, totalCents, invoice, now, dueAt } = payment;
  const id = transferIdOf(signed);
  const inserted = await tx.run(
    `insert into agent_payment (id, account_id, invoice_id, made_invoice, signed, payer, total_cents, state, expires_at, created_at, due_at)
     values (?, ?, ?, ?, ?, ?, ?, 'open', ?, ?, ?) on conflict (id) do nothing`,
    [
      id,
      accountId,
      "id" in invoice ? invoice.id : "",
      "id" in invoice ? 0 : 1,
      JSON.stringify(signed),
      signed.payload.authorization.from,
      totalCents,
      expiresAtOf(signed),
      now,
      dueAt,
    ],
  );
  if (inserted === 0) return undefined;
  if (!("id" in invoice)) {
    const { id: invoiceId } = await createInvoice(tx, { ...invoice, accountId, now });
    await tx.run("update agent_payment set invoice_id = ? where id = ?", [invoiceId, id]);
  }
  return await findX402Payment(tx, id);
}

export async function findX402Payment(
  reader: Reader,
  id: string,
): Promise<X402Payment | undefined> {
  const row = await reader.get("select * from agent_payment where id = ?", [id]);
  return row === undefined ? undefined : toPayment(row);
}

/** Lock order: the invoice, then this row. */
export async function lockX402Payment(tx: Tx, id: string): Promise<X402Payment | undefined> {
  const [row] = await tx.lockMany("agent_payment", "id", [id]);
  return row === undefined ? undefined : toPayment(row);
}

/** A payment of the invoice that was not refused, so it may have moved money. */
export async function findActiveX402Payment(
  reader: Reader,
  invoiceId: string,
): Promise<X402Payment | undefined> {
  const row = await reader.get(
    "select * from agent_payment where invoice_id = ? and state <> 'refused' limit 1",
    [invoiceId],
  );
  return row === undefined ? undefined : toPayment(row);
}

export async function listDueX402Payments(
  reader: Reader,
  now: number,
  limit: number,
): Promise<readonly X402Payment[]> {
  const rows = await reader.all(
    "select * from agent_payment where due_at <= ? order by due_at limit ?",
    [now, limit],
  );
  return rows.map(toPayment);
}

/** The number of payments with unknown outcome. */
export async function countOpenX402Payments(reader: Reader): Promise<number> {
  const row = await reader.get("select count(*) as count from agent_payment where state = 'open'");
  return row === undefined ? 0 : integer(row, "count");
}

/** Unclear payments that the operator has not marked as paid, newest first. */
export async function listUnclearX402Payments(
  reader: Reader,
  limit: number,
): Promise<readonly X402Payment[]> {
  const rows = await reader.all(
    `select * from agent_payment where state = 'unclear' and not exists (
       select 1 from payment where payment.invoice_id = agent_payment.invoice_id
         and payment.processor = 'manual' and payment.state = 'credited')
     order by created_at desc, id limit ?`,
    [limit],
  );
  return rows.map(toPayment);
}

/** Leases the payment: of several processes, the one that moves `due_at` resumes it. */
export async function claimX402Payment(
  db: Db,
  { id, dueAt }: X402Payment,
  untilMs: number,
): Promise<boolean> {
  const updated = await db.write((tx) =>
    tx.run("update agent_payment set due_at = ? where id = ? and due_at = ?", [untilMs, id, dueAt]),
  );
  return updated === 1;
}

/** `paid` is final: a later update to another state is ignored. */
export async function updateX402Payment(
  tx: Tx,
  { id, invoiceId, hasOwnInvoice }: X402Payment,
  {
    state,
    reason = null,
    transaction = null,
    dueAt,
    now,
  }: Pick<X402Payment, "state" | "dueAt"> & {
    readonly reason?: string | null;
    readonly transaction?: string | null;
    readonly now: number;
  },
): Promise<void> {
  const changed = await tx.run(
    `update agent_payment set state = ?, reason = ?, tx_hash = coalesce(?, tx_hash), due_at = ?
     where id = ? and (state <> 'paid' or ? = 'paid')`,
    [state, reason, transaction, dueAt, id, state],
  );
  if (changed !== 1 || state !== "refused" || !hasOwnInvoice) return;
  const invoice = await findInvoice(tx, invoiceId);
  if (invoice !== undefined) await setVoid(tx, invoice, { now });
}

function toPayment(row: Row): X402Payment {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    invoiceId: text(row, "invoice_id"),
    hasOwnInvoice: integer(row, "made_invoice") === 1,
    // Safe: `insertX402Payment` wrote it from a value of this type.
    signed: JSON.parse(text(row, "signed")) as SignedPayment,
    payer: text(row, "payer"),
    totalCents: integer(row, "total_cents"),
    state: enumValue(row, "state", X402_STATES),
    reason: textOrNull(row, "reason"),
    transaction: textOrNull(row, "tx_hash"),
    createdAt: integer(row, "created_at"),
    expiresAt: integer(row, "expires_at"),
    dueAt: integerOrNull(row, "due_at"),
  };
}
