// Retry delays of failed deliveries.

import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../base/time.ts";

/** The delays after the first, second … failed attempt; after the last one the delivery has failed. */
const RETRY_DELAYS_MS = [
  5 * SECOND_MS,
  MINUTE_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  8 * HOUR_MS,
  24 * HOUR_MS,
] as const;

export const ATTEMPTS_MAX = RETRY_DELAYS_MS.length + 1;
const JITTER = 0.2;
const RETRY_AFTER_MAX_MS = 24 * HOUR_MS;

/**
 * The delay after the given number of failed attempts; undefined if there are no further attempts. `random`, from 0 to 1,
 * adds jitter, so that deliveries that failed together are not retried together. `retry-after` can only lengthen it.
 */
export function retryDelayMs(tries: number, random: number, retryAfterMs = 0): number | undefined {
  const delay = RETRY_DELAYS_MS[tries - 1];
  if (delay === undefined) return undefined;
  const jittered = Math.round(delay * (1 - JITTER + 2 * JITTER * random));
  return Math.max(jittered, Math.min(retryAfterMs, RETRY_AFTER_MAX_MS));
}
