// How often one key may call, kept in this process. Model calls are counted again inside their hold, where every
// process sees them; this guard is what keeps a loop from burning the machine.

export interface RateLimit {
  readonly perMinute: number;
  readonly burst: number;
}

export interface RateGuard {
  /** Milliseconds to wait; zero when the request may go on. */
  readonly take: (key: string, now: number) => number;
}

const TRACKED_MAX = 100_000;

export function createRateGuard(limit: RateLimit): RateGuard {
  const intervalMs = 60_000 / limit.perMinute;
  const toleranceMs = intervalMs * (limit.burst - 1);
  const due = new Map<string, number>();
  return {
    take: (key, now) => {
      const next = due.get(key) ?? 0;
      const wait = next - toleranceMs - now;
      if (wait > 0) return wait;
      // The oldest entries are dropped: a forgotten key only regains its burst.
      if (due.size >= TRACKED_MAX) due.delete(due.keys().next().value ?? "");
      due.delete(key);
      due.set(key, Math.max(next, now) + intervalMs);
      return 0;
    },
  };
}
