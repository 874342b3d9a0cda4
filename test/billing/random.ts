// Chance that is the same in every run, for histories that are made up.

export type RandomInt = (sides: number) => number;

/** The same seed gives the same history. */
export function createRandom(seed: number): RandomInt {
  let state = (seed * 2_654_435_761) >>> 0;
  return (sides) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % sides;
  };
}
