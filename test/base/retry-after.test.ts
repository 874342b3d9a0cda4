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
