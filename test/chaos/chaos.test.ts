// The short form of `npm run chaos`, with another seed in each run.

import { expect, test } from "bun:test";
import { IS_FULL } from "../support/full.ts";
import { TEST_SEED } from "../support/random.ts";
import { runChaos } from "./chaos.ts";

const FAULTS = IS_FULL ? { sqlite: 7, postgres: 12 } : { sqlite: 3, postgres: 4 };

for (const store of ["sqlite", "postgres"] as const)
  test(`${store}: ${FAULTS[store]} faults lose no charge, hang no call and leave nothing open`, async () => {
    const { failures } = await runChaos({
      store,
      seed: TEST_SEED,
      faults: FAULTS[store],
    });
    expect(failures).toEqual([]);
  });

test("postgres: kills of gateways with credit leases lose no charge and leave nothing open", async () => {
  const { failures } = await runChaos({
    store: "postgres",
    seed: TEST_SEED,
    faults: IS_FULL ? 3 : 1,
    only: "kill a gateway",
    hasBusyKey: true,
  });
  expect(failures).toEqual([]);
});
