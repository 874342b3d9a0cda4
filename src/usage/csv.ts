// Usage records as CSV (RFC 4180). Values that a spreadsheet would evaluate as a formula are escaped.

import { usdText } from "../base/money.ts";
import type { UsageRecord } from "./usage.ts";

const COLUMNS: readonly (readonly [
  name: string,
  value: (record: UsageRecord) => string | number,
])[] = [
  ["id", (record) => record.id],
  ["created_at", (record) => new Date(record.createdAt).toISOString()],
  ["key_id", (record) => record.keyId],
  ["model", (record) => record.model],
  ["provider", (record) => record.provider],
  ["api", (record) => record.api],
  ["stream", (record) => String(record.stream)],
  ["outcome", (record) => record.outcome],
  ["status", (record) => record.status],
  ["input_tokens", (record) => record.inputTokens],
  ["cache_read_tokens", (record) => record.cacheReadTokens],
  ["cache_write_tokens", (record) => record.cacheWriteTokens],
  ["output_tokens", (record) => record.outputTokens],
  ["reasoning_tokens", (record) => record.reasoningTokens],
  ["cost_usd", (record) => usdText(record.cost)],
  ["byok", (record) => String(record.byok)],
  ["exact", (record) => String(record.exact)],
  ["latency_ms", (record) => record.latencyMs],
  ["first_token_ms", (record) => record.firstTokenMs ?? ""],
];

export function toCsv(records: readonly UsageRecord[]): string {
  const lines = [
    COLUMNS.map(([name]) => name),
    ...records.map((record) => COLUMNS.map(([, value]) => csvCell(value(record)))),
  ];
  return lines.map((line) => `${line.join(",")}\r\n`).join("");
}

function csvCell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const escaped = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(escaped) ? `"${escaped.replaceAll('"', '""')}"` : escaped;
}
