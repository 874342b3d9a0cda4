// Reads by account find the same records, whether or not they are in segments. Random histories of late calls, failed
// transactions, deletions, and reads by a second connection.

import { describe, expect, test } from "bun:test";
import type { Reader } from "../../src/store/db.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import {
  type IdRange,
  selectUsage,
  selectUsageInOrder,
  type SqlCondition,
} from "../../src/usage/usage-of-account.ts";
import {
  completeSegments,
  createAddSegment,
  deleteEmptySegments,
  removeFromSegments,
} from "../../src/usage/usage-segments.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import { createRandom, type RandomInt } from "../support/random.ts";
import { describeEachStore, openStoreAt } from "../support/stores/stores.ts";

const SEEDS = [1, 2, 3, 4];
const STEPS = 60;
const BATCH_MAX = 6;
const ACCOUNTS = ["acct_a", "acct_b", "acct_c"];
const SIZE = { records: 7, tailKept: 3 };
/** Records with the same number get ids that differ by a random number below this. */
const IDS = 10_000;

describeEachStore((kind, open) => {
  describe(`usage records by account on ${kind}`, () => {
    for (const seed of SEEDS)
      test(`every read finds the records of its account (seed ${seed})`, async () => {
        const store = await open();
        const other = openStoreAt(store.location);
        const random = createRandom(seed);
        const accounts = new Map<string, string>();
        const addSegment = createAddSegment(SIZE, 1);
        let newest = 0;
        for (let step = 0; step < STEPS; step++) {
          const records = Array.from({ length: 1 + random(BATCH_MAX) }, () => {
            newest += 1;
            // One of five calls began long before it ends.
            const id = idOf(random(5) === 0 ? random(newest * 10) : newest * 10, random);
            return record(id, ACCOUNTS[random(ACCOUNTS.length)] ?? "");
          }).filter(({ id }) => !accounts.has(id));
          const fails = random(4) === 0;
          const written = store.db.write(async (tx) => {
            await insertUsage(tx, records);
            await addSegment(tx, records.length);
            if (fails) throw new Error("the process ended before the commit");
          });
          await written.catch((error: unknown) => {
            if (!fails) throw error;
          });
          if (!fails) for (const { id, accountId } of records) accounts.set(id, accountId);
          if (random(8) === 0) await deleteOldest(store.db, accounts, random);
          await expectReads(other, accounts, random);
        }
        await completeSegments(store.db, SIZE);
        await expectReads(other, accounts, random);
        if (kind === "sqlite") await expectEntries(other);
        await other.close();
        await store.close();
      });
  });
});

describe("segments on sqlite", () => {
  describeEachStore(
    (_, open) => {
      test("the tail is limited to a segment, the records kept in it, and a batch", async () => {
        const store = await open();
        const addSegment = createAddSegment(SIZE, 1);
        const tails: number[] = [];
        for (let number = 1; number <= 100; number++) {
          await store.db.write(async (tx) => {
            await insertUsage(tx, [
              record(
                idOf(number, () => 0),
                "acct_a",
              ),
            ]);
            await addSegment(tx, 1);
          });
          tails.push(await countTail(store.db));
        }
        expect(Math.max(...tails)).toBe(SIZE.records + SIZE.tailKept);
        await store.close();
      });

      test("records without entries, as after an upgrade, get them", async () => {
        const store = await open();
        const ids = Array.from({ length: 100 }, (_unused, number) => idOf(number, () => 0));
        await store.db.write((tx) =>
          insertUsage(
            tx,
            ids.map((id) => record(id, "acct_a")),
          ),
        );
        expect(await countTail(store.db)).toBe(100);
        await completeSegments(store.db, SIZE);
        expect(await countTail(store.db)).toBeLessThanOrEqual(SIZE.records + SIZE.tailKept);
        await expectEntries(store.db);
        await store.close();
      });

      // SQLite searches an index by one lower bound, and must not take that of the range where it is below the tail.
      test("a page reads no record that is not of its account, range and limit", async () => {
        const store = await open();
        const ids = Array.from({ length: 100 }, (_unused, number) => idOf(number, () => 0));
        await store.db.write((tx) =>
          insertUsage(
            tx,
            ids.map((id) => record(id, "acct_a")),
          ),
        );
        await completeSegments(store.db, SIZE);
        const [from, before] = [ids[20] ?? "", ids[98] ?? ""];
        // Fails if an older record is read, because its id is not JSON.
        const others = [
          { sql: "case when id < ? then json(id) else '' end = ''", values: [ids[75] ?? ""] },
        ];
        const { sql, values } = selectUsageInOrder(
          "sqlite",
          "id",
          { accountId: "acct_a", ids: { from, before }, others },
          { order: "desc", limit: 10 },
        );
        const rows = await store.db.all(sql, values);
        expect(rows.map(({ id }) => String(id))).toEqual(ids.slice(88, 98).toReversed());
        await store.close();
      });

      test("a page of an account reads no whole table and sorts no entries", async () => {
        const store = await open();
        const page = selectUsageInOrder(
          "sqlite",
          "*",
          { accountId: "acct_a", ids: { before: "req_z" } },
          { order: "desc", limit: 50 },
        );
        const plan = await store.db.all(`explain query plan ${page.sql}`, page.values);
        const steps = plan.map(({ detail }) => String(detail));
        expect(steps.filter((step) => /SCAN usage_record/.test(step))).toEqual([]);
        const searches = steps.filter((step) => /usage_by_account|usage_record/.test(step));
        expect(searches).toHaveLength(3);
        for (const search of searches) expect(search).toMatch(/^SEARCH/);
        // Only two pages are sorted, one of the tail and one of the segments, because each subquery has the limit.
        const subqueries = plan.filter(({ detail }) => String(detail).startsWith("CO-ROUTINE"));
        const sorted = plan.filter(({ detail }) => /TEMP B-TREE/.test(String(detail)));
        expect(subqueries).toHaveLength(2);
        for (const { id } of subqueries)
          expect(sorted.filter(({ parent }) => parent === id)).toEqual([]);
        await store.close();
      });
    },
    ["sqlite"],
  );
});

