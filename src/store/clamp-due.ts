// Repairs due times that a clock which ran ahead left in the far future: until then, no job would pick the rows up.

import type { Db } from "./db.ts";

/** A table with a column `due_at`, and the furthest a valid time can lie ahead, clock skew included. */
export interface DueTable {
  readonly table: string;
  readonly maxAheadMs: number;
  /** A condition on the leading column of the index, if that is not `due_at`. */
  readonly where?: string;
}

export async function clampDueTimes(
  db: Db,
  { table, maxAheadMs, where }: DueTable,
  now: number,
): Promise<void> {
  const isTooFarAhead = `${where === undefined ? "" : `${where} and `}due_at > ?`;
  const latest = now + maxAheadMs;
  const row = await db.get(`select due_at from ${table} where ${isTooFarAhead} limit 1`, [latest]);
  if (row === undefined) return;
  await db.write((tx) =>
    tx.run(`update ${table} set due_at = ? where ${isTooFarAhead}`, [now, latest]),
  );
}
