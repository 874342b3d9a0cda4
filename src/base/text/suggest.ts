// Finds the name that a caller probably meant by one that does not exist.

import { memoize } from "../memoize.ts";

const MIN_SEGMENT_CHARACTERS = 2;
const TYPOS_MAX = 6;
/** A longer name cannot be a typo of another, and may be megabytes. */
export const NAME_MAX_CHARACTERS = 64;

/** The beginning of a name that a caller sent, for an error that repeats it. */
export function shortName(name: string): string {
  return name.slice(0, NAME_MAX_CHARACTERS);
}

/** The most similar name: equal without case and separators, a few typos away, or one of its `_`-separated words. */
export function closestName(wanted: string, names: readonly string[]): string | undefined {
  const target = normalize(wanted);
  let limit = Math.min(Math.floor(target.length / 3), TYPOS_MAX);
  let nearest: string | undefined;
  for (const name of names) {
    const distance = editDistance(target, normalize(name), limit);
    if (distance > limit) continue;
    nearest = name;
    // Of two that are as near, the first one.
    limit = distance - 1;
  }
  if (nearest !== undefined || wanted.length < MIN_SEGMENT_CHARACTERS) return nearest;
  return names.find((name) => name.split("_").includes(wanted.toLowerCase()));
}

const NORMALIZED_MAX = 10_000;
const normalize = memoize(
  (name: string) => name.toLowerCase().replaceAll(/[-_. ]/g, ""),
  NORMALIZED_MAX,
);

/**
 * Levenshtein distance, where two letters in the wrong order are one typo; a higher number than `limit` if it is above it. A name
 * that a caller sent is compared with a thousand others: only cells that can lead to `limit` are computed.
 */
function editDistance(left: string, right: string, limit: number): number {
  const far = limit + 1;
  if (Math.abs(left.length - right.length) > limit) return far;
  const newRow = (): Uint16Array => new Uint16Array(right.length + 1).fill(far);
  const cell = (row: Uint16Array, column: number): number => row[column] ?? far;
  let [before, previous, current] = [newRow(), newRow(), newRow()];
  for (let column = 0; column <= Math.min(right.length, limit); column++) previous[column] = column;
  let leastBefore = 0;
  for (let at = 1; at <= left.length; at++) {
    current.fill(far);
    if (at <= limit) current[0] = at;
    let least = cell(current, 0);
    const last = Math.min(right.length, at + limit);
    for (let column = Math.max(1, at - limit); column <= last; column++) {
      const isSame = left.charCodeAt(at - 1) === right.charCodeAt(column - 1);
      const distance = Math.min(
        cell(previous, column - 1) + (isSame ? 0 : 1),
        cell(previous, column) + 1,
        cell(current, column - 1) + 1,
        isSwap(left, at, right, column) ? cell(before, column - 2) + 1 : far,
      );
      current[column] = distance;
      least = Math.min(least, distance);
    }
    // A later row has no lower number than the lowest of two rows.
    if (least > limit && leastBefore > limit) return far;
    leastBefore = least;
    [before, previous, current] = [previous, current, before];
  }
  return cell(previous, right.length);
}

/** Whether the last two of so many letters are in the other order. */
function isSwap(left: string, leftEnd: number, right: string, rightEnd: number): boolean {
  return (
    leftEnd > 1 &&
    rightEnd > 1 &&
    left.charCodeAt(leftEnd - 1) === right.charCodeAt(rightEnd - 2) &&
    left.charCodeAt(leftEnd - 2) === right.charCodeAt(rightEnd - 1)
  );
}
