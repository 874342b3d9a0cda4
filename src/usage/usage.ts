// Usage records, one per model call. It owns the table usage_record. A record contains the measured usage and the
// prices, so that its cost can be recomputed; the ledger writes it in the transaction of the settlement.

import { utcDay } from "../base/time.ts";
import { Fault, invalid } from "../base/fault.ts";
import { type Nano, toNano } from "../base/money.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import {
  type Column,
  enumValue,
  type Reader,
  type Row,
  text,
  type Tx,
  type Value,
  integer,
  integerOrNull,
} from "../store/db.ts";

export const USAGE_APIS = ["chat", "responses", "messages", "embeddings"] as const;
export type UsageApi = (typeof USAGE_APIS)[number];

export const OUTCOMES = [
  "completed",
  "client_aborted",
  "upstream_error",
  "upstream_timeout",
  "shut_down",
] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** A part of a call's cost: the count of one meter and its unit price. */
export interface PricedLine {
  readonly meter: string;
  readonly count: number;
  /** The unit price in US dollars, as a decimal. */
  readonly usd: string;
  /** The model whose price applies, if it is not the record's. */
  readonly model?: string;
}

export interface ProviderAttempt {
  readonly provider: string;
  readonly model: string;
  readonly status: number;
  readonly ms: number;
}

export interface UsageRecord {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly createdAt: number;
  readonly model: string;
  readonly provider: string;
  readonly api: UsageApi;
  readonly stream: boolean;
  readonly outcome: Outcome;
  readonly status: number;
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  /** One line for every meter above zero. */
  readonly price: readonly PricedLine[];
  readonly attempts: readonly ProviderAttempt[];
  readonly cost: Nano;
  readonly byok: boolean;
  /** False if the provider reported no usage and it was estimated. */
  readonly exact: boolean;
  readonly latencyMs: number;
  readonly firstTokenMs: number | null;
}

export interface UsageFilter {
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly model?: string | undefined;
  readonly keyId?: string | undefined;
}

export const GROUPINGS = ["day", "model", "key"] as const;
export type Grouping = (typeof GROUPINGS)[number];

export interface UsageSum {
  readonly group: string;
  readonly calls: number;
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly cost: Nano;
}

/** The default page size of usage sums. */
export const GROUPS_MAX = 1_000;
const GROUP_COLUMNS: Readonly<Record<Grouping, string>> = {
  day: "day",
  model: "model",
  key: "key_id",
};

const COLUMNS: readonly Column[] = [
  "id:text",
  "account_id:text",
  "key_id:text",
  "created_at:bigint",
  "day:text",
  "model:text",
  "provider:text",
  "api:text",
  "stream:bigint",
  "outcome:text",
  "status:bigint",
  "input_tokens:bigint",
  "cache_read_tokens:bigint",
  "cache_write_tokens:bigint",
  "output_tokens:bigint",
  "reasoning_tokens:bigint",
  "cost_nano:bigint",
  "byok:bigint",
  "exact:bigint",
  "latency_ms:bigint",
  "first_token_ms:bigint",
  "detail:text",
];

export function insertUsage(tx: Tx, records: readonly UsageRecord[]): Promise<void> {
  return tx.insertMany("usage_record", COLUMNS, records.map(toValues));
}

