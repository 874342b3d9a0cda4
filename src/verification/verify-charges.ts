// Compares the hourly sums of charges with the transfers or with the wallets, and computes them anew from every transfer.

import { usdText, toNano } from "../base/money/money.ts";
import { HOUR_MS } from "../base/time.ts";
import { SYSTEM_ACCOUNTS } from "../ledger/ledger-rows.ts";
import type { Reader, Tx } from "../store/db.ts";
import {
  addToChargeHours,
  type ChargesAt,
  clearChargeHours,
  readChargeHours,
  toCharges,
} from "../usage/rollup/charge-hours.ts";
import { emptyQueue } from "../usage/rollup/roll-up.ts";
import { netOf } from "./report.ts";
import { readTransferSums } from "./transfer-sums.ts";

const part = (condition: string): string => `case when ${condition} then amount else 0 end`;
/** The charges of calls that have columns for them, and of calls that have rows. */
const CHARGES = `select charged_at as at, promo_nano as promo, paid_nano as paid, overrun_nano as overrun
    from usage_record where promo_nano + paid_nano + overrun_nano > 0
  union all
  select at, ${part("from_account like '%:promo'")}, ${part("from_account like '%:paid'")},
    ${part("from_account = 'system:receivable'")}
    from transfer where kind = 'usage'`;
const SELECT_BY_HOUR = `select at - at % ${HOUR_MS} as at, cast(sum(promo) as text) as promo, cast(sum(paid) as text) as paid,
    cast(sum(overrun) as text) as overrun
  from (${CHARGES}) as charge group by 1`;

/** One message for each hour whose sums are wrong. The reader must be a snapshot. */
export async function findChargeDifferences(reader: Reader): Promise<readonly string[]> {
  const rows = await reader.all(SELECT_BY_HOUR);
  const transfers = new Map(rows.map(toCharges).map((sum) => [sum.at, describe(sum)]));
  const kept = new Map((await readChargeHours(reader)).map((sum) => [sum.at, describe(sum)]));
  return [...new Set([...transfers.keys(), ...kept.keys()])]
    .sort((one, other) => one - other)
    .flatMap((at) => {
      const [moved, sum] = [transfers.get(at) ?? NOTHING, kept.get(at) ?? NOTHING];
      return moved === sum
        ? []
        : `the charges of the hour ${new Date(at).toISOString()} do not match its transfers: kept ${sum}, transfers ${moved}`;
    });
}

function describe({ promo, paid, overrun }: Omit<ChargesAt, "at">): string {
  return `promo ${usdText(promo)}, paid ${usdText(paid)}, overrun ${usdText(overrun)}`;
}

const NOTHING = describe({ promo: 0n, paid: 0n, overrun: 0n });

/** Settlements wait until it is done. Returns the number of hours. */
export async function rebuildChargeHours(tx: Tx): Promise<number> {
  await emptyQueue(tx);
  await clearChargeHours(tx);
  const rows = await tx.all(SELECT_BY_HOUR);
  await addToChargeHours(tx, rows.map(toCharges));
  return rows.length;
}

/** Finds wrong hourly sums without reading calls: compares the balances that the report computes from its sums with the wallets. The reader must be a snapshot. */
export async function findBalanceDifferences(reader: Reader): Promise<readonly string[]> {
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
