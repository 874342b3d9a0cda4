// Writes usage records, in the transaction of their charges.

import type { Tx } from "../store/db.ts";
import type { ChargesAt } from "./rollup/charge-hours.ts";
import { queueRollup } from "./rollup/rollup-delta.ts";
import { addSessionUsage } from "./session-usage.ts";
import { addLateEntries } from "./usage-segments.ts";
import { toUsageValues, USAGE_COLUMNS, type UsageRecord } from "./usage.ts";

export interface BatchCharges {
  /** In the order of the records; absent for records whose charges are rows of the table transfer. */
  readonly calls?: readonly ChargesAt[];
  readonly hours: readonly ChargesAt[];
}

/** Also queues the records, and what they were charged, for the roll-ups in the same transaction. */
export async function insertUsage(
  tx: Tx,
  records: readonly UsageRecord[],
  { calls, hours }: BatchCharges = { hours: [] },
): Promise<void> {
  const rows = records.map((record, index) => toUsageValues(record, calls?.[index]));
  await Promise.all([
    tx.insertMany("usage_record", USAGE_COLUMNS, rows),
    queueRollup(tx, records, hours),
    addLateEntries(tx, records),
    addSessionUsage(tx, records),
  ]);
}
