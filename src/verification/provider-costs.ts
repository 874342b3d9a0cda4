// What calls cost at each provider, from the usage roll-ups: the expected amount of the provider's bill.

import type { Nano } from "../base/money/money.ts";
import type { Reader } from "../store/db.ts";
import { countOf } from "../usage/rollup/rollup-delta.ts";
import { type ProviderSums, readProviderSums } from "./provider-sums.ts";

/** `to` is exclusive. */
export interface Period {
  readonly from: number;
  readonly to: number;
}

export interface ProviderCost {
  readonly provider: string;
  readonly model: string;
  readonly calls: number;
  /** Calls without usage data from the provider, whose usage was estimated. */
  readonly estimated: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cost: Nano;
}

export interface ProviderCosts {
  readonly providers: readonly ProviderCost[];
  /** Calls with a caller's own provider key have no cost; their list price is in the price lines of the record. */
  readonly ownKeys: readonly ProviderCost[];
}

export async function readProviderCosts(reader: Reader, period: Period): Promise<ProviderCosts> {
  const sums = await readProviderSums(reader, period);
  const costs = (isOwnKey: boolean): readonly ProviderCost[] =>
    sums
      .filter(({ byok }) => byok === isOwnKey)
      .map(toCost)
      .sort((one, other) => (sortKey(one) < sortKey(other) ? -1 : 1));
  return { providers: costs(false), ownKeys: costs(true) };
}

function toCost({ provider, model, byok, sums }: ProviderSums): ProviderCost {
  return {
    provider,
    model,
    calls: countOf(sums, "calls"),
    estimated: countOf(sums, "estimated"),
    inputTokens: countOf(sums, "input_tokens"),
    outputTokens: countOf(sums, "output_tokens"),
    cost: byok ? sums.listPrice : sums.cost,
  };
}

function sortKey({ provider, model }: ProviderCost): string {
  return `${provider} ${model}`;
}
