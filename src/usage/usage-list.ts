// Lists usage records, newest first. The roll-ups tell which hours have calls that match a filter; only the records of
// those hours are read.

import { idTime, minIdAt } from "../base/id.ts";
import { maxId, type Page, type PageRequest } from "../base/pagination.ts";
import { DAY_MS, HOUR_MS } from "../base/time.ts";
import { type Reader, integer, textOrNull } from "../store/db.ts";
import { oldestPendingHour } from "./rollup/pending.ts";
import { otherLabelOf } from "./rollup/roll-up.ts";
import type { RollupUnit } from "./rollup/rollup-rows.ts";
import {
  type Condition,
  dimensionConditions,
  ID_SLACK_MS,
  idRange,
  joinConditions,
  labelsOfFilter,
  recordConditions,
  type UsageListFilter,
} from "./usage-filter.ts";
import { selectUsageInOrder } from "./usage-of-account.ts";
import { type Outcome, toUsageRecord, type UsageRecord } from "./usage.ts";

/** Read by one statement, so that a filter that few records match does not block other requests. */
const RECORDS_PER_STATEMENT = 1_000;
/** A page ends after so many records, even if it is not full. */
const SCANNED_MAX = 20_000;
/** The newest records of a period that are compared to find the highest. */
const RANKED_MAX = 100_000;

/** A page can have fewer records than `limit` and still be followed by others. */
export async function listUsage(
  reader: Reader,
  accountId: string,
  filter: UsageListFilter,
  page: PageRequest,
): Promise<Page<UsageRecord>> {
  if (filter.id !== undefined) return listById(reader, accountId, filter);
  const data: UsageRecord[] = [];
  const hours = await createHourFinder(reader, accountId, filter);
  let before: string | undefined = page.cursor ?? maxId("req");
  for (let scanned = 0; scanned < SCANNED_MAX; scanned += RECORDS_PER_STATEMENT) {
    before = await hours.skip(before);
    if (before === undefined) return { object: "list", data, has_more: false, next_cursor: null };
    const slice = await readSlice(reader, accountId, filter, { before, limit: page.limit + 1 });
    data.push(...slice.records);
    if (data.length > page.limit) {
      const records = data.slice(0, page.limit);
      const next = records.at(-1)?.id ?? null;
      return { object: "list", data: records, has_more: true, next_cursor: next };
    }
    if (slice.last === undefined)
      return { object: "list", data, has_more: false, next_cursor: null };
    before = slice.last;
    if (reader.kind === "sqlite") await new Promise((resolve) => setImmediate(resolve));
  }
  return { object: "list", data, has_more: true, next_cursor: before ?? null };
}

/** The key of the table, so no other record is read. */
async function listById(
  reader: Reader,
  accountId: string,
  filter: UsageListFilter,
): Promise<Page<UsageRecord>> {
  const { where, params } = joinConditions([
    { sql: "account_id = ?", values: [accountId] },
    ...recordConditions(filter),
  ]);
  const rows = await reader.all(`select * from usage_record where ${where}`, params);
  return { object: "list", data: rows.map(toUsageRecord), has_more: false, next_cursor: null };
}

const IDS_PER_STATEMENT = 500;

/** In the order of the ids; without those that have no record. */
export async function readUsageByIds(
  reader: Reader,
  accountId: string,
  ids: readonly string[],
): Promise<readonly UsageRecord[]> {
  const records: UsageRecord[] = [];
  for (let at = 0; at < ids.length; at += IDS_PER_STATEMENT) {
    const some = ids.slice(at, at + IDS_PER_STATEMENT);
    const rows = await reader.all(
      `select * from usage_record where account_id = ? and id in (${some.map(() => "?").join(", ")}) order by id`,
      [accountId, ...some],
    );
    records.push(...rows.map(toUsageRecord));
  }
  return records;
}

export const USAGE_SORTS = ["cost", "latency", "tokens"] as const;
export type UsageSort = (typeof USAGE_SORTS)[number];

