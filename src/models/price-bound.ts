// The most that a call can cost, from the same cards and rules as its price, so that a hold can never be less than the
// charge that it was taken for.

import { FEE_METERS } from "../base/usage-meters.ts";
import type { FeeMeter, TokenMeter } from "../base/usage-meters.ts";
import { nanoFromPico } from "../base/money.ts";
import type { Nano, Pico } from "../base/money.ts";
import {
  INPUT_METERS,
  maxPico,
  factorNamed,
  OUTPUT_METERS,
  type PriceCard,
  rateOf,
  type Rates,
} from "./price.ts";
import { add, ceilOf, maxRatio, ONE, product, type Ratio, multiply } from "./ratio.ts";

/** The most that a call can use. Everything that is not known counts as the dearest. */
export interface UsageBounds {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** The most pieces of each fee that the request allows. One `request` is always counted. */
  readonly fees?: Readonly<Partial<Record<FeeMeter, number>>>;
  /** What the request asks for. Standard and every cheaper tier may answer as well. "any" stands for the dearest. */
  readonly serviceTier?: string;
  readonly speed?: string;
  /** Where inference will run; the dearest region where it is not known. */
  readonly region?: string;
}

const PICO_PER_NANO = 1_000n;
/** The most that a call within these bounds can cost on any of the cards that may answer it. */
export function priceUpperBound(
  bounds: UsageBounds,
  cards: PriceCard | readonly PriceCard[],
): Nano {
  return priceUpperBoundByOutput(bounds, cards)(bounds.outputTokens);
}

/** The same for several output limits of one call: what does not depend on the limit is worked out once. */
export function priceUpperBoundByOutput(
  bounds: Omit<UsageBounds, "outputTokens">,
  cards: PriceCard | readonly PriceCard[],
): (outputTokens: number) => Nano {
  const parts: LinearBound[] = [];
  for (const card of isList(cards) ? cards : [cards]) addBounds(parts, bounds, card);
  return (outputTokens) => {
    const tokens = BigInt(wholeTokens(outputTokens));
    let most: Pico = 0n;
    for (const { fixed, perOutputToken } of parts) {
      const sum = ceilOf(add(fixed, { num: perOutputToken.num * tokens, den: perOutputToken.den }));
      if (sum > most) most = sum;
    }
    return nanoFromPico(most);
  };
}

/** How many output tokens a sum still pays for after the rest of the call; 0 where it does not pay for the rest. */
export function affordableOutput(
  available: Nano,
  bounds: Omit<UsageBounds, "outputTokens">,
  cards: PriceCard | readonly PriceCard[],
  limit: number,
): number {
  let affordable = BigInt(wholeTokens(limit));
  for (const card of isList(cards) ? cards : [cards]) {
    const parts: LinearBound[] = [];
    addBounds(parts, bounds, card);
    for (const { fixed, perOutputToken } of parts) {
      // What is left after the fixed part, over the price of a token, both in fractions of a pico.
      const left = available * PICO_PER_NANO * fixed.den - fixed.num;
      if (left < 0n) return 0;
      if (perOutputToken.num === 0n) continue;
      const tokens = (left * perOutputToken.den) / (fixed.den * perOutputToken.num);
      if (tokens < affordable) affordable = tokens;
    }
  }
  return Number(affordable);
}

interface LinearBound {
  /** Input and fees at their dearest. */
  readonly fixed: Ratio;
  /** One token of output at its dearest. */
  readonly perOutputToken: Ratio;
}

/** The dearest prices in each tier that the prompt can reach. */
function addBounds(
  parts: LinearBound[],
  bounds: Omit<UsageBounds, "outputTokens">,
  card: PriceCard,
): void {
  const factor = maxFactor(bounds, card);
  const tokens = wholeTokens(bounds.inputTokens);
  for (const { aboveInputTokens, rates, input, output, request } of maxRatesOf(card)) {
    if (aboveInputTokens !== undefined && bounds.inputTokens <= aboveInputTokens) continue;
    parts.push({
      fixed: add(product(tokens, input, factor), feesBound(bounds, card, rates, request)),
      perOutputToken: product(1, output, factor),
    });
  }
}

interface MaxRates {
  /** Absent for the card's base, which every prompt can reach. */
  readonly aboveInputTokens?: number;
  readonly rates: Rates;
  /** For one token, and for one request. */
  readonly input: Pico;
  readonly output: Pico;
  readonly request: Pico;
}

// A card never changes, so its dearest rates are looked for once.
const maxRatesCache = new WeakMap<PriceCard, readonly MaxRates[]>();

function maxRatesOf(card: PriceCard): readonly MaxRates[] {
  const cached = maxRatesCache.get(card);
  if (cached !== undefined) return cached;
  const sizes = Object.values(card.requestFees);
  const of = (rates: Rates): MaxRates => ({
    rates,
    input: maxRate(rates, INPUT_METERS),
    output: maxRate(rates, OUTPUT_METERS),
    request: sizes.reduce((most, fee) => maxPico(most, fee), rateOf(rates, "request").unitPrice),
  });
  const found = [
    of(card.base),
    ...card.tiers.map(({ aboveInputTokens, rates }) => ({ ...of(rates), aboveInputTokens })),
  ];
  maxRatesCache.set(card, found);
  return found;
}

function feesBound(
  { fees }: Omit<UsageBounds, "outputTokens">,
  card: PriceCard,
  rates: Rates,
  request: Pico,
): Ratio {
  const times = (meter: FeeMeter, asked: number): number =>
    card.oncePerCall.includes(meter) ? Math.min(asked, 1) : asked;
  let sum = product(times("request", Math.max(1, fees?.request ?? 1)), request, ONE);
  if (fees === undefined) return sum;
  for (const meter of FEE_METERS) {
    const count = meter === "request" ? 0 : times(meter, fees[meter] ?? 0);
    if (count > 0) sum = add(sum, product(count, rateOf(rates, meter).unitPrice, ONE));
  }
  return sum;
}

function maxRate(rates: Rates, meters: readonly TokenMeter[]): Pico {
  return meters.reduce((most, meter) => maxPico(most, rateOf(rates, meter).unitPrice), 0n);
}

function maxFactor(bounds: Omit<UsageBounds, "outputTokens">, card: PriceCard): Ratio {
  const tier =
    bounds.serviceTier === "any"
      ? maxFactorIn(card.serviceTiers)
      : maxRatio(ONE, factorNamed(card.serviceTiers, bounds.serviceTier));
  const speed = maxRatio(ONE, factorNamed(card.speeds, bounds.speed));
  const region =
    bounds.region === undefined
      ? maxFactorIn(card.regions)
      : factorNamed(card.regions, bounds.region);
  return multiply(multiply(tier, speed), region);
}

// Of a table that never changes the dearest is looked for once.
const maxFactorCache = new WeakMap<Readonly<Record<string, Ratio>>, Ratio>();

function maxFactorIn(table: Readonly<Record<string, Ratio>>): Ratio {
  const cached = maxFactorCache.get(table);
  if (cached !== undefined) return cached;
  const found = Object.values(table).reduce(maxRatio, ONE);
  maxFactorCache.set(table, found);
  return found;
}

/** What is not a number of tokens counts as more than anybody can pay for. */
function wholeTokens(count: number): number {
  return count <= Number.MAX_SAFE_INTEGER ? Math.max(0, Math.ceil(count)) : Number.MAX_SAFE_INTEGER;
}

function isList(cards: PriceCard | readonly PriceCard[]): cards is readonly PriceCard[] {
  return Array.isArray(cards);
}
