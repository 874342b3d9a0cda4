// The table charge_hour: what calls were charged per hour, over all accounts, from promotional and paid credit, and what the
// accounts owe. For the operator's report. Kept by the roll-up job from what batches queued with their records.

import { type Nano, toNano } from "../../base/money/money.ts";
import { awaitInterruptedCommits } from "../../store/all-accounts.ts";
import {
  allowLongStatements,
  integer,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
} from "../../store/db.ts";

interface Charges {
  readonly promo: Nano;
  readonly paid: Nano;
  readonly overrun: Nano;
}

/** What a call was charged at that time, or all calls in the hour that starts at that time. */
export interface ChargesAt extends Charges {
  readonly at: number;
}

const NO_CHARGES: Charges = { promo: 0n, paid: 0n, overrun: 0n };
const PENDING_PER_STATEMENT = 500;

const UPSERT = `insert into charge_hour (at, promo_nano, paid_nano, overrun_nano) values (?, ?, ?, ?)
  on conflict (at) do update set promo_nano = charge_hour.promo_nano + excluded.promo_nano,
    paid_nano = charge_hour.paid_nano + excluded.paid_nano,
    overrun_nano = charge_hour.overrun_nano + excluded.overrun_nano`;

type EncodedCharges = readonly [at: number, promo: string, paid: string, overrun: string];

export function encodeCharges(charges: readonly ChargesAt[]): string | null {
  if (charges.length === 0) return null;
  const encoded = charges.map(({ at, promo, paid, overrun }): EncodedCharges => [
    at,
    String(promo),
    String(paid),
    String(overrun),
  ]);
  return JSON.stringify(encoded);
}

/** The charges in a row of usage_pending. */
export function pendingCharges(row: Row): readonly ChargesAt[] {
  const charges = textOrNull(row, "charges");
  if (charges === null) return [];
  // Safe because only `encodeCharges` writes this column.
  return (JSON.parse(charges) as readonly EncodedCharges[]).map(([at, promo, paid, overrun]) => ({
    at,
    promo: toNano(promo),
    paid: toNano(paid),
    overrun: toNano(overrun),
  }));
}

/** In the order of time, so that two processes cannot deadlock. */
export async function addToChargeHours(tx: Tx, charges: readonly ChargesAt[]): Promise<void> {
  for (const { at, promo, paid, overrun } of sumCharges(charges))
    await tx.run(UPSERT, [at, promo, paid, overrun]);
}

/** Nothing is rolled up until the transaction ends. Calls do not wait, except on SQLite. */
export async function lockChargeHours(tx: Tx): Promise<void> {
  if (tx.kind === "sqlite") return;
  await allowLongStatements(tx);
  await tx.run("lock table charge_hour in share row exclusive mode");
  await awaitInterruptedCommits(tx, "usage_pending");
}

/** Before the sums are computed anew in the same transaction. */
export async function clearChargeHours(tx: Tx): Promise<void> {
  await tx.run("delete from charge_hour");
}

/** A year has fewer than 9,000 hours, so all of them are read at once. The reader must be a snapshot. */
export async function readChargeHours(reader: Reader): Promise<readonly ChargesAt[]> {
  return sumCharges([...(await readRolledUpCharges(reader)), ...(await readQueued(reader))]);
}

/** Without what is queued. */
export async function readRolledUpCharges(reader: Reader): Promise<readonly ChargesAt[]> {
  const rows = await reader.all(
    `select at, cast(promo_nano as text) as promo, cast(paid_nano as text) as paid, cast(overrun_nano as text) as overrun
     from charge_hour`,
  );
  return rows.map(toCharges);
}

async function readQueued(reader: Reader): Promise<readonly ChargesAt[]> {
  const charges: ChargesAt[] = [];
  for (let after = ""; ;) {
    const rows = await reader.all(
      "select id, charges from usage_pending where id > ? order by id limit ?",
      [after, PENDING_PER_STATEMENT],
    );
    charges.push(...rows.flatMap(pendingCharges));
    const last = rows.at(-1);
    if (last === undefined || rows.length < PENDING_PER_STATEMENT) return charges;
    after = text(last, "id");
    if (reader.kind === "sqlite") await new Promise((resolve) => setImmediate(resolve));
  }
}

export function sumCharges(charges: readonly ChargesAt[]): readonly ChargesAt[] {
  const sums = new Map<number, ChargesAt>();
  for (const one of charges) {
    const { at } = one;
    const sum = sums.get(at) ?? NO_CHARGES;
    const [promo, paid] = [sum.promo + one.promo, sum.paid + one.paid];
    sums.set(at, { at, promo, paid, overrun: sum.overrun + one.overrun });
  }
  return [...sums.values()].sort((one, other) => one.at - other.at);
}

export function toCharges(row: Row): ChargesAt {
  return {
    at: integer(row, "at"),
    promo: toNano(row["promo"]),
    paid: toNano(row["paid"]),
    overrun: toNano(row["overrun"]),
  };
}