const SORT_COLUMNS: Readonly<Record<UsageSort, string>> = {
  cost: "cost_nano",
  latency: "latency_ms",
  tokens: "input_tokens + output_tokens",
};

export interface Ranking {
  readonly sort: UsageSort;
  readonly limit: number;
  /** How many of the newest records are compared. */
  readonly among?: number;
}

export interface RankedUsage {
  /** The highest first. */
  readonly records: readonly UsageRecord[];
  /** False if the period has more records than are compared: then they are those of the newest. */
  readonly isComplete: boolean;
}

/** The records with the highest cost, latency or number of tokens. */
export async function rankUsage(
  reader: Reader,
  accountId: string,
  filter: UsageListFilter,
  ranking: Ranking,
): Promise<RankedUsage> {
  const hours = await createHourFinder(reader, accountId, filter);
  let records: readonly UsageRecord[] = [];
  let before: string | undefined = maxId("req");
  for (let scanned = 0; scanned < (ranking.among ?? RANKED_MAX); scanned += RECORDS_PER_STATEMENT) {
    before = await hours.skip(before);
    if (before === undefined) return { records, isComplete: true };
    const slice = await readRankedSlice(reader, accountId, filter, { ...ranking, before });
    records = highest([...records, ...slice.records], ranking);
    if (slice.last === undefined) return { records, isComplete: true };
    before = slice.last;
    if (reader.kind === "sqlite") await new Promise((resolve) => setImmediate(resolve));
  }
  return { records, isComplete: false };
}

const SORT_VALUES: Readonly<Record<UsageSort, (record: UsageRecord) => bigint>> = {
  cost: ({ cost }) => cost,
  latency: ({ latencyMs }) => BigInt(latencyMs),
  tokens: ({ inputTokens, outputTokens }) => BigInt(inputTokens + outputTokens),
};

function highest(
  records: readonly UsageRecord[],
  { sort, limit }: Ranking,
): readonly UsageRecord[] {
  const value = SORT_VALUES[sort];
  return records
    .toSorted((one, other) => {
      const [a, b] = [value(one), value(other)];
      return a === b ? (one.id < other.id ? 1 : -1) : a < b ? 1 : -1;
    })
    .slice(0, limit);
}

async function readRankedSlice(
  reader: Reader,
  accountId: string,
  filter: UsageListFilter,
  { sort, limit, before }: Ranking & { readonly before: string },
): Promise<Slice> {
  const { slice, matching } = sliceBefore(accountId, filter, {
    before,
    limit: RECORDS_PER_STATEMENT,
  });
  const all = slice("*");
  const rows = await reader.all(
    `select * from (${all.sql}) as slice where ${matching.where || "true"}
     order by ${SORT_COLUMNS[sort]} desc, id desc limit ?`,
    [...all.values, ...matching.params, limit],
  );
  return {
    records: rows.map(toUsageRecord),
    last: await endOfSlice(reader, slice("id"), RECORDS_PER_STATEMENT),
  };
}

interface Slice {
  readonly records: readonly UsageRecord[];
  /** The oldest record that was read; undefined if there are no more. */
  readonly last: string | undefined;
}

async function readSlice(
  reader: Reader,
  accountId: string,
  filter: UsageListFilter,
  { before, limit }: { readonly before: string; readonly limit: number },
): Promise<Slice> {
  const isWhole = reader.kind === "sqlite" && recordConditions(withoutTime(filter)).length === 0;
  // SQLite sorts the whole slice. Without a filter, other than of time, all of its records match.
  const length = isWhole ? Math.min(limit, RECORDS_PER_STATEMENT) : RECORDS_PER_STATEMENT;
  const { slice, matching } = sliceBefore(accountId, filter, { before, limit: length });
  const all = slice("*");
  const rows = await reader.all(
    `select * from (${all.sql}) as slice where ${matching.where || "true"} order by id desc limit ?`,
    [...all.values, ...matching.params, limit],
  );
  const records = rows.map(toUsageRecord);
  if (records.length >= limit) return { records, last: records.at(-1)?.id };
  return { records, last: await endOfSlice(reader, slice("id"), length) };
}

