// How often something was tried in a stretch of time. It owns the table claim_count.

import { type Tx, whole } from "../store/db.ts";

const KEPT_MS = 86_400_000;

/** Counts one more within the running slot of time and answers how many it makes. */
export async function countOne(
  tx: Tx,
  scope: string,
  slotMs: number,
  now: number,
): Promise<number> {
  const row = await tx.get(
    `insert into claim_count (scope, slot, counted) values (?, ?, 1)
     on conflict (scope, slot) do update set counted = claim_count.counted + 1 returning counted`,
    [scope, slotOf(slotMs, now)],
  );
  if (row === undefined) throw new Error("a count was not raised");
  return whole(row, "counted");
}

/** How long it is until the next slot begins. */
export function untilNextSlot(slotMs: number, now: number): number {
  return slotMs - (now % slotMs);
}

/** Forgets counts of slots that are long over. */
export async function sweepCounts(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from claim_count where slot < ?", [now - KEPT_MS]);
}

function slotOf(slotMs: number, now: number): number {
  return now - (now % slotMs);
}
