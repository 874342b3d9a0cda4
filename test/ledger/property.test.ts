// Random interleavings of everything that can happen to an account, on both stores, against the model.

import { afterAll, beforeAll, describe, expect, test, setDefaultTimeout } from "bun:test";
import * as fc from "fast-check";
import { eachStore, type StoreKind, type TestStore } from "../support/stores.ts";
import { worlds } from "./history.ts";
import { noCounts } from "./counts.ts";
import { runWorld } from "./world.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const HISTORIES_A_WORLD = 20;
const HISTORIES: Readonly<Record<StoreKind, number>> = {
  sqlite: Number(process.env["POSTERN_HISTORIES"] ?? 10_000),
  postgres: Math.ceil(Number(process.env["POSTERN_HISTORIES"] ?? 10_000) / 20),
};
const SEED = Number(process.env["POSTERN_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const TIMEOUT_MS = 120_000;

eachStore((kind, open) => {
  describe(`histories on ${kind}`, () => {
    let store: TestStore;
    beforeAll(async () => {
      store = await open();
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
          await runWorld(store.db, plan, `w${world}`, counts);
        });
        await fc.assert(property, {
          seed: SEED,
          numRuns: Math.ceil(HISTORIES[kind] / HISTORIES_A_WORLD),
          endOnFailure: process.env["POSTERN_SHRINK"] === undefined,
        });
        const seconds = ((performance.now() - started) / 1_000).toFixed(1);
        console.log(`${kind}, seed ${SEED}, ${seconds} s: ${JSON.stringify(counts)}`);
        expect(counts.histories).toBeGreaterThanOrEqual(HISTORIES[kind]);
        if (counts.histories < 500) return;
        for (const [what, count] of Object.entries(counts))
          expect([what, count > 0]).toEqual([what, true]);
      },
      TIMEOUT_MS,
    );
  });
});
