// Two PostgreSQL servers, a primary and its standby, under the load of two gateways: what is acknowledged survives.

import { afterEach, expect, test } from "bun:test";
import { createLedger, deposit, startEpoch } from "../../src/ledger/ledger.ts";
import { createOwnHolds } from "../../src/ledger/own-holds.ts";
import { createHoldReconciler } from "../../src/ledger/reconcile.ts";
import { type Db, text } from "../../src/store/db.ts";
import { findDurabilityRisks } from "../../src/store/durability.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { CLIENTS } from "../chaos/clients.ts";
import { randomFor } from "../fuzz/random.ts";
import { ALL_TRANSFERS, openAccount, promoDeposit, usageRecord } from "../ledger/fixtures.ts";
import { eventually } from "../support/eventually.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import {
  type PostgresCluster,
  PRIMARY,
  STANDBY,
  startPostgresCluster,
} from "../support/stores/postgres-cluster.ts";

const CALLERS = 10;
const CALLS_BETWEEN_FAULTS = 80;
/** Longer than any timeout on the way of a call. */
const HANG_MS = 50_000;
const CREDIT = 1_000_000_000_000n;
const SECRET = "failover".repeat(5);

interface Load {
  /** Ids of calls whose whole reply arrived. */
  readonly completed: string[];
  readonly hung: string[];
  /** Resolves after this many more calls were completed. */
  readonly waitForCalls: (count: number) => Promise<void>;
  readonly stop: () => Promise<void>;
  /** Resolves when both gateways can write again. */
  readonly whenReady: () => Promise<void>;
}

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function startCluster(replication: "synchronous" | "asynchronous"): Promise<PostgresCluster> {
  const cluster = await startPostgresCluster(replication);
  cleanups.push(cluster.stop);
  await withDb(cluster.url, (db) => migrate(db, Date.now()));
  return cluster;
}

async function startGatewayOn({ url }: PostgresCluster, name: string): Promise<Gateway> {
  const env = { POSTERN_PROCESS_NAME: name, POSTERN_SECRET: SECRET };
  const gateway = await startGateway({ databaseUrl: url, env, logLevel: "warn" });
  cleanups.push(gateway.stop);
  return gateway;
}

async function withDb<T>(url: string, work: (db: Db) => Promise<T>): Promise<T> {
  const db = openPostgres(url);
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}

/** On two gateways. */
async function startLoad(cluster: PostgresCluster): Promise<Load> {
  const first = await startGatewayOn(cluster, "failover:1");
  const gateways = [first, await startGatewayOn(cluster, "failover:2")];
  const accounts = await Promise.all([0, 1, 2].map(() => registerAccount(first)));
  await withDb(cluster.url, (db) =>
    db.write(async (tx) => {
      for (const { id } of accounts) await deposit(tx, promoDeposit(`ha.${id}`, id, CREDIT, 1));
    }),
  );
  const completed: string[] = [];
  const hung: string[] = [];
  const state = { isOver: false };
  const runCaller = async (caller: number): Promise<void> => {
    for (let call = 0; !state.isOver; call++) {
      const random = randomFor(1, caller + call * CALLERS);
      const client = CLIENTS[call % 2 === 0 ? "json" : "stream"];
      const target = {
        url: gateways[(caller + call) % gateways.length]?.url ?? "",
        key: accounts[caller % accounts.length]?.key ?? "",
      };
      const timer = Promise.withResolvers<"hung">();
      // Only a call that hangs takes this long.
      const timeout = setTimeout(() => timer.resolve("hung"), HANG_MS);
      const id = await Promise.race([
        client?.(target, random).catch(() => undefined),
        timer.promise,
      ]);
      clearTimeout(timeout);
      if (id === "hung") hung.push(`caller ${caller}, call ${call}`);
      else if (id !== undefined) completed.push(id);
      // A refused call must not turn into a busy loop.
      else await Bun.sleep(20);
    }
  };
  const callers = Array.from({ length: CALLERS }, (_, caller) => runCaller(caller));
  return {
    completed,
    hung,
    waitForCalls: async (count) => {
      const until = completed.length + count;
      await eventually(() => completed.length >= until, { timeoutMs: HANG_MS });
    },
    stop: async () => {
      state.isOver = true;
      await Promise.all(callers);
    },
    whenReady: async () => {
      for (const { url } of gateways)
        await eventually(async () => (await fetch(`${url}/readyz`)).ok);
    },
  };
}

