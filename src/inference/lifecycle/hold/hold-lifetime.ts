// How long a hold is kept for a call that does not end: longer than any call can take, because a hold that is released
// while its call runs can be spent twice. A stream extends its hold while bytes arrive, so its length has no limit. The holds
// of a dead process are found by its missing heartbeat.

import { MINUTE_MS } from "../../../base/time.ts";
import { ATTEMPTS_PER_CANDIDATE, FALLBACK_TIMEOUT_SHARE } from "../../upstream/attempt.ts";
import type { Timeouts } from "../timeouts.ts";

/** For backoff between attempts, timer ticks, and the wait for the settlement's commit. */
const SLACK_MS = MINUTE_MS;

/** After this long, no further candidate is tried. */
export function lastAttemptStartMs({ replyMs }: Timeouts): number {
  // After an attempt that timed out with a fallback left, there must be time to start it.
  return replyMs * FALLBACK_TIMEOUT_SHARE + SLACK_MS;
}

/** Counted from the moment of the hold, or of its last extension. */
export function holdLifetimeMs(timeouts: Timeouts): number {
  const { firstByteMs, replyMs, idleMs, drainMs } = timeouts;
  const attemptMs = Math.max(replyMs, firstByteMs + idleMs);
  return lastAttemptStartMs(timeouts) + ATTEMPTS_PER_CANDIDATE * attemptMs + drainMs + SLACK_MS;
}
