// Requests that wait for a lock in a known order, as they do when an attacker sends one while another changes what it rests on.

import { eventually } from "../eventually.ts";
import type { Gateway } from "../gateway.ts";

/** SQLite shows no waiting transactions: there, requests are answered after the one that waits was sent. */
const SQLITE_REQUESTS = 3;

/** Waits until `count` transactions wait for a lock. */
export async function untilWaiting({ server, url }: Gateway, count: number): Promise<void> {
  const { db } = server;
  if (db.kind === "sqlite") {
    for (let sent = 0; sent < SQLITE_REQUESTS; sent++) await fetch(`${url}/v1/models`);
    return;
  }
  // Citus waits on the worker.
  const view = db.isDistributed === true ? "citus_stat_activity" : "pg_stat_activity";
  const sql = `select cast(count(*) as text) as waiting from ${view} where wait_event_type = 'Lock' and datname = current_database()`;
  await eventually(async () => Number((await db.get(sql))?.["waiting"]) >= count);
}

interface Row {
  readonly table: string;
  readonly key: string;
  readonly id: string;
}

/** Locks the row until both requests wait for it, so that they run in this order. */
export async function queueAtLock<R>(
  gateway: Gateway,
  { table, key, id }: Row,
  [first, second]: readonly [() => Promise<R>, () => Promise<R>],
): Promise<readonly [R, R]> {
  const locked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const lock = gateway.server.db.write(async (tx) => {
    await tx.lockMany(table, key, [id]);
    locked.resolve();
    await release.promise;
  });
  await locked.promise;
  const firstResponse = first();
  await untilWaiting(gateway, 1);
  const secondResponse = second();
  await untilWaiting(gateway, 2);
  release.resolve();
  await lock;
  return [await firstResponse, await secondResponse];
}
