// Rows of the tables auto_top_up (an account's settings) and top_up (each automatic purchase).

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

export const AUTO_TOP_UP_STATUSES = ["off", "on", "stopped"] as const;
type AutoTopUpStatus = (typeof AUTO_TOP_UP_STATUSES)[number];

export interface AutoTopUp {
  readonly accountId: string;
  readonly status: AutoTopUpStatus;
  readonly thresholdCents: number;
  readonly amountCents: number;
  /** The limit of purchases in a UTC calendar month, without fee and tax. */
  readonly ceilingCents: number;
  /** Consecutive failures. */
  readonly failures: number;
  readonly stoppedReason: string | null;
  readonly stoppedAt: number | null;
  /** The month for which `top_up.ceiling_reached` was emitted. */
  readonly ceilingNotifiedMonth: number;
  /** When the balance is checked next; null until it falls below the threshold. */
  readonly dueAt: number | null;
}

/** `charging` and `processing` top-ups are open. An account has at most one open top-up. */
export const TOP_UP_STATES = ["charging", "processing", "paid", "failed"] as const;
type TopUpState = (typeof TOP_UP_STATES)[number];

export interface TopUp {
  readonly id: string;
  readonly accountId: string;
  readonly invoiceId: string;
  readonly methodId: string;
  readonly amountCents: number;
  readonly feeCents: number;
  readonly state: TopUpState;
  readonly isOpen: boolean;
  /** The processor's id of the payment. */
  readonly ref: string | null;
  /** Why it failed. */
  readonly reason: string | null;
  readonly createdAt: number;
  /** When it is reconciled with the processor next; null once its outcome is final. */
  readonly dueAt: number | null;
  readonly endedAt: number | null;
}

export async function findAutoTopUp(
  reader: Reader,
  accountId: string,
): Promise<AutoTopUp | undefined> {
  const row = await reader.get("select * from auto_top_up where account_id = ?", [accountId]);
  return row === undefined ? undefined : toAutoTopUp(row);
}

/** Every change of the settings or of a top-up locks this row. Lock order: wallet, invoice, this row, top_up. */
export async function lockAutoTopUp(tx: Tx, accountId: string): Promise<AutoTopUp | undefined> {
  const [row] = await tx.lockMany("auto_top_up", "account_id", [accountId]);
  return row === undefined ? undefined : toAutoTopUp(row);
}

export async function setAutoTopUpDue(
  tx: Tx,
  accountId: string,
  dueAt: number | null,
): Promise<void> {
  await tx.run("update auto_top_up set due_at = ? where account_id = ?", [dueAt, accountId]);
}

export async function findTopUp(reader: Reader, id: string): Promise<TopUp | undefined> {
  const row = await reader.get("select * from top_up where id = ?", [id]);
  return row === undefined ? undefined : toTopUp(row);
}

export async function lockTopUp(tx: Tx, id: string): Promise<TopUp | undefined> {
  const [row] = await tx.lockMany("top_up", "id", [id]);
  return row === undefined ? undefined : toTopUp(row);
}

export async function findOpenTopUp(reader: Reader, accountId: string): Promise<TopUp | undefined> {
  const row = await reader.get("select * from top_up where open_for = ?", [accountId]);
  return row === undefined ? undefined : toTopUp(row);
}

export async function findTopUpByInvoice(
  reader: Reader,
  invoiceId: string,
): Promise<TopUp | undefined> {
  const row = await reader.get("select * from top_up where invoice_id = ?", [invoiceId]);
  return row === undefined ? undefined : toTopUp(row);
}

/** The top-ups whose invoice ids are in the range; for a page of invoices. */
export async function listTopUpsByInvoiceRange(
  reader: Reader,
  accountId: string,
  [oldest, newest]: readonly [oldest: string, newest: string],
): Promise<readonly TopUp[]> {
  const rows = await reader.all(
    "select * from top_up where account_id = ? and invoice_id between ? and ? order by id desc",
    [accountId, oldest, newest],
  );
  return rows.map(toTopUp);
}

/** Newest first. */
export async function listTopUps(
  reader: Reader,
  accountId: string,
  limit: number,
): Promise<readonly TopUp[]> {
  const rows = await reader.all(
    "select * from top_up where account_id = ? order by id desc limit ?",
    [accountId, limit],
  );
  return rows.map(toTopUp);
}

/** Includes open top-ups, and abandoned ones until they are checked once more: they may have been charged. */
export async function sumTopUps(reader: Reader, accountId: string, since: number): Promise<number> {
  const row = await reader.get(
    `select cast(coalesce(sum(amount_cents), 0) as bigint) as total from top_up
     where account_id = ? and created_at >= ? and (state <> 'failed' or due_at is not null)`,
    [accountId, since],
  );
  return row === undefined ? 0 : integer(row, "total");
}

/** The part of `sumTopUps` that was abandoned and awaits its last check, and when the first check is due. */
export async function sumAbandonedTopUps(
  reader: Reader,
  accountId: string,
  since: number,
): Promise<{ readonly cents: number; readonly nextCheckAt: number | null }> {
  const row = await reader.get(
    `select cast(coalesce(sum(amount_cents), 0) as bigint) as total, min(due_at) as next_look_at from top_up
     where account_id = ? and created_at >= ? and state = 'failed' and due_at is not null`,
    [accountId, since],
  );
  return row === undefined
    ? { cents: 0, nextCheckAt: null }
    : { cents: integer(row, "total"), nextCheckAt: integerOrNull(row, "next_look_at") };
}

export async function insertTopUp(
  tx: Tx,
  topUp: Omit<TopUp, "state" | "isOpen" | "ref" | "reason" | "endedAt">,
): Promise<void> {
  const { id, accountId, invoiceId, methodId, amountCents, feeCents, createdAt, dueAt } = topUp;
  await tx.run(
    `insert into top_up (id, account_id, invoice_id, method_id, amount_cents, fee_cents, state, open_for, created_at, due_at)
     values (?, ?, ?, ?, ?, ?, 'charging', ?, ?, ?)`,
    [id, accountId, invoiceId, methodId, amountCents, feeCents, accountId, createdAt, dueAt],
  );
}

function toAutoTopUp(row: Row): AutoTopUp {
  return {
    accountId: text(row, "account_id"),
    status: enumValue(row, "status", AUTO_TOP_UP_STATUSES),
    thresholdCents: integer(row, "threshold_cents"),
    amountCents: integer(row, "amount_cents"),
    ceilingCents: integer(row, "ceiling_cents"),
    failures: integer(row, "failures"),
    stoppedReason: textOrNull(row, "stopped_reason"),
    stoppedAt: integerOrNull(row, "stopped_at"),
    ceilingNotifiedMonth: integer(row, "ceiling_told"),
    dueAt: integerOrNull(row, "due_at"),
  };
}

export function toTopUp(row: Row): TopUp {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    invoiceId: text(row, "invoice_id"),
    methodId: text(row, "method_id"),
    amountCents: integer(row, "amount_cents"),
    feeCents: integer(row, "fee_cents"),
    state: enumValue(row, "state", TOP_UP_STATES),
    isOpen: row["open_for"] !== null,
    ref: textOrNull(row, "ref"),
    reason: textOrNull(row, "reason"),
    createdAt: integer(row, "created_at"),
    dueAt: integerOrNull(row, "due_at"),
    endedAt: integerOrNull(row, "ended_at"),
  };
}
