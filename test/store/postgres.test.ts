// Failures that only a database server can cause, provoked for real.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import {
  type Db,
  setShortLockTimeout,
  isLocked,
  isUnavailable,
  integer,
  allowLongStatements,
  type Tx,
} from "../../src/store/db.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { eventually } from "../support/eventually.ts";
import { startFaultyProxy } from "../support/faulty-proxy.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { dropPostgres, testPostgres } from "../support/stores/postgres.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";

const KEYS = Array.from({ length: 50 }, (_, index) => `k${String(index).padStart(2, "0")}`);

describe("the store on PostgreSQL", () => {
  let store: TestStore;
  let db: Db;
  beforeAll(async () => {
    store = await openStore("postgres");
    db = store.db;
    await db.write((tx) => tx.run("create table thing (id text primary key, n bigint not null)"));
  });
  afterAll(() => store.close());
  beforeEach(() =>
    db.write(async (tx) => {
      await tx.run("delete from thing");
      await tx.insertMany(
        "thing",
        ["id:text", "n:bigint"],
        KEYS.map((key) => [key, 0]),
      );
    }),
  );

  const increment = "update thing set n = n + 1 where id = ?";
  const isBackendAlive = async (pid: number): Promise<boolean> =>
    (await db.get("select pid from pg_stat_activity where pid = ?", [pid])) !== undefined;
  const total = async (): Promise<number> =>
    Number((await db.get("select cast(sum(n) as text) as n from thing"))?.["n"]);

  test("retries a deadlock until both transactions commit", async () => {
    let attempts = 0;
    const bothHold = Promise.withResolvers<void>();
    let holding = 0;
    const cross = (first: string, second: string): Promise<void> =>
      db.write(async (tx) => {
        attempts += 1;
        await tx.run(increment, [first]);
        holding += 1;
        if (holding === 2) bothHold.resolve();
        await bothHold.promise;
        await tx.run(increment, [second]);
      });
    await Promise.all([cross("k00", "k01"), cross("k01", "k00")]);
    expect(attempts).toBeGreaterThan(2);
    expect(await total()).toBe(4);
  });

  test("retries a serialization failure a limited number of times", async () => {
    const address = await testPostgres();
    const database = new URL(address).pathname.slice(1);
    const setUp = openPostgres(address);
    await setUp.all("create table counter (n bigint not null)");
    await setUp.all("insert into counter values (0)");
    await setUp.all(`alter database ${database} set default_transaction_isolation = serializable`);
    await setUp.close();
    const serializable = openPostgres(address);
    const add = (tx: Tx): Promise<number> => tx.run("update counter set n = n + 1");
    const count = async (): Promise<number> =>
      Number((await serializable.get("select n from counter"))?.["n"]);
    let attempts = 0;
    const losing = (times: number): Promise<void> =>
      serializable.write(async (tx) => {
        attempts += 1;
        await tx.get("select n from counter");
        if (attempts <= times) await serializable.write(add);
        await add(tx);
      });
    await losing(2);
    expect(attempts).toBe(3);
    expect(await count()).toBe(3);
    attempts = 0;
    expect(await rejectionMessage(losing(100))).toMatch("could not serialize");
    expect(attempts).toBeLessThan(10);
    expect(await count()).toBe(3 + attempts);
    await serializable.close();
    await dropPostgres(address);
  });

  test("locks rows in one order for keys in any order, which prevents deadlocks", async () => {
    let attempts = 0;
    await Promise.all(
      Array.from({ length: 120 }, (_, index) =>
        db.write(async (tx) => {
          attempts += 1;
          const rows = await tx.lockMany("thing", "id", index % 2 === 0 ? KEYS : KEYS.toReversed());
          await tx.updateMany(
            "thing",
            ["id:text", "n:bigint"],
            rows.map((row) => [String(row["id"]), integer(row, "n") + 1]),
          );
        }),
      ),
    );
    expect(attempts).toBe(120);
    expect(await total()).toBe(120 * KEYS.length);
  });

  test("a terminated backend rolls back its transaction, and the store reconnects", async () => {
    const failed = db.write(async (tx) => {
      const row = await tx.get("select pg_backend_pid() as pid");
      await tx.run(increment, ["k00"]);
      const pid = row === undefined ? 0 : integer(row, "pid");
      await db.all("select pg_terminate_backend(?)", [pid]);
      await eventually(async () => !(await isBackendAlive(pid)));
      await tx.run(increment, ["k01"]).catch(() => {});
    });
    expect(isUnavailable(await failed.catch((error: unknown) => error))).toBe(true);
    expect(await total()).toBe(0);
    await db.write((tx) => tx.run(increment, ["k00"]));
    expect(await total()).toBe(1);
  });

  test("reconnects after all connections were terminated", async () => {
    const other = openPostgres(store.location.address);
    await Promise.all(
      Array.from({ length: 20 }, () => db.write((tx) => tx.run(increment, ["k00"]))),
    );
    const terminated = await other.all(
      "select pid, pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
    );
    for (const row of terminated)
      await eventually(async () => !(await isBackendAlive(integer(row, "pid"))));
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, () => db.write((tx) => tx.run(increment, ["k00"]))),
    );
    for (const one of outcomes)
      if (one.status === "rejected") expect(isUnavailable(one.reason)).toBe(true);
    const done = outcomes.filter((one) => one.status === "fulfilled").length;
    expect(await total()).toBe(20 + done);
    await Promise.all(
      Array.from({ length: 20 }, () => db.write((tx) => tx.run(increment, ["k00"]))),
    );
    expect(await total()).toBe(40 + done);
    await other.close();
  });

  test("an unreachable server is an unavailable store", async () => {
    const unreachable = openPostgres("postgres://user:password@127.0.0.1:1/nowhere");
    const errors = await Promise.allSettled([
      unreachable.write((tx) => tx.run("select 1")),
      unreachable.get("select 1"),
      unreachable.snapshot((reader) => reader.get("select 1")),
    ]);
    for (const one of errors)
      expect(one.status === "rejected" && isUnavailable(one.reason)).toBe(true);
    await unreachable.close();
  });

  test("a server that stops responding fails pending statements as unavailable", async () => {
    const proxy = await startFaultyProxy(store.location.address);
    const proxied = openPostgres(proxy.url, { stallCheckMs: 1_000 });
    const bump = () => proxied.write((tx) => tx.run(increment, ["k07"]));
    await Promise.all(Array.from({ length: 20 }, bump));
    proxy.silence();
    const late = await Promise.allSettled([
      ...Array.from({ length: 20 }, bump),
      proxied.get("select 1"),
      proxied.snapshot((reader) => reader.get("select 1")),
    ]);
    for (const one of late)
      expect(one.status === "rejected" && isUnavailable(one.reason)).toBe(true);
    await bump();
    expect(await total()).toBe(21);
    await proxied.close();
    proxy.stop();
  });

  test("a connection that is lost during a change of the schema fails it, and nothing else", async () => {
    const proxy = await startFaultyProxy(await testPostgres());
    const db = openPostgres(proxy.url);
    // An unhandled rejection of a second statement would fail this test, and end a gateway.
    const failure = await db
      .write(async (tx) => {
        await tx.get("select 1 as one");
        proxy.silence();
        const created = tx.run("create table lost (id text primary key)");
        proxy.stop();
        await created;
      })
      .catch((error: unknown) => error);
    expect(isUnavailable(failure)).toBe(true);
    await db.close();
  });

  test("waits for slow reads and snapshots while writes succeed", async () => {
    // They take longer than the nine checks after which a statement counts as stalled.
    const other = openPostgres(store.location.address, { stallCheckMs: 300 });
    const slow = [
      other.snapshot((reader) => reader.get("select pg_sleep(4)")),
      other.get("select pg_sleep(4)"),
    ];
    const outcomes: string[] = [];
    for (const one of slow)
      one.then(
        () => outcomes.push("fulfilled"),
        (error: unknown) => outcomes.push(String(error)),
      );
    while (outcomes.length < slow.length) await other.write((tx) => tx.run(increment, ["k07"]));
    expect(outcomes).toEqual(["fulfilled", "fulfilled"]);
    await other.close();
  });

  test("waits for slow statements of migrations", async () => {
    const other = openPostgres(store.location.address, { stallCheckMs: 300, lockTimeoutMs: 20 });
    await other.write(async (tx) => {
      await allowLongStatements(tx);
      await tx.run(
        "insert into thing (id, n)\n select 'slow', 1 from (select pg_sleep(1.5)) as slept",
      );
    });
    expect(await other.get("select n from thing where id = 'slow'")).toMatchObject({ n: 1n });
    await other.close();
  });

  test("queues more transactions than connections", async () => {
    await Promise.all(
      Array.from({ length: 200 }, () => db.write((tx) => tx.run(increment, ["k07"]))),
    );
    expect(await total()).toBe(200);
  });

  test("opens as many connections as the pool size", async () => {
    for (const poolSize of [2, 5]) {
      const other = openPostgres(store.location.address, { poolSize });
      const all = Promise.withResolvers<void>();
      const pids = new Set<unknown>();
      const transactions = Array.from({ length: poolSize }, () =>
        other.write(async (tx) => {
          pids.add((await tx.get("select pg_backend_pid() as pid"))?.["pid"]);
          if (pids.size === poolSize) all.resolve();
          await all.promise;
        }),
      );
      await all.promise;
      const next = await other.write((tx) => tx.get("select pg_backend_pid() as pid"));
      await Promise.all(transactions);
      expect(pids.has(next?.["pid"])).toBe(true);
      expect(pids.size).toBe(poolSize);
      await other.close();
    }
  });

  test("keeps working when a newer version adds a column", async () => {
    const lockRow = (): Promise<unknown> => db.write((tx) => tx.lockMany("thing", "id", ["k00"]));
    await Promise.all(Array.from({ length: 20 }, lockRow));
    const other = openPostgres(store.location.address);
    await other.write((tx) => tx.run("alter table thing add column extra text"));
    await Promise.all(Array.from({ length: 20 }, lockRow));
    await other.write((tx) => tx.run("alter table thing drop column extra"));
    await Promise.all(Array.from({ length: 20 }, lockRow));
    await other.close();
  });

  test("reports the error of the statement that failed, not those of the statements after it", async () => {
    const delay = (promise: Promise<unknown>, ticks: number): Promise<unknown> =>
      ticks === 0 ? promise : delay(promise, ticks - 1).then((value) => value);
    // Only statements that the connection has prepared are sent together.
    for (let attempt = 0; attempt < 20; attempt++) {
      const failed = db.write(async (tx) => {
        await tx.get("select n from thing where id = ?", ["k00"]);
        // The promise of the first one takes longer to get here.
        await Promise.all([
          delay(tx.run("update thing set n = n / (n - n) where id = ?", ["k00"]), 100),
          tx.run("select n from thing where id = ?", ["k00"]),
          tx.run("select n + 1 from thing where id = ?", ["k00"]),
        ]);
      });
      expect(await rejectionMessage(failed)).toMatch("division by zero");
    }
  });

  test.each([true, false])(
    "a commit that is sent before the replies to the writes commits all of them or none (prepared: %p)",
    async (usesPreparedStatements) => {
      const other = openPostgres(store.location.address, { usesPreparedStatements });
      const write = (last: string): Promise<unknown> =>
        other.write(async (tx) => {
          await tx.get("select n from thing where id = ?", ["k00"]);
          const writes = [tx.run(increment, ["k00"]), tx.run(last, ["k01"])];
          tx.sendCommit?.();
          await Promise.all(writes);
        });
      await write(increment);
      expect(await total()).toBe(2);
      expect(await rejectionMessage(write("update thing set n = n / 0 where id = ?"))).toMatch(
        "division by zero",
      );
      expect(await total()).toBe(2);
      await write(increment);
      expect(await total()).toBe(4);
      await other.close();
    },
  );

  test("refuses a statement after the commit was sent", async () => {
    const late = db.write(async (tx) => {
      await tx.run(increment, ["k00"]);
      tx.sendCommit?.();
      await tx.run(increment, ["k01"]);
    });
    expect(await rejectionMessage(late)).toMatch("the commit was sent already");
    expect(await total()).toBe(1);
  });

  test("finds rows by keys with the index, by plans made while the table was empty", async () => {
    const other = openPostgres(store.location.address, { poolSize: 1 });
    const columns = ["id:text", "account_id:text", "n:bigint"] as const;
    const rows = Array.from({ length: 2_000 }, (_, index) => [`h${index}`, `a${index % 50}`, 0]);
    const keys = rows.slice(0, 50).map(([id, account]) => [String(account), String(id)] as const);
    const runAll = (tx: Tx): Promise<unknown> =>
      Promise.all([
        tx.lockMany("tiny", "account_id, id", keys),
        tx.readMany("tiny", "account_id, id", keys, "n"),
        tx.deleteMany("tiny", "account_id, id", keys, "id"),
        tx.updateMany("tiny", columns, rows.slice(0, 50), 2),
      ]);
    await other.write((tx) =>
      tx.run(
        "create table tiny (id text, account_id text, n bigint, primary key (id, account_id)) with (autovacuum_enabled = off)",
      ),
    );
    await other.write((tx) => tx.run("analyze tiny"));
    for (let round = 0; round < 10; round++) await other.write(runAll);
    await other.write((tx) => tx.insertMany("tiny", columns, rows));
    // The keys are in the order of the parameters.
    const [accounts, ids] = [0, 1].map((part) => `'{${keys.map((key) => key[part]).join(",")}}'`);
    const plans = await other.write(async (tx) => {
      const prepared = await tx.all(
        "select name, statement from pg_prepared_statements where statement ~ '^(select|delete|update) .*tiny' and generic_plans > 0",
      );
      expect(prepared.length).toBe(4);
      const all: string[] = [];
      for (const { name, statement } of prepared) {
        const values = String(statement).startsWith("update")
          ? `${ids}, ${accounts}, '{${keys.map(() => 1).join(",")}}'`
          : `${accounts}, ${ids}`;
        const lines = await tx.all(`explain execute "${String(name)}" (${values})`);
        all.push(lines.map((line) => line["QUERY PLAN"]).join("\n"));
      }
      return all;
    });
    for (const plan of plans) {
      expect(plan).toMatch("Index Scan using tiny_pkey");
      expect(plan).not.toMatch("Seq Scan");
    }
    await other.close();
  });

  test("limits the time that a process can freeze inside a transaction", async () => {
    const row = await db.write((tx) => tx.get("show idle_in_transaction_session_timeout"));
    expect(row?.["idle_in_transaction_session_timeout"]).toBe("30s");
  });

  test("times out on locked rows, but not in a migration", async () => {
    const impatient = openPostgres(store.location.address, { lockTimeoutMs: 50 });
    const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const other = db.write(async (tx) => {
      await tx.lockMany("thing", "id", ["k00"]);
      held.resolve();
      await release.promise;
    });
    await held.promise;
    const timedOut: unknown = await impatient
      .write((tx) => tx.lockMany("thing", "id", ["k00"]))
      .catch((error: unknown) => error);
    expect([isLocked(timedOut), isUnavailable(timedOut)]).toEqual([true, true]);
    const patient = openPostgres(store.location.address, { lockTimeoutMs: 60_000 });
    const timedOutEarly: unknown = await patient
      .write(async (tx) => {
        await setShortLockTimeout(tx);
        return tx.lockMany("thing", "id", ["k00"]);
      })
      .catch((error: unknown) => error);
    expect(isLocked(timedOutEarly)).toBe(true);
    await patient.close();
    expect(await impatient.write((tx) => tx.run(increment, ["k01"]))).toBe(1);
    const altered = impatient.write(async (tx) => {
      await allowLongStatements(tx);
      await tx.run("alter table thing add column later text");
    });
    // Three times the lock timeout, by the clock of the server.
    await eventually(() =>
      db.get(
        "select pid from pg_stat_activity where query like 'alter table thing add column later%' and wait_event_type = 'Lock' and clock_timestamp() > query_start + interval '150 milliseconds'",
      ),
    );
    release.resolve();
    await Promise.all([other, altered]);
    await impatient.write((tx) => tx.run("alter table thing drop column later"));
    await impatient.close();
  });

  test("rejects backup() with a hint at pg_dump", async () => {
    expect(await rejectionMessage(db.backup("nowhere.db"))).toMatch("pg_dump");
  });
});
