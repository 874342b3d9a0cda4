// Times at which somebody has to see to something. A clock that ran ahead and was set right again leaves such times
// behind in a far future; until then nobody would look, so they are brought forward.

import type { Db } from "./db.ts";

/** A table with a column `due_at`, and how far ahead a time in it lies at the most, with room for clocks that differ. */
export interface DueTable {
  readonly table: string;
  readonly mostMs: number;
  /** Where the index begins with another column: what that column says. */
  readonly where?: string;
}

export async function bringForward(
  db: Db,
  { table, mostMs, where }: DueTable,
  now: number,
): Promise<void> {
  const isLate = `${where === undefined ? "" : `${where} and `}due_at > ?`;
  const latest = now + mostMs;
  const late = await db.get(`select due_at from ${table} where ${isLate} limit 1`, [latest]);
  if (late === undefined) return;
  await db.write((tx) => tx.run(`update ${table} set due_at = ? where ${isLate}`, [now, latest]));
}
