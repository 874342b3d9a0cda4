// The last uses of keys, which are collected in memory and written together.

import type { Column, Db } from "../store/db.ts";

export async function flushTimes(
  db: Db,
  times: Map<string, number>,
  column: Column,
): Promise<void> {
  const used = [...times];
  times.clear();
  if (used.length === 0) return;
  try {
    await db.write((tx) => tx.updateMany("api_key", ["id:text", column], used));
  } catch (error) {
    // Kept for the next flush, unless the key was used again since.
    for (const [id, at] of used) if (!times.has(id)) times.set(id, at);
    throw error;
  }
}
