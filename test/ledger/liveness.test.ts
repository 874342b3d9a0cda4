// Which process is dead, decided by another that lives: on two ledgers of one store, with clocks that differ.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { HOUR_MS, SECOND_MS } from "../../src/base/time.ts";
import {
  createLedger,
  deposit,
  getWallet,
  heartbeat,
  type Ledger,
  startEpoch,
} from "../../src/ledger/ledger.ts";
import { createDeadProcessDetector } from "../../src/ledger/liveness.ts";
import { createSweeper, sweepHolds } from "../../src/ledger/sweep.ts";
import type { Db } from "../../src/store/db.ts";
import { type UsageRecord, insertUsage } from "../../src/usage/usage.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, promoDeposit } from "./fixtures.ts";

const NOW = Date.UTC(2026, 10, 21, 9, 30);

describeEachStore((kind, open) => {
  describe(`silent processes on ${kind}`, () => {
    let store: TestStore;
    let db: Db;
    let accountId: string;
    let worlds = 0;
    let steadyMs: number;
    let isAway: boolean;
    let one: Process;
    let other: Process;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    interface Process {
      readonly name: string;
      readonly ledger: Ledger<UsageRecord>;
      /** Gives a sign of life, by a clock that is so far ahead. */
      readonly beat: (aheadMs?: number) => Promise<boolean>;
    }

    async function startProcess(name: string): Promise<Process> {
      const epoch = await startEpoch(store.db, name, NOW);
      const ledger = createLedger({ db, process: name, epoch, writeRecords: insertUsage });
      let beats = 0;
      const beat = (aheadMs = 0): Promise<boolean> =>
        heartbeat(store.db, name, epoch, NOW + aheadMs + (beats += 1) * 5 * SECOND_MS);
      return { name, ledger, beat };
    }

    beforeEach(async () => {
      worlds += 1;
      steadyMs = 1_000_000;
      isAway = false;
      accountId = `w${worlds}`;
      db = {
        ...store.db,
        all: (sql, values) =>
          isAway ? Promise.reject(new Error("the store is away")) : store.db.all(sql, values),
      };
      await store.db.write(async (tx) => {
        // What the test before has left open is nobody's any more.
        await tx.run("delete from hold");
        await openAccount(tx, accountId, [`${accountId}.k`], NOW);
        await deposit(tx, promoDeposit(`${accountId}.d`, accountId, 1_000n, NOW));
      });
      one = await startProcess(`${accountId}.one`);
      other = await startProcess(`${accountId}.other`);
      const held = await one.ledger.hold({
        ...ids("a"),
        amount: 900n,
        now: NOW,
        expiresAt: NOW + HOUR_MS,
      });
      expect(held.status).toBe("held");
    });

    const ids = (id: string) => ({
      id: `${accountId}.${id}`,
      accountId,
      keyId: `${accountId}.k`,
    });
    /** The sweeper of a process whose clock is so far ahead. */
    const sweeperOf = (process: Process, aheadMs = 0) =>
      createSweeper({
        db,
        process: process.name,
        now: () => NOW + aheadMs,
        monotonicNow: () => steadyMs,
      });
    const held = async (): Promise<bigint> => (await getWallet(store.db, accountId)).held;

    for (const aheadMs of [-600, -31, 31, 600].map((seconds) => seconds * SECOND_MS))
      test(`a living process keeps its holds though another's clock is ${aheadMs / SECOND_MS} s ahead`, async () => {
        const sweep = sweeperOf(other, aheadMs);
        for (let look = 0; look < 12; look++) {
          await one.beat();
          expect(await sweep()).toBe(0);
          steadyMs += 10 * SECOND_MS;
        }
        const refused = await other.ledger.hold({
          ...ids("b"),
          amount: 900n,
          now: NOW,
          expiresAt: NOW + HOUR_MS,
        });
        expect(refused.status).toBe("insufficient_credits");
        const settled = await one.ledger.settle({ ...ids("a"), cost: 900n, now: NOW });
        expect(settled).toEqual({ status: "settled", charged: 900n, overrun: 0n, late: false });
      });

    test("a process that gives no sign of life for 30 s loses its holds, and not before", async () => {
      const sweep = sweeperOf(other);
      const startedMs = steadyMs;
      const forMs = (): number => steadyMs - startedMs;
      while ((await sweep()) === 0 && forMs() < 60 * SECOND_MS) steadyMs += 10 * SECOND_MS;
      expect(forMs()).toBe(30 * SECOND_MS);
      expect(await held()).toBe(0n);
      const settled = await one.ledger.settle({ ...ids("a"), cost: 900n, now: NOW });
      expect(settled).toEqual({ status: "settled", charged: 900n, overrun: 0n, late: true });
    });

    test("a process never takes itself for dead", async () => {
      const sweep = sweeperOf(one);
      for (let look = 0; look < 12; look++, steadyMs += 10 * SECOND_MS)
        expect(await sweep()).toBe(0);
      expect(await held()).toBe(900n);
    });

    test("after an outage of the store nobody is dead before they could give a sign of life", async () => {
      const sweep = sweeperOf(other);
      for (const awayMs of [31, 45, 3_600].map((seconds) => seconds * SECOND_MS)) {
        await one.beat();
        expect(await sweep()).toBe(0);
        isAway = true;
        steadyMs += 10 * SECOND_MS;
        const failed = await sweep().then(
          () => "swept",
          () => "failed",
        );
        expect(failed).toBe("failed");
        steadyMs += awayMs;
        isAway = false;
        // The sweeper is back first.
        expect(await sweep()).toBe(0);
        steadyMs += 10 * SECOND_MS;
        await one.beat();
        expect(await sweep()).toBe(0);
      }
      expect(await held()).toBe(900n);
    });

    test("a process that was held up itself looks anew before it calls another dead", async () => {
      const sweep = sweeperOf(other);
      expect(await sweep()).toBe(0);
      steadyMs += 600 * SECOND_MS;
      expect(await sweep()).toBe(0);
      steadyMs += 20 * SECOND_MS;
      expect(await sweep()).toBe(0);
      steadyMs += 10 * SECOND_MS;
      expect(await sweep()).toBe(1);
    });

    test("a sign of life between the look and the sweep counts", async () => {
      const look = createDeadProcessDetector(other.name, () => steadyMs);
      for (let looks = 0; looks < 3; looks++, steadyMs += 10 * SECOND_MS)
        expect(await look(db)).toEqual([]);
      const silent = await look(db);
      expect(silent.map(({ name }) => name)).toEqual([one.name]);
      await one.beat();
      expect(await sweepHolds(db, NOW, silent)).toBe(0);
      expect(await held()).toBe(900n);
    });

    test("what an earlier start of the same name held is given back at once", async () => {
      await startEpoch(store.db, one.name, NOW);
      expect(await sweeperOf(one)()).toBe(1);
      expect(await held()).toBe(0n);
    });

    test("a process whose clock is set back is not taken for silent", async () => {
      const sweep = sweeperOf(other);
      for (let look = 0; look < 8; look++, steadyMs += 10 * SECOND_MS) {
        await one.beat(-HOUR_MS * look);
        expect(await sweep()).toBe(0);
      }
      expect(await held()).toBe(900n);
    });
  });
});
