// Compares the usage roll-ups with the records, and rebuilds those of accounts that differ.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { DAY_MS, HOUR_MS } from "../../src/base/time.ts";
import { type Db, text } from "../../src/store/db.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { joinPending, toPendingRow } from "../../src/usage/rollup/pending.ts";
import { rollUp, rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import { sumUsage } from "../../src/usage/usage-stats.ts";
import {
  findRollupDifferences,
  rebuildWrongRollups,
} from "../../src/verification/verify-rollups.ts";
import { openAccount, usageRecord } from "../ledger/fixtures.ts";
import { eventually } from "../support/eventually.ts";
import { openStore, STORE_KINDS, type TestStore } from "../support/stores/stores.ts";

const START = Date.parse("2026-03-01T00:00:00Z");
const DAYS = 4;

describe.each(STORE_KINDS)("usage roll-ups on %s", (kind) => {
  let store: TestStore;
  const problems = async (from?: number): Promise<readonly string[]> => {
    const found = await store.db.snapshot((reader) => findRollupDifferences(reader, from));
    return found.map(({ problem }) => problem);
  };
  beforeAll(async () => {
    store = await openStore(kind);
    const { db } = store;
    for (const account of ["acct_a", "acct_b"])
      await db.write((tx) => openAccount(tx, account, [`${account}.k`], START));
    for (let day = 0; day < DAYS; day++)
      await insertCalls(db, ["acct_a", "acct_b"], START + day * DAY_MS);
    await rollUpUsage(db);
  });
  afterAll(() => store.close());

  test("equal the records, also while some of them wait for the job", async () => {
    await insertCalls(store.db, ["acct_a"], START + DAYS * DAY_MS);
    expect(await problems()).toEqual([]);
    expect(await problems(START + 2 * DAY_MS)).toEqual([]);
  });

  test("that miss the calls of a process of an older version are found and rebuilt", async () => {
    const { db } = store;
    const before = await sumUsage(db, "acct_a", {}, "label");
    // Such a process writes records and queues nothing.
    await insertCalls(db, ["acct_a"], START + DAY_MS + HOUR_MS);
    await db.write((tx) => tx.run("delete from usage_pending"));
    await db.write((tx) =>
      tx.run(
        "update usage_rollup set cost_nano = cost_nano + 5 where account_id = 'acct_b' and unit = 'hour' and at < ?",
        [START + HOUR_MS],
      ),
    );
    const found = await problems();
    expect(found.toSorted()[0]).toBe(
      "the usage summaries of acct_a by day do not match its records on 2026-03-02: kept 2 calls, 34 tokens and 0.00000002 USD, records 4 calls, 68 tokens and 0.00000004 USD",
    );
    expect(found.join("\n")).toMatch(/acct_b by hour .* on 2026-03-01/);
    // Days before the last verification are compared by --full only.
    expect((await problems(START + 3 * DAY_MS)).join()).not.toContain("2026-03-02");

    await insertCalls(db, ["acct_a", "acct_b"], START + 2 * DAY_MS);
    expect(await rebuildWrongRollups(db)).toBe(2);
    expect(await problems()).toEqual([]);
    await rollUpUsage(db);
    expect(await problems()).toEqual([]);
    const after = await sumUsage(db, "acct_a", {}, "label");
    expect(after.map(({ group }) => group)).toEqual(before.map(({ group }) => group));
    expect(await rebuildWrongRollups(db)).toBe(0);
  });

  test("of archived calls are kept, also of those that are archived before others are rebuilt", async () => {
    const { db } = store;
    await archive(db, 0);
    expect(await problems()).toEqual([]);
    await insertCalls(db, ["acct_b"], START + 5 * DAY_MS);
    await rollUpUsage(db);
    const calls =
      "select sum(calls) as calls from usage_rollup where account_id = 'acct_b' and unit = 'day'";
    const kept = await db.get(calls);
    await db.write((tx) =>
      tx.run("delete from usage_rollup where account_id = 'acct_b' and at >= ?", [
        START + 5 * DAY_MS,
      ]),
    );
    const archiving: Db = {
      ...db,
      write: async (work, durability) => {
        await archive(db, 2);
        return db.write(work, durability);
      },
    };
    expect(await rebuildWrongRollups(archiving)).toBe(1);
    expect(await db.get(calls)).toEqual(kept ?? {});
  });

  test("are rebuilt once a job in flight has added its rows", async () => {
    const { db } = store;
    await insertCalls(db, ["acct_a"], START + 2 * DAY_MS);
    await db.write((tx) =>
      tx.run("update usage_rollup set calls = calls + 1 where account_id = 'acct_a' and at >= ?", [
        START + 3 * DAY_MS,
      ]),
    );
    let runs = 0;
    let rebuilt: Promise<number> | undefined;
    await db.write(async (tx) => {
      runs += 1;
      const keys = (await tx.all("select account_id, id from usage_pending")).map(
        (row) => [text(row, "account_id"), text(row, "id")] as const,
      );
      const rows = await tx.lockMany("usage_pending", "account_id, id", keys);
      rebuilt ??= rebuildWrongRollups(db);
      if (kind === "postgres")
        await eventually(async () => {
          const [waiting] = await db.all(
            `select 1 as one from pg_locks where not granted and relation = 'usage_pending'::regclass
               and database = (select oid from pg_database where datname = current_database())`,
          );
          return waiting;
        });
      await rollUp(tx, keys, joinPending(rows.map(toPendingRow)));
    });
    expect([await rebuilt, runs]).toEqual([1, 1]);
    expect(await problems()).toEqual([]);
  });
});

/** The calls of acct_b up to the end of a day. */
async function archive(db: Db, day: number): Promise<void> {
  const at = START + day * DAY_MS;
  await db.write(async (tx) => {
    await tx.run(
      `insert into usage_archive (account_id, key_id, calls, cost_nano, charged_nano, last_at, through_id)
       values ('acct_b', 'acct_b.k', 2, 0, 0, 1, ?)
       on conflict (account_id, key_id) do update set through_id = excluded.through_id`,
      [newId("req", at + HOUR_MS)],
    );
    await tx.run("delete from usage_record where account_id = 'acct_b' and created_at < ?", [
      at + DAY_MS,
    ]);
  });
}

/** Two calls per account in one batch, one of them with a label. */
async function insertCalls(db: Db, accountIds: readonly string[], at: number): Promise<void> {
  const records = accountIds.flatMap((accountId) =>
    [at + 1, at + 2].map((createdAt, index) =>
      usageRecord({
        id: newId("req", createdAt),
        accountId,
        keyId: `${accountId}.k`,
        cost: 10n,
        createdAt,
        inputTokens: 10,
        outputTokens: 7,
        labels: index === 0 ? ["team=a"] : [],
      }),
    ),
  );
  await db.write((tx) => insertUsage(tx, records));
}
