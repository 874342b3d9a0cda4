// The CPU time of this process, which a busy machine changes less than the elapsed time.

import { expect } from "bun:test";

/** Below this time, garbage collection and compilation decide. */
const NOISE_MS = 200;
const ROUNDS = 3;
const ATTEMPTS_MAX = 3;
/** Of twice the size; 4 if the time is quadratic. */
const RATIO_MAX = 3;

const UNIT_ROUNDS = 3;
const UNIT_TEXT = JSON.stringify(
  Array.from({ length: 12_000 }, (_, index) => ({
    id: `item_${index}`,
    type: "text",
    text: "some words of a message",
    count: index,
  })),
);

/**
 * The CPU time of a fixed piece of work (4 ms on the machine of docs/performance.md): a limit in such units fails neither on a
 * slow machine nor on a busy one, whose caches other processes use.
 */
export function cpuUnitMs(): number {
  return leastCpuMs(() => void JSON.stringify(JSON.parse(UNIT_TEXT)), 0, UNIT_ROUNDS);
}

/** Expects that twice the size takes about twice the CPU time. `work` runs several times. */
export function expectLinearCpuTime(work: (size: number) => void, size: number): void {
  let ratio = Infinity;
  // Another process on the same core can slow down the rounds of one size.
  for (let attempt = 0; attempt < ATTEMPTS_MAX && ratio >= RATIO_MAX; attempt++) {
    const ms = leastCpuMs(() => work(size), NOISE_MS);
    ratio = ms < NOISE_MS ? 0 : ms / leastCpuMs(() => work(size / 2));
  }
  expect(ratio).toBeLessThan(RATIO_MAX);
}

/** The least CPU time of the rounds, or of those up to the first below `enoughMs`. */
function leastCpuMs(work: () => void, enoughMs = 0, rounds = ROUNDS): number {
  let least = Infinity;
  for (let round = 0; round < rounds && least >= enoughMs; round++) {
    const start = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(start);
    least = Math.min(least, (user + system) / 1_000);
  }
  return least;
}
