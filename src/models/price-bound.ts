// The upper bound of a call's cost, from the same cards and rules as its price, so that a hold is never smaller than the
// charge for usage within the bounds.

import { FEE_METERS, type FeeMeter, type TokenMeter } from "@postern/wires";
import { maxNano, nanoFromPico } from "../base/money/money.ts";
import type { Nano, Pico } from "../base/money/money.ts";
import {
  BATCH_TIER,
  feeOf,
  INPUT_METERS,
  factorNamed,
  OUTPUT_METERS,
  type PriceCard,
  rateOf,
  type Rates,
} from "./price.ts";
import { add, ceilOf, maxRatio, ONE, product, type Ratio, multiply } from "./ratio.ts";

/** Upper bounds of a call's usage. Whatever is unknown is priced at the highest rate. */
export interface UsageBounds {
  readonly inputTokens: number;
  /** The part of `inputTokens` that was read before in the same call. A token is written to a cache once at most. */
  readonly repeatedTokens?: number;
  readonly outputTokens: number;
  /** The maximum uses per fee. One `request` is always counted. */
  readonly fees?: Readonly<Partial<Record<FeeMeter, number>>>;
  /** The requested tier; standard and cheaper tiers may answer as well. "any" means the most expensive one. */
  readonly serviceTier?: string;
  /** The call is a part of a batch of the provider, whose price is that of the tier `batch`. */
  readonly isBatch?: boolean | undefined;
  readonly speed?: string;
  /** The size and quality of the images; if unknown, the most expensive ones are assumed. */
  readonly imageClass?: string | undefined;
  /** The region of inference; if unknown, the most expensive one is assumed. */
  readonly region?: string;
}

const PICO_PER_NANO = 1_000n;

/**
 * The maximum cost of a call as a function of its output tokens: that of the most expensive part. Plain data, so that later
 * stages need no prices.
 */
export type CostBound = readonly LinearBound[];

/** One part for each card that may apply and each of its tiers that the prompt can reach. */
export function costBound(
  bounds: Omit<UsageBounds, "outputTokens">,
  cards: PriceCard | readonly PriceCard[],
): CostBound {
  const parts: LinearBound[] = [];
  for (const card of isList(cards) ? cards : [cards]) addBounds(parts, bounds, card);
  return parts;
}

/** The maximum cost of a call within these bounds, over all cards that may apply. */
export function priceUpperBound(
  bounds: UsageBounds,
  cards: PriceCard | readonly PriceCard[],
): Nano {
  return maxCost(costBound(bounds, cards), bounds.outputTokens);
}

export function maxCost(bound: CostBound, outputTokens: number): Nano {
  const tokens = BigInt(wholeTokens(outputTokens));
  let max: Pico = 0n;
  for (const { fixed, perOutputToken } of bound) {
    const output = { num: perOutputToken.num * tokens, den: perOutputToken.den };
    max = maxNano(max, ceilOf(add(fixed, output)));
  }
  return nanoFromPico(max);
}

/** Output tokens that `available` covers after input and fees; 0 if it does not cover those. */
export function affordableOutput(bound: CostBound, available: Nano, limit: number): number {
  let affordable = BigInt(wholeTokens(limit));
  for (const { fixed, perOutputToken } of bound) {
    // (available - fixed) / perOutputToken in integers: both fractions are of a pico-USD.
    const remaining = available * PICO_PER_NANO * fixed.den - fixed.num;
    if (remaining < 0n) return 0;
    if (perOutputToken.num === 0n) continue;
    const tokens = (remaining * perOutputToken.den) / (fixed.den * perOutputToken.num);
    if (tokens < affordable) affordable = tokens;
  }
  return Number(affordable);
}

/** What a call costs per unit at most. */
export interface UnitPrices {
  readonly input: Pico;
  readonly output: Pico;
  /** A fee per request or use that the call may have. */
  readonly fee: FeeMeter | undefined;
}

export interface UnitPriceBounds extends Omit<UsageBounds, "outputTokens"> {
  readonly hasAudioInput: boolean;
}

/**
 * The highest list prices per token and a fee of a call, over all cards that may apply. Unlike a cost bound it takes no
 * account of cache writes, and of a region only if the caller asks for it: both would exceed the list price of most models.
 */
export function highestUnitPrices(
  bounds: UnitPriceBounds,
  cards: readonly PriceCard[],
): UnitPrices {
  const inputMeters: readonly TokenMeter[] = bounds.hasAudioInput
    ? ["input", "input_image", "input_audio"]
    : ["input", "input_image"];
  let [input, output]: [Pico, Pico] = [0n, 0n];
  let fee: FeeMeter | undefined;
  for (const card of cards) {
    const region = bounds.region ?? "";
    const factor = maxFactor({ ...bounds, region }, card);
    for (const { aboveInputTokens, rates, output: outputRate, request } of maxRatesOf(card)) {
      if (aboveInputTokens !== undefined && bounds.inputTokens <= aboveInputTokens) continue;
      input = maxNano(input, ceilOf(product(1, maxRate(rates, inputMeters), factor)));
      output = maxNano(output, ceilOf(product(1, outputRate, factor)));
      fee ??= request > 0n ? "request" : chargedFee(bounds, rates);
    }
  }
  return { input, output, fee };
}

