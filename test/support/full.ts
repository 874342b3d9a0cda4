// `npm test` runs a short form of what repeats a proven behavior: fewer random cases, and not each combination. `npm run test:full`
// runs all of it.

import { test } from "bun:test";
import type { StoreKind } from "./stores/stores.ts";

export const IS_FULL = process.env["POSTERN_TEST_FULL"] === "1";

/** A number of random cases, of which the short form has an eighth. */
export function runs(count: number): number {
  return IS_FULL ? count : Math.ceil(count / 8);
}

/** Every n-th item; all in the full form. */
export function every<T>(count: number, items: readonly T[]): readonly T[] {
  return IS_FULL ? items : items.filter((_, index) => index % count === 0);
}

/** `test` on SQLite; on PostgreSQL in the full form only, for a test whose SQL another one runs there. */
export function testOn(store: StoreKind): typeof test {
  if (IS_FULL || store === "sqlite") return test;
  // Safe: tests call these two alone.
  return Object.assign(() => {}, { each: () => () => {} }) as unknown as typeof test;
}

/** All cases on SQLite, and the first on PostgreSQL, where the SQL does not depend on the case; all in the full form. */
export function casesOn<T>(store: StoreKind, cases: readonly T[]): readonly T[] {
  return IS_FULL || store === "sqlite" ? cases : cases.slice(0, 1);
}

/**
 * All pairs on SQLite, and on PostgreSQL each value at least once, where the SQL depends on neither value; all in the full form.
 */
export function pairsOn<A, B>(
  store: StoreKind,
  first: readonly A[],
  second: readonly B[],
): readonly (readonly [A, B])[] {
  const pairs = first.flatMap((a, row) =>
    second.map((b, column) => ({ pair: [a, b] as const, row, column })),
  );
  const isWhole = IS_FULL || store === "sqlite";
  const longer = Math.max(first.length, second.length);
  const isChosen = (row: number, column: number): boolean =>
    first.length === longer ? column === row % second.length : row === column % first.length;
  return pairs
    .filter(({ row, column }) => isWhole || isChosen(row, column))
    .map(({ pair }) => pair);
}
