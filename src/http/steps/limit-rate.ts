// Applies the request rate of a key.

import { Fault } from "../../base/fault.ts";
import { MINUTE_MS } from "../../base/time.ts";
import { CALL_REFUSED } from "../guards/overload.ts";
import type { RateLimiter } from "../guards/rate-limiter.ts";
import { rateLimitHeaders } from "../rate-limit-headers.ts";
import type { Step } from "../request-context.ts";

/** As of each request: the operator may change them. */
export interface RateLimits {
  readonly requests?: RateLimiter | undefined;
  /** Counts rejected and repeated model calls; others are counted by their hold. */
  readonly refusals?: RateLimiter | undefined;
}

export function limitRate(limits: RateLimits): Step {
  return ({ caller: { key }, now }) => {
    const { requests } = limits;
    if (requests !== undefined && key !== undefined)
      rejectEarly(requests, requests.take(key.keyId, now), now);
    return undefined;
  };
}

/**
 * A model call is counted by its hold, across all processes. Rejected ones, and those that get the reply of an earlier one, are
 * counted here and checked before the body is read: otherwise a key without credits could send bodies without limit.
 */
export function limitRefusals(limits: RateLimits, clock: () => number): Step {
  return ({ caller: { key }, now, onResponse }) => {
    const { refusals } = limits;
    if (refusals === undefined || key === undefined) return undefined;
    const { keyId } = key;
    rejectEarly(refusals, refusals.waitMs(keyId, now), now);
    onResponse.push(({ status, headers }, fault) => {
      // Under overload, the limit would cost more than the refusals.
      if ((status >= 400 && fault !== CALL_REFUSED) || isRepeated(headers))
        refusals.count(keyId, clock());
    });
    return undefined;
  };
}

/** By an `Idempotency-Key`, or by the response cache, which states the age. */
function isRepeated(headers: Headers): boolean {
  return headers.has("idempotent-replayed") || headers.has("age");
}

function rejectEarly(
  { limit: { perMinute, burst } }: RateLimiter,
  waitMs: number,
  now: number,
): void {
  if (waitMs <= 0) return;
  const intervalMs = MINUTE_MS / perMinute;
  const fullAt = now + waitMs + (burst - 1) * intervalMs;
  throw new Fault("rate_limited", "key above its request rate", {
    retryAfterSeconds: waitMs / 1_000,
    headers: rateLimitHeaders({ intervalMs, burst, fullAt }, now),
  });
}
