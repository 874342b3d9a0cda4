// Several processes that share only a PostgreSQL.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import path from "node:path";
import { deposit, getWallet, startEpoch } from "../../src/ledger/ledger.ts";
import { sweepHolds } from "../../src/ledger/sweep.ts";
import { getBudgets, setBudgets } from "../../src/ledger/wallet-budgets.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { type ScriptProcess, startScript } from "../support/script-process.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, startLedger, promoDeposit } from "./fixtures.ts";

const LEDGER_PROCESS = path.join(import.meta.dirname, "ledger-process.ts");
const PROCESSES = 3;
const ROUNDS = 12;
const KEYS = ["shared.k1", "shared.k2", "shared.k3"];
const now = Date.now();

describe("three processes on one PostgreSQL", () => {
  let store: TestStore;
  let workers: readonly ScriptProcess[];

  beforeAll(async () => {
    store = await openStore("postgres");
    workers = Array.from({ length: PROCESSES }, (_, index) =>
      startScript(LEDGER_PROCESS, ["postgres", store.location.address, `p${index}`]),
    );
    await Promise.all(workers.map((worker) => worker.waitForLine("ready")));
  });
  afterAll(async () => {
    for (const worker of workers) worker.process.stdin.end();
    await Promise.all(workers.map((worker) => worker.exitCode));
    await store.close();
  });

  const account = (id: string, amount: bigint): Promise<unknown> =>
    store.db.write(async (tx) => {
      await openAccount(tx, id, [`${id}.k`], now);
      await deposit(tx, promoDeposit(`${id}.start`, id, amount, now));
    });
  /** Spreads concurrent holds over the processes and counts their outcomes. */
  const holdEverywhere = async (
    id: string,
    amount: number,
    count: number,
  ): Promise<Record<string, number>> => {
    const counts = workers.map((_, index) => Math.floor((count + index) / PROCESSES));
    for (const [index, worker] of workers.entries())
      worker.process.stdin.write(`hold ${id} ${id}.k ${amount} ${counts[index]}\n`);
    const replies = await Promise.all(workers.map((worker) => worker.waitForLine("held")));
    const statuses = replies.flatMap((reply) => reply.split(" ").slice(1));
    return Object.fromEntries(
      [...Map.groupBy(statuses, (status) => status)].map(([status, all]) => [status, all.length]),
    );
  };

  test("of 64 holds at once on a balance that affords 10, exactly 10 succeed", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const id = `balance${round}`;
      await account(id, 1_009n);
      expect(await holdEverywhere(id, 100, 64)).toEqual({ held: 10, insufficient_credits: 54 });
      expect((await getWallet(store.db, id)).held).toBe(1_000n);
    }
  });

  test("of 64 holds at once on a key whose limit affords 10, exactly 10 succeed", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const id = `limit${round}`;
      await account(id, 1_000_000n);
      await store.db.write((tx) =>
        tx.run("update api_key set limit_nano = 1009, limit_window = ? where id = ?", [
          round % 2 === 0 ? null : "day",
          `${id}.k`,
        ]),
      );
      expect(await holdEverywhere(id, 100, 64)).toEqual({ held: 10, key_limit: 54 });
    }
  });

  test("of 64 holds at once on a budget that affords 10, exactly 10 succeed", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const id = `budget${round}`;
      await account(id, 1_000_000n);
      await store.db.write((tx) =>
        setBudgets(tx, id, round % 2 === 0 ? { day: 1_009n } : { month: 1_009n, day: 5_000n }, now),
      );
      expect(await holdEverywhere(id, 100, 64)).toEqual({ held: 10, budget: 54 });
    }
  });

  test("calls of three processes cross each budget threshold once and exceed the budget only by what they cost beyond their holds", async () => {
    const id = "shared";
    await store.db.write(async (tx) => {
      await openAccount(tx, id, KEYS, now);
      await deposit(tx, promoDeposit(`${id}.start`, id, 1_000_000n, now));
      await setBudgets(tx, id, { day: 20_000n, month: 40_000n }, now);
    });
    for (const worker of workers)
      worker.process.stdin.write(`exhaust ${id} ${KEYS.join(",")} ${worker.process.pid}\n`);
    await Promise.all(workers.map((worker) => worker.waitForLine("exhausted")));
    const { day, month } = await getBudgets(store.db, id, Date.now());
    expect(day.used).toBeGreaterThan(19_900n);
    // The 24 callers of each process hold 70 and pay up to 89.
    expect(day.used).toBeLessThanOrEqual(20_000n + 3n * 24n * 19n);
    expect([day.held, month.used]).toEqual([0n, day.used]);
    const events = await store.db.all("select data from event where account_id = ? order by id", [
      id,
    ]);
    const crossings = events.map(({ data }) => JSON.parse(String(data)));
    expect(crossings.map(({ window, percent }) => `${window} ${percent}`).toSorted()).toEqual(
      day.used >= 20_000n ? ["day 100", "day 50", "day 80", "month 50"] : ["day 50", "day 80"],
    );
  });

  test("every process rejects the next hold of a revoked key", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const id = `revoked${round}`;
      await account(id, 1_000_000n);
      expect(await holdEverywhere(id, 1, 9)).toEqual({ held: 9 });
      await store.db.write((tx) =>
        tx.run("update api_key set revoked_at = ? where id = ?", [now, `${id}.k`]),
      );
      expect(await holdEverywhere(id, 1, 9)).toEqual({ key_rejected: 9 });
    }
  });

  /** Locks a wallet, like another client's open transaction, until the returned function is called. */
  const keepLocked = async (id: string): Promise<() => Promise<void>> => {
    const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const locker = store.db.write(async (tx) => {
      await tx.lockMany("wallet", "account_id", [id]);
      held.resolve();
      await release.promise;
    });
    await held.promise;
    return async () => {
      release.resolve();
      await locker;
    };
  };

  test("a locked wallet only delays calls of its own account", async () => {
    const db = openPostgres(store.location.address, { lockTimeoutMs: 50 });
    const ledger = await startLedger(db, "impatient", now);
    const hold = (id: string) =>
      ledger.hold({
        id: `locked.${id}`,
        accountId: id,
        keyId: `${id}.k`,
        amount: 1n,
        now,
        expiresAt: now + 60_000,
      });
    await Promise.all(["locked", "free1", "free2"].map((id) => account(id, 1_000n)));
    const release = await keepLocked("locked");
    const [locked, ...others] = await Promise.allSettled(["locked", "free1", "free2"].map(hold));
    await release();
    expect(locked).toMatchObject({ status: "rejected", reason: { code: "overloaded" } });
    expect(others).toMatchObject([{ value: { status: "held" } }, { value: { status: "held" } }]);
    await db.close();
  });

  test("a sweep skips the holds of locked wallets and releases them later", async () => {
    const db = openPostgres(store.location.address, { lockTimeoutMs: 50 });
    const dead = await startLedger(db, "dead", now);
    const ids = ["swept1", "swept2", "swept3"];
    await Promise.all(ids.map((id) => account(id, 1_000n)));
    for (const id of ids)
      await dead.hold({
        id: `${id}.h`,
        accountId: id,
        keyId: `${id}.k`,
        amount: 600n,
        now,
        expiresAt: now + 60_000,
      });
    await startLedger(db, "dead", now);
    const release = await keepLocked("swept2");
    const heldBy = (): Promise<readonly bigint[]> =>
      Promise.all(ids.map(async (id) => (await getWallet(db, id)).held));
    await sweepHolds(db, now);
    expect(await heldBy()).toEqual([0n, 600n, 0n]);
    await release();
    await sweepHolds(db, now);
    expect(await heldBy()).toEqual([0n, 0n, 0n]);
    await db.close();
  });

  test("a sweep does not wait for a locked row of a process", async () => {
    const db = openPostgres(store.location.address, { lockTimeoutMs: 50 });
    const lost = await startLedger(db, "lost", now);
    await account("restored", 1_000n);
    await lost.hold({
      id: "restored.h",
      accountId: "restored",
      keyId: "restored.k",
      amount: 600n,
      now,
      expiresAt: now + 60_000,
    });
    await store.db.write((tx) => tx.run("delete from process where name = 'lost'"));
    const [inserted, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const other = store.db.write(async (tx) => {
      await tx.run(
        "insert into process (name, epoch, started_at, seen_at) values ('lost', 0, 0, 0)",
      );
      inserted.resolve();
      await release.promise;
    });
    await inserted.promise;
    await sweepHolds(db, now);
    release.resolve();
    await other;
    await sweepHolds(db, now);
    expect(await db.get("select epoch from process where name = 'lost'")).toMatchObject({
      epoch: BigInt(now + 1),
    });
    await startEpoch(db, "lost", now);
    expect(await sweepHolds(db, now)).toBe(1);
    await db.close();
  });

  test("the ledger is intact afterwards", async () => {
    expect((await verifyLedger(store.db)).problems).toEqual([]);
  });
});
