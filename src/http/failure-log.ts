// Logs failed requests, rate-limited per error code: during an outage every call fails, and an unbounded log would fill the
// disk. The limit is per code so that a caller who provokes one kind of failure cannot suppress the others.

import type { FaultCode } from "../base/fault.ts";
import type { Log, LogFields } from "../base/log.ts";
import { createRateLimiter, type RateLimit } from "./guards/rate-limiter.ts";

const LINE_RATE: RateLimit = { perMinute: 600, burst: 100 };

type Failure = LogFields & { readonly code: FaultCode };

/** `nowMs` is monotonic. `left_out` is the number of suppressed lines of this code since the last one. */
export function createFailureLog(log: Log): (fields: Failure, nowMs: number) => void {
  const limiter = createRateLimiter(LINE_RATE);
  const suppressed = new Map<FaultCode, number>();
  return (fields, nowMs) => {
    const { code } = fields;
    const suppressedCount = suppressed.get(code) ?? 0;
    if (limiter.take(code, nowMs) > 0) {
      suppressed.set(code, suppressedCount + 1);
      return;
    }
    log.error(
      "request failed",
      suppressedCount === 0 ? fields : { ...fields, left_out: suppressedCount },
    );
    suppressed.delete(code);
  };
}
