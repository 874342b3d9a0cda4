// A seeded random number generator (mulberry32), for reproducible random histories.

/** Returns an integer from 0 to `limit` - 1. */
export type RandomInt = (limit: number) => number;

export function createRandom(seed: number): RandomInt {
  let state = (seed * 2_654_435_761) >>> 0;
  return (limit) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}
