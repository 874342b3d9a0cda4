// Models that a provider makes and sells, which a price list has and our tables lack.

import { builtInModels, catalogOf, modelAt } from "../../../src/models/catalog.ts";
import type { PriceTable } from "../../../src/models/list-prices.ts";
import { LEFT_OUT, OUTDATED } from "./decisions.ts";
import { decimal } from "./genai-prices.ts";
import { quotesOf } from "./quotes.ts";
import type { PriceSources } from "./sources.ts";

export interface MissingModel {
  readonly id: string;
  /** "input 8, output 40". */
  readonly rates: string;
  /** The lists that have it. */
  readonly lists: string;
}

/** Retired models are in our tables, and a dated name is its model. Free models are never sold. */
export function missingModels(
  sources: PriceSources,
  table: PriceTable,
  today: string,
): MissingModel[] {
  const catalog = catalogOf(builtInModels(table));
  return [...quotesOf(sources, today)].flatMap(([id, quotes]) => {
    const provider = id.slice(0, id.indexOf("/"));
    const name = id.slice(provider.length + 1);
    const leftOut = LEFT_OUT[provider];
    const usable = quotes.filter(
      ({ source, isComplete, rates }) =>
        isComplete && !OUTDATED.has(source) && (rates["input"] ?? 0) > 0,
    );
    const [first] = usable;
    if (leftOut === undefined || first === undefined) return [];
    if (leftOut.match.test(name) || modelAt(catalog, provider, name) !== undefined) return [];
    const { input, output } = first.rates;
    return [
      {
        id,
        rates: `input ${decimal(input ?? 0)}, output ${output === undefined ? "none" : decimal(output)}`,
        lists: usable.map(({ source }) => source).join(", "),
      },
    ];
  });
}
