// Times at which somebody has to see to something. A clock that ran ahead and was set right again leaves such times
// behind in a far future; until then nobody would look, so they are brought forward.

import type { Db } from "./db.ts";

/** A table with a column `due_at`, and how far ahead a time in it lies at the most, with room for clocks that differ. */
export interface DueTable {
  readonly table: string;
  readonly maxAheadMs: number;
  /** Where the index begins with another column: what that column says. */
  readonly where?: string;
}

export async function clampDueTimes(
  db: Db,
  { table, maxAheadMs, where }: DueTable,
  now: number,
): Promise<void> {
  const isTooFarAhead = `${where === undefined ? "" : `${where} and `}due_at > ?`;
  const latest = now + maxAheadMs;
  const found = await db.get(`select due_at from ${table} where ${isTooFarAhead} limit 1`, [
    latest,
  ]);
  if (found === undefined) return;
  await db.write((tx) =>
    tx.run(`update ${table} set due_at = ? where ${isTooFarAhead}`, [now, latest]),
  );
}
