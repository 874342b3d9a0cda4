// How often one key may call, kept in this process. Model calls are counted again inside their hold, where every
// process sees them; this guard is what keeps a loop from burning the machine, and what bounds the calls that no hold
// ever counts because they are refused.

import { MINUTE_MS } from "../../base/time.ts";

export interface RateLimit {
  readonly perMinute: number;
  readonly burst: number;
}

export interface RateLimiter {
  /** Milliseconds to wait; zero when the request may go on, and is counted. */
  readonly take: (key: string, now: number) => number;
  /** The same without counting anything. */
  readonly waitMs: (key: string, now: number) => number;
  /** Counts what has happened already, also beyond the limit: many at once are waited out one by one. */
  readonly count: (key: string, now: number) => void;
}

const TRACKED_MAX = 100_000;
const BURST_SECONDS = 10;
/** However many came at once, nobody waits for longer. */
const WAIT_MAX_MS = MINUTE_MS;

/** A guard of its own for so many requests a minute; undefined where there is no limit. */
export function rateLimiterFor(perMinute: number): RateLimiter | undefined {
  if (perMinute === 0) return undefined;
  const burst = Math.max(1, Math.floor((perMinute * BURST_SECONDS) / 60));
  return createRateLimiter({ perMinute, burst });
}

export function createRateLimiter(limit: RateLimit): RateLimiter {
  const intervalMs = MINUTE_MS / limit.perMinute;
  const toleranceMs = intervalMs * (limit.burst - 1);
  const nextAllowedAt = new Map<string, number>();
  // The oldest entries are dropped: a forgotten key only regains its burst.
  const put = (key: string, next: number): void => {
    if (nextAllowedAt.size >= TRACKED_MAX)
      nextAllowedAt.delete(nextAllowedAt.keys().next().value ?? "");
    nextAllowedAt.delete(key);
    nextAllowedAt.set(key, next);
  };
  // What lies further ahead than anything can be was counted by a clock that was set back since.
  const maxAheadMs = toleranceMs + intervalMs + WAIT_MAX_MS;
  const nextAllowedAtOf = (key: string, now: number): number => {
    const next = nextAllowedAt.get(key) ?? 0;
    return next > now + maxAheadMs ? 0 : next;
  };
  return {
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
