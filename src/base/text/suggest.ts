// Finds the name that a caller probably meant by one that does not exist.

const MIN_SEGMENT_CHARACTERS = 2;
/** A longer name cannot be a typo of another, and may be megabytes. */
export const NAME_MAX_CHARACTERS = 64;

/** The beginning of a name that a caller sent, for an error that repeats it. */
export function shortName(name: string): string {
  return name.slice(0, NAME_MAX_CHARACTERS);
}

/** The most similar name: equal without case and separators, a few typos away, or one of its `_`-separated words. */
export function closestName(wanted: string, names: readonly string[]): string | undefined {
  const target = normalize(wanted);
  const maxDistance = Math.floor(target.length / 3);
  const ranked = names
    // The distance is at least the difference in length, which costs nothing to compute.
    .filter((name) => Math.abs(normalize(name).length - target.length) <= maxDistance)
    .map((name) => ({ name, distance: editDistance(target, normalize(name)) }))
    .toSorted((left, right) => left.distance - right.distance);
  const [nearest] = ranked;
  if (nearest !== undefined && nearest.distance <= maxDistance) return nearest.name;
  if (wanted.length < MIN_SEGMENT_CHARACTERS) return undefined;
  return names.find((name) => name.split("_").includes(wanted.toLowerCase()));
}

function normalize(name: string): string {
  return name.toLowerCase().replaceAll(/[-_. ]/g, "");
}

/** Levenshtein distance, where two letters in the wrong order are one typo. */
function editDistance(left: string, right: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    for (let column = 1; column <= right.length; column++) {
      const substitution =
        (previous[column - 1] ?? 0) + (left[row - 1] === right[column - 1] ? 0 : 1);
      const isSwap =
        left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1] && row > 1;
      const swap = isSwap ? (beforePrevious[column - 2] ?? 0) + 1 : substitution;
      current.push(
        Math.min((previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1, substitution, swap),
      );
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[right.length] ?? 0;
}
