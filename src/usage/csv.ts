// Usage records and sums as CSV.

import { usdText } from "../base/money/money.ts";
import { type CsvColumn, writeCsv } from "../base/text/csv-writer.ts";
import { labelValue, NAMED_LABELS } from "./session-labels.ts";
import type { Grouping, UsageSum } from "./usage-stats.ts";
import type { UsageRecord } from "./usage.ts";

const COLUMNS: readonly CsvColumn<UsageRecord>[] = [
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
  ["owed_usd", (record) => usdText(record.owed ?? 0n)],
  ["byok", (record) => String(record.byok)],
  ["exact", (record) => String(record.exact)],
  ["latency_ms", (record) => record.latencyMs],
  ["first_token_ms", (record) => record.firstTokenMs ?? ""],
  ["labels", (record) => record.labels.join(" ")],
  ...NAMED_LABELS.map((name): CsvColumn<UsageRecord> => [
    name,
    ({ labels }) => labelValue(labels, name) ?? "",
  ]),
];

const SUM_COLUMNS: readonly CsvColumn<UsageSum>[] = [
  ["calls", (sum) => sum.calls],
  ["errors", (sum) => sum.errors],
  ["client_aborted", (sum) => sum.aborted],
  ["input_tokens", (sum) => sum.inputTokens],
  ["cache_read_tokens", (sum) => sum.cacheReadTokens],
  ["cache_write_tokens", (sum) => sum.cacheWriteTokens],
  ["output_tokens", (sum) => sum.outputTokens],
  ["reasoning_tokens", (sum) => sum.reasoningTokens],
  ["cost_usd", (sum) => usdText(sum.cost)],
  ["latency_p50_ms", (sum) => sum.latencyMs?.p50 ?? ""],
  ["latency_p95_ms", (sum) => sum.latencyMs?.p95 ?? ""],
  ["first_token_p50_ms", (sum) => sum.firstTokenMs?.p50 ?? ""],
  ["first_token_p95_ms", (sum) => sum.firstTokenMs?.p95 ?? ""],
];

/** `keyNames` adds a column with the names of the keys. */
export function toCsv(
  records: readonly UsageRecord[],
  keyNames?: ReadonlyMap<string, string>,
): Promise<string> {
  if (keyNames === undefined) return writeCsv(COLUMNS, records);
  const columns = COLUMNS.flatMap((column): readonly CsvColumn<UsageRecord>[] =>
    column[0] === "key_id"
      ? [column, ["key_name", ({ keyId }) => keyNames.get(keyId) ?? ""]]
      : [column],
  );
  return writeCsv(columns, records);
}

export function sumsToCsv(
  sums: readonly UsageSum[],
  grouping: Grouping,
  keyNames: ReadonlyMap<string, string> = new Map(),
): Promise<string> {
  const name = grouping === "key" ? "key_id" : grouping;
  const names: readonly CsvColumn<UsageSum>[] =
    grouping === "key" && keyNames.size > 0
      ? [["key_name", ({ group }) => keyNames.get(group) ?? ""]]
      : [];
  return writeCsv([[name, (sum) => sum.group], ...names, ...SUM_COLUMNS], sums);
}
