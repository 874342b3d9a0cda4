// How long a hold is kept for a call that does not end: longer than any call can take, because a hold that is released
// while its call runs can be spent twice. The holds of a dead process are found by its missing heartbeat.

import { MINUTE_MS } from "../../../base/time.ts";
import { ATTEMPTS_PER_CANDIDATE } from "../../upstream/attempt.ts";
import { DRAIN_MAX_MS } from "../reply/client-disconnect.ts";
import type { Timeouts } from "../timeouts.ts";

/** For backoff between attempts, timer ticks, and the wait for the settlement's commit. */
const SLACK_MS = MINUTE_MS;

/** After this long, no further candidate is tried. */
export function lastAttemptStartMs({ streamMs }: Timeouts): number {
  return streamMs / 2;
}

/** Counted from the moment of the hold. */
export function holdLifetimeMs(timeouts: Timeouts): number {
  const { firstByteMs, replyMs, streamMs } = timeouts;
  // A stream's time is counted from its first byte.
  const attemptMs = Math.max(replyMs, firstByteMs + streamMs);
  return (
    lastAttemptStartMs(timeouts) + ATTEMPTS_PER_CANDIDATE * attemptMs + DRAIN_MAX_MS + SLACK_MS
  );
}
