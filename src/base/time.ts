// Durations in milliseconds, and calendar days, which are always those of UTC.

export const SECOND_MS = 1_000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

let cached = { number: 0, text: "1970-01-01" };

/** `2026-11-21`. The last day is cached, because almost every call asks for the current one. */
export function utcDay(at: number): string {
  const number = Math.floor(at / DAY_MS);
  if (cached.number !== number) cached = { number, text: new Date(at).toISOString().slice(0, 10) };
  return cached.text;
}

/** Until the next window of this length, counted from midnight of UTC. */
export function msUntilNextWindow(windowMs: number, now: number): number {
  return windowMs - (now % windowMs);
}

/** Whether a time to wait for has come. One that is further ahead than any wait is from a clock that was set back since. */
export function isDue(at: number, now: number, longestMs: number): boolean {
  return at <= now || at - now > longestMs;
}
