// The models for which the gateway runs tools: those that call functions and whose provider does not run the tool at a known price.

import { WIRE_TRAITS } from "@postern/wires";
import { type Nano, PICO_PER_NANO, type Pico } from "../base/money/money.ts";
import type { Model } from "./catalog.ts";
import type { DatedCard } from "./price-card.ts";
import type { PriceCard, Rates } from "./price.ts";
import { SERVER_TOOLS } from "./tables/server-tool-prices.ts";

/** What the operator charges for each use. */
export interface GatewayToolFees {
  readonly search: Nano;
  /** Undefined where the gateway fetches no pages. */
  readonly fetch: Nano | undefined;
}

/** `operatorProviders`: those of the models file. */
export function withGatewayTools(
  models: readonly Model[],
  fees: GatewayToolFees | undefined,
  operatorProviders: ReadonlySet<string>,
): readonly Model[] {
  return models.map((one) => {
    if (!callsFunctions(one)) return one;
    const model: Model = connectsToMcp(one, operatorProviders)
      ? one
      : { ...one, hasGatewayMcp: true };
    if (fees === undefined) return model;
    const searching = needs(model, searches) ? withSearch(model, fees.search) : model;
    return fees.fetch !== undefined && needs(model, fetches)
      ? withFetch(searching, fees.fetch)
      : searching;
  });
}

const MCP_PROVIDERS: ReadonlySet<string> = new Set(
  SERVER_TOOLS.flatMap(({ name, providers }) =>
    name.test("mcp") || name.test("mcp_toolset") ? providers : [],
  ),
);

/** Whether its provider calls MCP servers. An operator's own provider may be any that has such an API. */
function connectsToMcp(
  { provider, simulated, wires }: Model,
  operatorProviders: ReadonlySet<string>,
): boolean {
  const hasField = wires.some((wire) => WIRE_TRAITS[wire].takesMcpServers);
  return !simulated && hasField && (operatorProviders.has(provider) || MCP_PROVIDERS.has(provider));
}

function callsFunctions({ kind, supported, retired, wires }: Model): boolean {
  return kind === "chat" && !retired && wires.length > 0 && supported.includes("tools");
}

function needs(
  { prices, simulated }: Model,
  isRunByProvider: (card: PriceCard) => boolean,
): boolean {
  return simulated || !prices.some(({ card }) => isRunByProvider(card));
}

function searches({ base, requestFees }: PriceCard): boolean {
  return (
    base.web_search !== undefined ||
    base.web_search_preview !== undefined ||
    base.grounding !== undefined ||
    Object.keys(requestFees).length > 0
  );
}

function fetches({ base }: PriceCard): boolean {
  return base.web_fetch !== undefined;
}

function withSearch(model: Model, fee: Nano): Model {
  const prices = withFee(model, "web_search", fee * PICO_PER_NANO);
  return { ...model, prices, hasGatewaySearch: true };
}

function withFetch(model: Model, fee: Nano): Model {
  const prices = withFee(model, "web_fetch", fee * PICO_PER_NANO);
  return { ...model, prices, hasGatewayFetch: true };
}

/** The rates of a tier inherit nothing. */
function withFee(
  { prices }: Model,
  meter: "web_search" | "web_fetch",
  fee: Pico,
): readonly DatedCard[] {
  const added = (rates: Rates): Rates => ({ ...rates, [meter]: fee });
  return prices.map(({ card, ...dated }) => ({
    ...dated,
    card: {
      ...card,
      base: added(card.base),
      tiers: card.tiers.map((tier) => ({ ...tier, rates: added(tier.rates) })),
    },
  }));
}
