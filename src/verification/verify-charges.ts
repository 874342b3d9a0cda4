// Compares the hourly sums of charges with the transfers or with the wallets, and computes them anew from every transfer.

import { usdText, toNano } from "../base/money/money.ts";
import { HOUR_MS } from "../base/time.ts";
import { SYSTEM_ACCOUNTS } from "../ledger/ledger-rows.ts";
import type { Db, Reader, Tx } from "../store/db.ts";
import {
  addToChargeHours,
  type ChargesAt,
  clearChargeHours,
  lockChargeHours,
  pendingCharges,
  readRolledUpCharges,
  sumCharges,
  toCharges,
} from "../usage/rollup/charge-hours.ts";
import { netOf } from "./report.ts";
import { readTransferSums } from "./transfer-sums.ts";

const part = (condition: string): string => `case when ${condition} then amount else 0 end`;
/**
 * The charges of calls that have columns for them, those of calls that have rows, and those that are queued. Only with the account
 * does Citus read all of them in one statement on each shard, and so in one state of each account.
 */
const CHARGES = `select account_id, charged_at as at, promo_nano as promo, paid_nano as paid, overrun_nano as overrun,
    null as pending_id, null as charges
    from usage_record where promo_nano + paid_nano + overrun_nano > 0
  union all
  select account_id, at, ${part("from_account like '%:promo'")}, ${part("from_account like '%:paid'")},
    ${part("from_account = 'system:receivable'")}, null, null
    from transfer where kind = 'usage'
  union all
  select account_id, 0, 0, 0, 0, id, charges from usage_pending where charges is not null`;
const SELECT_BY_HOUR = `select at - at % ${HOUR_MS} as at, pending_id, max(charges) as charges, cast(sum(promo) as text) as promo,
    cast(sum(paid) as text) as paid, cast(sum(overrun) as text) as overrun
  from (${CHARGES}) as charge group by 1, 2`;

/**
 * One message for each hour whose sums are wrong, or without `isFull` for each kind of balance that they do not explain. A
 * distributed store has no snapshot of charge_hour and the calls: nothing is rolled up meanwhile, which alone changes both.
 */
export function findChargeDifferences(db: Db, isFull: boolean): Promise<readonly string[]> {
  if (db.isDistributed !== true)
    return db.snapshot(isFull ? findHourDifferences : findBalanceDifferences);
  return db.write(async (tx) => {
    await lockChargeHours(tx);
    return findHourDifferences(tx);
  });
}

async function findHourDifferences(reader: Reader): Promise<readonly string[]> {
  const { charged, queued } = await readCharges(reader);
  const transfers = describeHours(charged);
  const kept = describeHours([...(await readRolledUpCharges(reader)), ...queued]);
  return [...new Set([...transfers.keys(), ...kept.keys()])]
    .sort((one, other) => one - other)
    .flatMap((at) => {
      const [moved, sum] = [transfers.get(at) ?? NOTHING, kept.get(at) ?? NOTHING];
      return moved === sum
        ? []
        : `the charges of the hour ${new Date(at).toISOString()} do not match its transfers: kept ${sum}, transfers ${moved}`;
    });
}

interface Charges {
  /** One for each hour. */
  readonly charged: readonly ChargesAt[];
  /** Those of them that are not rolled up yet. */
  readonly queued: readonly ChargesAt[];
}

async function readCharges(reader: Reader): Promise<Charges> {
  const rows = await reader.all(SELECT_BY_HOUR);
  return {
    charged: rows.filter((row) => row["pending_id"] === null).map(toCharges),
    queued: rows.flatMap(pendingCharges),
  };
}

function describeHours(charges: readonly ChargesAt[]): ReadonlyMap<number, string> {
  return new Map(sumCharges(charges).map((sum) => [sum.at, describe(sum)]));
}

function describe({ promo, paid, overrun }: Omit<ChargesAt, "at">): string {
  return `promo ${usdText(promo)}, paid ${usdText(paid)}, overrun ${usdText(overrun)}`;
}

const NOTHING = describe({ promo: 0n, paid: 0n, overrun: 0n });

/** Returns the number of hours. */
export async function rebuildChargeHours(tx: Tx): Promise<number> {
  await lockChargeHours(tx);
  await clearChargeHours(tx);
  const { charged, queued } = await readCharges(tx);
  const later = queued.map(({ at, promo, paid, overrun }) => ({
    at,
    promo: -promo,
    paid: -paid,
    overrun: -overrun,
  }));
  await addToChargeHours(tx, [...charged, ...later]);
  return charged.length;
}

/** Finds wrong hourly sums without reading calls: compares the balances that the report computes from its sums with the wallets. */
async function findBalanceDifferences(reader: Reader): Promise<readonly string[]> {
  const sums = await readTransferSums(reader);
  const row = await reader.get(
    `select cast(coalesce(sum(promo), 0) as text) as promo, cast(coalesce(sum(paid), 0) as text) as paid,
       cast(coalesce(sum(owed), 0) as text) as owed from wallet`,
  );
  const reportedSums = {
    promo: netOf(sums, "promo"),
    paid: netOf(sums, "paid"),
    owed: -netOf(sums, SYSTEM_ACCOUNTS.receivable),
  };
  return Object.entries(reportedSums).flatMap(([bucket, reported]) => {
    const held = toNano(row?.[bucket]);
    return reported === held
      ? []
      : `the report's hourly sums of charges do not match the wallets: ${bucket} ${usdText(reported)}, wallets ${usdText(held)}`;
  });
}
