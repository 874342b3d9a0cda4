// Writes usage records, in the transaction of their charges.

import type { Tx } from "../store/db.ts";
import type { ChargesAt } from "./rollup/charge-hours.ts";
import { insertPending, pendingRowOf } from "./rollup/pending.ts";
import type { RollupQueue } from "./rollup/rollup-queue.ts";
import { addSessionUsage } from "./session-usage.ts";
import { toUsageValues, USAGE_COLUMNS, type UsageRecord } from "./usage.ts";

export interface BatchCharges {
  /** The account of all records; empty, and absent, if they are of several. */
  readonly accountId?: string;
  /** In the order of the records; absent for records whose charges are rows of the table transfer. */
  readonly calls?: readonly ChargesAt[];
  readonly hours: readonly ChargesAt[];
}

/** Also queues the records, and what they were charged, for the roll-ups in the same transaction, and after it in `queue`. */
export async function insertUsage(
  tx: Tx,
  records: readonly UsageRecord[],
  charges: BatchCharges = { accountId: accountOf(records), hours: [] },
  queue?: RollupQueue,
): Promise<void> {
  const rows = records.map((record, index) => toUsageValues(record, charges.calls?.[index]));
  await Promise.all([
    tx.insertMany("usage_record", USAGE_COLUMNS, rows),
    queueUsage(tx, records, charges, queue),
    addSessionUsage(tx, records),
  ]);
}

function accountOf(records: readonly UsageRecord[]): string {
  const [accountId = "", ...others] = new Set(records.map((record) => record.accountId));
  return others.length === 0 ? accountId : "";
}

async function queueUsage(
  tx: Tx,
  records: readonly UsageRecord[],
  { accountId = "", calls, hours }: BatchCharges,
  queue: RollupQueue | undefined,
): Promise<void> {
  const writtenAt = calls?.[0]?.at ?? records[0]?.createdAt ?? hours[0]?.at;
  if (writtenAt === undefined) return;
  const row = { ...pendingRowOf(records, hours, writtenAt), accountId };
  if (queue !== undefined) tx.afterCommit(() => queue.add(row));
  await insertPending(tx, [row]);
}
