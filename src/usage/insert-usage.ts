// Writes usage records, in the transaction of their charges.

import type { Tx } from "../store/db.ts";
import { queueRollup } from "./rollup/rollup-delta.ts";
import { toUsageValues, USAGE_COLUMNS, type UsageRecord } from "./usage.ts";

/** Also queues the records for the roll-ups, in the same transaction. */
export async function insertUsage(tx: Tx, records: readonly UsageRecord[]): Promise<void> {
  await Promise.all([
    tx.insertMany("usage_record", USAGE_COLUMNS, records.map(toUsageValues)),
    queueRollup(tx, records),
  ]);
}
