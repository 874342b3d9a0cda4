import { expect, test } from "bun:test";
import { formatAuditDetail } from "../../src/activity/format-detail.ts";

test("writes the detail of an audit entry as one line", () => {
  const policy = JSON.stringify({ models: ["openai/gpt-5"], requests_per_minute: 6 });
  expect(formatAuditDetail({ name: "ci", limit_usd: 5, network: null, policy })).toBe(
    "name: ci; limit: $5.00; policy: models openai/gpt-5, requests per minute 6",
  );
  expect(formatAuditDetail({ note: "{not JSON" })).toBe("note: {not JSON");
});

test("formats times in the reader's time zone", () => {
  const detail = { name: "ci", expires_at: "2026-12-24T18:00:00.000Z" };
  expect(formatAuditDetail(detail)).toBe("name: ci; expires at: 2026-12-24 18:00 UTC");
  expect(formatAuditDetail(detail, "Asia/Tokyo")).toBe(
    "name: ci; expires at: 2026-12-25 03:00 GMT+9",
  );
});

test("formats amounts as money", () => {
  expect(
    formatAuditDetail({ usd: "2.5", reason: "5", paid_before: "-1", paid_after: "1234.5" }),
  ).toBe("amount: $2.50; reason: 5; paid before: −$1.00; paid after: $1,234.50");
  expect(formatAuditDetail({ amount_usd: 0.0000015, threshold_usd: "none" })).toBe(
    "amount: $0.0000015; threshold: none",
  );
  expect(formatAuditDetail({ policy: JSON.stringify({ max_price_per_million_usd: "2" }) })).toBe(
    "policy: max price per million $2.00",
  );
});
