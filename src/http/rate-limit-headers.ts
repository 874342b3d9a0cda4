// `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers): how many requests a key may send, and how many
// are left of its burst. A request is admitted as soon as one interval of the minute has passed since the last one counted.

import { MINUTE_MS, SECOND_MS } from "../base/time.ts";

export interface RateState {
  readonly intervalMs: number;
  readonly burst: number;
  /** When the whole burst can be sent again. */
  readonly fullAt: number;
}

export function rateLimitHeaders(
  { intervalMs, burst, fullAt }: RateState,
  now: number,
): Readonly<Record<string, string>> {
  const perMinute = Math.round(MINUTE_MS / intervalMs);
  const aheadMs = Math.max(0, fullAt - now);
  const left = Math.max(0, Math.min(burst, Math.floor(burst - aheadMs / intervalMs)));
  const seconds = (ms: number): number => Math.ceil(ms / SECOND_MS);
  return {
    "ratelimit-policy": `"minute";q=${perMinute};w=60, "burst";q=${burst};w=${seconds(burst * intervalMs)}`,
    ratelimit: `"burst";r=${left};t=${seconds(aheadMs)}`,
  };
}
