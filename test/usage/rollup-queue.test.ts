// Each usage record is counted exactly once, whatever happens to the memory of a process: it ends, its transactions fail, or the rows
// that it queued are rolled up from the store by another process.

import { describe, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { HOUR_MS, MINUTE_MS } from "../../src/base/time.ts";
import { sumByHour } from "../../src/ledger/call-charges.ts";
import { type Db, integer } from "../../src/store/db.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import type { PendingRow } from "../../src/usage/rollup/pending.ts";
import { emptyQueue, rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import { createRollupQueue, type RollupQueue } from "../../src/usage/rollup/rollup-queue.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import {
  findChargeDifferences,
  rebuildChargeHours,
} from "../../src/verification/verify-charges.ts";
import { findRollupDifferences } from "../../src/verification/verify-rollups.ts";
import { openAccount, usageRecord } from "../ledger/fixtures.ts";
import { createRandom, type RandomInt, TEST_SEED } from "../support/random.ts";
import { describeEachStore } from "../support/stores/stores.ts";

const START = Date.parse("2026-03-01T22:30:00Z");
const ACCOUNTS = Array.from({ length: 40 }, (_, index) => `acct_${index}`);
const STEPS = 50;

describeEachStore((kind, open) => {
  describe(`the queue of roll-ups on ${kind}`, () => {
    test("counts each record once over ended processes, failed transactions and other readers of the queue", async () => {
      const store = await open();
      const { db } = store;
      await openAccounts(db);
      const random = createRandom(TEST_SEED);
      const queues = [createRollupQueue(), createRollupQueue()];
      let written = 0;
      for (let step = 0; step < STEPS; step++) {
        const now = START + step * MINUTE_MS;
        const index = random(queues.length);
        const queue = queues[index] ?? createRollupQueue();
        const records = randomRecords(random, now);
        const fails = random(6) === 0;
        await insert(db, queue, records, fails);
        if (!fails) written += records.length;
        // The process ends, and its successor has an empty memory.
        if (random(10) === 0) queues[index] = createRollupQueue();
        if (random(3) === 0) await queue.flush(db, now);
        if (random(12) === 0) await rollUpUsage(db);
        if (random(12) === 0) await rollUpUsage(db, now - 5 * MINUTE_MS);
        if (random(15) === 0) await db.write(rebuildChargeHours);
        if (random(10) === 0) await expectNoDifferences(db);
      }
      await Promise.all(queues.map((queue) => queue.flush(db, START + HOUR_MS)));
      await rollUpUsage(db);
      await expectNoDifferences(db);
      expect(await db.all("select id from usage_pending")).toEqual([]);
      for (const table of ["usage_rollup where label = '' and unit = 'day'", "provider_hour"])
        expect(await callsOf(db, table)).toBe(written);
      await store.close();
    });

    test("writes the sums of a key once for many calls", async () => {
      const store = await open();
      const { db } = store;
      await openAccounts(db);
      const queue = createRollupQueue();
      for (let call = 0; call < 20; call++) await insert(db, queue, [record("acct_0", START)]);
      // The memory alone has the sums: what the rows contain is not read.
      await db.write((tx) => tx.run("update usage_pending set deltas = '[]'"));
      await queue.flush(db, START);
      expect(await callsOf(db, "usage_rollup where unit = 'hour'")).toBe(20);
      expect(await db.all("select id from usage_pending")).toEqual([]);
      await store.close();
    });

    test("waits until the sums of many calls are merged, for at most 30 seconds", async () => {
      const store = await open();
      const { db } = store;
      await openAccounts(db);
      const queue = createRollupQueue();
      await queue.flush(db, START);
      await insert(db, queue, [record("acct_0", START)]);
      await queue.flushIfDue(db, START + 29_999);
      expect(await callsOf(db, "usage_rollup")).toBe(0);
      await queue.flushIfDue(db, START + 30_000);
      expect(await callsOf(db, "usage_rollup where unit = 'hour'")).toBe(1);
      for (let row = 0; row < 400; row++) queue.add(emptyRow(row));
      await queue.flushIfDue(db, START + 30_001);
      await insert(db, queue, [record("acct_0", START)]);
      await queue.flushIfDue(db, START + 60_000);
      expect(await callsOf(db, "usage_rollup where unit = 'hour'")).toBe(1);
      await store.close();
    });

    test("adds many sums in several transactions, of which a later process repeats none", async () => {
      const store = await open();
      const { db } = store;
      await openAccounts(db);
      const queue = createRollupQueue();
      const records = Array.from({ length: 400 }, (_, index) =>
        record(ACCOUNTS[index % ACCOUNTS.length] ?? "", START, `model-${index % 25}`),
      );
      for (let from = 0; from < records.length; from += 50)
        await insert(db, queue, records.slice(from, from + 50));
      let writes = 0;
      const ending: Db = {
        ...db,
        write: (work, durability) => {
          writes += 1;
          if (writes > 2) throw new Error("the process ended");
          return db.write(work, durability);
        },
      };
      const flushed = await queue.flush(ending, START).then(
        () => "flushed",
        (error: Error) => error.message,
      );
      expect(flushed).toBe("the process ended");
      await expectNoDifferences(db);
      await rollUpUsage(db);
      await expectNoDifferences(db);
      expect(await callsOf(db, "usage_rollup where unit = 'hour'")).toBe(records.length);
      await store.close();
    });

    test("adds nothing that was rolled up from the store in the meantime", async () => {
      const store = await open();
      const { db } = store;
      await openAccounts(db);
      const queue = createRollupQueue();
      await insert(db, queue, [record("acct_0", START)]);
      await db.write(emptyQueue);
      await insert(db, queue, [record("acct_1", START)]);
      await queue.flush(db, START);
      await expectNoDifferences(db);
      await rollUpUsage(db, START + MINUTE_MS);
      expect(await callsOf(db, "usage_rollup where unit = 'hour'")).toBe(2);
      await store.close();
    });
  });
});

function emptyRow(row: number): PendingRow {
  return {
    accountId: "",
    id: `row ${row}`,
    deltas: [],
    failures: [],
    charges: [],
    credentialHours: [],
  };
}

async function openAccounts(db: Db): Promise<void> {
  await db.write(async (tx) => {
    for (const account of ACCOUNTS) await openAccount(tx, account, [`${account}.k`], START);
  });
}

/** With what the calls were charged; `fails` undoes the transaction. */
async function insert(
  db: Db,
  queue: RollupQueue,
  records: readonly UsageRecord[],
  fails = false,
): Promise<void> {
  const calls = records.map(({ cost, createdAt: at }) => {
    return { promo: cost, paid: 0n, overrun: 0n, at };
  });
  const written = db.write(async (tx) => {
    await insertUsage(tx, records, { calls, hours: sumByHour(calls) }, queue);
    if (fails) throw new Error("the batch failed");
  });
  await written.catch((error: unknown) => {
    if (!fails) throw error;
  });
}

function randomRecords(random: RandomInt, now: number): readonly UsageRecord[] {
  return Array.from({ length: 1 + random(30) }, () => {
    const account = ACCOUNTS[random(ACCOUNTS.length)] ?? "";
    const labels = random(4) === 0 ? [`team=${random(3)}`] : [];
    return { ...record(account, now - random(2 * HOUR_MS), `model-${random(9)}`), labels };
  });
}

function record(accountId: string, createdAt: number, model = "model"): UsageRecord {
  const owner = { accountId, keyId: `${accountId}.k` };
  return usageRecord({ ...owner, id: newId("req", createdAt), cost: 7n, createdAt, model });
}

async function expectNoDifferences(db: Db): Promise<void> {
  expect(await db.snapshot((reader) => findRollupDifferences(reader))).toEqual([]);
  expect(await findChargeDifferences(db, true)).toEqual([]);
}

async function callsOf(db: Db, from: string): Promise<number> {
  const row = await db.get(`select cast(coalesce(sum(calls), 0) as bigint) as calls from ${from}`);
  return row === undefined ? 0 : integer(row, "calls");
}
