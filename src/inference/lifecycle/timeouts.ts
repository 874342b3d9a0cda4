// How long a call waits for its provider.

import type { StreamTimeouts } from "../streaming/relay-options.ts";
import type { ReplyTimeouts } from "../upstream/attempt.ts";

export interface Timeouts extends ReplyTimeouts, StreamTimeouts {}

export const DEFAULT_TIMEOUTS: Timeouts = {
  firstByteMs: 180_000,
  firstEventMs: 15_000,
  replyMs: 840_000,
  idleMs: 180_000,
  streamMs: 870_000,
};
