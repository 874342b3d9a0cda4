// Compares the balances that the report computes from its sums with the wallets.

import { toNano, usdText } from "../base/money/money.ts";
import { SYSTEM_ACCOUNTS } from "../ledger/ledger-rows.ts";
import type { Reader } from "../store/db.ts";
import { netOf } from "./report.ts";
import { readTransferSums } from "./transfer-sums.ts";

/** Finds wrong hourly sums without reading calls. The reader must be a snapshot. */
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
