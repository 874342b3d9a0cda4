// Rate limit per key (GCRA), in this process. Model calls are limited again by their hold, across all processes; this
// limiter protects the process from loops and bounds calls that are rejected before a hold counts them.

import { MINUTE_MS } from "../../base/time.ts";

export interface RateLimit {
  readonly perMinute: number;
  readonly burst: number;
}

export interface RateLimiter {
  readonly limit: RateLimit;
  /** Counts the request and returns 0, or returns the milliseconds to wait. */
  readonly take: (key: string, now: number) => number;
  /** Like `take`, without counting. */
  readonly waitMs: (key: string, now: number) => number;
  /** Counts a request that already happened, even above the limit. */
  readonly count: (key: string, now: number) => void;
}

const TRACKED_MAX = 100_000;
const BURST_SECONDS = 10;
/** Upper bound of the wait after a burst above the limit. */
const WAIT_MAX_MS = MINUTE_MS;

/** A limiter with a burst of ten seconds' worth of requests; undefined for 0, which means no limit. */
export function rateLimiterFor(perMinute: number): RateLimiter | undefined {
  if (perMinute === 0) return undefined;
  const burst = Math.max(1, Math.floor((perMinute * BURST_SECONDS) / 60));
  return createRateLimiter({ perMinute, burst });
}

export function createRateLimiter(limit: RateLimit): RateLimiter {
  const intervalMs = MINUTE_MS / limit.perMinute;
  const toleranceMs = intervalMs * (limit.burst - 1);
  const nextAllowedAt = new Map<string, number>();
  // Evicts the oldest entries; an evicted key only regains its burst.
  const put = (key: string, next: number): void => {
    if (nextAllowedAt.size >= TRACKED_MAX)
      nextAllowedAt.delete(nextAllowedAt.keys().next().value ?? "");
    nextAllowedAt.delete(key);
    nextAllowedAt.set(key, next);
  };
  // A time further ahead than possible was stored before the clock stepped back.
  const maxAheadMs = toleranceMs + intervalMs + WAIT_MAX_MS;
  const nextAllowedAtOf = (key: string, now: number): number => {
    const next = nextAllowedAt.get(key) ?? 0;
    return next > now + maxAheadMs ? 0 : next;
  };
  return {
    limit,
    take: (key, now) => {
      const next = nextAllowedAtOf(key, now);
      const wait = next - toleranceMs - now;
      if (wait > 0) return wait;
      put(key, Math.max(next, now) + intervalMs);
      return 0;
    },
    waitMs: (key, now) => Math.max(0, nextAllowedAtOf(key, now) - toleranceMs - now),
    count: (key, now) => {
      const next = Math.max(nextAllowedAtOf(key, now), now) + intervalMs;
      put(key, Math.min(next, now + toleranceMs + WAIT_MAX_MS));
    },
  };
}
