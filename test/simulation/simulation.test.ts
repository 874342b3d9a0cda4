// A short form of `npm run simulate`: seeds that found defects, some new ones, and that a seed repeats exactly.

import { expect, test } from "bun:test";
import { TEST_SEED } from "../support/random.ts";
import { createSimulator, type SimulationResult } from "./simulate.ts";

/** What each seed finds where the defect is put back; all of them pass today. */
const REGRESSIONS: Readonly<Record<string, number>> = {
  "a key of a call is stuck after the reply to its claim was lost": 2,
  "a payment fact is applied again when it is reported again": 1,
  "a suspended process serves calls on holds that others have spent": 71,
  "a call is charged although a repetition has taken its key over": 26,
  "a repetition runs although its call was served": 3,
  "the settlement of a released hold is lost": 170,
};
const NEW_SEEDS = 16;
const TIMEOUT_MS = 60_000;

const simulator = await createSimulator();

function simulate(seed: number): Promise<SimulationResult> {
  return new Promise((resolve, reject) => {
    // A new turn of the event loop, because the simulation runs the promises of its own to their end.
    setTimeout(() => {
      try {
        resolve(simulator.run(seed));
      } catch (error) {
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    });
  });
}

for (const [defect, seed] of Object.entries(REGRESSIONS))
  test(
    `seed ${seed} does not find that ${defect}`,
    async () => {
      const { problems, served } = await simulate(seed);
      expect(problems).toEqual([]);
      expect(served).toBeGreaterThan(5);
    },
    TIMEOUT_MS,
  );

test(
  "new seeds find nothing",
  async () => {
    for (let seed = TEST_SEED; seed < TEST_SEED + NEW_SEEDS; seed++)
      expect({ seed, problems: (await simulate(seed)).problems }).toEqual({ seed, problems: [] });
  },
  TIMEOUT_MS,
);

test(
  "a seed repeats exactly",
  async () => {
    const { hash, events, served } = await simulate(TEST_SEED);
    expect(await simulate(TEST_SEED)).toMatchObject({ hash, events, served });
  },
  TIMEOUT_MS,
);
