// Rows of the tables payment and payment_fact.

import {
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  integer,
} from "../../store/db.ts";
import type { ReceivedAmounts } from "../invoices/cents.ts";
import type { FactKind, PaymentFact } from "./payment-processor.ts";

/** `suspense`: held in the ledger, but not credited. `foreign`: another currency, so not in the ledger at all. */
export type PaymentState = "credited" | "suspense" | "foreign";

export interface Payment extends ReceivedAmounts {
  /** `<processor>:<reference>`. */
  readonly id: string;
  readonly invoiceId: string;
  readonly accountId: string;
  readonly processor: string;
  readonly state: PaymentState;
  /** Why it was not credited. */
  readonly reason: string | null;
  readonly currency: string;
  readonly refundedCents: number;
  readonly disputedCents: number;
  readonly paidAt: number;
}

export type FactState = "applied" | "waiting" | "aside";

export function paymentIdOf(fact: Pick<PaymentFact, "processor" | "payment">): string {
  return `${fact.processor}:${fact.payment}`;
}

/** Returns false if the fact is recorded already. Waits for another transaction that inserts the same fact. */
export async function insertFact(tx: Tx, fact: PaymentFact, now: number): Promise<boolean> {
  const inserted = await tx.run(
    `insert into payment_fact (id, processor, ref, kind, payment_id, invoice_id, amount_cents, tax_cents, currency, at, received_at, state)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting') on conflict (id) do nothing`,
    [
      factIdOf(fact),
      fact.processor,
      fact.ref,
      fact.kind,
      paymentIdOf(fact),
      fact.invoiceId,
      fact.amountCents,
      fact.taxCents,
      fact.currency,
      fact.at,
      now,
    ],
  );
  return inserted === 1;
}

export async function setFactState(
  tx: Tx,
  fact: Pick<PaymentFact, "processor" | "ref" | "kind">,
  state: FactState,
  reason: string | null,
): Promise<void> {
  await tx.run("update payment_fact set state = ?, reason = ? where id = ?", [
    state,
    reason,
    factIdOf(fact),
  ]);
}

/** The fact with this key, as it was first recorded. */
export async function findFact(
  reader: Reader,
  fact: Pick<PaymentFact, "processor" | "ref" | "kind">,
): Promise<(PaymentFact & { readonly state: FactState }) | undefined> {
  const row = await reader.get("select * from payment_fact where id = ?", [factIdOf(fact)]);
  return row === undefined ? undefined : toFact(row);
}

/** Facts of a payment that wait for another fact; a payment comes before its refunds and disputes. */
export async function listWaitingFacts(
  reader: Reader,
  paymentId: string,
): Promise<readonly PaymentFact[]> {
  const rows = await reader.all(
    `select * from payment_fact where payment_id = ? and state = 'waiting'
     order by case kind when 'paid' then 0 when 'refunded' then 1 when 'disputed' then 2 else 3 end, at, id`,
    [paymentId],
  );
  return rows.map(toFact);
}

/** The refunds and disputes applied to a payment, including those reversed since. */
export async function listAppliedReturns(
  reader: Reader,
  paymentId: string,
): Promise<readonly PaymentFact[]> {
  const rows = await reader.all(
    "select * from payment_fact where payment_id = ? and state = 'applied' and kind in ('refunded', 'disputed') order by id",
    [paymentId],
  );
  return rows.map(toFact);
}

export async function insertPayment(tx: Tx, payment: Payment): Promise<void> {
  await tx.run(
    `insert into payment (id, invoice_id, account_id, processor, state, reason, currency, amount_cents, credits, tax_cents, refunded_cents, disputed_cents, paid_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [
      payment.id,
      payment.invoiceId,
      payment.accountId,
      payment.processor,
      payment.state,
      payment.reason,
      payment.currency,
      payment.amountCents,
      payment.credits,
      payment.taxCents,
      payment.refundedCents,
      payment.disputedCents,
      payment.paidAt,
    ],
  );
}

export async function updateReturned(
  tx: Tx,
  { id, refundedCents, disputedCents }: Pick<Payment, "id" | "refundedCents" | "disputedCents">,
): Promise<void> {
  await tx.run("update payment set refunded_cents = ?, disputed_cents = ? where id = ?", [
    refundedCents,
    disputedCents,
    id,
  ]);
}

export async function findPayment(reader: Reader, id: string): Promise<Payment | undefined> {
  const row = await reader.get("select * from payment where id = ?", [id]);
  return row === undefined ? undefined : toPayment(row);
}

/** The payments of several invoices, by invoice id. */
export async function paymentsOfInvoices(
  reader: Reader,
  invoiceIds: readonly string[],
): Promise<ReadonlyMap<string, readonly Payment[]>> {
  const places = invoiceIds.map(() => "?").join(", ");
  const rows =
    invoiceIds.length === 0
      ? []
      : await reader.all(`select * from payment where invoice_id in (${places}) order by id`, [
          ...invoiceIds,
        ]);
  return Map.groupBy(rows.map(toPayment), ({ invoiceId }) => invoiceId);
}

export async function paymentsOfInvoice(
  reader: Reader,
  invoiceId: string,
): Promise<readonly Payment[]> {
  const rows = await reader.all("select * from payment where invoice_id = ? order by id", [
    invoiceId,
  ]);
  return rows.map(toPayment);
}

function factIdOf({ processor, ref, kind }: Pick<PaymentFact, "processor" | "ref" | "kind">) {
  return `${processor}:${ref}:${kind}`;
}

const FACT_KINDS: readonly FactKind[] = [
  "paid",
  "refunded",
  "refund_failed",
  "disputed",
  "dispute_closed",
];
const FACT_STATES: readonly FactState[] = ["applied", "waiting", "aside"];
const PAYMENT_STATES: readonly PaymentState[] = ["credited", "suspense", "foreign"];

function toFact(row: Row): PaymentFact & { readonly state: FactState } {
  const processor = text(row, "processor");
  return {
    processor,
    ref: text(row, "ref"),
    kind: enumValue(row, "kind", FACT_KINDS),
    payment: text(row, "payment_id").slice(processor.length + 1),
    invoiceId: text(row, "invoice_id"),
    amountCents: integer(row, "amount_cents"),
    taxCents: integer(row, "tax_cents"),
    currency: text(row, "currency"),
    at: integer(row, "at"),
    state: enumValue(row, "state", FACT_STATES),
  };
}

function toPayment(row: Row): Payment {
  return {
    id: text(row, "id"),
    invoiceId: text(row, "invoice_id"),
    accountId: text(row, "account_id"),
    processor: text(row, "processor"),
    state: enumValue(row, "state", PAYMENT_STATES),
    reason: textOrNull(row, "reason"),
    currency: text(row, "currency"),
    amountCents: integer(row, "amount_cents"),
    credits: integer(row, "credits"),
    taxCents: integer(row, "tax_cents"),
    refundedCents: integer(row, "refunded_cents"),
    disputedCents: integer(row, "disputed_cents"),
    paidAt: integer(row, "paid_at"),
  };
}
