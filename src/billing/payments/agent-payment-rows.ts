// Rows of the table agent_payment: one per signed transfer, transaction or shared payment token, inserted before it is charged.

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
import { createInvoice, findInvoice, setVoid, billingAct } from "../invoices/invoices.ts";
import type { InvoiceDraft } from "./payment-protocol.ts";

/** How the payment is settled: by an x402 facilitator, at Stripe with a shared payment token, or by the Tempo network. */
const PAYMENT_METHODS = ["x402", "stripe", "tempo"] as const;
export type AgentPaymentMethod = (typeof PAYMENT_METHODS)[number];

/** The payment methods, as shown to people. */
export const PAYMENT_METHOD_TEXTS: Readonly<Record<AgentPaymentMethod, string>> = {
  x402: "with x402",
  stripe: "with a shared payment token",
  tempo: "on the Tempo network",
};

/**
 * `open`: sent to the settling service, or about to be; the outcome is unknown. `unclear`: expired with unknown outcome, and
 * the operator was notified. `paid` and `refused` are final.
 */
const PAYMENT_STATES = ["open", "paid", "refused", "unclear"] as const;
type AgentPaymentState = (typeof PAYMENT_STATES)[number];

export interface AgentPayment {
  /** Identifies what can be charged only once: a transfer's chain, token, payer and nonce, a challenge, or a transaction. */
  readonly id: string;
  readonly method: AgentPaymentMethod;
  readonly accountId: string;
  readonly invoiceId: string;
  /** The invoice was created for this payment, and is voided if the payment is refused. */
  readonly hasOwnInvoice: boolean;
  /** What the agent sent, in the form of the method. */
  readonly proof: unknown;
  /** The wallet's address, or the shared payment token. */
  readonly payer: string;
  readonly totalCents: number;
  readonly state: AgentPaymentState;
  readonly reason: string | null;
  /** The hash of the transaction, or the payment intent. */
  readonly transaction: string | null;
  readonly createdAt: number;
  readonly expiresAt: number;
  /** When the payment is resumed next. Moving it is the lease. */
  readonly dueAt: number | null;
}

export interface NewAgentPayment extends Pick<
  AgentPayment,
  "id" | "method" | "proof" | "payer" | "accountId" | "totalCents" | "expiresAt"
> {
  /** An existing invoice, or a draft to create one. */
  readonly invoice: { readonly id: string } | InvoiceDraft;
  readonly now: number;
  readonly dueAt: number;
}

/** Undefined if this id or shared payment token is stored already. Waits for another transaction that inserts it. */
export async function insertAgentPayment(
  tx: Tx,
  payment: NewAgentPayment,
): Promise<AgentPayment | undefined> {
  const { id, method, accountId, proof, payer, totalCents, invoice, expiresAt, now } = payment;
  const inserted = await tx.run(
    `insert into agent_payment (id, method, account_id, invoice_id, made_invoice, signed, payer, total_cents, state, expires_at, created_at, due_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, 'open', ?, ?, ?) on conflict do nothing`,
    [
      id,
      method,
      accountId,
      "id" in invoice ? invoice.id : "",
      "id" in invoice ? 0 : 1,
      JSON.stringify(proof),
      payer,
      totalCents,
      expiresAt,
      now,
      payment.dueAt,
    ],
  );
  if (inserted === 0) return undefined;
  if (!("id" in invoice)) {
    // Model calls do not record the caller's network.
    const { credits, actor } = invoice;
    const act = { ...billingAct(accountId, now), ...(actor && { actor }) };
    const { id: invoiceId } = await createInvoice(tx, act, credits);
    await tx.run("update agent_payment set invoice_id = ? where id = ?", [invoiceId, id]);
  }
  return await findAgentPayment(tx, id);
}

export async function findAgentPayment(
  reader: Reader,
  id: string,
): Promise<AgentPayment | undefined> {
  const row = await reader.get("select * from agent_payment where id = ?", [id]);
  return row === undefined ? undefined : toPayment(row);
}

