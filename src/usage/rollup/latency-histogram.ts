// Latency histograms with buckets that double: below 16 ms, below 32 ms, … below 131 s, and the rest.

export const LATENCY_BUCKETS = 15;
const FIRST_BOUND_BITS = 4;
const FIRST_BOUND_MS = 2 ** FIRST_BOUND_BITS;

export function latencyBucket(ms: number): number {
  return Math.min(32 - Math.clz32(ms >> FIRST_BOUND_BITS), LATENCY_BUCKETS - 1);
}

/** The nearest rank, interpolated within its bucket, so that all percentiles of one sample are equal; undefined without samples. */
export function percentileMs(counts: readonly number[], share: number): number | undefined {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  let rest = Math.max(1, Math.ceil(total * share));
  for (const [bucket, count] of counts.entries()) {
    if (rest > count || count === 0) {
      rest -= count;
      continue;
    }
    const lower = bucket === 0 ? 0 : FIRST_BOUND_MS * 2 ** (bucket - 1);
    const width = bucket === 0 ? FIRST_BOUND_MS : lower;
    return Math.round(lower + (width * (rest - 0.5)) / count);
  }
  return FIRST_BOUND_MS * 2 ** (LATENCY_BUCKETS - 2);
}

export function sumHistograms(histograms: readonly (readonly number[])[]): readonly number[] {
  const [first = [], ...others] = histograms;
  return first.map((count, bucket) =>
    others.reduce((sum, histogram) => sum + (histogram[bucket] ?? 0), count),
  );
}
