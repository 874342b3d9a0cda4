// Applies the request rate of a key.

import { Fault } from "../../base/fault.ts";
import type { RateLimiter } from "../guards/rate-limiter.ts";
import type { Step } from "../request-context.ts";

export interface RateLimits {
  readonly requests?: RateLimiter | undefined;
  /** Counts rejected model calls; accepted ones are counted by their hold. */
  readonly refusals?: RateLimiter | undefined;
}

export function limitRate({ requests }: RateLimits): Step {
  return ({ key, now }) => {
    if (requests !== undefined && key !== undefined) rejectEarly(requests.take(key.keyId, now));
    return undefined;
  };
}

/**
 * A model call is counted by its hold, across all processes. Rejected ones are counted here and checked before the body is
 * read: otherwise a key without credits could send bodies without limit.
 */
export function limitRefusals({ refusals }: RateLimits, clock: () => number): Step {
  return ({ key, now, onResponse }) => {
    if (refusals === undefined || key === undefined) return undefined;
    const { keyId } = key;
    rejectEarly(refusals.waitMs(keyId, now));
    onResponse.push(({ status }) => {
      if (status >= 400) refusals.count(keyId, clock());
    });
    return undefined;
  };
}

function rejectEarly(waitMs: number): void {
  if (waitMs > 0)
    throw new Fault("rate_limited", "key above its request rate", {
      retryAfterSeconds: waitMs / 1_000,
    });
}
