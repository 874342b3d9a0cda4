// What failed is told in the log, within bounds: where the store or a provider is away every call fails, and whoever has a
// key may ask for what fails as often as their limit allows. A disk that is full of lines would end everything else.

import type { Log, LogFields } from "../base/log.ts";
import { createRateGuard, type RateLimit } from "./rate.ts";

const LINES: RateLimit = { perMinute: 600, burst: 100 };

/** `nowMs` is by a clock that nobody sets. The line after those that were left out says how many they were. */
export function createFailureLog(log: Log): (fields: LogFields, nowMs: number) => void {
  const guard = createRateGuard(LINES);
  let leftOut = 0;
  return (fields, nowMs) => {
    if (guard.take("", nowMs) > 0) {
      leftOut++;
      return;
    }
    log.error("request failed", leftOut === 0 ? fields : { ...fields, left_out: leftOut });
    leftOut = 0;
  };
}
