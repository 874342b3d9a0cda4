// The short form of `npm run fuzz -- money`: the same cases in each run, so that it fails only after a change.

import { expect, test } from "bun:test";
import { runs } from "../../support/full.ts";
import { runMoneyFuzz } from "./money-fuzz.ts";

const SEED = 7;
const TIMEOUT_MS = 900_000;

// At the same time, because each waits for a minute at the end, for providers that fall silent.
test.concurrent.each([
  ["sqlite", runs(1_700)],
  ["postgres", runs(300)],
] as const)(
  "every call is paid for or owed, and no call costs more than its list price (%s)",
  async (store, cases) => {
    const { failures, outcomes } = await runMoneyFuzz({ seed: SEED, cases, store });
    expect(failures).toEqual([]);
    for (const expected of ["honest 200", "ignores_limit 200 debt", "states_cost 200 debt"])
      expect([expected, (outcomes[expected] ?? 0) > 0]).toEqual([expected, true]);
  },
  TIMEOUT_MS,
);
