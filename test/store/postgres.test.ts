// What only a shared server can do to us, done to us for real.

import {
  afterAll,
  beforeAll,
  beforeEach,
  describe,
  expect,
  test,
  setDefaultTimeout,
} from "bun:test";
import {
  type Db,
  setShortLockTimeout,
  isLocked,
  isUnavailable,
  integer,
} from "../../src/store/db.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { startFaultyProxy } from "../support/faulty-proxy.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const KEYS = Array.from({ length: 50 }, (_, place) => `k${String(place).padStart(2, "0")}`);

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

  const raise = "update thing set n = n + 1 where id = ?";
  const total = async (): Promise<number> =>
    Number((await db.get("select cast(sum(n) as text) as n from thing"))?.["n"]);

  test("a deadlock is retried until both transactions are through", async () => {
    let attempts = 0;
    const bothHold = Promise.withResolvers<void>();
    let holding = 0;
    const cross = (first: string, second: string): Promise<void> =>
      db.write(async (tx) => {
        attempts += 1;
        await tx.run(raise, [first]);
        holding += 1;
        if (holding === 2) bothHold.resolve();
        await bothHold.promise;
        await tx.run(raise, [second]);
      });
    await Promise.all([cross("k00", "k01"), cross("k01", "k00")]);
    expect(attempts).toBeGreaterThan(2);
    expect(await total()).toBe(4);
  });

  test("a serialization failure is retried, and gives up after a bounded number of attempts", async () => {
    let attempts = 0;
    const losing = (times: number): Promise<void> =>
      db.write(async (tx) => {
        attempts += 1;
        await tx.run("set transaction isolation level repeatable read");
        await tx.get("select n from thing where id = ?", ["k00"]);
        if (attempts <= times) await db.write((other) => other.run(raise, ["k00"]));
        await tx.run(raise, ["k00"]);
      });
    await losing(2);
    expect(attempts).toBe(3);
    expect(await total()).toBe(3);
    attempts = 0;
    expect(await rejectionMessage(losing(100))).toMatch("could not serialize");
    expect(attempts).toBeLessThan(10);
    expect(await total()).toBe(3 + attempts);
  });

  test("rows are locked in one order, whatever order they are asked for in, so nobody waits in a circle", async () => {
    let attempts = 0;
    await Promise.all(
      Array.from({ length: 120 }, (_, place) =>
        db.write(async (tx) => {
          attempts += 1;
          const rows = await tx.lockMany("thing", "id", place % 2 === 0 ? KEYS : KEYS.toReversed());
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

  test("a backend that is ended takes its transaction along, and the store goes on", async () => {
    const failed = db.write(async (tx) => {
      const row = await tx.get("select pg_backend_pid() as pid");
      await tx.run(raise, ["k00"]);
      await db.all("select pg_terminate_backend(?)", [row === undefined ? 0 : integer(row, "pid")]);
      await Bun.sleep(20);
      await tx.run(raise, ["k01"]).catch(() => {});
    });
    expect(isUnavailable(await failed.catch((error: unknown) => error))).toBe(true);
    expect(await total()).toBe(0);
    await db.write((tx) => tx.run(raise, ["k00"]));
    expect(await total()).toBe(1);
  });

  test("after all its connections were cut, the store connects anew by itself", async () => {
    const other = openPostgres(store.location.address);
    await Promise.all(Array.from({ length: 20 }, () => db.write((tx) => tx.run(raise, ["k00"]))));
    await other.all(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
    );
    await Bun.sleep(50);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, () => db.write((tx) => tx.run(raise, ["k00"]))),
    );
    for (const one of outcomes)
      if (one.status === "rejected") expect(isUnavailable(one.reason)).toBe(true);
    const done = outcomes.filter((one) => one.status === "fulfilled").length;
    expect(await total()).toBe(20 + done);
    await Promise.all(Array.from({ length: 20 }, () => db.write((tx) => tx.run(raise, ["k00"]))));
    expect(await total()).toBe(40 + done);
    await other.close();
  });

  test("a server that is not there is an unavailable store, soon and not a crash", async () => {
    const nobody = openPostgres("postgres://nobody:nothing@127.0.0.1:1/nowhere");
    const started = performance.now();
    const errors = await Promise.allSettled([
      nobody.write((tx) => tx.run("select 1")),
      nobody.get("select 1"),
      nobody.snapshot((reader) => reader.get("select 1")),
    ]);
    for (const one of errors)
      expect(one.status === "rejected" && isUnavailable(one.reason)).toBe(true);
    expect(performance.now() - started).toBeLessThan(6_000);
    await nobody.close();
  });

  test("a server that says nothing any more is given up, and those who wait are told that the store is unavailable", async () => {
    const wire = await startFaultyProxy(store.location.address);
    const through = openPostgres(wire.url, { stallCheckMs: 50 });
    const bump = () => through.write((tx) => tx.run(raise, ["k07"]));
    await Promise.all(Array.from({ length: 20 }, bump));
    wire.silence();
    const late = await Promise.allSettled([
      ...Array.from({ length: 20 }, bump),
      through.get("select 1"),
      through.snapshot((reader) => reader.get("select 1")),
    ]);
    for (const one of late)
      expect(one.status === "rejected" && isUnavailable(one.reason)).toBe(true);
    await bump();
    expect(await total()).toBe(21);
    await through.close();
    wire.stop();
  }, 10_000);

  test("a statement that is slow alone is waited for, outside of what writes", async () => {
    const through = openPostgres(store.location.address, { stallCheckMs: 20 });
    const slow = [
      through.snapshot((reader) => reader.get("select pg_sleep(0.5)")),
      through.get("select pg_sleep(0.5)"),
    ];
    for (let times = 0; times < 10; times++) {
      await through.write((tx) => tx.run(raise, ["k07"]));
      await Bun.sleep(40);
    }
    expect((await Promise.allSettled(slow)).map(({ status }) => status)).toEqual([
      "fulfilled",
      "fulfilled",
    ]);
    await through.close();
  });

  test("far more transactions than connections wait for their turn", async () => {
    await Promise.all(Array.from({ length: 200 }, () => db.write((tx) => tx.run(raise, ["k07"]))));
    expect(await total()).toBe(200);
  });

  test("a newer version may add a column while an older one is running", async () => {
    const look = (): Promise<unknown> => db.write((tx) => tx.lockMany("thing", "id", ["k00"]));
    await Promise.all(Array.from({ length: 20 }, look));
    const other = openPostgres(store.location.address);
    await other.write((tx) => tx.run("alter table thing add column extra text"));
    await Promise.all(Array.from({ length: 20 }, look));
    await other.write((tx) => tx.run("alter table thing drop column extra"));
    await Promise.all(Array.from({ length: 20 }, look));
    await other.close();
  });

  test("a process that freezes inside a transaction loses its locks after a while", async () => {
    const row = await db.write((tx) => tx.get("show idle_in_transaction_session_timeout"));
    expect(row?.["idle_in_transaction_session_timeout"]).toBe("30s");
  });

  test("rows that somebody keeps locked are not waited for without end, and a migration is", async () => {
    const hasty = openPostgres(store.location.address, { lockTimeoutMs: 50 });
    const [held, letGo] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const other = db.write(async (tx) => {
      await tx.lockMany("thing", "id", ["k00"]);
      held.resolve();
      await letGo.promise;
    });
    await held.promise;
    const late: unknown = await hasty
      .write((tx) => tx.lockMany("thing", "id", ["k00"]))
      .catch((error: unknown) => error);
    expect([isLocked(late), isUnavailable(late)]).toEqual([true, true]);
    const patient = openPostgres(store.location.address, { lockTimeoutMs: 60_000 });
    const inHaste: unknown = await patient
      .write(async (tx) => {
        await setShortLockTimeout(tx);
        return tx.lockMany("thing", "id", ["k00"]);
      })
      .catch((error: unknown) => error);
    expect(isLocked(inHaste)).toBe(true);
    await patient.close();
    expect(await hasty.write((tx) => tx.run(raise, ["k01"]))).toBe(1);
    const altered = hasty.write((tx) => tx.run("alter table thing add column later text"));
    await Bun.sleep(150);
    letGo.resolve();
    await Promise.all([other, altered]);
    await hasty.write((tx) => tx.run("alter table thing drop column later"));
    await hasty.close();
  });

  test("a backup is the server's own affair", async () => {
    expect(await rejectionMessage(db.backup("nowhere.db"))).toMatch("pg_dump");
  });
});
