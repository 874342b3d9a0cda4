// The charges of calls. The transfers of a call are columns of its usage record, so a settlement writes one row and one
// index entry instead of two. Calls of older versions, archived calls, and calls without a record have rows in `transfer`.

import { type Nano, toNano } from "../base/money/money.ts";
import { HOUR_MS } from "../base/time.ts";
import { integer, type Row, text, type Tx } from "../store/db.ts";
import type { ChargeSplit } from "./decide.ts";
import { bucketAccount, insertTransfers, SYSTEM_ACCOUNTS, type Transfer } from "./ledger-rows.ts";

/** The charges of the calls of a batch. */
export interface BatchCharges {
  /** The account of all of them; empty if they are of several. */
  readonly accountId: string;
  /** In the order of the usage records. */
  readonly calls: readonly ChargeSplit[];
  /** The sums of all calls by hour, over all accounts. */
  readonly hours: readonly HourCharges[];
}

export interface HourCharges {
  /** The start of the hour. */
  readonly at: number;
  promo: Nano;
  paid: Nano;
  overrun: Nano;
}

export interface ChargedCall {
  readonly id: string;
  readonly accountId: string;
  readonly charge: ChargeSplit;
}

/** Reads the charge of a usage record; undefined if its transfers are rows of their own. */
export function readChargedCall(record: Row): ChargedCall | undefined {
  if (record["charged_at"] === null) return undefined;
  return {
    id: text(record, "id"),
    accountId: text(record, "account_id"),
    charge: {
      promo: toNano(record["promo_nano"]),
      paid: toNano(record["paid_nano"]),
      overrun: toNano(record["overrun_nano"]),
      at: integer(record, "charged_at"),
    },
  };
}

export function callTransfers({ id, accountId, charge }: ChargedCall): readonly Transfer[] {
  const parts = [
    { name: "overrun", from: SYSTEM_ACCOUNTS.receivable, amount: charge.overrun },
    { name: "paid", from: bucketAccount(accountId, "paid"), amount: charge.paid },
    { name: "promo", from: bucketAccount(accountId, "promo"), amount: charge.promo },
  ];
  const to = SYSTEM_ACCOUNTS.usageRevenue;
  return parts
    .filter(({ amount }) => amount > 0n)
    .map(({ name, from, amount }) => ({
      id: `${id}.${name}`,
      accountId,
      from,
      to,
      amount,
      kind: "usage",
      ref: id,
      at: charge.at,
    }));
}

/** Writes the transfers of usage records that are deleted in the same transaction. */
export function keepCallTransfers(tx: Tx, records: readonly Row[]): Promise<void> {
  return insertCallTransfers(
    tx,
    records.flatMap((record) => readChargedCall(record) ?? []),
  );
}

export async function insertCallTransfers(tx: Tx, calls: readonly ChargedCall[]): Promise<void> {
  const transfers = calls.flatMap(callTransfers);
  if (transfers.length > 0) await insertTransfers(tx, transfers);
}

export function sumByHour(charges: readonly ChargeSplit[]): readonly HourCharges[] {
  const hours: HourCharges[] = [];
  let hour: HourCharges | undefined;
  for (const { promo, paid, overrun, at: time } of charges) {
    if (promo === 0n && paid === 0n && overrun === 0n) continue;
    const at = time - (time % HOUR_MS);
    // A batch is in one hour, except at its end.
    if (hour?.at !== at) hour = hours.find((one) => one.at === at);
    if (hour === undefined) hours.push((hour = { at, promo: 0n, paid: 0n, overrun: 0n }));
    hour.promo += promo;
    hour.paid += paid;
    hour.overrun += overrun;
  }
  return hours;
}
