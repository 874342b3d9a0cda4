// How payment methods are kept: the processor's names for them and a label, never a card's number.

import { newId } from "../base/id.ts";
import { oneOf, type Reader, type Row, text, textOrNull, type Tx, whole } from "../store/db.ts";

/** A page is open at the processor; the method can be charged; it must not be any more, and is forgotten there. */
const STATES = ["saving", "saved", "gone"] as const;
type MethodState = (typeof STATES)[number];

export interface PaymentMethod {
  readonly id: string;
  readonly accountId: string;
  readonly processor: string;
  readonly state: MethodState;
  readonly customer: string | null;
  readonly ref: string | null;
  /** "Visa ending in 4242". */
  readonly label: string | null;
  readonly pageRef: string | null;
  readonly savedBy: string;
  readonly createdAt: number;
  readonly lookedAt: number;
}

const KEPT_AT_ONCE = 50;

/** The method that is charged. */
export async function findMethod(
  reader: Reader,
  accountId: string,
): Promise<PaymentMethod | undefined> {
  return (await methodsIn(reader, accountId, "saved"))[0];
}

export async function methodsIn(
  reader: Reader,
  accountId: string,
  state: MethodState,
): Promise<readonly PaymentMethod[]> {
  const rows = await reader.all(
    "select * from payment_method where account_id = ? and state = ? order by id desc limit ?",
    [accountId, state, KEPT_AT_ONCE],
  );
  return rows.map(toMethod);
}

export async function getMethod(reader: Reader, id: string): Promise<PaymentMethod> {
  const row = await reader.get("select * from payment_method where id = ?", [id]);
  if (row === undefined) throw new Error(`there is no payment method ${id}`);
  return toMethod(row);
}

export async function methodOfPage(
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

/** Methods that something is to be done about at the processor. */
export async function dueMethods(
  reader: Reader,
  processor: string,
  now: number,
): Promise<readonly PaymentMethod[]> {
  const rows = await reader.all(
    "select * from payment_method where due_at <= ? and processor = ? order by due_at limit ?",
    [now, processor, KEPT_AT_ONCE],
  );
  return rows.map(toMethod);
}

/** The method that is being saved, or a new one: two clicks at once save one. */
export async function openMethod(
  tx: Tx,
  about: Pick<PaymentMethod, "accountId" | "processor" | "savedBy"> & { readonly now: number },
): Promise<PaymentMethod> {
  const { accountId, processor, savedBy, now } = about;
  await tx.lockMany("account", "id", [accountId]);
  const known = await methodsIn(tx, accountId, "saving");
  const own = known.find((one) => one.processor === processor && one.savedBy === savedBy);
  if (own !== undefined) return own;
  const id = newId("pmt", now);
  await tx.run(
    `insert into payment_method (id, account_id, processor, state, saved_by, created_at, looked_at)
     values (?, ?, ?, 'saving', ?, ?, ?)`,
    [id, accountId, processor, savedBy, now, now],
  );
  return getMethod(tx, id);
}

/** Makes a method that was being saved the one that is charged; false where it was given up. The account is locked. */
export async function keepMethod(
  tx: Tx,
  { id, accountId }: Pick<PaymentMethod, "id" | "accountId">,
  { ref, label, now }: { readonly ref: string; readonly label: string; readonly now: number },
): Promise<boolean> {
  const kept = await tx.run(
    "update payment_method set state = 'saved', ref = ?, label = ?, looked_at = ?, due_at = null where id = ? and state = 'saving'",
    [ref, label, now, id],
  );
  if (kept !== 1) return false;
  await tx.run(
    "update payment_method set state = 'gone', due_at = ? where account_id = ? and state = 'saved' and id <> ?",
    [now, accountId, id],
  );
  return true;
}

/** What was being saved is not kept, and forgotten at the processor. */
export async function dropMethod(
  tx: Tx,
  { id }: Pick<PaymentMethod, "id">,
  { ref, now }: { readonly ref: string; readonly now: number },
): Promise<void> {
  await tx.run(
    "update payment_method set state = 'gone', ref = ?, due_at = ? where id = ? and state = 'saving'",
    [ref, now, id],
  );
}

/** None of an account's methods may be charged any more. Answers whether there was one. */
export async function dropMethods(tx: Tx, accountId: string, now: number): Promise<boolean> {
  await tx.lockMany("account", "id", [accountId]);
  const dropped = await tx.run(
    "update payment_method set state = 'gone', due_at = ? where account_id = ? and state in ('saving', 'saved')",
    [now, accountId],
  );
  return dropped > 0;
}

function toMethod(row: Row): PaymentMethod {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    processor: text(row, "processor"),
    state: oneOf(row, "state", STATES),
    customer: textOrNull(row, "customer"),
    ref: textOrNull(row, "ref"),
    label: textOrNull(row, "label"),
    pageRef: textOrNull(row, "page_ref"),
    savedBy: text(row, "saved_by"),
    createdAt: whole(row, "created_at"),
    lookedAt: whole(row, "looked_at"),
  };
}
