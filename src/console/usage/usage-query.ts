// The query parameters of the usage and log pages: filters and a period, so that every view has an address.

import { z } from "zod";
import { formatDay } from "../../base/text/format.ts";
import { DAY_MS, HOUR_MS, utcDay } from "../../base/time.ts";
import type { SessionUser } from "../../http/route.ts";
import { emptyAsUndefined } from "../../http/schemas.ts";
import { bucketOf, isTimeZone, startOfDay, type TimeBuckets } from "../../usage/time-buckets.ts";
import {
  type Dimension,
  DIMENSIONS,
  isLabelDimension,
  labelDimensionOf,
  labelsOfFilter,
  type UsageFilter,
} from "../../usage/usage-filter.ts";
import { USAGE_SORTS } from "../../usage/usage-list.ts";
import { OUTCOMES, USAGE_APIS } from "../../usage/usage.ts";

const RANGES = { "24h": 1, yesterday: 1, "7d": 7, "30d": 30, "90d": 90 } as const;
export type Range = keyof typeof RANGES;
const DEFAULT_RANGE: Range = "30d";
// Safe because these are the keys of `RANGES`.
export const RANGE_NAMES = Object.keys(RANGES) as Range[];

/** Hourly bars of a longer period would be too thin to point at. */
const HOURLY_DAYS_MAX = 7;
const CUSTOM_DAYS_MAX = 366;

const Text = emptyAsUndefined(z.string().max(200));
const Day = emptyAsUndefined(z.iso.date());

export const UsageQuery = z.object({
  range: emptyAsUndefined(z.enum(["24h", "yesterday", "7d", "30d", "90d"])),
  /** The first and the last day; they replace `range`. */
  from: Day,
  to: Day,
  tz: emptyAsUndefined(z.string().max(64).refine(isTimeZone)),
  unit: emptyAsUndefined(z.enum(["hour", "day"])),
  by: emptyAsUndefined(z.enum(DIMENSIONS)),
  model: Text,
  key: Text,
  provider: Text,
  api: emptyAsUndefined(z.enum(USAGE_APIS)),
  label: Text,
  session: Text,
  agent: Text,
  parent_agent: Text,
  batch: Text,
});
export type UsageQuery = z.infer<typeof UsageQuery>;

export const LogQuery = UsageQuery.extend({
  outcome: emptyAsUndefined(z.enum([...OUTCOMES, "failed", "refused"])),
  status: emptyAsUndefined(z.coerce.number().int().min(100).max(599)),
  request: Text,
  sort: emptyAsUndefined(z.enum(USAGE_SORTS)),
  min_cost: Text,
  cursor: Text,
});
export type LogQuery = z.infer<typeof LogQuery>;

export interface Period {
  readonly from: number;
  /** Undefined if the period ends now. */
  readonly to: number | undefined;
  readonly buckets: TimeBuckets;
  /** Undefined for a custom period. */
  readonly range: Range | undefined;
  readonly days: number;
}

/** Reads days in the person's time zone unless the query names one. */
export function inTimeZoneOf<Q extends UsageQuery>(query: Q, { timeZone }: SessionUser): Q {
  return { ...query, tz: query.tz ?? timeZone };
}

export function periodOf(query: UsageQuery, now: number): Period {
  const timeZone = query.tz ?? "UTC";
  const custom = query.from === undefined && query.to === undefined ? undefined : query;
  const range = custom === undefined ? (query.range ?? DEFAULT_RANGE) : undefined;
  const [from, to] =
    range === undefined
      ? customDays(query, timeZone, now)
      : [rangeStart(range, timeZone, now), rangeEnd(range, timeZone, now)];
  const days = Math.max(1, Math.round(((to ?? now) - from) / DAY_MS));
  const isHourly = days <= 1 || (query.unit === "hour" && days <= HOURLY_DAYS_MAX);
  return { from, to, buckets: { unit: isHourly ? "hour" : "day", timeZone }, range, days };
}

function rangeStart(range: Range, timeZone: string, now: number): number {
  if (range === "24h") return now - (now % HOUR_MS) - 23 * HOUR_MS;
  if (range === "yesterday") return startOfDay(timeZone, startOfDay(timeZone, now) - 1);
  // From noon, because a day of 23 or 25 hours would move midnight to another date.
  const noon = startOfDay(timeZone, now) + DAY_MS / 2;
  return startOfDay(timeZone, noon - (RANGES[range] - 1) * DAY_MS);
}

function rangeEnd(range: Range, timeZone: string, now: number): number | undefined {
  return range === "yesterday" ? startOfDay(timeZone, now) : undefined;
}

function customDays(
  query: UsageQuery,
  timeZone: string,
  now: number,
): readonly [from: number, to: number | undefined] {
  const end = query.to === undefined ? undefined : dayStart(nextDate(query.to), timeZone);
  const last = end === undefined ? now : end - 1;
  const first = query.from === undefined ? last - 29 * DAY_MS : dayStart(query.from, timeZone);
  const from = Math.max(Math.min(first, last), last - CUSTOM_DAYS_MAX * DAY_MS);
  return [startOfDay(timeZone, from), end === undefined || end > now ? undefined : end];
}

function nextDate(date: string): string {
  return utcDay(Date.parse(date) + DAY_MS);
}

/** The start of a date in a time zone. */
function dayStart(date: string, timeZone: string): number {
  const noon = Date.parse(`${date}T12:00:00Z`);
  const at = [noon, noon - DAY_MS / 2, noon + DAY_MS / 2].find(
    (time) => bucketOf({ unit: "day", timeZone }, time) === date,
  );
  return startOfDay(timeZone, at ?? noon);
}

export function filterOf(query: UsageQuery, { from, to }: Period): UsageFilter {
  const { model, key, provider, api, ...labels } = query;
  return { from, to, model, keyId: key, provider, api, ...labelFilters(labels) };
}

type LabelQuery = Pick<UsageQuery, "label" | "session" | "agent" | "parent_agent" | "batch">;

function labelFilters({ label, session, agent, parent_agent: parentAgent, batch }: LabelQuery) {
  return { label, session, agent, parentAgent, batch };
}

/** Sums by a label cannot be filtered by another one: then they are by model. */
export function dimensionOf({ by = "model", ...query }: UsageQuery): Dimension {
  const labels = labelsOfFilter(labelFilters(query));
  const isOther = labels.some((one) => labelDimensionOf(one) !== by);
  return isLabelDimension(by) && isOther ? "model" : by;
}

/** All buckets of a period, oldest first, including those without calls. */
export function bucketsOf({ from, to, buckets }: Period, now: number): readonly string[] {
  const found = new Set<string>();
  for (let at = from; at < (to ?? now); at += HOUR_MS) found.add(bucketOf(buckets, at));
  return [...found];
}

/** `14:00`, or `Nov 21` for days and `Nov 21, 14:00` for hours of several days. */
export function bucketLabel({ buckets, days }: Period, bucket: string): string {
  if (buckets.unit === "day") return formatDay(bucket);
  return new Date(bucket).toLocaleString("en-US", {
    timeZone: buckets.timeZone,
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    ...(days > 1 ? { month: "short", day: "numeric" } : {}),
  });
}

export function periodText({ range, from, to, buckets }: Period): string {
  if (range === "24h") return "24 hours";
  if (range === "yesterday") return range;
  if (range !== undefined) return `${RANGES[range]} days`;
  const day = (at: number): string => bucketOf({ ...buckets, unit: "day" }, at);
  if (to === undefined) return `since ${day(from)}`;
  return day(from) === day(to - 1) ? day(from) : `${day(from)} to ${day(to - 1)}`;
}
