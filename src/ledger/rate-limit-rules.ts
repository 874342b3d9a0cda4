// The rate limit of a key, without a database: a token bucket, kept as the time at which the next call would be due.

/** Tolerated difference between the clocks of processes. */
const CLOCK_SKEW_MAX_MS = 10_000;

/** The counters of a key. */
interface RateState {
  theoreticalArrivalAt: number;
}

export interface KeyRateLimit {
  readonly intervalMs: number;
  readonly burst: number;
  /** Whether replies say what is left of it. */
  readonly isTold?: true;
}

/** How many calls the rate limit allows now. */
export function allowedArrivals(rateLimit: KeyRateLimit, keySpend: RateState, now: number): number {
  return 1 - Math.ceil(rateLimitWaitMs(rateLimit, keySpend, now) / rateLimit.intervalMs);
}

/** Counts calls towards the rate limit. */
export function countArrivals(
  rateLimit: KeyRateLimit,
  keySpend: RateState,
  { calls, now }: { readonly calls: number; readonly now: number },
): void {
  keySpend.theoreticalArrivalAt =
    Math.max(theoreticalArrival(rateLimit, keySpend, now), now) + calls * rateLimit.intervalMs;
}

export function rateLimitWaitMs(rateLimit: KeyRateLimit, keySpend: RateState, now: number): number {
  return (
    theoreticalArrival(rateLimit, keySpend, now) -
    rateLimit.intervalMs * (rateLimit.burst - 1) -
    now
  );
}

// A clock that ran ahead, or a slower rate limit, may have left an arrival time far in the future. A rejection writes
// nothing, so the key would be blocked until then: instead, its next call is admitted and counts from now.
function theoreticalArrival(
  { intervalMs, burst }: KeyRateLimit,
  { theoreticalArrivalAt }: RateState,
  now: number,
): number {
  const furthest = now + intervalMs * burst;
  return theoreticalArrivalAt > furthest + CLOCK_SKEW_MAX_MS
    ? furthest - intervalMs
    : Math.min(theoreticalArrivalAt, furthest);
}
