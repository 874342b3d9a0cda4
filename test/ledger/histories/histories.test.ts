// Random interleavings of everything that can happen to an account, checked against a reference model: on both stores,
// and on SQLite with the hold buffer.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { bufferHolds } from "../../../src/ledger/commit/hold-buffer.ts";
import type { Db } from "../../../src/store/db.ts";
import { IS_FULL } from "../../support/full.ts";
import { describeEachStore, type StoreKind, type TestStore } from "../../support/stores/stores.ts";
import { runPlans } from "./generators.ts";
import { runHistories } from "./run-histories.ts";
import { emptyStatistics } from "./run-statistics.ts";

const HISTORIES_PER_RUN = 20;
/** The number of histories. */
const SQLITE = Number(process.env["POSTERN_HISTORIES"] ?? (IS_FULL ? 7_000 : 800));
/** Fixed histories in which every counted kind of event happens, whatever the seed of the test run. */
const VARIED_PLANS = fc.sample(runPlans(HISTORIES_PER_RUN), { seed: 10, numRuns: 4 });

interface StoreVariant {
  readonly name: string;
  readonly histories: number;
  readonly wrap: (db: Db) => Db;
}

// A run takes some milliseconds: the buffer flushes no hold within it, or (with 0 ms) each as soon as a timer fires.
const VARIANTS: Readonly<Record<StoreKind, readonly StoreVariant[]>> = {
  sqlite: [
    { name: "sqlite", histories: SQLITE / 2, wrap: (db) => db },
    { name: "sqlite, buffered holds", histories: SQLITE / 4, wrap: (db) => bufferHolds(db) },
    { name: "sqlite, holds flushed soon", histories: SQLITE / 4, wrap: (db) => bufferHolds(db, 0) },
  ],
  postgres: [
    {
      name: "postgres",
      histories: Math.max(SQLITE / 14, VARIED_PLANS.length * HISTORIES_PER_RUN),
      wrap: (db) => db,
    },
  ],
};

const eachVariant = (
  suite: (variant: StoreVariant, open: () => Promise<TestStore>) => void,
): Parameters<typeof describeEachStore>[0] => {
  return (kind, open) => {
    for (const variant of VARIANTS[kind]) suite(variant, open);
  };
};

describeEachStore(
  eachVariant(({ name, histories, wrap }, open) => {
    describe(`histories on ${name}`, () => {
      let store: TestStore;
      let db: Db;
      beforeAll(async () => {
        store = await open();
        db = wrap(store.db);
      });
      afterAll(() => store.close());

      test("no interleaving or crash overspends a balance, loses a charge or charges twice", async () => {
        const counts = emptyStatistics();
        const started = performance.now();
        let run = 0;
        const property = fc.asyncProperty(runPlans(HISTORIES_PER_RUN), async (plan) => {
          run += 1;
          await runHistories(db, plan, `w${run}`, counts);
        });
        await fc.assert(property, {
          numRuns: Math.ceil(histories / HISTORIES_PER_RUN),
          examples: VARIED_PLANS.map((plan) => [plan]),
          endOnFailure: process.env["POSTERN_SHRINK"] === undefined,
        });
        const seconds = ((performance.now() - started) / 1_000).toFixed(1);
        console.log(`${name}, ${seconds} s: ${JSON.stringify(counts)}`);
        expect(counts.histories).toBeGreaterThanOrEqual(Math.floor(histories));
        const { heldSync, ...others } = counts;
        expect(heldSync > 0).toBe("writeBatch" in db);
        for (const [name, count] of Object.entries(others))
          expect([name, count > 0]).toEqual([name, true]);
      });
    });
  }),
);
