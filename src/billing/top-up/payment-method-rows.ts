// Rows of the table payment_method: the processor's ids and a label, never a card number.

import { newId } from "../../base/id.ts";
import {
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  integer,
} from "../../store/db.ts";

/** `saving`: its setup page is open. `saved`: it can be charged. `gone`: removed, and to be detached at the processor. */
const METHOD_STATES = ["saving", "saved", "gone"] as const;
type MethodState = (typeof METHOD_STATES)[number];

export interface PaymentMethod {
  readonly id: string;
  readonly accountId: string;
  readonly processor: string;
  readonly state: MethodState;
  readonly customer: string | null;
  readonly ref: string | null;
  /** `Visa ending in 4242`. */
  readonly label: string | null;
  readonly pageRef: string | null;
  readonly savedBy: string;
  readonly createdAt: number;
  readonly lookedAt: number;
}

const LIST_MAX = 50;

/** The account's saved method. */
export async function findMethod(
  reader: Reader,
  accountId: string,
): Promise<PaymentMethod | undefined> {
  return (await listMethods(reader, accountId, "saved"))[0];
}

export async function listMethods(
  reader: Reader,
  accountId: string,
  state: MethodState,
): Promise<readonly PaymentMethod[]> {
  const rows = await reader.all(
    "select * from payment_method where account_id = ? and state = ? order by id desc limit ?",
    [accountId, state, LIST_MAX],
  );
  return rows.map(toMethod);
}

export async function getMethod(reader: Reader, id: string): Promise<PaymentMethod> {
  const row = await reader.get("select * from payment_method where id = ?", [id]);
  if (row === undefined) throw new Error(`no payment method has the id ${id}`);
  return toMethod(row);
}

export async function findMethodByPage(
  reader: Reader,
  processor: string,
  pageRef: string,
): Promise<PaymentMethod | undefined> {
  const row = await reader.get(
    "select * from payment_method where page_ref = ? and processor = ?",
    [pageRef, processor],
  );
  return row === undefined ? undefined : toMethod(row);
}

/** Methods to reconcile or to detach at the processor. */
export async function listDueMethods(
  reader: Reader,
  processor: string,
  now: number,
): Promise<readonly PaymentMethod[]> {
  const rows = await reader.all(
    "select * from payment_method where due_at <= ? and processor = ? order by due_at limit ?",
    [now, processor, LIST_MAX],
  );
  return rows.map(toMethod);
}

/** Under a lock of the account, so that a double click creates one setup. */
export async function findOrInsertSavingMethod(
  tx: Tx,
  setup: Pick<PaymentMethod, "accountId" | "processor" | "savedBy"> & { readonly now: number },
): Promise<PaymentMethod> {
  const { accountId, processor, savedBy, now } = setup;
  await tx.lockMany("account", "id", [accountId]);
  const saving = await listMethods(tx, accountId, "saving");
  const existing = saving.find(
    (method) => method.processor === processor && method.savedBy === savedBy,
  );
  if (existing !== undefined) return existing;
  const id = newId("pmt", now);
  await tx.run(
    `insert into payment_method (id, account_id, processor, state, saved_by, created_at, looked_at)
     values (?, ?, ?, 'saving', ?, ?, ?)`,
    [id, accountId, processor, savedBy, now, now],
  );
  return getMethod(tx, id);
}

/** Replaces the account's saved method. Returns false if the setup was discarded. The caller has locked the account. */
export async function setMethodSaved(
  tx: Tx,
  { id, accountId }: Pick<PaymentMethod, "id" | "accountId">,
  { ref, label, now }: { readonly ref: string; readonly label: string; readonly now: number },
): Promise<boolean> {
  const updated = await tx.run(
    "update payment_method set state = 'saved', ref = ?, label = ?, looked_at = ?, due_at = null where id = ? and state = 'saving'",
    [ref, label, now, id],
  );
  if (updated !== 1) return false;
  await tx.run(
    "update payment_method set state = 'gone', due_at = ? where account_id = ? and state = 'saved' and id <> ?",
    [now, accountId, id],
  );
  return true;
}

/** Ends a setup without saving the method; it is detached at the processor later. */
export async function discardMethod(
  tx: Tx,
  { id }: Pick<PaymentMethod, "id">,
  { ref, now }: { readonly ref: string; readonly now: number },
): Promise<void> {
  await tx.run(
    "update payment_method set state = 'gone', ref = ?, due_at = ? where id = ? and state = 'saving'",
    [ref, now, id],
  );
}

/** Returns whether the account had a method. */
export async function removeMethods(tx: Tx, accountId: string, now: number): Promise<boolean> {
  await tx.lockMany("account", "id", [accountId]);
  const removed = await tx.run(
    "update payment_method set state = 'gone', due_at = ? where account_id = ? and state in ('saving', 'saved')",
    [now, accountId],
  );
  return removed > 0;
}

function toMethod(row: Row): PaymentMethod {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    processor: text(row, "processor"),
    state: enumValue(row, "state", METHOD_STATES),
    customer: textOrNull(row, "customer"),
    ref: textOrNull(row, "ref"),
    label: textOrNull(row, "label"),
    pageRef: textOrNull(row, "page_ref"),
    savedBy: text(row, "saved_by"),
    createdAt: integer(row, "created_at"),
    lookedAt: integer(row, "looked_at"),
  };
}