/** Each completed call is recorded and charged once, nothing is held, and the ledger is exact. */
async function expectExactLedger(db: Db, { completed, hung }: Load): Promise<void> {
  expect(hung).toEqual([]);
  await eventually(async () => (await db.get("select id from hold limit 1")) === undefined);
  const rows = await db.all("select id from usage_record");
  const recorded = new Set(rows.map((row) => text(row, "id")));
  expect(completed.filter((id) => !recorded.has(id))).toEqual([]);
  const doubled = await db.all(
    `select ref from ${ALL_TRANSFERS} where kind = 'usage' group by ref having count(*) > 1`,
  );
  expect(doubled).toEqual([]);
  expect((await verifyLedger(db)).problems).toEqual([]);
}

test("restarts and a promotion of a synchronous standby lose no acknowledged charge", async () => {
  const cluster = await startCluster("synchronous");
  const load = await startLoad(cluster);
  const serves = (): Promise<void> => load.waitForCalls(CALLS_BETWEEN_FAULTS);
  await serves();
  await cluster.run("restart", STANDBY);
  await serves();
  await cluster.run("restart", PRIMARY);
  await serves();
  await withDb(cluster.url, async (db) => {
    const risks = (await findDurabilityRisks(db)).map(({ message }) => message);
    expect(risks.join()).not.toContain("no synchronous one");
  });
  await cluster.run("kill", PRIMARY);
  await cluster.promoteStandby();
  await serves();
  // Without a cluster manager, the former primary accepts writes when it is started again.
  await cluster.run("start", PRIMARY);
  await withDb(cluster.urlOf(STANDBY), (db) =>
    db.all(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'postern' and pid <> pg_backend_pid()",
    ),
  );
  await serves();
  await load.stop();
  await withDb(cluster.urlOf(STANDBY), (db) => expectExactLedger(db, load));
  await withDb(cluster.url, async (db) => {
    const { port } = new URL(cluster.urlOf(STANDBY));
    const row = await db.get("select inet_server_port() as port");
    expect(String(row?.["port"])).toBe(port);
    // Without the new primary, the former one is still not used.
    await cluster.run("kill", STANDBY);
    const read = (): Promise<unknown> => db.get("select 1 as one").catch(String);
    await eventually(async () => /accepts writes.*a former primary/.test(String(await read())));
    await cluster.run("start", STANDBY);
    await eventually(() => db.get("select 1 as one").catch(() => undefined));
  });
  // They write what they collected when they are stopped.
  await load.whenReady();
});

test("a promoted asynchronous standby lacks the last charges, which are written again", async () => {
  const cluster = await startCluster("asynchronous");
  const { logLines } = await startGatewayOn(cluster, "failover:1");
  expect(logLines.join("\n")).toContain("PostgreSQL has standbys and no synchronous one");
  await withDb(cluster.url, async (db) => {
    const owner = { accountId: "acct_a", keyId: "key_a" };
    const now = Date.now();
    await db.write(async (tx) => {
      await openAccount(tx, owner.accountId, [owner.keyId], now);
      await deposit(tx, promoDeposit("d1", owner.accountId, 1_000n, now));
    });
    const process = { db, process: "p", epoch: await startEpoch(db, "p", now) };
    const ownHolds = createOwnHolds<UsageRecord>();
    const ledger = createLedger({ ...process, ownHolds, writeRecords: insertUsage });
    const reconcile = createHoldReconciler({ ...process, ledger, ownHolds, now: () => now });
    const hold = (id: string): Promise<unknown> =>
      ledger.hold({ id, ...owner, amount: 100n, now, expiresAt: now + 2_700_000 });
    const settle = async (id: string): Promise<string> => {
      const record = usageRecord({ id, ...owner, cost: 70n, createdAt: now });
      return (await ledger.settle({ id, ...owner, cost: 70n, now, record })).status;
    };
    await Promise.all([hold("held before"), hold("settled before")]);
    await settle("settled before");
    await withDb(cluster.urlOf(STANDBY), (standby) =>
      eventually(async () => (await standby.all("select id from usage_record")).length === 1),
    );
    await cluster.stopReplication();
    await hold("held after");
    expect(await Promise.all([settle("held before"), settle("held after")])).toEqual([
      "settled",
      "settled",
    ]);
    await cluster.run("kill", PRIMARY);
    await cluster.promoteStandby();
    const openHolds = (): Promise<readonly unknown[]> => db.all("select id from hold");
    await eventually(async () =>
      Bun.deepEquals(await openHolds().catch(() => []), [{ id: "held before" }]),
    );
    // A hold is settled again if three runs in a row find no call for it.
    await reconcile();
    await reconcile();
    expect(await reconcile()).toEqual({ settledAgain: 1, released: 0 });
    // A call that began after the last commit that the standby received is lost with its charge.
    expect(await db.all("select id from usage_record order by id")).toEqual([
      { id: "held before" },
      { id: "settled before" },
    ]);
    expect((await verifyLedger(db)).problems).toEqual([]);
  });
});
