// Lays what the published tables lack over their cards: factors, fees, and cache writes where the provider documents them
// as a multiple of input. A price that a table has is never changed.

import { picoEach, ratesOf, ratioOf, ratios } from "./card.ts";
import type { Decimal } from "./card.ts";
import type { PriceRule } from "./facts.ts";
import type { PriceCard, Rates } from "./price.ts";

/** The card with every rule that matches the model. */
export function applyPriceRules(
  rules: readonly PriceRule[],
  provider: string,
  name: string,
  card: PriceCard,
): PriceCard {
  let result = card;
  for (const rule of rules)
    if (rule.providers.includes(provider) && rule.match.test(name)) result = applied(rule, result);
  return result;
}

function applied(rule: PriceRule, card: PriceCard): PriceCard {
  const filling = ratesOf(rule.tokens ?? {}, rule.fees);
  return {
    base: completed(card.base, rule, filling),
    tiers: card.tiers.map((tier) => ({ ...tier, rates: completed(tier.rates, rule, filling) })),
    serviceTiers: { ...card.serviceTiers, ...ratios(rule.serviceTiers) },
    speeds: { ...card.speeds, ...ratios(rule.speeds) },
    regions: { ...card.regions, ...ratios(rule.regions) },
    oncePerCall: [...card.oncePerCall, ...(rule.oncePerCall ?? [])],
    requestFees: {
      ...card.requestFees,
      ...Object.fromEntries(
        Object.entries(rule.requestFees ?? {}).map(([size, fee]) => [size, picoEach(fee)]),
      ),
    },
  };
}

function completed(rates: Rates, rule: PriceRule, filling: Rates): Rates {
  const written = {
    ...writes("cache_write_5m", rule.cacheWrite5m, rates),
    ...writes("cache_write_1h", rule.cacheWrite1h, rates),
  };
  return { ...filling, ...written, ...rates };
}

function writes(
  meter: "cache_write_5m" | "cache_write_1h",
  factor: Decimal | undefined,
  rates: Rates,
): Rates {
  if (factor === undefined || rates.input === undefined) return {};
  const { num, den } = ratioOf(factor);
  return { [meter]: (rates.input * num + den - 1n) / den };
}
