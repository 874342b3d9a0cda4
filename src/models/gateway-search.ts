// The models for which the gateway searches the web: those that call functions and whose provider has no search with a price.

import { type Nano, PICO_PER_NANO, type Pico } from "../base/money/money.ts";
import type { Model } from "./catalog.ts";
import type { DatedCard } from "./price-card.ts";
import type { PriceCard, Rates } from "./price.ts";

/** What the operator charges for each use. */
export interface GatewayToolFees {
  readonly search: Nano;
}

export function withGatewayTools(
  models: readonly Model[],
  fees: GatewayToolFees | undefined,
): readonly Model[] {
  if (fees === undefined) return models;
  return models.map((model) =>
    needsSearch(model) ? withSearch(model, fees.search * PICO_PER_NANO) : model,
  );
}

function needsSearch({ kind, supported, retired, wires, prices, simulated }: Model): boolean {
  if (kind !== "chat" || retired || wires.length === 0 || !supported.includes("tools"))
    return false;
  return simulated || !prices.some(({ card }) => searches(card));
}

function searches({ base, requestFees }: PriceCard): boolean {
  return (
    base.web_search !== undefined ||
    base.web_search_preview !== undefined ||
    base.grounding !== undefined ||
    Object.keys(requestFees).length > 0
  );
}

function withSearch(model: Model, fee: Pico): Model {
  const withFee = (rates: Rates): Rates => ({ ...rates, web_search: fee });
  const prices = model.prices.map((dated): DatedCard => ({
    ...dated,
    card: {
      ...dated.card,
      base: withFee(dated.card.base),
      tiers: dated.card.tiers.map((tier) => ({ ...tier, rates: withFee(tier.rates) })),
    },
  }));
  return { ...model, prices, hasGatewaySearch: true };
}
