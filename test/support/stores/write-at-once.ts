// Transactions that run at the same time, as those of several processes do.

import type { Tx } from "../../../src/store/db.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { CITUS_URL } from "./citus.ts";
import { PATIENT_LOCK_MS, type TestStore } from "./stores.ts";

/** Runs `work` in so many transactions, on PostgreSQL all of them begun before the first one works. Returns what each ended with. */
export async function writeAtOnce<T>(
  { db, location }: TestStore,
  count: number,
  work: (tx: Tx, index: number) => Promise<T>,
): Promise<readonly PromiseSettledResult<T>[]> {
  const indexes = Array.from({ length: count }, (_, index) => index);
  if (location.kind === "sqlite")
    return Promise.allSettled(indexes.map((index) => db.write((tx) => work(tx, index))));
  const isDistributed = CITUS_URL !== "";
  const pool = openPostgres(location.address, {
    poolSize: count,
    isDistributed,
    lockTimeoutMs: PATIENT_LOCK_MS,
  });
  const haveBegun = Promise.withResolvers<void>();
  let begun = 0;
  const write = async (tx: Tx, index: number): Promise<T> => {
    await tx.get("select 1 as one");
    begun += 1;
    if (begun >= count) haveBegun.resolve();
    await haveBegun.promise;
    return work(tx, index);
  };
  const ended = await Promise.allSettled(
    indexes.map((index) => pool.write((tx) => write(tx, index))),
  );
  await pool.close();
  return ended;
}
