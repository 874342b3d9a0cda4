// The figures of the status page after the clock was ahead.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { DAY_MS, MINUTE_MS, utcDay } from "../../src/base/time.ts";
import { createStatus } from "../../src/status/availability.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import type { Outcome } from "../../src/usage/usage.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

const NOON = Date.UTC(2026, 10, 29, 12);
const MODEL = "openai/gpt-5-mini";

describeEachStore((kind, open) => {
  describe(`the status page on ${kind}`, () => {
    let store: TestStore;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    const addCalls = async (outcome: Outcome, status: number): Promise<void> => {
      const records = Array.from({ length: 6 }, () =>
        usageRecord({
          id: newId("req", NOON),
          accountId: "acct_1",
          keyId: "key_1",
          cost: 0n,
          createdAt: NOON,
          provider: "openai",
          model: MODEL,
          outcome,
          attempts: [{ provider: "openai", model: MODEL, status, ms: 700 }],
        }),
      );
      await store.db.write((tx) => insertUsage(tx, records));
      await rollUpUsage(store.db);
    };

    test("counts the calls of a day that seemed to be over", async () => {
      const readStatus = createStatus({ db: store.db, providerName: (id) => id });
      const uptimeAt = async (now: number): Promise<number | undefined> => {
        const { providers } = await readStatus(now);
        return providers[0]?.days.find(({ day }) => day === utcDay(NOON))?.uptime;
      };
      await addCalls("completed", 200);
      expect(await uptimeAt(NOON + 2 * DAY_MS)).toBe(1);
      await addCalls("upstream_error", 500);
      expect(await uptimeAt(NOON)).toBe(0.5);
      // Once it is over, it is read once.
      expect(await uptimeAt(NOON + DAY_MS)).toBe(0.5);
      expect(await uptimeAt(NOON + DAY_MS + MINUTE_MS)).toBe(0.5);
    });
  });
});
