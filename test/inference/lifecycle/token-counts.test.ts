// The tokens per minute of keys, counted in the process.

import { describe, expect, test } from "bun:test";
import { MINUTE_MS } from "../../../src/base/time.ts";
import type { Caller } from "../../../src/http/route.ts";
import { createTokenCounts } from "../../../src/inference/lifecycle/enforce-key-policy.ts";

const KEYS_MAX = 10_000;

function callerOf(keyId: string): Caller {
  return { accountId: "acct_1", keyId, policy: { tokensPerMinute: 10 } };
}

describe("tokens per minute", () => {
  test("are counted per key until the minute ends", () => {
    const counts = createTokenCounts();
    counts.add(callerOf("key_1"), 10, 0);
    expect(() => counts.rejectIfExceeded(callerOf("key_1"), MINUTE_MS - 1)).toThrow();
    counts.rejectIfExceeded(callerOf("key_2"), 0);
    counts.rejectIfExceeded(callerOf("key_1"), MINUTE_MS);
  });

  test("of a key are kept while many other keys are counted", () => {
    const counts = createTokenCounts();
    for (let key = 1; key < KEYS_MAX; key++) counts.add(callerOf(`key_${key}`), 1, 0);
    counts.add(callerOf("busy"), 10, 0);
    for (let key = 0; key < KEYS_MAX / 2; key++) counts.add(callerOf(`other_${key}`), 1, 0);
    expect(() => counts.rejectIfExceeded(callerOf("busy"), 0)).toThrow();
  });
});
