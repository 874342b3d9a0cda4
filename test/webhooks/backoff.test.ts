import { expect, test } from "bun:test";
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../../src/base/time.ts";
import { ATTEMPTS_MAX, retryDelayMs } from "../../src/webhooks/delivery-worker.ts";

test("`retry-after` lengthens a delay, to 24 hours at most, and never shortens it", () => {
  expect(retryDelayMs(1, 0.5)).toBe(5 * SECOND_MS);
  expect(retryDelayMs(1, 0.5, HOUR_MS)).toBe(HOUR_MS);
  expect(retryDelayMs(3, 0.5, SECOND_MS)).toBe(5 * MINUTE_MS);
  expect(retryDelayMs(1, 0.5, 24 * HOUR_MS)).toBe(24 * HOUR_MS);
  expect(retryDelayMs(1, 0.5, 365 * 24 * HOUR_MS)).toBe(24 * HOUR_MS);
  // The last delay, with its jitter, may be longer than that.
  expect(retryDelayMs(7, 1, 365 * 24 * HOUR_MS)).toBe(103_680_000);
});

test("there is no delay after the last attempt", () => {
  expect(retryDelayMs(ATTEMPTS_MAX - 1, 0.5)).toBeGreaterThan(0);
  expect(retryDelayMs(ATTEMPTS_MAX, 0.5, HOUR_MS)).toBeUndefined();
});
