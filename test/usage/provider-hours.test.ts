// What each model of a provider delivered per hour: kept by the roll-up job, read by public pages and the operator's.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { DAY_MS, HOUR_MS } from "../../src/base/time.ts";
import { createMeasuredModels } from "../../src/server/measured-models.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { percentileMs } from "../../src/usage/rollup/latency-histogram.ts";
import {
  type ProviderPerformance,
  readProviderPerformance,
  startOfLastDay,
  sweepProviderHours,
  uptimeOf,
} from "../../src/usage/rollup/provider-hours.ts";
import { rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import { describeEachStore, openStoreAt, type TestStore } from "../support/stores/stores.ts";

const NOW = Date.UTC(2026, 10, 23, 10, 20);

describeEachStore((kind, open) => {
  describe(`provider hours on ${kind}`, () => {
    let store: TestStore;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    const insert = async (records: readonly UsageRecord[]): Promise<void> => {
      await store.db.write((tx) => insertUsage(tx, records));
    };
    const readDay = async (model: string): Promise<ProviderPerformance | undefined> => {
      await rollUpUsage(store.db);
      const period = { from: startOfLastDay(NOW), to: NOW + 1 };
      const rows = await readProviderPerformance(store.db, period);
      return rows.find((row) => row.model === model);
    };

    test("sum calls, cost and latency over accounts, and count labeled calls once", async () => {
      await insert(
        [20, 24, 700].map((latencyMs, index) =>
          record("sim/sums", {
            accountId: `acct_${index}`,
            latencyMs,
            firstTokenMs: 20,
            labels: ["team=a", "job=b"],
          }),
        ),
      );
      const sums = await readDay("sim/sums");
      expect(sums).toMatchObject({ calls: 3, completed: 3, failures: 0, cost: 15n });
      expect(percentileMs(sums?.latency ?? [], 0.5)).toBeLessThan(32);
      expect(percentileMs(sums?.firstToken ?? [], 0.5)).toBeLessThan(32);
    });

    test("count failed attempts at the provider that failed, also if another one replied", async () => {
      await insert([
        record("sim/second", {
          attempts: [attempt("sim/first", 503), attempt("sim/first", 429), attempt("sim/second")],
        }),
      ]);
      expect(await readDay("sim/first")).toMatchObject({ calls: 0, completed: 0, failures: 2 });
      expect(uptimeOf((await readDay("sim/first")) ?? { completed: 1, failures: 0 })).toBe(0);
      expect(await readDay("sim/second")).toMatchObject({ completed: 1, failures: 0 });
    });

    test("do not blame a provider for callers: their mistakes, hang-ups and own keys", async () => {
      await insert([
        record("sim/blameless", {
          outcome: "upstream_error",
          status: 400,
          attempts: [attempt("sim/blameless", 400)],
        }),
        record("sim/blameless", { outcome: "client_aborted" }),
        record("sim/blameless", {
          attempts: [{ ...attempt("sim/blameless", 401), byok: true }, attempt("sim/blameless")],
        }),
        record("sim/blameless", {
          byok: true,
          outcome: "upstream_error",
          attempts: [{ ...attempt("sim/blameless", 500), byok: true }],
        }),
      ]);
      expect(await readDay("sim/blameless")).toMatchObject({
        calls: 3,
        completed: 1,
        failures: 0,
      });
    });

    test("count a stream that broke after it began", async () => {
      await insert([
        record("sim/broken", { outcome: "upstream_error", attempts: [attempt("sim/broken")] }),
      ]);
      expect(await readDay("sim/broken")).toMatchObject({ completed: 0, failures: 1 });
    });

    test("are summed by all processes together", async () => {
      const other = kind === "postgres" ? openStoreAt(store.location) : store.db;
      const batches = Array.from({ length: 12 }, () => [record("sim/shared", {})]);
      for (const batch of batches) await insert(batch);
      await Promise.all([rollUpUsage(store.db), rollUpUsage(other)]);
      expect(await readDay("sim/shared")).toMatchObject({ calls: 12 });
      if (other !== store.db) await other.close();
    });

    test("leave out what is older than the period, and are deleted after 92 days", async () => {
      const old = { createdAt: NOW - DAY_MS };
      await insert([record("sim/old", old), record("sim/old", { createdAt: NOW - 3 * HOUR_MS })]);
      expect(await readDay("sim/old")).toMatchObject({ calls: 1 });
      const all = { from: 0, to: NOW + 1 };
      const callsOfAll = async (): Promise<number | undefined> =>
        (await readProviderPerformance(store.db, all)).find(({ model }) => model === "sim/old")
          ?.calls;
      expect(await callsOfAll()).toBe(2);
      await store.db.write((tx) => sweepProviderHours(tx, NOW + 91 * DAY_MS + 20 * HOUR_MS));
      expect(await callsOfAll()).toBe(1);
    });

    test("give the figures of models with at least five calls", async () => {
      await insert([
        record("sim/rare", {}),
        ...Array.from({ length: 19 }, () => record("sim/usual", {})),
      ]);
      await insert([
        record("sim/usual", {
          attempts: [attempt("sim/usual", 500)],
          outcome: "upstream_error",
          status: 502,
        }),
      ]);
      await rollUpUsage(store.db);
      const measured = await createMeasuredModels(store.db)(NOW);
      expect(measured({ provider: "sim", id: "sim/rare" })).toBeUndefined();
      expect(measured({ provider: "sim", id: "sim/usual" })?.uptime).toBe(0.95);
    });
  });
});

test("the last known figures stay while the store is unavailable", async () => {
  const failing = { kind: "sqlite", all: () => Promise.reject(new Error("closed")) } as never;
  const measured = await createMeasuredModels(failing)(NOW);
  expect(measured({ provider: "sim", id: "sim/echo" })).toBeUndefined();
});

function record(model: string, fields: Partial<UsageRecord>): UsageRecord {
  const { createdAt = NOW } = fields;
  return usageRecord({
    id: newId("req", createdAt),
    accountId: "acct_a",
    keyId: "k1",
    cost: 5n,
    createdAt,
    model,
    ...fields,
  });
}

function attempt(model: string, status = 200): UsageRecord["attempts"][number] {
  return { provider: "sim", model, status, ms: 5 };
}
