// The models, keys, providers and labels that have calls in a period, for the filters of pages. One statement reads them
// from the daily sums, which are exact enough: days that the period covers in part count as a whole.

import { type Nano, toNano } from "../base/money/money.ts";
import { DAY_MS } from "../base/time.ts";
import { type Reader, text } from "../store/db.ts";
import { readPending } from "./rollup/pending.ts";
import { labelDimensionOf } from "./usage-filter.ts";

/** A filter offers so many values, those that cost most; others are still valid in an address. */
const VALUES_MAX = 200;

export interface FilterValues {
  readonly models: readonly string[];
  readonly keys: readonly string[];
  readonly providers: readonly string[];
  readonly labels: readonly string[];
}

type CostByValue = Map<string, Nano>;

interface ValueCosts {
  readonly models: CostByValue;
  readonly keys: CostByValue;
  readonly providers: CostByValue;
  readonly labels: CostByValue;
}

interface Combination {
  readonly model: string;
  readonly keyId: string;
  readonly provider: string;
  readonly label: string;
}

export async function readFilterValues(
  reader: Reader,
  accountId: string,
  {
    from,
    to = Number.MAX_SAFE_INTEGER,
  }: { readonly from: number; readonly to?: number | undefined },
): Promise<FilterValues> {
  const costs = { models: new Map(), keys: new Map(), providers: new Map(), labels: new Map() };
  const first = from - (from % DAY_MS);
  const rows = await reader.all(
    `select model, key_id, provider, label, cast(sum(cost_nano) as text) as cost from usage_rollup
     where account_id = ? and unit = 'day' and at >= ? and at < ? group by model, key_id, provider, label`,
    [accountId, first, to],
  );
  for (const row of rows) {
    const [model, provider, label] = [
      text(row, "model"),
      text(row, "provider"),
      text(row, "label"),
    ];
    addCosts(costs, { model, keyId: text(row, "key_id"), provider, label }, toNano(row["cost"]));
  }
  for await (const deltas of readPending(reader, accountId))
    for (const { key, cost } of deltas)
      if (key.at >= first && key.at < to) addCosts(costs, key, cost);
  return {
    models: byCost(costs.models),
    keys: byCost(costs.keys),
    providers: byCost(costs.providers),
    labels: byCost(costs.labels),
  };
}

function addCosts(costs: ValueCosts, combination: Combination, cost: Nano): void {
  const { model, keyId, provider, label } = combination;
  if (label !== "") {
    if (labelDimensionOf(label) === "label") addCost(costs.labels, label, cost);
    return;
  }
  addCost(costs.models, model, cost);
  addCost(costs.keys, keyId, cost);
  addCost(costs.providers, provider, cost);
}

function addCost(costs: CostByValue, value: string, cost: Nano): void {
  costs.set(value, (costs.get(value) ?? 0n) + cost);
}

function byCost(costs: CostByValue): readonly string[] {
  return [...costs]
    .sort(([, one], [, other]) => (one < other ? 1 : one > other ? -1 : 0))
    .slice(0, VALUES_MAX)
    .map(([value]) => value);
}
