import { expect, test } from "bun:test";
import { formatAuditDetail } from "../../src/audit/format-detail.ts";

test("writes the detail of an audit entry as one line", () => {
  const policy = JSON.stringify({ models: ["openai/gpt-5"], requests_per_minute: 6 });
  expect(formatAuditDetail({ name: "ci", limit_usd: 5, network: null, policy })).toBe(
    "name: ci; limit usd: 5; policy: models openai/gpt-5, requests_per_minute 6",
  );
  expect(formatAuditDetail({ note: "{not JSON" })).toBe("note: {not JSON");
});
