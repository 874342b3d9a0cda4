// When a delivery that failed is tried again.

import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../base/time.ts";

/** The pauses after the first, second … failed try; then the delivery is given up. */
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
 * The pause after the given number of failed tries, or undefined where there is no further one. `chance`, from 0 to 1,
 * spreads out what failed together; an endpoint may ask for a longer pause.
 */
export function retryDelayMs(tries: number, random: number, retryAfterMs = 0): number | undefined {
  const delay = RETRY_DELAYS_MS[tries - 1];
  if (delay === undefined) return undefined;
  const jittered = Math.round(delay * (1 - JITTER + 2 * JITTER * random));
  return Math.max(jittered, Math.min(retryAfterMs, RETRY_AFTER_MAX_MS));
}
