// The seed of a test run, and random numbers that are the same for the same seed.

/** Below 2³¹, so that the sum of a seed and an index is an integer of 31 bits. */
const SEED_LIMIT = 1_000_000_000;

// Set in the environment, so that the processes of a run have the same seed.
process.env["POSTERN_TEST_SEED"] ??= String(Math.floor(Math.random() * SEED_LIMIT));

export const TEST_SEED = Number(process.env["POSTERN_TEST_SEED"]);

/** Returns an integer from 0 to `limit` - 1. */
export type RandomInt = (limit: number) => number;

/** The generator mulberry32. */
export function createRandom(seed: number): RandomInt {
  let state = Math.imul(seed, 2_654_435_761) >>> 0;
  return (limit) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}
