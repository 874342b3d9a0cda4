// Deterministic choices: the same seed and index give the same request in every run.

import { seededRandom } from "../inference/support/raw-provider.ts";

export interface Random {
  /** An integer from 0 to `below` - 1. */
  readonly integer: (below: number) => number;
  readonly pick: <T>(items: readonly [T, ...T[]]) => T;
  readonly pickFrom: <T>(items: readonly T[]) => T | undefined;
  readonly chance: (probability: number) => boolean;
}

/** Spreads neighboring indexes over the generator's states. */
const INDEX_FACTOR = 0x9e3779b1;

export function randomFor(seed: number, index: number): Random {
  const next = seededRandom((seed ^ Math.imul(index + 1, INDEX_FACTOR)) | 0);
  const integer = (below: number): number => Math.floor(next() * below);
  return {
    integer,
    pick: (items) => items[integer(items.length)] ?? items[0],
    pickFrom: (items) => items[integer(items.length)],
    chance: (probability) => next() < probability,
  };
}
