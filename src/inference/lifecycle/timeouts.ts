// How long a call waits for its provider, and how much it relays.

import { SECOND_MS } from "../../base/time.ts";
import type { StreamLimits } from "../streaming/relay-options.ts";
import type { ReplyTimeouts } from "../upstream/attempt.ts";

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
