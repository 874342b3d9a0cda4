// What a settled call writes, and when its commit may be sent: see docs/decisions/0061-credit-leases.md.

import { expect, test } from "bun:test";
import type { SettledCall } from "../../src/inference/lifecycle/call.ts";
import { isWrittenAtOnce } from "../../src/server/call-records.ts";

// Safe: the record is not read.
const usage = {} as SettledCall["usage"];

test("the commit of a call that writes only its usage record follows its writes", () => {
  expect(isWrittenAtOnce({ usage, item: undefined, isExported: false })).toBe(true);
});

test.each(["idempotent", "response", "item", "prompt", "isExported"])(
  "the commit of a call with %p waits for the writes after its usage record",
  (name) => {
    expect(isWrittenAtOnce({ usage, [name]: true })).toBe(false);
  },
);