function idOf(number: number, random: RandomInt): string {
  return `req_${String(number).padStart(6, "0")}${String(random(IDS)).padStart(4, "0")}`;
}

function record(id: string, accountId: string): ReturnType<typeof usageRecord> {
  return usageRecord({ id, accountId, keyId: `${accountId}.k`, cost: 1n, createdAt: 1 });
}

async function deleteOldest(
  db: Parameters<typeof completeSegments>[0],
  accounts: Map<string, string>,
  random: RandomInt,
): Promise<void> {
  const accountId = ACCOUNTS[random(ACCOUNTS.length)] ?? "";
  const ids = idsOf(accounts, accountId).slice(0, 1 + random(40));
  const [first, last] = [ids[0], ids.at(-1)];
  if (first === undefined || last === undefined) return;
  await db.write(async (tx) => {
    for (const id of ids)
      await tx.run("delete from usage_record where account_id = ? and id = ?", [accountId, id]);
    await removeFromSegments(tx, accountId, { first, last });
    await deleteEmptySegments(tx);
  });
  for (const id of ids) accounts.delete(id);
}

function idsOf(accounts: ReadonlyMap<string, string>, accountId: string): readonly string[] {
  return [...accounts]
    .filter(([, owner]) => owner === accountId)
    .map(([id]) => id)
    .toSorted();
}

async function expectReads(
  reader: Reader,
  accounts: ReadonlyMap<string, string>,
  random: RandomInt,
): Promise<void> {
  const accountId = ACCOUNTS[random(ACCOUNTS.length)] ?? "";
  const accountIds = idsOf(accounts, accountId);
  const bound = (max: number): string =>
    random(2) === 0 ? idOf(random(max), random) : (accountIds[random(accountIds.length)] ?? "");
  const [lower, upper] = [bound(3_000), bound(4_000)];
  const limit = 1 + random(30);
  const readIds = async (statement: SqlCondition): Promise<readonly string[]> =>
    (await reader.all(statement.sql, statement.values)).map(({ id }) => String(id));
  const account = { sql: "account_id = ?", values: [accountId] };
  for (const ids of [
    {},
    { from: lower },
    { after: lower },
    { before: upper },
    { upTo: upper },
    { from: lower, before: upper },
    { after: lower, upTo: upper },
  ]) {
    const expected = accountIds.filter((id) => isWithin(id, ids));
    const all = await readIds(selectUsage(reader.kind, "usage_record.id as id", account, ids));
    expect(all.toSorted()).toEqual([...expected]);
    const range = { accountId, ids, others: [{ sql: "cost_nano > ?", values: [0] }] };
    for (const order of ["asc", "desc"] as const) {
      const found = await readIds(selectUsageInOrder(reader.kind, "id", range, { order, limit }));
      const inOrder = order === "asc" ? expected : expected.toReversed();
      expect(found).toEqual(inOrder.slice(0, limit));
    }
  }
}

function isWithin(id: string, { from, after, before, upTo }: IdRange): boolean {
  return (
    (from === undefined || id >= from) &&
    (after === undefined || id > after) &&
    (before === undefined || id < before) &&
    (upTo === undefined || id <= upTo)
  );
}

/** Every record that is not in the tail has exactly one entry. */
async function expectEntries(reader: Reader): Promise<void> {
  const rows = await reader.all(
    `select id, account_id from usage_record
     where id <= (select max(last_id) from usage_segment) order by id, account_id`,
  );
  const entries = await reader.all(
    "select id, account_id from usage_by_account order by id, account_id",
  );
  expect(entries.length).toBeGreaterThan(0);
  expect(entries).toEqual(rows);
}

async function countTail(reader: Reader): Promise<number> {
  const row = await reader.get(
    "select count(*) as count from usage_record where id > (select coalesce(max(last_id), '') from usage_segment)",
  );
  return Number(row?.["count"]);
}
