// The short form of `npm run chaos`, with another seed in each run.

import { expect, test } from "bun:test";
import { runChaos } from "./chaos.ts";

const FAULTS = 10;
const COMPLETED_MIN = 30;
const TIMEOUT_MS = 60_000;

const seed = Date.now() % 1_000_000_000;
test(
  `${FAULTS} faults lose no charge, hang no call and leave nothing open (seed ${seed})`,
  async () => {
    console.log(`» seed ${seed}`);
    const { failures, completed } = await runChaos({ seed, faults: FAULTS });
    expect(failures).toEqual([]);
    expect(completed).toBeGreaterThan(COMPLETED_MIN);
  },
  TIMEOUT_MS,
);
