// Random interleavings of everything that can happen to an account, on both stores and on the one where holds are kept in
// memory while they are young, against the model.

import { afterAll, beforeAll, describe, expect, test, setDefaultTimeout } from "bun:test";
import * as fc from "fast-check";
import { bufferHolds } from "../../../src/ledger/commit/hold-buffer.ts";
import type { Db } from "../../../src/store/db.ts";
import { describeEachStore, type StoreKind, type TestStore } from "../../support/stores/stores.ts";
import { runPlans } from "./generators.ts";
import { emptyStatistics } from "./run-statistics.ts";
import { runHistories } from "./run-histories.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const HISTORIES_PER_RUN = 20;
const SQLITE = Number(process.env["POSTERN_HISTORIES"] ?? 10_000);
const SEED = Number(process.env["POSTERN_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const TIMEOUT_MS = 120_000;

interface StoreVariant {
  readonly name: string;
  readonly histories: number;
  readonly wrap: (db: Db) => Db;
}

// Within a world, which takes some milliseconds, no hold grows old, or every one as soon as a timer fires.
const VARIANTS: Readonly<Record<StoreKind, readonly StoreVariant[]>> = {
  sqlite: [
    { name: "sqlite", histories: SQLITE / 2, wrap: (db) => db },
    { name: "sqlite, holds kept young", histories: SQLITE / 4, wrap: (db) => bufferHolds(db) },
    { name: "sqlite, holds soon old", histories: SQLITE / 4, wrap: (db) => bufferHolds(db, 0) },
  ],
  postgres: [{ name: "postgres", histories: SQLITE / 20, wrap: (db) => db }],
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

      test(
        "no interleaving and no crash overspends a balance, loses a charge, or charges twice",
        async () => {
          const counts = emptyStatistics();
          const started = performance.now();
          let world = 0;
          const property = fc.asyncProperty(runPlans(HISTORIES_PER_RUN), async (plan) => {
            world += 1;
            await runHistories(db, plan, `w${world}`, counts);
          });
          await fc.assert(property, {
            seed: SEED,
            numRuns: Math.ceil(histories / HISTORIES_PER_RUN),
            endOnFailure: process.env["POSTERN_SHRINK"] === undefined,
          });
          const seconds = ((performance.now() - started) / 1_000).toFixed(1);
          console.log(`${name}, seed ${SEED}, ${seconds} s: ${JSON.stringify(counts)}`);
          expect(counts.histories).toBeGreaterThanOrEqual(Math.floor(histories));
          if (counts.histories < 500) return;
          const { heldSync, ...others } = counts;
          expect(heldSync > 0).toBe("writeBatch" in db);
          for (const [what, count] of Object.entries(others))
            expect([what, count > 0]).toEqual([what, true]);
        },
        TIMEOUT_MS,
      );
    });
  }),
);
