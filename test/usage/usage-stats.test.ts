// Compares the sums of the roll-ups with plain sums over random records, before, while and after they are rolled up.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { DAY_MS, HOUR_MS } from "../../src/base/time.ts";
import type { Db } from "../../src/store/db.ts";
import { readFilterValues } from "../../src/usage/filter-values.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { latencyBucket, percentileMs } from "../../src/usage/rollup/latency-histogram.ts";
import { OTHER_LABELS, LABELS_PER_DAY_MAX, rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import { bucketOf, startOfDay } from "../../src/usage/time-buckets.ts";
import {
  isLabelDimension,
  labelDimensionOf,
  labelsOfFilter,
  type UsageFilter,
  type UsageListFilter,
} from "../../src/usage/usage-filter.ts";
import { listUsage } from "../../src/usage/usage-list.ts";
import {
  type Grouping,
  GROUPINGS,
  previousPeriod,
  readUsage,
  readCostSeries,
  sumUsage,
  totalUsage,
} from "../../src/usage/usage-stats.ts";
import { OUTCOMES, type UsageRecord } from "../../src/usage/usage.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

const START = Date.UTC(2026, 9, 20, 22, 17, 3);
const RECORDS = 600;
const SPAN_MS = 9 * DAY_MS;
const ACCOUNT = "acct_a";
const FILTERS: readonly UsageFilter[] = [
  {},
  { from: START + DAY_MS },
  { from: START + 30 * 60_000, to: START + 4 * DAY_MS + 5 },
  { from: START + HOUR_MS, to: START + HOUR_MS + 600_000 },
  { model: "m1" },
  { keyId: "k2", provider: "p0", from: START + 3 * DAY_MS },
  { api: "responses" },
  { label: "team=a" },
  { label: "job=j2", model: "m0", to: START + 5 * DAY_MS },
  { session: "s1", from: START + DAY_MS },
  { agent: "a_0" },
  { from: START + 90 * DAY_MS },
];

/** Summer time ends in Berlin within the records; Auckland is ahead by more than half a day. */
const VIEWS: readonly (readonly [Grouping, string])[] = [
  ...GROUPINGS.map((grouping) => [grouping, "UTC"] as const),
  ...["America/New_York", "Europe/Berlin", "Pacific/Auckland", "Asia/Kolkata"].map(
    (timeZone) => ["day", timeZone] as const,
  ),
];

describeEachStore((kind, open) => {
  describe(`usage sums on ${kind}`, () => {
    let store: TestStore;
    let records: readonly UsageRecord[];

    beforeAll(async () => {
      store = await open();
      records = randomRecords();
      await insertInBatches(store.db, records.slice(0, RECORDS / 2));
      await rollUpUsage(store.db);
      // The second half is read from the queue at first.
      await insertInBatches(store.db, records.slice(RECORDS / 2));
    });
    afterAll(() => store.close());

    const expectSums = async (): Promise<void> => {
      for (const filter of FILTERS)
        for (const [grouping, timeZone] of VIEWS) {
          if (isOfOtherLabel(filter, grouping)) continue;
          const sums = await readUsage(store.db, (reader) =>
            sumUsage(reader, ACCOUNT, { ...filter, timeZone }, grouping),
          );
          const actual = new Map(sums.map((sum) => [sum.group, [sum.calls, sum.cost, sum.errors]]));
          expect({ filter, grouping, timeZone, actual }).toEqual({
            filter,
            grouping,
            timeZone,
            actual: plainSums(records, filter, { grouping, timeZone }),
          });
        }
    };

    test("equal plain sums while records wait for the roll-up", expectSums);

    test("equal plain sums after the roll-up, which counts each record once", async () => {
      expect(await rollUpUsage(store.db)).toBeGreaterThan(0);
      expect(await rollUpUsage(store.db)).toBe(0);
      expect(await store.db.all("select id from usage_pending")).toEqual([]);
      await expectSums();
    });

    test("total tokens, latency percentiles and the period before", async () => {
      const total = await totalUsage(store.db, ACCOUNT);
      const own = records.filter(({ accountId }) => accountId === ACCOUNT);
      const sorted = own.map(({ latencyMs }) => latencyMs).sort((one, other) => one - other);
      const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
      expect(total.calls).toBe(own.length);
      expect(total.inputTokens).toBe(own.reduce((sum, one) => sum + one.inputTokens, 0));
      expect(total.latencyMs?.p50).toBeGreaterThan(median * 0.5);
      expect(total.latencyMs?.p50).toBeLessThan(median * 2);
      expect(total.firstTokenMs?.p95).toBeGreaterThan(total.firstTokenMs?.p50 ?? 0);
      const now = START + 6 * DAY_MS;
      const before = previousPeriod({ from: now - DAY_MS }, now);
      expect(before).toEqual({ from: now - 2 * DAY_MS, to: now - DAY_MS });
      expect(previousPeriod({}, now)).toBeUndefined();
    });

    test("return a chart by bucket and group, oldest first", async () => {
      const buckets = { unit: "day", timeZone: "UTC" } as const;
      const series = await readCostSeries(store.db, ACCOUNT, {}, { buckets, dimension: "model" });
      const own = records.filter(({ accountId }) => accountId === ACCOUNT);
      expect(series.reduce((sum, { calls }) => sum + calls, 0)).toBe(own.length);
      const days = series.map(({ bucket }) => bucket);
      expect(days).toEqual(days.toSorted());
      const [first] = series;
      const expected = own.filter(
        ({ createdAt, model }) =>
          bucketOf(buckets, createdAt) === first?.bucket && model === first.group,
      );
      expect(first?.calls).toBe(expected.length);
    });

    test("belong to one account", async () => {
      expect((await totalUsage(store.db, "acct_b")).calls).toBe(
        records.filter(({ accountId }) => accountId === "acct_b").length,
      );
      expect((await totalUsage(store.db, "acct_c")).calls).toBe(0);
    });

    test("list the records that match a filter, in pages", async () => {
      const filters: readonly UsageListFilter[] = [
        ...FILTERS,
        { outcome: "failed" },
        { status: 502 },
      ];
      for (const filter of filters)
        for (const limit of [7, 100]) {
          const listed: string[] = [];
          for (let cursor: string | undefined; ;) {
            const page = await listUsage(store.db, ACCOUNT, filter, { limit, cursor });
            listed.push(...page.data.map(({ id }) => id));
            if (page.next_cursor === null) break;
            cursor = page.next_cursor;
          }
          const expected = records
            .filter((record) => matches(record, filter))
            .filter((one) => filter.outcome === undefined || isFailed(one))
            .filter(({ status }) => (filter.status ?? status) === status)
            .map(({ id }) => id)
            .sort()
            .toReversed();
          expect({ filter, limit, listed }).toEqual({ filter, limit, listed: expected });
        }
    });

    test("find one record by its id, unless another filter excludes it", async () => {
      const one = records.find(({ accountId }) => accountId === ACCOUNT);
      const idsOf = async (filter: UsageListFilter): Promise<readonly string[]> =>
        (await listUsage(store.db, ACCOUNT, filter, { limit: 5 })).data.map(({ id }) => id);
      const id = one?.id ?? "";
      expect(await idsOf({ id })).toEqual([id]);
      expect(await idsOf({ id, model: "another" })).toEqual([]);
    });

    test("name what filters can offer, the most expensive first, also before the roll-up", async () => {
      const at = START + 20 * DAY_MS;
      const calls = ["cheap", "dear"].map((model, index) =>
        record(at + index, {
          accountId: "acct_f",
          model,
          cost: model === "dear" ? 9n : 1n,
          labels: ["team=f"],
        }),
      );
      await insertInBatches(store.db, calls);
      const offered = { models: ["dear", "cheap"], keys: ["k1"], labels: ["team=f"] };
      const period = { from: at - HOUR_MS, to: at + HOUR_MS };
      expect(await readFilterValues(store.db, "acct_f", period)).toMatchObject(offered);
      await rollUpUsage(store.db);
      expect(await readFilterValues(store.db, "acct_f", period)).toMatchObject(offered);
      const later = { from: at + 2 * DAY_MS };
      expect(await readFilterValues(store.db, "acct_f", later)).toMatchObject({ models: [] });
    });

    test("limit the labels of a day, so that unique labels do not create rows without limit", async () => {
      const count = LABELS_PER_DAY_MAX + 50;
      const labeled = Array.from({ length: count }, (_, index) => {
        return record(START, { accountId: "acct_l", labels: [`call=${index}`] });
      });
      await insertInBatches(store.db, labeled);
      await rollUpUsage(store.db);
      const sums = await sumUsage(store.db, "acct_l", {}, "label");
      expect(sums).toHaveLength(LABELS_PER_DAY_MAX + 1);
      expect(sums.find(({ group }) => group === OTHER_LABELS)?.calls).toBe(50);
      expect((await totalUsage(store.db, "acct_l")).calls).toBe(count);
    });
  });
});

describe("latency histogram", () => {
  test("puts each latency in its bucket", () => {
    expect([0, 15, 16, 31, 32, 131_071, 131_072, 9e6].map(latencyBucket)).toEqual([
      0, 0, 1, 1, 2, 13, 14, 14,
    ]);
  });

  test("interpolates percentiles and has none without samples", () => {
    expect(percentileMs([], 0.5)).toBeUndefined();
    expect(percentileMs([0, 0, 4], 0.5)).toBe(44);
    expect(percentileMs([1, 0, 0, 3], 0.01)).toBe(8);
    expect([0.5, 0.95].map((share) => percentileMs([0, 1], share))).toEqual([24, 24]);
  });
});

test("startOfDay returns the first hour of a local day", () => {
  const noon = Date.UTC(2026, 9, 25, 12);
  expect(startOfDay("UTC", noon)).toBe(Date.UTC(2026, 9, 25));
  // Summer time ends on this day.
  expect(startOfDay("Europe/Berlin", noon)).toBe(Date.UTC(2026, 9, 24, 22));
});

function record(createdAt: number, fields: Partial<UsageRecord> = {}): UsageRecord {
  return usageRecord({
    id: newId("req", createdAt),
    accountId: ACCOUNT,
    keyId: "k1",
    cost: 5n,
    createdAt,
    ...fields,
  });
}

function randomRecords(): readonly UsageRecord[] {
  let state = 7;
  const random = (sides: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
  return Array.from({ length: RECORDS }, () => {
    const outcome =
      random(4) > 0 ? "completed" : (OUTCOMES[random(OUTCOMES.length)] ?? "completed");
    return record(START + random(SPAN_MS), {
      accountId: random(5) > 0 ? ACCOUNT : "acct_b",
      keyId: `k${random(3)}`,
      model: `m${random(3)}`,
      provider: `p${random(2)}`,
      api: random(2) > 0 ? "chat" : "responses",
      labels: randomLabels(random),
      outcome,
      status: outcome === "upstream_error" ? 502 : 200,
      cost: BigInt(random(1_000_000)),
      inputTokens: random(1_000),
      latencyMs: random(5_000),
      firstTokenMs: random(2) > 0 ? random(900) : null,
    });
  });
}

async function insertInBatches(db: Db, records: readonly UsageRecord[]): Promise<void> {
  for (let index = 0; index < records.length; index += 40)
    await db.write((tx) => insertUsage(tx, records.slice(index, index + 40)));
}

function matches(record: UsageRecord, filter: UsageFilter): boolean {
  return (
    record.accountId === ACCOUNT &&
    record.createdAt >= (filter.from ?? 0) &&
    record.createdAt < (filter.to ?? Infinity) &&
    (filter.model ?? record.model) === record.model &&
    (filter.keyId ?? record.keyId) === record.keyId &&
    (filter.provider ?? record.provider) === record.provider &&
    (filter.api ?? record.api) === record.api &&
    labelsOfFilter(filter).every((label) => record.labels.includes(label))
  );
}

function isFailed({ outcome }: UsageRecord): boolean {
  return outcome !== "completed" && outcome !== "client_aborted";
}

function plainSums(
  records: readonly UsageRecord[],
  filter: UsageFilter,
  view: { readonly grouping: Grouping; readonly timeZone: string },
): Map<string, [number, bigint, number]> {
  const sums = new Map<string, [number, bigint, number]>();
  for (const record of records.filter((one) => matches(one, filter)))
    for (const group of groupsOf(record, filter, view)) {
      const [calls, cost, errors] = sums.get(group) ?? [0, 0n, 0];
      sums.set(group, [calls + 1, cost + record.cost, errors + Number(isFailed(record))]);
    }
  return sums;
}

/** Sums by a label cannot be filtered by another one. */
function isOfOtherLabel(filter: UsageFilter, grouping: Grouping): boolean {
  const labels = labelsOfFilter(filter);
  return isLabelDimension(grouping) && labels.some((one) => labelDimensionOf(one) !== grouping);
}

/** `agent=a_0` and `agent=ax0` differ in a character that is a wildcard of `like`. */
function randomLabels(random: (below: number) => number): readonly string[] {
  const chosen = random(3) > 0 ? [] : [`job=j${random(4)}`, "team=a"];
  const agents = ["a_0", "ax0"].map((id) => `agent=${id}`);
  const session = random(3) > 0 ? [] : [`session=s${random(3)}`, ...agents.slice(random(2), 1)];
  return [...chosen, ...session, ...(random(5) > 0 ? [] : [agents[1] ?? ""])].filter(
    (label, index, all) => all.findIndex((one) => one.startsWith(label.slice(0, 6))) === index,
  );
}

function groupsOf(
  record: UsageRecord,
  filter: UsageFilter,
  { grouping, timeZone }: { readonly grouping: Grouping; readonly timeZone: string },
): readonly string[] {
  const hour = record.createdAt - (record.createdAt % HOUR_MS);
  if (grouping === "day" || grouping === "hour")
    return [bucketOf({ unit: grouping, timeZone }, hour)];
  if (isLabelDimension(grouping)) {
    const [filtered] = labelsOfFilter(filter);
    const labels = filtered === undefined ? record.labels : [filtered];
    const found = labels.filter((label) => labelDimensionOf(label) === grouping);
    return grouping === "label" ? found : found.map((label) => label.slice(grouping.length + 1));
  }
  return [grouping === "key" ? record.keyId : record[grouping]];
}
