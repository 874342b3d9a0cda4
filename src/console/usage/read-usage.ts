// Data of the usage page, and the names of keys for all pages that show usage.

import { HOUR_MS } from "../../base/time.ts";
import type { Key } from "../../keys/key.ts";
import { getKeyLabels } from "../../keys/keys.ts";
import type { Reader } from "../../store/db.ts";
import { type FilterValues, readFilterValues } from "../../usage/filter-values.ts";
import { type RankedUsage, rankUsage } from "../../usage/usage-list.ts";
import {
  previousPeriod,
  readUsage,
  readCostSeries,
  sumGroups,
  totalUsage,
  type CostPoint,
  type UsageSum,
} from "../../usage/usage-stats.ts";
import type { ConsoleReadDeps } from "../require-access.ts";
import { dimensionOf, filterOf, type Period, type UsageQuery } from "./usage-query.ts";

/** Names of keys are read for at most this many rows of a table. */
const NAMES_MAX = 200;
const EXPENSIVE_CALLS = 5;
/** The page is opened often: the log compares more. */
export const EXPENSIVE_AMONG = 20_000;

/** The name of a key, or what its owner recognizes it by. */
export type KeyNames = ReadonlyMap<string, string>;

export interface UsageView {
  readonly totals: UsageSum;
  readonly previous: UsageSum | undefined;
  readonly points: readonly CostPoint[];
  /** By cost, the highest first. */
  readonly groups: readonly UsageSum[];
  /** The calls with the highest cost. */
  readonly expensive: RankedUsage;
  readonly options: FilterValues;
  readonly keyNames: KeyNames;
}

export async function readUsageView(
  { db }: ConsoleReadDeps,
  accountId: string,
  view: { readonly query: UsageQuery; readonly period: Period; readonly now: number },
): Promise<UsageView> {
  const { query, period, now } = view;
  const dimension = dimensionOf(query);
  const filter = filterOf(query, period);
  return await readUsage(db, async (reader) => {
    const before = previousPeriod(filter, endOfHour(now));
    const previous = before === undefined ? undefined : await totalUsage(reader, accountId, before);
    const series = { buckets: period.buckets, dimension };
    const points = await readCostSeries(reader, accountId, filter, series);
    const { total: totals, ...sums } = await sumGroups(reader, accountId, filter, dimension);
    const groups = sums.groups.toSorted(byCost);
    const ranking = { sort: "cost", limit: EXPENSIVE_CALLS, among: EXPENSIVE_AMONG } as const;
    const expensive = await rankUsage(reader, accountId, filter, ranking);
    const options = await readFilterOptions(reader, accountId, { query, period });
    const keyNames = await readKeyNames(reader, accountId, [
      ...options.keys,
      ...expensive.records.map(({ keyId }) => keyId),
      ...(dimension === "key" ? groups.slice(0, NAMES_MAX).map(({ group }) => group) : []),
    ]);
    return { totals, previous, points, groups, expensive, options, keyNames };
  });
}

/** Also offers what is selected, whether or not it has calls in the period. */
export async function readFilterOptions(
  reader: Reader,
  accountId: string,
  { query, period }: { readonly query: UsageQuery; readonly period: Period },
): Promise<FilterValues> {
  const values = await readFilterValues(reader, accountId, period);
  return {
    models: withSelected(values.models, query.model),
    keys: withSelected(values.keys, query.key),
    providers: withSelected(values.providers, query.provider),
    labels: withSelected(values.labels, query.label),
  };
}

function withSelected(values: readonly string[], selected: string | undefined): readonly string[] {
  return selected === undefined || values.includes(selected) ? values : [selected, ...values];
}

export async function readKeyNames(
  reader: Reader,
  accountId: string,
  keyIds: readonly string[],
): Promise<KeyNames> {
  const labels = await getKeyLabels(reader, accountId, [...new Set(keyIds)]);
  return new Map([...labels].map(([id, key]) => [id, keyName(key)]));
}

export function keyName({ name, last4 }: Pick<Key, "name" | "last4">): string {
  return name ?? `Unnamed key …${last4}`;
}

/** The end of a period that is compared with the one before: both are then sums of whole hours. */
export function endOfHour(now: number): number {
  return now - (now % HOUR_MS) + HOUR_MS;
}

function byCost(one: UsageSum, other: UsageSum): number {
  return one.cost === other.cost ? other.calls - one.calls : one.cost < other.cost ? 1 : -1;
}
