// How long a call waits for its provider, and how much it relays.

import type { StreamLimits } from "../streaming/relay-options.ts";
import type { ReplyTimeouts } from "../upstream/attempt.ts";

export interface Timeouts extends ReplyTimeouts, StreamLimits {}

export const DEFAULT_TIMEOUTS: Timeouts = {
  firstByteMs: 180_000,
  firstEventMs: 15_000,
  replyMs: 840_000,
  idleMs: 180_000,
  // The longest replies take half an hour: 128,000 tokens of a model that reasons.
  drainMs: 3_600_000,
  replyMaxBytes: 64 * 1_048_576,
  eventMaxBytes: 32 * 1_048_576,
  streamMaxBytes: 256 * 1_048_576,
};
