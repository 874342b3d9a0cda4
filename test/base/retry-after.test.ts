// The seconds of `retry-after` are also in the body of an error.

import { expect, test } from "bun:test";
import { errorBody, publicError } from "../../src/base/error-body.ts";
import { Fault } from "../../src/base/fault.ts";

test("an error with `retry-after` has its whole seconds in the body, in every envelope", () => {
  const fault = new Fault("rate_limited", "too fast", { retryAfterSeconds: 1.2 });
  for (const format of ["openai", "messages", "oauth", "jsonrpc"] as const)
    expect(JSON.stringify(errorBody(format, publicError(fault), "req_1"))).toContain(
      '"retry_after_seconds":2',
    );
  const { fields } = publicError(new Fault("rate_limited", "too fast"));
  expect(fields).toBeUndefined();
});

test("the seconds that a provider asks for are in the body, too", () => {
  const waitOf = (text: string): unknown => {
    const fault = new Fault("rate_limited", "too fast", { headers: { "retry-after": text } });
    return publicError(fault).fields?.["retry_after_seconds"];
  };
  expect([waitOf("3"), waitOf("Sun, 29 Nov 2026 08:00:00 GMT")]).toEqual([3, undefined]);
});
