// Random interleavings of everything that can happen to an account, on both stores and on the one where holds are kept in
// memory while they are young, against the model.

import { afterAll, beforeAll, describe, expect, test, setDefaultTimeout } from "bun:test";
import * as fc from "fast-check";
import { keepYoungHolds } from "../../src/ledger/young-holds.ts";
import type { Db } from "../../src/store/db.ts";
import { eachStore, type StoreKind, type TestStore } from "../support/stores.ts";
import { worlds } from "./history.ts";
import { noCounts } from "./counts.ts";
import { runWorld } from "./world.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const HISTORIES_A_WORLD = 20;
const SQLITE = Number(process.env["POSTERN_HISTORIES"] ?? 10_000);
const SEED = Number(process.env["POSTERN_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const TIMEOUT_MS = 120_000;

interface Way {
  readonly name: string;
  readonly histories: number;
  readonly on: (db: Db) => Db;
}

// Within a world, which takes some milliseconds, no hold grows old, or every one as soon as a timer fires.
const WAYS: Readonly<Record<StoreKind, readonly Way[]>> = {
  sqlite: [
    { name: "sqlite", histories: SQLITE / 2, on: (db) => db },
    { name: "sqlite, holds kept young", histories: SQLITE / 4, on: (db) => keepYoungHolds(db) },
    { name: "sqlite, holds soon old", histories: SQLITE / 4, on: (db) => keepYoungHolds(db, 0) },
  ],
  postgres: [{ name: "postgres", histories: SQLITE / 20, on: (db) => db }],
};

const waysOf = (
  suite: (way: Way, open: () => Promise<TestStore>) => void,
): Parameters<typeof eachStore>[0] => {
  return (kind, open) => {
    for (const way of WAYS[kind]) suite(way, open);
  };
};

eachStore(
  waysOf(({ name, histories, on }, open) => {
    describe(`histories on ${name}`, () => {
      let store: TestStore;
      let db: Db;
      beforeAll(async () => {
        store = await open();
        db = on(store.db);
      });
      afterAll(() => store.close());

      test(
        "no interleaving and no crash overspends a balance, loses a charge, or charges twice",
        async () => {
          const counts = noCounts();
          const started = performance.now();
          let world = 0;
          const property = fc.asyncProperty(worlds(HISTORIES_A_WORLD), async (plan) => {
            world += 1;
            await runWorld(db, plan, `w${world}`, counts);
          });
          await fc.assert(property, {
            seed: SEED,
            numRuns: Math.ceil(histories / HISTORIES_A_WORLD),
            endOnFailure: process.env["POSTERN_SHRINK"] === undefined,
          });
          const seconds = ((performance.now() - started) / 1_000).toFixed(1);
          console.log(`${name}, seed ${SEED}, ${seconds} s: ${JSON.stringify(counts)}`);
          expect(counts.histories).toBeGreaterThanOrEqual(Math.floor(histories));
          if (counts.histories < 500) return;
          const { heldAtOnce, ...others } = counts;
          expect(heldAtOnce > 0).toBe("writeBatch" in db);
          for (const [what, count] of Object.entries(others))
            expect([what, count > 0]).toEqual([what, true]);
        },
        TIMEOUT_MS,
      );
    });
  }),
);
