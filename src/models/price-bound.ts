// The most that a call can cost, from the same cards and rules as its price, so that a hold can never be less than the
// charge that it was taken for.

import { FEE_METERS } from "../base/meters.ts";
import type { FeeMeter, TokenMeter } from "../base/meters.ts";
import { nanoFromPico } from "../base/money.ts";
import type { Nano, Pico } from "../base/money.ts";
import {
  INPUT_METERS,
  larger,
  named,
  OUTPUT_METERS,
  type PriceCard,
  rateOf,
  type Rates,
} from "./price.ts";
import { add, ceilOf, max, ONE, product, type Ratio, times } from "./ratio.ts";

/** The most that a call can use. Everything that is not known counts as the dearest. */
export interface Bounds {
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
export function priceUpperBound(bounds: Bounds, cards: PriceCard | readonly PriceCard[]): Nano {
  return boundOn(bounds, cards)(bounds.outputTokens);
}

/** The same for several output limits of one call: what does not depend on the limit is worked out once. */
export function boundOn(
  bounds: Omit<Bounds, "outputTokens">,
  cards: PriceCard | readonly PriceCard[],
): (outputTokens: number) => Nano {
  const parts: BoundParts[] = [];
  for (const card of isList(cards) ? cards : [cards]) addParts(parts, bounds, card);
  return (outputTokens) => {
    const tokens = BigInt(wholeTokens(outputTokens));
    let most: Pico = 0n;
    for (const { fixed, output } of parts) {
      const sum = ceilOf(add(fixed, { num: output.num * tokens, den: output.den }));
      if (sum > most) most = sum;
    }
    return nanoFromPico(most);
  };
}

/** How many output tokens a sum still pays for after the rest of the call; 0 where it does not pay for the rest. */
export function affordableOutput(
  available: Nano,
  bounds: Omit<Bounds, "outputTokens">,
  cards: PriceCard | readonly PriceCard[],
  limit: number,
): number {
  let affordable = BigInt(wholeTokens(limit));
  for (const card of isList(cards) ? cards : [cards]) {
    const parts: BoundParts[] = [];
    addParts(parts, bounds, card);
    for (const { fixed, output } of parts) {
      // What is left after the fixed part, over the price of a token, both in fractions of a pico.
      const left = available * PICO_PER_NANO * fixed.den - fixed.num;
      if (left < 0n) return 0;
      if (output.num === 0n) continue;
      const tokens = (left * output.den) / (fixed.den * output.num);
      if (tokens < affordable) affordable = tokens;
    }
  }
  return Number(affordable);
}

interface BoundParts {
  /** Input and fees at their dearest. */
  readonly fixed: Ratio;
  /** One token of output at its dearest. */
  readonly output: Ratio;
}

/** The dearest prices in each tier that the prompt can reach. */
function addParts(
  parts: BoundParts[],
  bounds: Omit<Bounds, "outputTokens">,
  card: PriceCard,
): void {
  const factor = dearestFactor(bounds, card);
  const tokens = wholeTokens(bounds.inputTokens);
  for (const { aboveInputTokens, rates, input, output, request } of dearestRates(card)) {
    if (aboveInputTokens !== undefined && bounds.inputTokens <= aboveInputTokens) continue;
    parts.push({
      fixed: add(product(tokens, input, factor), feesBound(bounds, card, rates, request)),
      output: product(1, output, factor),
    });
  }
}

interface DearestRates {
  /** Absent for the card's base, which every prompt can reach. */
  readonly aboveInputTokens?: number;
  readonly rates: Rates;
  /** For one token, and for one request. */
  readonly input: Pico;
  readonly output: Pico;
  readonly request: Pico;
}

// A card never changes, so its dearest rates are looked for once.
const knownDearest = new WeakMap<PriceCard, readonly DearestRates[]>();

function dearestRates(card: PriceCard): readonly DearestRates[] {
  const known = knownDearest.get(card);
  if (known !== undefined) return known;
  const sizes = Object.values(card.requestFees);
  const of = (rates: Rates): DearestRates => ({
    rates,
    input: dearest(rates, INPUT_METERS),
    output: dearest(rates, OUTPUT_METERS),
    request: sizes.reduce((most, fee) => larger(most, fee), rateOf(rates, "request").each),
  });
  const found = [
    of(card.base),
    ...card.tiers.map(({ aboveInputTokens, rates }) => ({ ...of(rates), aboveInputTokens })),
  ];
  knownDearest.set(card, found);
  return found;
}

function feesBound(
  { fees }: Omit<Bounds, "outputTokens">,
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
    if (count > 0) sum = add(sum, product(count, rateOf(rates, meter).each, ONE));
  }
  return sum;
}

function dearest(rates: Rates, meters: readonly TokenMeter[]): Pico {
  return meters.reduce((most, meter) => larger(most, rateOf(rates, meter).each), 0n);
}

function dearestFactor(bounds: Omit<Bounds, "outputTokens">, card: PriceCard): Ratio {
  const tier =
    bounds.serviceTier === "any"
      ? dearestOf(card.serviceTiers)
      : max(ONE, named(card.serviceTiers, bounds.serviceTier));
  const speed = max(ONE, named(card.speeds, bounds.speed));
  const region =
    bounds.region === undefined ? dearestOf(card.regions) : named(card.regions, bounds.region);
  return times(times(tier, speed), region);
}

// Of a table that never changes the dearest is looked for once.
const knownDearestFactors = new WeakMap<Readonly<Record<string, Ratio>>, Ratio>();

function dearestOf(table: Readonly<Record<string, Ratio>>): Ratio {
  const known = knownDearestFactors.get(table);
  if (known !== undefined) return known;
  const found = Object.values(table).reduce(max, ONE);
  knownDearestFactors.set(table, found);
  return found;
}

/** What is not a number of tokens counts as more than anybody can pay for. */
function wholeTokens(count: number): number {
  return count <= Number.MAX_SAFE_INTEGER ? Math.max(0, Math.ceil(count)) : Number.MAX_SAFE_INTEGER;
}

function isList(cards: PriceCard | readonly PriceCard[]): cards is readonly PriceCard[] {
  return Array.isArray(cards);
}
