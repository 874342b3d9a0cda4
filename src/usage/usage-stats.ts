// Sums of an account's usage by time and group, from the roll-ups, the batches that are not rolled up yet, and the
// records of hours that the period covers in part.

import { invalid } from "../base/fault.ts";
import type { Nano } from "../base/money/money.ts";
import type { Page, PageRequest } from "../base/pagination.ts";
import type { Db, Reader } from "../store/db.ts";
import { percentileMs } from "./rollup/latency-histogram.ts";
import { readSums } from "./rollup/read-sums.ts";
import { addSums, countOf, emptySums, type RollupSums } from "./rollup/rollup-delta.ts";
import type { TimeBuckets } from "./time-buckets.ts";
import {
  type Dimension,
  DIMENSIONS,
  isLabelDimension,
  labelsOfFilter,
  type UsageFilter,
} from "./usage-filter.ts";

export const GROUPINGS = ["day", "hour", ...DIMENSIONS] as const;
export type Grouping = (typeof GROUPINGS)[number];

interface LatencyPercentiles {
  readonly p50: number;
  readonly p95: number;
}

export interface UsageSum {
  /** The day (`2026-11-21`), hour (`2026-11-21T09:00:00Z`), model, key, …; empty for a total. */
  readonly group: string;
  readonly calls: number;
  /** Calls that failed; those that the client aborted are not among them. */
  readonly errors: number;
  readonly aborted: number;
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly cost: Nano;
  /** From a histogram, with an error of up to a half. Undefined without calls. */
  readonly latencyMs: LatencyPercentiles | undefined;
  /** The percentiles of streams. */
  readonly firstTokenMs: LatencyPercentiles | undefined;
}

/** One point of a chart: what a group cost in an hour or day. */
export interface CostPoint extends Pick<UsageSum, "group" | "calls" | "cost"> {
  /** The day or hour, in the form of `group`. */
  readonly bucket: string;
}

/** The default page size of usage sums. */
export const GROUPS_MAX = 1_000;

/** All calls of a period as one sum. */
export async function totalUsage(
  reader: Reader,
  accountId: string,
  filter: UsageFilter = {},
): Promise<UsageSum> {
  const [slice] = await readSums(reader, accountId, filter, {});
  return toSum("", slice?.sums);
}

/** Sums by one grouping, in descending order of the group: days and hours newest first. */
export async function sumUsage(
  reader: Reader,
  accountId: string,
  filter: ZonedFilter,
  grouping: Grouping,
): Promise<readonly UsageSum[]> {
  return (await sumGroups(reader, accountId, filter, grouping)).groups;
}

type ZonedFilter = UsageFilter & { readonly timeZone?: string | undefined };

export interface GroupedUsage {
  readonly groups: readonly UsageSum[];
  /** All calls: a call with several labels counts once. */
  readonly total: UsageSum;
}

/** As `sumUsage`, with the total. */
export async function sumGroups(
  reader: Reader,
  accountId: string,
  filter: ZonedFilter,
  grouping: Grouping,
): Promise<GroupedUsage> {
  const { timeZone = "UTC" } = filter;
  const isTime = grouping === "day" || grouping === "hour";
  const slices = await readSums(
    reader,
    accountId,
    filter,
    isTime ? { buckets: { unit: grouping, timeZone } } : { dimension: grouping },
  );
  const groups = slices
    .map((slice) => toSum(isTime ? slice.bucket : slice.group, slice.sums))
    .sort((one, other) => (one.group < other.group ? 1 : -1));
  if (isLabelDimension(grouping) && labelsOfFilter(filter).length === 0)
    return { groups, total: await totalUsage(reader, accountId, filter) };
  const total = emptySums();
  for (const { sums } of slices) addSums(total, sums);
  return { groups, total: toSum("", total) };
}

/** A chart's points: each bucket, oldest first, with one point for each group that has calls in it. */
export async function readCostSeries(
  reader: Reader,
  accountId: string,
  filter: UsageFilter,
  { buckets, dimension }: { readonly buckets: TimeBuckets; readonly dimension: Dimension },
): Promise<readonly CostPoint[]> {
  const grouping = { buckets, dimension, isCostOnly: true };
  const slices = await readSums(reader, accountId, filter, grouping);
  return slices
    .map(({ bucket, group, sums }): CostPoint => {
      return { bucket, group, calls: countOf(sums, "calls"), cost: sums.cost };
    })
    .sort((one, other) => compare(one.bucket, other.bucket) || compare(one.group, other.group));
}

/** The cursor is the grouping and the last group, because sums have no ids. */
export async function listUsageSums(
  reader: Reader,
  accountId: string,
  filter: ZonedFilter,
  page: PageRequest & { readonly grouping: Grouping },
): Promise<Page<UsageSum> & Pick<GroupedUsage, "total">> {
  const { grouping, limit, cursor } = page;
  const after = cursor === undefined ? undefined : groupFromCursor(grouping, cursor);
  const { groups, total } = await sumGroups(reader, accountId, filter, grouping);
  const rest = after === undefined ? groups : groups.filter(({ group }) => group < after);
  const data = rest.slice(0, limit);
  const last = rest.length > limit ? data.at(-1) : undefined;
  const next = last === undefined ? null : `${grouping}:${last.group}`;
  return { object: "list", data, has_more: next !== null, next_cursor: next, total };
}

/** The period of the same length before this one; undefined if it has no start. */
export function previousPeriod(filter: UsageFilter, now: number): UsageFilter | undefined {
  const { from, to = now } = filter;
  return from === undefined ? undefined : { ...filter, from: from - (to - from), to: from };
}

/** Input tokens that the providers read from their caches, from 0 to 1. */
export function cacheHitShare({
  inputTokens,
  cacheReadTokens,
}: Pick<UsageSum, "inputTokens" | "cacheReadTokens">): number {
  return inputTokens === 0 ? 0 : cacheReadTokens / inputTokens;
}

/** Reads the roll-ups and what they lack in one state of the store. */
export function readUsage<T>(
  db: Pick<Db, "snapshot">,
  work: (reader: Reader) => Promise<T>,
): Promise<T> {
  return db.snapshot(async (reader) => {
    // Sent before the first statement of `work`, without waiting for the reply.
    const [, result] = await Promise.all([preferIndexes(reader), work(reader)]);
    return result;
  });
}

/**
 * For this snapshot, in which every statement reads a range of the key of one account. PostgreSQL takes the columns of the key as
 * independent, so it expects too many rows of a busy account, and would read the sums of all accounts.
 */
async function preferIndexes(reader: Reader): Promise<void> {
  if (reader.kind === "postgres")
    await reader.get("select set_config('enable_seqscan', 'off', true)");
}

function toSum(group: string, sums: RollupSums = emptySums()): UsageSum {
  const [
    calls = 0,
    errors = 0,
    aborted = 0,
    ,
    inputTokens = 0,
    cacheReadTokens = 0,
    cacheWriteTokens = 0,
    outputTokens = 0,
    reasoningTokens = 0,
  ] = sums.counts;
  return {
    group,
    calls,
    errors,
    aborted,
    inputTokens,
    cacheReadTokens,
    cacheWriteTokens,
    outputTokens,
    reasoningTokens,
    cost: sums.cost,
    latencyMs: percentiles(sums.latency),
    firstTokenMs: percentiles(sums.firstToken),
  };
}

function percentiles(counts: readonly number[]): LatencyPercentiles | undefined {
  const [p50, p95] = [percentileMs(counts, 0.5), percentileMs(counts, 0.95)];
  return p50 === undefined || p95 === undefined ? undefined : { p50, p95 };
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

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
