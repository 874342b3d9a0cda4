// Reads what is queued for the roll-ups. The job empties the queue every few seconds, so a read scans few rows.

import { type Reader, type Row, text, textOrNull } from "../../store/db.ts";
import type { FailureCount } from "../provider-failures.ts";
import { decodeDeltas, type RollupDelta } from "./rollup-delta.ts";

const ROWS_PER_STATEMENT = 200;

/** The queued deltas of one account, or of all, in parts. */
export async function* readPending(
  reader: Reader,
  accountId?: string,
): AsyncGenerator<readonly RollupDelta[]> {
  const ofAccount = accountId === undefined ? "" : "and deltas like ?";
  const params = accountId === undefined ? [] : [`%"${accountId}"%`];
  for (let after = ""; ;) {
    const rows = await reader.all(
      `select * from usage_pending where id > ? ${ofAccount} order by id limit ?`,
      [after, ...params, ROWS_PER_STATEMENT],
    );
    for (const row of rows)
      yield pendingDeltas(row).filter(
        ({ key }) => accountId === undefined || key.accountId === accountId,
      );
    const last = rows.at(-1);
    if (last === undefined || rows.length < ROWS_PER_STATEMENT) return;
    after = text(last, "id");
    if (reader.kind === "sqlite") await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Before this hour, the roll-ups have all calls of the account. */
export async function oldestPendingHour(reader: Reader, accountId: string): Promise<number> {
  let oldest = Number.MAX_SAFE_INTEGER;
  for await (const deltas of readPending(reader, accountId))
    for (const { key } of deltas) oldest = Math.min(oldest, key.at);
  return oldest;
}

export function pendingFailures(row: Row): readonly FailureCount[] {
  const failures = textOrNull(row, "failures");
  // Safe because only `queueRollup` writes this column.
  return failures === null ? [] : (JSON.parse(failures) as readonly FailureCount[]);
}

export function pendingDeltas(row: Row): readonly RollupDelta[] {
  return decodeDeltas(text(row, "deltas"));
}