/** Lock order: the invoice, then this row. */
export async function lockAgentPayment(tx: Tx, id: string): Promise<AgentPayment | undefined> {
  const [row] = await tx.lockMany("agent_payment", "id", [id]);
  return row === undefined ? undefined : toPayment(row);
}

/** A payment of the invoice that was not refused, so it may have moved money. */
export async function findActiveAgentPayment(
  reader: Reader,
  invoiceId: string,
): Promise<AgentPayment | undefined> {
  const row = await reader.get(
    "select * from agent_payment where invoice_id = ? and state <> 'refused' limit 1",
    [invoiceId],
  );
  return row === undefined ? undefined : toPayment(row);
}

/** How agents paid the invoices of an account from one invoice id to another. */
export async function listAgentPaymentMethods(
  reader: Reader,
  accountId: string,
  [oldest, newest]: readonly [oldest: string, newest: string],
): Promise<ReadonlyMap<string, AgentPaymentMethod>> {
  const rows = await reader.all(
    "select invoice_id, method from agent_payment where invoice_id between ? and ? and account_id = ? and state = 'paid'",
    [oldest, newest, accountId],
  );
  return new Map(
    rows.map((row) => [text(row, "invoice_id"), enumValue(row, "method", PAYMENT_METHODS)]),
  );
}

export async function listDueAgentPayments(
  reader: Reader,
  method: AgentPaymentMethod,
  { now, limit }: { readonly now: number; readonly limit: number },
): Promise<readonly AgentPayment[]> {
  const rows = await reader.all(
    "select * from agent_payment where due_at <= ? and method = ? order by due_at limit ?",
    [now, method, limit],
  );
  return rows.map(toPayment);
}

/** The number of payments with unknown outcome. */
export async function countOpenAgentPayments(
  reader: Reader,
  method: AgentPaymentMethod,
): Promise<number> {
  const row = await reader.get(
    "select count(*) as count from agent_payment where state = 'open' and method = ?",
    [method],
  );
  return row === undefined ? 0 : integer(row, "count");
}

/** Unclear payments that the operator has not marked as paid, newest first. */
export async function listUnclearAgentPayments(
  reader: Reader,
  limit: number,
): Promise<readonly AgentPayment[]> {
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
export async function claimAgentPayment(
  db: Db,
  { id, dueAt }: AgentPayment,
  untilMs: number,
): Promise<boolean> {
  const updated = await db.write((tx) =>
    tx.run("update agent_payment set due_at = ? where id = ? and due_at = ?", [untilMs, id, dueAt]),
  );
  return updated === 1;
}

/** `paid` is final: a later update to another state is ignored. */
export async function updateAgentPayment(
  tx: Tx,
  { id, invoiceId, hasOwnInvoice }: AgentPayment,
  {
    state,
    reason = null,
    transaction = null,
    dueAt,
    now,
  }: Pick<AgentPayment, "state" | "dueAt"> & {
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
  if (invoice !== undefined) await setVoid(tx, billingAct(invoice.accountId, now), invoice);
}

function toPayment(row: Row): AgentPayment {
  return {
    id: text(row, "id"),
    method: enumValue(row, "method", PAYMENT_METHODS),
    accountId: text(row, "account_id"),
    invoiceId: text(row, "invoice_id"),
    hasOwnInvoice: integer(row, "made_invoice") === 1,
    proof: JSON.parse(text(row, "signed")),
    payer: text(row, "payer"),
    totalCents: integer(row, "total_cents"),
    state: enumValue(row, "state", PAYMENT_STATES),
    reason: textOrNull(row, "reason"),
    transaction: textOrNull(row, "tx_hash"),
    createdAt: integer(row, "created_at"),
    expiresAt: integer(row, "expires_at"),
    dueAt: integerOrNull(row, "due_at"),
  };
}
