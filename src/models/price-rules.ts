// Adds to a card what the published tables lack: factors, fees, and cache writes that the provider documents as a multiple
// of the input price. A price that the table has is never changed.

import type { PriceRule } from "./model-facts.ts";
import { picoPerUnit, ratesOf, ratioOf, ratiosOf } from "./price-card.ts";
import type { Decimal } from "./price-card.ts";
import type { PriceCard, Rates } from "./price.ts";

/** The card after applying every rule that matches the model. */
export function applyPriceRules(
  rules: readonly PriceRule[],
  provider: string,
  name: string,
  card: PriceCard,
): PriceCard {
  let result = card;
  for (const rule of rules)
    if (rule.providers.includes(provider) && rule.match.test(name))
      result = applyRule(rule, result);
  return result;
}

function applyRule(rule: PriceRule, card: PriceCard): PriceCard {
  const fallbackRates = ratesOf(rule.tokens ?? {}, rule.fees);
  return {
    ...card,
    base: fillRates(card.base, rule, fallbackRates),
    tiers: card.tiers.map((tier) => ({
      ...tier,
      rates: fillRates(tier.rates, rule, fallbackRates),
    })),
    serviceTiers: { ...card.serviceTiers, ...ratiosOf(rule.serviceTiers) },
    speeds: { ...card.speeds, ...ratiosOf(rule.speeds) },
    regions: { ...card.regions, ...ratiosOf(rule.regions) },
    oncePerCall: [...card.oncePerCall, ...(rule.oncePerCall ?? [])],
    notCheaperInBatches: rule.notCheaperInBatches ?? card.notCheaperInBatches,
    requestFees: {
      ...card.requestFees,
      ...Object.fromEntries(
        Object.entries(rule.requestFees ?? {}).map(([size, fee]) => [size, picoPerUnit(fee)]),
      ),
    },
  };
}

function fillRates(rates: Rates, rule: PriceRule, fallbackRates: Rates): Rates {
  const cacheWrites = {
    ...cacheWriteRate("cache_write_5m", rule.cacheWrite5m, rates),
    ...cacheWriteRate("cache_write_1h", rule.cacheWrite1h, rates),
  };
  return { ...fallbackRates, ...cacheWrites, ...rates };
}

function cacheWriteRate(
  meter: "cache_write_5m" | "cache_write_1h",
  factor: Decimal | undefined,
  rates: Rates,
): Rates {
  if (factor === undefined || rates.input === undefined) return {};
  const { num, den } = ratioOf(factor);
  return { [meter]: (rates.input * num + den - 1n) / den };
}