function chargedFee(
  { fees }: Omit<UsageBounds, "outputTokens">,
  rates: Rates,
): FeeMeter | undefined {
  return FEE_METERS.find(
    (meter) => (fees?.[meter] ?? 0) > 0 && rateOf(rates, meter).unitPrice > 0n,
  );
}

interface LinearBound {
  /** Input and fees at the highest rates. */
  readonly fixed: Ratio;
  /** One output token at the highest rate. */
  readonly perOutputToken: Ratio;
}

/** Adds one bound for each tier of the card that the prompt can reach. */
function addBounds(
  parts: LinearBound[],
  bounds: Omit<UsageBounds, "outputTokens">,
  card: PriceCard,
): void {
  const factor = maxFactor(bounds, card);
  const repeated = wholeTokens(bounds.repeatedTokens ?? 0);
  const tokens = wholeTokens(bounds.inputTokens - repeated);
  for (const { aboveInputTokens, rates, input, reread, output, request } of maxRatesOf(card)) {
    if (aboveInputTokens !== undefined && bounds.inputTokens <= aboveInputTokens) continue;
    const once = product(tokens, input, factor);
    const read = repeated === 0 ? once : add(once, product(repeated, reread, factor));
    const isWithoutFees = bounds.fees === undefined && request === 0n;
    parts.push({
      fixed: isWithoutFees ? read : add(read, feesBound(bounds, card, rates, request)),
      perOutputToken: multiply({ num: output, den: 1n }, factor),
    });
  }
}

interface MaxRates {
  /** Undefined for the card's base rates, which every prompt can reach. */
  readonly aboveInputTokens?: number;
  readonly rates: Rates;
  /** Per token and per request. */
  readonly input: Pico;
  readonly reread: Pico;
  readonly output: Pico;
  readonly request: Pico;
}

const REREAD_METERS = INPUT_METERS.filter((meter) => !meter.startsWith("cache_write"));

// Cards are immutable, so their highest rates are cached.
const maxRatesCache = new WeakMap<PriceCard, readonly MaxRates[]>();

function maxRatesOf(card: PriceCard): readonly MaxRates[] {
  const cached = maxRatesCache.get(card);
  if (cached !== undefined) return cached;
  const sizes = Object.values(card.requestFees);
  const of = (rates: Rates): MaxRates => ({
    rates,
    input: maxRate(rates, INPUT_METERS),
    reread: maxRate(rates, REREAD_METERS),
    output: maxRate(rates, OUTPUT_METERS),
    request: sizes.reduce(maxNano, rateOf(rates, "request").unitPrice),
  });
  const maxRates = [
    of(card.base),
    ...card.tiers.map(({ aboveInputTokens, rates }) => ({ ...of(rates), aboveInputTokens })),
  ];
  maxRatesCache.set(card, maxRates);
  return maxRates;
}

function feesBound(
  { fees, imageClass }: Omit<UsageBounds, "outputTokens">,
  card: PriceCard,
  rates: Rates,
  request: Pico,
): Ratio {
  let sum = product(billedCount(card, "request", Math.max(1, fees?.request ?? 1)), request, ONE);
  if (fees === undefined) return sum;
  for (const meter of FEE_METERS) {
    const count = meter === "request" ? 0 : billedCount(card, meter, fees[meter] ?? 0);
    if (count === 0) continue;
    sum = add(sum, product(count, feeOf(card, rates, meter, imageClass).unitPrice, ONE));
  }
  return sum;
}

function billedCount({ oncePerCall }: PriceCard, meter: FeeMeter, uses: number): number {
  return oncePerCall.includes(meter) ? Math.min(uses, 1) : uses;
}

function maxRate(rates: Rates, meters: readonly TokenMeter[]): Pico {
  return meters.reduce((max, meter) => maxNano(max, rateOf(rates, meter).unitPrice), 0n);
}

function maxFactor(bounds: Omit<UsageBounds, "outputTokens">, card: PriceCard): Ratio {
  const tier =
    bounds.isBatch === true
      ? factorNamed(card.serviceTiers, BATCH_TIER)
      : bounds.serviceTier === "any"
        ? maxFactorIn(card.serviceTiers)
        : maxRatio(ONE, factorNamed(card.serviceTiers, bounds.serviceTier));
  const speed = maxRatio(ONE, factorNamed(card.speeds, bounds.speed));
  const region =
    bounds.region === undefined
      ? maxFactorIn(card.regions)
      : factorNamed(card.regions, bounds.region);
  return multiply(multiply(tier, speed), region);
}

// Tables are immutable, so their highest factor is cached.
const maxFactorCache = new WeakMap<Readonly<Record<string, Ratio>>, Ratio>();

function maxFactorIn(table: Readonly<Record<string, Ratio>>): Ratio {
  const cached = maxFactorCache.get(table);
  if (cached !== undefined) return cached;
  const max = Object.values(table).reduce(maxRatio, ONE);
  maxFactorCache.set(table, max);
  return max;
}

/** NaN and other impossible counts become a number that no balance covers. */
function wholeTokens(count: number): number {
  return count <= Number.MAX_SAFE_INTEGER ? Math.max(0, Math.ceil(count)) : Number.MAX_SAFE_INTEGER;
}

function isList(cards: PriceCard | readonly PriceCard[]): cards is readonly PriceCard[] {
  return Array.isArray(cards);
}
