// What failed is told in the log, within bounds: where the store or a provider is away every call fails, and whoever has a
// key may ask for what fails as often as their limit allows. A disk that is full of lines would end everything else. Each
// code has its own bound, so that nobody hides what went wrong here behind what they can make fail.

import type { FaultCode } from "../base/fault.ts";
import type { Log, LogFields } from "../base/log.ts";
import { createRateLimiter, type RateLimit } from "./guards/rate-limiter.ts";

const LINE_RATE: RateLimit = { perMinute: 600, burst: 100 };

type Failure = LogFields & { readonly code: FaultCode };

/** `nowMs` is by a clock that nobody sets. The line after those of its code that were left out says how many they were. */
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
