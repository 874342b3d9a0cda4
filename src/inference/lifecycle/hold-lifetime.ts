// How long a hold stands for a call that does not end. It is longer than anything that a call may do: a hold that was
// given back while its call still ran could be spent a second time. What dead processes hold is found by their silence
// and not by this, so a long life costs little.

import { MINUTE_MS } from "../../base/time.ts";
import type { Timeouts } from "./timeouts.ts";

/** As often as `attempt.ts` tries one leg. */
const ATTEMPTS_PER_CANDIDATE = 2;
/** As long as `relay-stream.ts` reads on for a caller who left. */
const DRAIN_MAX_MS = 120_000;
/** For pauses between tries, ticks of the clocks, and the wait for the settle's commit. */
const SLACK_MS = MINUTE_MS;

/** After this long no further leg is tried. */
export function lastAttemptStartMs({ streamMs }: Timeouts): number {
  return streamMs / 2;
}

/** Counted from the moment of the hold. */
export function holdLifetimeMs(timeouts: Timeouts): number {
  const { firstByteMs, replyMs, streamMs } = timeouts;
  // A stream counts its whole time from its first byte.
  const attemptMs = Math.max(replyMs, firstByteMs + streamMs);
  return (
    lastAttemptStartMs(timeouts) + ATTEMPTS_PER_CANDIDATE * attemptMs + DRAIN_MAX_MS + SLACK_MS
  );
}
