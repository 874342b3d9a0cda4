import { describe, expect, test } from "bun:test";
import { failureCause } from "../../src/console/logs/call-page.tsx";
import type { Outcome } from "../../src/usage/usage.ts";

const cause = (outcome: Outcome, statuses: readonly number[], byok = false): string =>
  failureCause({
    outcome,
    provider: "openai",
    byok,
    attempts: statuses.map((status) => ({ provider: "openai", model: "m", status, ms: 1 })),
  });

describe("the cause of a failed call", () => {
  test.each([
    ["upstream_error", [529, 529], "openai was overloaded. Retry later."],
    ["upstream_error", [429], "openai limited the rate of requests. Retry later."],
    ["upstream_error", [400], "rejected the request as invalid. The error of the response names"],
    ["upstream_error", [0], "could not be reached"],
    ["upstream_error", [500], "openai failed with status 500. Retry later."],
    ["upstream_error", [529, 200], "openai ended the reply before it was complete."],
    ["upstream_error", [], "openai was not called."],
    ["upstream_timeout", [0], "openai did not answer in time."],
    ["shut_down", [200], "The gateway shut down"],
  ] as const)("of %s after %j is stated", (outcome, statuses, text) => {
    expect(cause(outcome, statuses)).toContain(text);
  });

  test("of a rejected key names who has to act", () => {
    expect(cause("upstream_error", [401])).toContain("Tell its operator");
    expect(cause("upstream_error", [401], true)).toBe("openai rejected the provider key.");
  });
});
