// How often something was tried in a stretch of time. It owns the table claim_count.

import { type Reader, type Tx, whole } from "../store/db.ts";

const KEPT_MS = 86_400_000;

export interface Bound {
  readonly scope: string;
  readonly slotMs: number;
  readonly most: number;
}

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

/** Counts one more where that makes no more than `most`; answers whether it did. */
export async function countUpTo(
  tx: Tx,
  { scope, slotMs, most, now }: Bound & { readonly now: number },
): Promise<boolean> {
  if (most < 1) return false;
  const row = await tx.get(
    `insert into claim_count (scope, slot, counted) values (?, ?, 1)
     on conflict (scope, slot) do update set counted = claim_count.counted + 1
     where claim_count.counted < ? returning counted`,
    [scope, slotOf(slotMs, now), most],
  );
  return row !== undefined;
}

/** Whether `countUpTo` would count one more, as far as can be seen. */
export async function isBelow(
  reader: Reader,
  { scope, slotMs, most, now }: Bound & { readonly now: number },
): Promise<boolean> {
  const row = await reader.get("select counted from claim_count where scope = ? and slot = ?", [
    scope,
    slotOf(slotMs, now),
  ]);
  return (row === undefined ? 0 : whole(row, "counted")) < most;
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
