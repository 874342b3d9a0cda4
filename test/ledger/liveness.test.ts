// Detection of dead processes, with two ledgers on one store whose clocks differ.

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
import { insertUsage } from "../../src/usage/insert-usage.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, promoDeposit } from "./fixtures.ts";

const NOW = Date.UTC(2026, 10, 21, 9, 30);

describeEachStore((kind, open) => {
  describe(`dead processes on ${kind}`, () => {
    let store: TestStore;
    let db: Db;
    let accountId: string;
    let runs = 0;
    let monotonicMs: number;
    let isStoreDown: boolean;
    let first: Process;
    let second: Process;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    interface Process {
      readonly name: string;
      readonly ledger: Ledger<UsageRecord>;
      /** Writes a heartbeat with a clock that is `aheadMs` ahead. */
      readonly heartbeat: (aheadMs?: number) => Promise<boolean>;
    }

    async function startProcess(name: string): Promise<Process> {
      const epoch = await startEpoch(store.db, name, NOW);
      const ledger = createLedger({ db, process: name, epoch, writeRecords: insertUsage });
      let beats = 0;
      return {
        name,
        ledger,
        heartbeat: (aheadMs = 0) =>
          heartbeat(store.db, name, epoch, NOW + aheadMs + (beats += 1) * 5 * SECOND_MS),
      };
    }

    beforeEach(async () => {
      runs += 1;
      monotonicMs = 1_000_000;
      isStoreDown = false;
      accountId = `w${runs}`;
      db = {
        ...store.db,
        all: (sql, values) =>
          isStoreDown ? Promise.reject(new Error("the store is down")) : store.db.all(sql, values),
      };
      await store.db.write(async (tx) => {
        await tx.run("delete from hold");
        await openAccount(tx, accountId, [`${accountId}.k`], NOW);
        await deposit(tx, promoDeposit(`${accountId}.d`, accountId, 1_000n, NOW));
      });
      first = await startProcess(`${accountId}.first`);
      second = await startProcess(`${accountId}.second`);
      const held = await first.ledger.hold({
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
    /** The sweeper of a process with a clock that is `aheadMs` ahead. */
    const sweeperOf = (process: Process, aheadMs = 0) =>
      createSweeper({
        db,
        process: process.name,
        now: () => NOW + aheadMs,
        monotonicNow: () => monotonicMs,
      });
    const held = async (): Promise<bigint> => (await getWallet(store.db, accountId)).held;

    for (const aheadMs of [-7_200, -600, -31, 31, 600, 7_200].map((seconds) => seconds * SECOND_MS))
      test(`a live process keeps its holds if the sweeper's clock is ${aheadMs / SECOND_MS} s ahead`, async () => {
        const sweep = sweeperOf(second, aheadMs);
        for (let check = 0; check < 12; check++) {
          await first.heartbeat();
          expect(await sweep()).toBe(0);
          monotonicMs += 10 * SECOND_MS;
        }
        const rejected = await second.ledger.hold({
          ...ids("b"),
          amount: 900n,
          now: NOW,
          expiresAt: NOW + HOUR_MS,
        });
        expect(rejected.status).toBe("insufficient_credits");
        const settled = await first.ledger.settle({ ...ids("a"), cost: 900n, now: NOW });
        expect(settled).toEqual({ status: "settled", charged: 900n, overrun: 0n, late: false });
      });

    /** How long a sweeper that runs every 10 s needs until it releases a hold. */
    const timeToSweep = async (sweep: () => Promise<number>): Promise<number> => {
      const startedMs = monotonicMs;
      const elapsedMs = (): number => monotonicMs - startedMs;
      while ((await sweep()) === 0 && elapsedMs() < 60 * SECOND_MS) monotonicMs += 10 * SECOND_MS;
      return elapsedMs();
    };

    for (const aheadMs of [0, -2 * HOUR_MS, 2 * HOUR_MS])
      test(`a process without a heartbeat for 30 s loses its holds, and not before; the sweeper's clock is ${aheadMs / SECOND_MS} s ahead`, async () => {
        expect(await timeToSweep(sweeperOf(second, aheadMs))).toBe(30 * SECOND_MS);
        expect(await held()).toBe(0n);
      });

    test("a settlement after the sweep charges the call once", async () => {
      await timeToSweep(sweeperOf(second));
      const settled = await first.ledger.settle({ ...ids("a"), cost: 900n, now: NOW });
      expect(settled).toEqual({ status: "settled", charged: 900n, overrun: 0n, late: true });
    });

    test("a process never sweeps its own holds", async () => {
      const sweep = sweeperOf(first);
      for (let check = 0; check < 12; check++, monotonicMs += 10 * SECOND_MS)
        expect(await sweep()).toBe(0);
      expect(await held()).toBe(900n);
    });

    test("after an outage of the store, no process is dead before it could write a heartbeat", async () => {
      const sweep = sweeperOf(second);
      for (const outageMs of [31, 45, 3_600].map((seconds) => seconds * SECOND_MS)) {
        await first.heartbeat();
        expect(await sweep()).toBe(0);
        isStoreDown = true;
        monotonicMs += 10 * SECOND_MS;
        const failed = await sweep().then(
          () => "swept",
          () => "failed",
        );
        expect(failed).toBe("failed");
        monotonicMs += outageMs;
        isStoreDown = false;
        // The sweeper recovers first.
        expect(await sweep()).toBe(0);
        monotonicMs += 10 * SECOND_MS;
        await first.heartbeat();
        expect(await sweep()).toBe(0);
      }
      expect(await held()).toBe(900n);
    });

    test("a sweeper that was suspended observes anew before it sweeps", async () => {
      const sweep = sweeperOf(second);
      expect(await sweep()).toBe(0);
      monotonicMs += 600 * SECOND_MS;
      expect(await sweep()).toBe(0);
      monotonicMs += 20 * SECOND_MS;
      expect(await sweep()).toBe(0);
      monotonicMs += 10 * SECOND_MS;
      expect(await sweep()).toBe(1);
    });

    test("a heartbeat between detection and sweep keeps the holds", async () => {
      const findDeadProcesses = createDeadProcessDetector(second.name, () => monotonicMs);
      for (let checks = 0; checks < 3; checks++, monotonicMs += 10 * SECOND_MS)
        expect(await findDeadProcesses(db)).toEqual([]);
      const dead = await findDeadProcesses(db);
      expect(dead.map(({ name }) => name)).toEqual([first.name]);
      await first.heartbeat();
      expect(await sweepHolds(db, NOW, dead)).toBe(0);
      expect(await held()).toBe(900n);
    });

    const RETURNS: Readonly<Record<string, () => Promise<unknown>>> = {
      "a heartbeat": () => first.heartbeat(),
      "a new start at the time of its last heartbeat": () => startEpoch(store.db, first.name, NOW),
    };
    for (const [title, comeBack] of Object.entries(RETURNS))
      test(`${title} between detection and release keeps the other work of a process`, async () => {
        const released: string[] = [];
        let isBack = false;
        const sweep = createSweeper({
          // Detection only reads.
          db: {
            ...db,
            write: async (work, durability) => {
              if (isBack) await comeBack();
              return store.db.write(work, durability);
            },
          },
          process: second.name,
          now: () => NOW,
          monotonicNow: () => monotonicMs,
          otherWork: {
            findProcesses: async () => [first.name],
            release: async (_tx, processes) => {
              released.push(...processes.map(({ name }) => name));
            },
          },
        });
        for (let checks = 0; checks < 3; checks++, monotonicMs += 10 * SECOND_MS) await sweep();
        isBack = true;
        await sweep();
        expect(released).toEqual([]);
      });

    test("holds of a previous start under the same name are released immediately", async () => {
      await startEpoch(store.db, first.name, NOW);
      expect(await sweeperOf(first)()).toBe(1);
      expect(await held()).toBe(0n);
    });

    const LOST_STARTS: Readonly<Record<string, string>> = {
      "its row was deleted": "delete from process where name = ?",
      "its row is that of an earlier start":
        "update process set epoch = 0, seen_at = 0 where name = ?",
    };
    for (const [title, sql] of Object.entries(LOST_STARTS)) {
      test(`a live process keeps its holds and its name if ${title}`, async () => {
        const sweep = sweeperOf(second);
        for (let check = 0; check < 12; check++) {
          if (check % 4 === 0) await store.db.write((tx) => tx.run(sql, [first.name]));
          expect(await sweep()).toBe(0);
          expect(await first.heartbeat()).toBe(true);
          monotonicMs += 10 * SECOND_MS;
        }
        expect(await held()).toBe(900n);
      });

      test(`a dead process loses its holds after 40 s if ${title}`, async () => {
        await store.db.write((tx) => tx.run(sql, [first.name]));
        expect(await timeToSweep(sweeperOf(second))).toBe(40 * SECOND_MS);
        expect(await held()).toBe(0n);
      });
    }

    test("a start after the row was deleted has a new epoch and releases the holds of the earlier one", async () => {
      await store.db.write((tx) => tx.run("delete from process where name = ?", [first.name]));
      expect(await startEpoch(store.db, first.name, NOW)).toBe(NOW + 2);
      expect(await first.heartbeat()).toBe(false);
      expect(await sweeperOf(second)()).toBe(1);
    });

    test("a process whose clock steps back is not dead", async () => {
      const sweep = sweeperOf(second);
      for (let check = 0; check < 8; check++, monotonicMs += 10 * SECOND_MS) {
        await first.heartbeat(-HOUR_MS * check);
        expect(await sweep()).toBe(0);
      }
      expect(await held()).toBe(900n);
    });
  });
});
