// Writes usage records, in the transaction of their charges.

import type { Tx } from "../store/db.ts";
import type { ChargesAt } from "./rollup/charge-hours.ts";
import { queueRollup } from "./rollup/rollup-delta.ts";
import { toUsageValues, USAGE_COLUMNS, type UsageRecord } from "./usage.ts";

/** Also queues the records, and what they were charged, for the roll-ups in the same transaction. */
export async function insertUsage(
  tx: Tx,
  records: readonly UsageRecord[],
  charges: readonly ChargesAt[] = [],
): Promise<void> {
  await Promise.all([
    tx.insertMany("usage_record", USAGE_COLUMNS, records.map(toUsageValues)),
    queueRollup(tx, records, charges),
  ]);
}