/** The newest records before an id, and the conditions that are tested on them. */
function sliceBefore(
  accountId: string,
  filter: UsageListFilter,
  { before, limit }: { readonly before: string; readonly limit: number },
) {
  const { from, to } = filter;
  const ids = idRange(filter);
  const range = {
    accountId,
    ids: ids.before !== undefined && ids.before < before ? ids : { ...ids, before },
    others: recordConditions({ from, to }),
  };
  const slice = (columns: string): Condition =>
    selectUsageInOrder(columns, range, { order: "desc", limit });
  return { slice, matching: joinConditions(recordConditions(withoutTime(filter))) };
}

function withoutTime(filter: UsageListFilter): UsageListFilter {
  return { ...filter, from: undefined, to: undefined };
}

/** The last id of a slice; undefined if no records follow it. */
async function endOfSlice(
  reader: Reader,
  ids: Condition,
  length: number,
): Promise<string | undefined> {
  const end = await reader.get(
    `select min(id) as last, count(*) as count from (${ids.sql}) as slice`,
    ids.values,
  );
  const isFull = end !== undefined && integer(end, "count") === length;
  return isFull ? (textOrNull(end, "last") ?? undefined) : undefined;
}

interface HourFinder {
  /** Moves a cursor back to the next hour that has matching calls; undefined if there is none. */
  readonly skip: (before: string) => Promise<string | undefined>;
}

async function createHourFinder(
  reader: Reader,
  accountId: string,
  filter: UsageListFilter,
): Promise<HourFinder> {
  const conditions = rollupConditions(filter);
  const rolledUpTo = conditions.length === 0 ? 0 : await oldestPendingHour(reader, accountId);
  const newest = async (
    unit: RollupUnit,
    from: number,
    to: number,
  ): Promise<number | undefined> => {
    const { where, params } = joinConditions(conditions);
    const row = await reader.get(
      `select at from usage_rollup where account_id = ? and unit = ? and at >= ? and at < ? and ${where} order by at desc limit 1`,
      [accountId, unit, from, to, ...params],
    );
    return row && integer(row, "at");
  };
  return {
    skip: async (before) => {
      const time = idTime("req", before);
      // Records that are not rolled up yet are read one by one.
      if (conditions.length === 0 || time === undefined || time >= rolledUpTo) return before;
      const to = time + ID_SLACK_MS;
      const day = await newest("day", (filter.from ?? 0) - DAY_MS, to);
      const hour =
        day === undefined ? undefined : await newest("hour", day, Math.min(to, day + DAY_MS));
      if (day === undefined) return undefined;
      // What matches in this day may all be after `to`: then the day before it is next.
      const end = minIdAt("req", hour === undefined ? day - 1 : hour + HOUR_MS + ID_SLACK_MS);
      return end < before ? end : before;
    },
  };
}

const COUNTED_OUTCOMES: Readonly<Partial<Record<Outcome | "failed", string>>> = {
  failed: "errors > 0",
  upstream_error: "errors > 0",
  upstream_timeout: "errors > 0",
  shut_down: "errors > 0",
  limit_exceeded: "errors > 0",
  budget_cut: "errors > 0",
  empty_reply: "errors > 0",
  guardrail_denied: "errors > 0",
  client_aborted: "aborted > 0",
};

/** Empty if the filter is of time alone, or of what the roll-ups do not know. */
function rollupConditions(filter: UsageListFilter): readonly Condition[] {
  const outcome = filter.outcome && COUNTED_OUTCOMES[filter.outcome];
  return [
    ...dimensionConditions(filter),
    ...(outcome === undefined ? [] : [{ sql: outcome, values: [] }]),
    // A row of the roll-ups has one label: the last one is usually the most specific.
    ...labelsOfFilter(filter)
      .slice(-1)
      .map((label) => ({ sql: "label in (?, ?)", values: [label, otherLabelOf(label)] })),
  ];
}