export async function getUsage(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<UsageRecord> {
  const row = await reader.get("select * from usage_record where account_id = ? and id = ?", [
    accountId,
    id,
  ]);
  if (row === undefined)
    throw new Fault("not_found", "no such usage record", {
      message: "No usage record has this id. List the records with GET /v1/usage.",
      param: "id",
      next: [{ method: "GET", url: "/v1/usage", why: "List the usage records." }],
    });
  return toRecord(row);
}

export async function listUsage(
  reader: Reader,
  accountId: string,
  filter: UsageFilter,
  page: PageRequest,
): Promise<Page<UsageRecord>> {
  const { where, params } = whereClause(accountId, filter);
  const rows = await reader.all(
    `select * from usage_record where ${where} and id < ? order by id desc limit ?`,
    [...params, page.cursor ?? maxId("req"), page.limit + 1],
  );
  return toPage(rows.map(toRecord), page.limit);
}

/** Sums by day, model or key, in descending order. */
export async function sumUsage(
  reader: Reader,
  accountId: string,
  filter: UsageFilter,
  grouping: Grouping,
): Promise<readonly UsageSum[]> {
  return (await listUsageSums(reader, accountId, filter, { grouping, limit: GROUPS_MAX })).data;
}

/** The cursor is the grouping and the last group, because sums have no ids. */
export async function listUsageSums(
  reader: Reader,
  accountId: string,
  filter: UsageFilter,
  page: PageRequest & { readonly grouping: Grouping },
): Promise<Page<UsageSum>> {
  const { grouping, limit, cursor } = page;
  const { where, params } = whereClause(accountId, filter);
  const column = GROUP_COLUMNS[grouping];
  const after = cursor === undefined ? undefined : groupFromCursor(grouping, cursor);
  const rows = await reader.all(
    `select ${column} as grouped, count(*) as calls,
       cast(sum(input_tokens) as bigint) as input_tokens, cast(sum(cache_read_tokens) as bigint) as cache_read_tokens,
       cast(sum(cache_write_tokens) as bigint) as cache_write_tokens, cast(sum(output_tokens) as bigint) as output_tokens,
       cast(sum(reasoning_tokens) as bigint) as reasoning_tokens, cast(sum(cost_nano) as bigint) as cost_nano
     from usage_record where ${where}${after === undefined ? "" : ` and ${column} < ?`}
     group by ${column} order by ${column} desc limit ?`,
    [...params, ...(after === undefined ? [] : [after]), limit + 1],
  );
  const data = rows.slice(0, limit).map(toSum);
  const last = rows.length > limit ? data.at(-1) : undefined;
  const next = last === undefined ? null : `${grouping}:${last.group}`;
  return { object: "list", data, has_more: next !== null, next_cursor: next };
}

/** Totals of all calls of the account. */
export async function totalUsage(
  reader: Reader,
  accountId: string,
): Promise<Pick<UsageSum, "calls" | "cost">> {
  const row = await reader.get(
    `select count(*) as calls, cast(coalesce(sum(cost_nano), 0) as bigint) as cost_nano
     from usage_record where account_id = ?`,
    [accountId],
  );
  if (row === undefined) throw new Error("an aggregate query returned no row");
  return { calls: integer(row, "calls"), cost: toNano(row["cost_nano"]) };
}

function groupFromCursor(grouping: Grouping, cursor: string): string {
  const prefix = `${grouping}:`;
  if (cursor.startsWith(prefix) && cursor.length > prefix.length)
    return cursor.slice(prefix.length);
  throw invalid(
    "cursor",
    "`cursor` is not a cursor of this list. Use `next_cursor` of the previous page with the same `group_by`.",
  );
}

function toSum(row: Row): UsageSum {
  return {
    group: text(row, "grouped"),
    calls: integer(row, "calls"),
    inputTokens: integer(row, "input_tokens"),
    cacheReadTokens: integer(row, "cache_read_tokens"),
    cacheWriteTokens: integer(row, "cache_write_tokens"),
    outputTokens: integer(row, "output_tokens"),
    reasoningTokens: integer(row, "reasoning_tokens"),
    cost: toNano(row["cost_nano"]),
  };
}

function whereClause(
  accountId: string,
  filter: UsageFilter,
): { readonly where: string; readonly params: Value[] } {
  const conditions: [string, Value | undefined][] = [
    ["account_id = ?", accountId],
    ["created_at >= ?", filter.from],
    ["created_at < ?", filter.to],
    ["model = ?", filter.model],
    ["key_id = ?", filter.keyId],
  ];
  const given = conditions.filter((one): one is [string, Value] => one[1] !== undefined);
  return {
    where: given.map(([condition]) => condition).join(" and "),
    params: given.map(([, value]) => value),
  };
}

function toValues(record: UsageRecord): readonly Value[] {
  return [
    record.id,
    record.accountId,
    record.keyId,
    record.createdAt,
    utcDay(record.createdAt),
    record.model,
    record.provider,
    record.api,
    Number(record.stream),
    record.outcome,
    record.status,
    record.inputTokens,
    record.cacheReadTokens,
    record.cacheWriteTokens,
    record.outputTokens,
    record.reasoningTokens,
    record.cost,
    Number(record.byok),
    Number(record.exact),
    record.latencyMs,
    record.firstTokenMs,
    JSON.stringify({ price: record.price, attempts: record.attempts }),
  ];
}

function toRecord(row: Row): UsageRecord {
  // Safe because only `toValues` writes this column.
  const detail = JSON.parse(text(row, "detail")) as Pick<UsageRecord, "price" | "attempts">;
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    keyId: text(row, "key_id"),
    createdAt: integer(row, "created_at"),
    model: text(row, "model"),
    provider: text(row, "provider"),
    api: enumValue(row, "api", USAGE_APIS),
    stream: integer(row, "stream") === 1,
    outcome: enumValue(row, "outcome", OUTCOMES),
    status: integer(row, "status"),
    inputTokens: integer(row, "input_tokens"),
    cacheReadTokens: integer(row, "cache_read_tokens"),
    cacheWriteTokens: integer(row, "cache_write_tokens"),
    outputTokens: integer(row, "output_tokens"),
    reasoningTokens: integer(row, "reasoning_tokens"),
    price: detail.price,
    attempts: detail.attempts,
    cost: toNano(row["cost_nano"]),
    byok: integer(row, "byok") === 1,
    exact: integer(row, "exact") === 1,
    latencyMs: integer(row, "latency_ms"),
    firstTokenMs: integerOrNull(row, "first_token_ms"),
  };
}
