// Limits how many running calls a key may abandon: the gateway cannot always know what such a call costs at the provider.

import { Fault } from "../../base/fault.ts";
import { createRateLimiter, type RateLimiter } from "../../http/guards/rate-limiter.ts";
import type { CallInput } from "./call.ts";

/** Far more than a person who cancels replies, or a client with a short timeout, causes. */
const ABANDONED_CALLS_PER_MINUTE = 60;

export type AbandonedCalls = Pick<RateLimiter, "waitMs" | "count">;

/** Counted per key, in this process. */
export function createAbandonedCalls(perMinute = ABANDONED_CALLS_PER_MINUTE): AbandonedCalls {
  return createRateLimiter({ perMinute, burst: perMinute });
}

export function rejectIfOftenAbandoned(
  abandonedCalls: AbandonedCalls,
  { caller, now }: CallInput,
): void {
  const waitMs = abandonedCalls.waitMs(caller.keyId, now);
  if (waitMs === 0) return;
  throw new Fault("rate_limited", "key abandoned too many calls", {
    message: `This key disconnected from more than ${ABANDONED_CALLS_PER_MINUTE} running calls within a minute. Read replies to their end, or raise your client's timeout, and try again later.`,
    retryAfterSeconds: waitMs / 1_000,
  });
}
