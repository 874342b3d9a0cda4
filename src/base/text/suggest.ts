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
  const row = (): Uint16Array => new Uint16Array(right.length + 1).fill(far);
  let [before, previous, current] = [row(), row(), row()];
  for (let column = 0; column <= Math.min(right.length, limit); column++) previous[column] = column;
  let leastBefore = 0;
  for (let at = 1; at <= left.length; at++) {
    const first = Math.max(1, at - limit);
    const last = Math.min(right.length, at + limit);
    current.fill(far);
    if (at <= limit) current[0] = at;
    let least = current[0] ?? far;
    for (let column = first; column <= last; column++) {
      const isSame = left.charCodeAt(at - 1) === right.charCodeAt(column - 1);
      let distance = Math.min(
        (previous[column - 1] ?? far) + (isSame ? 0 : 1),
        (previous[column] ?? far) + 1,
        (current[column - 1] ?? far) + 1,
      );
      if (
        at > 1 &&
        column > 1 &&
        left.charCodeAt(at - 1) === right.charCodeAt(column - 2) &&
        left.charCodeAt(at - 2) === right.charCodeAt(column - 1)
      )
        distance = Math.min(distance, (before[column - 2] ?? far) + 1);
      current[column] = distance;
      if (distance < least) least = distance;
    }
    // A later row has no lower number than the lowest of two rows.
    if (least > limit && leastBefore > limit) return far;
    leastBefore = least;
    [before, previous, current] = [previous, current, before];
  }
  return previous[right.length] ?? far;
}
