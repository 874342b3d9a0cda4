// How long a call waits for its provider, and how much it relays.

import { SECOND_MS, MINUTE_MS } from "../../base/time.ts";
import type { StreamLimits } from "../streaming/relay-options.ts";
import {
  type ReplyTimeouts,
  ATTEMPTS_PER_CANDIDATE,
  FALLBACK_TIMEOUT_SHARE,
} from "../upstream/attempt.ts";

export interface Timeouts extends ReplyTimeouts, StreamLimits {}

/** The timeouts with those of the settings. */
export function timeoutsFrom(settings: {
  readonly requestSeconds: number;
  readonly streamSeconds: number;
  readonly streamIdleSeconds: number;
}): Timeouts {
  return {
    ...DEFAULT_TIMEOUTS,
    replyMs: settings.requestSeconds * SECOND_MS,
    firstByteMs: settings.streamSeconds * SECOND_MS,
    idleMs: settings.streamIdleSeconds * SECOND_MS,
  };
}

export const DEFAULT_TIMEOUTS: Timeouts = {
  firstByteMs: 180_000,
  firstEventMs: 15_000,
  replyMs: 600_000,
  idleMs: 180_000,
  // The longest replies take half an hour: 128,000 tokens of a model that reasons.
  drainMs: 3_600_000,
  replyMaxBytes: 64 * 1_048_576,
  eventMaxBytes: 32 * 1_048_576,
  streamMaxBytes: 256 * 1_048_576,
};

// How long a hold is kept for a call that does not end: longer than any call can take, because a hold that is released
// while its call runs can be spent twice. A stream extends its hold while bytes arrive, so its length has no limit. The holds
// of a dead process are found by its missing heartbeat.

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
