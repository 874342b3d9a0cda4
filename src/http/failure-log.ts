// What failed is told in the log, within bounds: where the store or a provider is away every call fails, and whoever has a
// key may ask for what fails as often as their limit allows. A disk that is full of lines would end everything else. Each
// code has its own bound, so that nobody hides what went wrong here behind what they can make fail.

import type { FaultCode } from "../base/fault.ts";
import type { Log, LogFields } from "../base/log.ts";
import { createRateGuard, type RateLimit } from "./rate.ts";

const LINES: RateLimit = { perMinute: 600, burst: 100 };

type Failure = LogFields & { readonly code: FaultCode };

/** `nowMs` is by a clock that nobody sets. The line after those of its code that were left out says how many they were. */
export function createFailureLog(log: Log): (fields: Failure, nowMs: number) => void {
  const guard = createRateGuard(LINES);
  const leftOut = new Map<FaultCode, number>();
  return (fields, nowMs) => {
    const { code } = fields;
    const missing = leftOut.get(code) ?? 0;
    if (guard.take(code, nowMs) > 0) {
      leftOut.set(code, missing + 1);
      return;
    }
    log.error("request failed", missing === 0 ? fields : { ...fields, left_out: missing });
    leftOut.delete(code);
  };
}
