// Data of the usage page, and the names of keys for all pages that show usage.

import { getKeyLabels, type Key } from "../../keys/keys.ts";
import type { Reader } from "../../store/db.ts";
import type { Dimension } from "../../usage/usage-filter.ts";
import {
  previousPeriod,
  readUsage,
  readUsageSeries,
  sumUsage,
  totalUsage,
  type UsagePoint,
  type UsageSum,
} from "../../usage/usage-stats.ts";
import type { ConsoleReadDeps } from "../authorize.ts";
import { filterOf, type Period, type UsageQuery } from "./usage-query.ts";

/** A filter offers so many values, those that cost most; others are still valid in the address. */
const NAMES_MAX = 200;

/** The name of a key, or what its owner recognizes it by. */
export type KeyNames = ReadonlyMap<string, string>;

/** What the select fields of a filter offer: the values that have calls in the period. */
export interface FilterOptions {
  readonly models: readonly string[];
  readonly keys: readonly string[];
  readonly providers: readonly string[];
  readonly labels: readonly string[];
}

export interface UsageView {
  readonly totals: UsageSum;
  readonly previous: UsageSum | undefined;
  readonly points: readonly UsagePoint[];
  /** By cost, the highest first. */
  readonly groups: readonly UsageSum[];
  readonly options: FilterOptions;
  readonly keyNames: KeyNames;
}

export async function readUsageView(
  { db }: ConsoleReadDeps,
  accountId: string,
  view: { readonly query: UsageQuery; readonly period: Period; readonly now: number },
): Promise<UsageView> {
  const { query, period, now } = view;
  const dimension = query.by ?? "model";
  const filter = filterOf(query, period);
  return await readUsage(db, async (reader) => {
    const before = previousPeriod(filter, now);
    const totals = await totalUsage(reader, accountId, filter);
    const previous = before === undefined ? undefined : await totalUsage(reader, accountId, before);
    const series = { buckets: period.buckets, dimension };
    const points = await readUsageSeries(reader, accountId, filter, series);
    const groups = (await sumUsage(reader, accountId, filter, dimension)).toSorted(byCost);
    const options = await readFilterOptions(reader, accountId, { query, period });
    const keyNames = await readKeyNames(reader, accountId, [
      ...options.keys,
      ...(dimension === "key" ? groups.slice(0, NAMES_MAX).map(({ group }) => group) : []),
    ]);
    return { totals, previous, points, groups, options, keyNames };
  });
}

export async function readFilterOptions(
  reader: Reader,
  accountId: string,
  { query, period }: { readonly query: UsageQuery; readonly period: Period },
): Promise<FilterOptions> {
  const all = { from: period.from, to: period.to };
  const values = async (
    dimension: Dimension,
    selected: string | undefined,
  ): Promise<readonly string[]> => {
    const groups = await sumUsage(reader, accountId, all, dimension);
    const names = groups
      .toSorted(byCost)
      .slice(0, NAMES_MAX)
      .map(({ group }) => group);
    return selected === undefined || names.includes(selected) ? names : [selected, ...names];
  };
  return {
    models: await values("model", query.model),
    keys: await values("key", query.key),
    providers: await values("provider", query.provider),
    labels: await values("label", query.label),
  };
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

function byCost(one: UsageSum, other: UsageSum): number {
  return one.cost === other.cost ? other.calls - one.calls : one.cost < other.cost ? 1 : -1;
}
