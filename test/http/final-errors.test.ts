import { expect, test } from "bun:test";
import { Fault, READ_OWN_KEY_STEP } from "../../src/base/fault.ts";
import { faultResponse } from "../../src/http/response.ts";

test.each([
  ["a key that does not work", new Fault("invalid_api_key", "x"), "false"],
  ["a missing provider account", new Fault("provider_not_configured", "x"), "false"],
  ["a reused idempotency key", new Fault("conflict", "x"), "false"],
  [
    "what only the caller can end",
    new Fault("internal", "x", { next: [READ_OWN_KEY_STEP] }),
    "false",
  ],
  ["a request that still runs", new Fault("conflict", "x", { retryAfterSeconds: 1 }), null],
  ["a failure", new Fault("internal", "x"), null],
  ["a rate", new Fault("rate_limited", "x", { retryAfterSeconds: 5 }), null],
  ["a full process", new Fault("overloaded", "x", { retryAfterSeconds: 1 }), null],
])("tells clients whether to repeat a request after %s", (_name, fault, expected) => {
  const context = { requestId: "req_1", baseUrl: "https://gateway.test", isKeySent: true };
  const { headers } = faultResponse(fault, { ...context, dialect: "openai" });
  expect(headers.get("x-should-retry")).toBe(expected);
});
