// The short form of `npm run chaos`, with another seed in each run.

import { expect, test } from "bun:test";
import { runChaos } from "./chaos.ts";

const FAULTS = { sqlite: 3, postgres: 10 } as const;
const COMPLETED_MIN = 30;
/** Only a failure takes this long, also on a busy machine. */
const TIMEOUT_MS = 240_000;

const seed = Date.now() % 1_000_000_000;
for (const store of ["sqlite", "postgres"] as const)
  test(
    `${store}: ${FAULTS[store]} faults lose no charge, hang no call and leave nothing open (seed ${seed})`,
    async () => {
      console.log(`» seed ${seed}`);
      const { failures, completed } = await runChaos({ store, seed, faults: FAULTS[store] });
      expect(failures).toEqual([]);
      expect(completed).toBeGreaterThan(COMPLETED_MIN);
    },
    TIMEOUT_MS,
  );
