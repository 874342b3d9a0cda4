// What a call costs, by its card. Nothing here rounds but the last step, once, up to a whole nano-USD. The most that a
// call can cost is worked out from the same rules in price-bound.ts.
//
// Where a card has no price for a meter, the meter is billed as its nearest relative, which is never the cheaper one:
// cache reads and writes as plain input, an hour's write as at least a five-minute one, audio and images as text of the
// same side (cached audio as audio), reasoning as output. A fee without a price costs nothing.
// Each such guess that could be too low is named in `gaps`, so that it is seen and not silent.

import { FEE_METERS, TOKEN_METERS } from "../base/usage-meters.ts";
import type { FeeMeter, TokenMeter, Usage } from "../base/usage-meters.ts";
import { nanoFromPico } from "../base/money.ts";
import type { Nano, Pico } from "../base/money.ts";
import { add, ceilOf, ONE, product, type Ratio, multiply } from "./ratio.ts";

export type Meter = TokenMeter | FeeMeter;

/** Pico-USD for one token, or for one piece of what a fee counts. */
export type Rates = Readonly<Partial<Record<Meter, Pico>>>;

export interface Tier {
  /** These rates hold for every token of a call whose whole prompt is longer than this. */
  readonly aboveInputTokens: number;
  readonly rates: Rates;
}

export interface PriceCard {
  readonly base: Rates;
  /** In ascending order; each is complete by itself. */
  readonly tiers: readonly Tier[];
  /** Factors on token prices, by the name that a reply gives, in lower case. Fees are not multiplied. */
  readonly serviceTiers: Readonly<Record<string, Ratio>>;
  readonly speeds: Readonly<Record<string, Ratio>>;
  readonly regions: Readonly<Record<string, Ratio>>;
  /** Fees that are charged once a call, however many times the reply counts them. */
  readonly oncePerCall: readonly FeeMeter[];
  /** The fee per request by the size that the reply names as its service tier; the `request` rate where it names none. */
  readonly requestFees: Readonly<Record<string, Pico>>;
}

export interface PriceLine {
  readonly meter: Meter;
  readonly count: number;
  /** The list price of one, and the factor that the tier, speed and region put on it. */
  readonly unitPrice: Pico;
  readonly multiplier: Ratio;
  /** count × each × times; rounded up to a whole pico where it is not one. */
  readonly pico: Pico;
  /** The model of a further leg. */
  readonly model?: string;
}

export interface PricedUsage {
  readonly cost: Nano;
  readonly lines: readonly PriceLine[];
  /** What was billed by a rule for want of a price: "web_fetch", "service_tier:turbo". */
  readonly missingPrices: readonly string[];
}

/** The card of a further leg's own model; undefined bills the leg by the main card. */
export type CardResolver = (model: string) => PriceCard | undefined;

export const INPUT_METERS = TOKEN_METERS.slice(0, 7);
export const OUTPUT_METERS = TOKEN_METERS.slice(7);
const ALL_METERS: readonly Meter[] = [...TOKEN_METERS, ...FEE_METERS];
const FEES: ReadonlySet<Meter> = new Set(FEE_METERS);
/** A meter without a price of its own is billed as the dearest of these. */
const FALLBACK_METERS: Readonly<Partial<Record<Meter, readonly Meter[]>>> = {
  cache_read: ["input"],
  cache_write_5m: ["input"],
  cache_write_1h: ["input", "cache_write_5m"],
  input_audio: ["input"],
  cache_read_audio: ["input", "input_audio"],
  input_image: ["input"],
  output: ["input"],
  reasoning: ["output"],
  output_audio: ["output"],
  output_image: ["output"],
};
/** Providers charge these as their relative, or less; a request has a fee only where a table says so. */
const SAFE_FALLBACKS: ReadonlySet<Meter> = new Set<Meter>([
  "cache_read",
  "input_image",
  "reasoning",
  "request",
]);
const STANDARD_NAMES = new Set([
  "",
  "standard",
  "default",
  "auto",
  "on_demand",
  "standard_only",
  "normal",
  "unspecified",
]);

/** The exact price of what was used. */
export function price(
  usage: Usage,
  card: PriceCard,
  cardOf: CardResolver = () => undefined,
): PricedUsage {
  const lines: PriceLine[] = [];
  const missingPrices = new Set<string>();
  let sum = pricePart({ usage, card, isMain: true }, lines, missingPrices);
  for (const part of usage.additional ?? [])
    sum = add(sum, pricePart(usagePart(part, card, cardOf, missingPrices), lines, missingPrices));
  return { cost: nanoFromPico(ceilOf(sum)), lines, missingPrices: [...missingPrices] };
}

/** What a request asks for beyond plain tokens. */
export interface RequestedFeatures {
  readonly serviceTier?: string;
  readonly speed?: string;
  readonly fees?: readonly FeeMeter[];
}

/** False for a service tier, a speed or a tool whose price is not known; a request that asks for it must be refused. */
export function isPriced(card: PriceCard, requested: RequestedFeatures): boolean {
  if (
    requested.serviceTier !== undefined &&
    !isKnownFactor(card.serviceTiers, requested.serviceTier, card)
  )
    return false;
  if (requested.speed !== undefined && !isKnownFactor(card.speeds, requested.speed, card))
    return false;
  return (requested.fees ?? []).every((fee) => !rateOf(card.base, fee).isEstimated);
}

/** The list price that a meter is billed at, and whether that is only a guess that may be too low. */
export function rateOf(
  rates: Rates,
  meter: Meter,
): { readonly unitPrice: Pico; readonly isEstimated: boolean } {
  const own = rates[meter];
  if (own !== undefined) return { unitPrice: own, isEstimated: false };
  const unitPrice = (FALLBACK_METERS[meter] ?? []).reduce(
    (most: Pico, relative) => maxPico(most, rates[relative]),
    0n,
  );
  return { unitPrice, isEstimated: !SAFE_FALLBACKS.has(meter) };
}

interface UsagePart {
  readonly usage: Usage;
  readonly card: PriceCard;
  readonly isMain: boolean;
}

function usagePart(
  usage: Usage,
  main: PriceCard,
  cardOf: CardResolver,
  missingPrices: Set<string>,
): UsagePart {
  if (usage.model === undefined) return { usage, card: main, isMain: false };
  const card = cardOf(usage.model);
  if (card === undefined) missingPrices.add(`model:${usage.model}`);
  return { usage, card: card ?? main, isMain: false };
}

function pricePart(part: UsagePart, lines: PriceLine[], missingPrices: Set<string>): Ratio {
  const { usage, card } = part;
  const rates = ratesFor(card, longestPrompt(usage));
  const multiplier = factorOf(usage, card, missingPrices);
  let sum: Ratio = { num: 0n, den: 1n };
  for (const meter of isEmpty(usage.fees) ? TOKEN_METERS : ALL_METERS) {
    const count = countOf(meter, usage, card);
    if (count <= 0) continue;
    const isFee = FEES.has(meter);
    const { unitPrice, isEstimated } =
      meter === "request"
        ? { unitPrice: requestFee(card, rates, usage.serviceTier), isEstimated: false }
        : rateOf(rates, meter);
    if (isEstimated) missingPrices.add(meter);
    const factor = isFee ? ONE : multiplier;
    const exact = product(count, unitPrice, factor);
    sum = add(sum, exact);
    const line = { meter, count, unitPrice, multiplier: factor, pico: ceilOf(exact) };
    lines.push(part.isMain || usage.model === undefined ? line : { ...line, model: usage.model });
  }
  return sum;
}

function countOf(meter: Meter, usage: Usage, card: PriceCard): number {
  const tokens: Partial<Record<string, number>> = usage.tokens;
  const fees: Partial<Record<string, number>> = usage.fees;
  const count = tokens[meter] ?? fees[meter];
  if (count === undefined) return 0;
  // A count that is not a number was refused where the reply was metered; it must not become a charge here.
  if (!Number.isFinite(count) || count < 0) return 0;
  return count > 1 && isOncePerCall(card, meter) ? 1 : count;
}

function isOncePerCall({ oncePerCall }: PriceCard, meter: Meter): boolean {
  return oncePerCall.some((fee) => fee === meter);
}

/** Fees that each stand for a round: what was found is read by another prompt, and the count is the sum of all. */
const ROUND_FEES = [
  "web_search",
  "web_fetch",
  "code_execution",
  "file_search",
  "x_search",
] as const;

// A card's tiers go by the length of a prompt. Where only the sum of several is told, it is shared out evenly among them,
// so that nobody pays for a prompt that was longer than any.
function longestPrompt(usage: Usage): number {
  if (isEmpty(usage.fees)) return promptTokens(usage);
  const rounds = ROUND_FEES.reduce((sum, fee) => sum + Math.max(0, usage.fees[fee] ?? 0), 1);
  return promptTokens(usage) / rounds;
}

function promptTokens(usage: Usage): number {
  let sum = 0;
  for (const meter of INPUT_METERS) sum += Math.max(0, usage.tokens[meter] ?? 0);
  return sum;
}

function ratesFor(card: PriceCard, prompt: number): Rates {
  let rates = card.base;
  for (const tier of card.tiers) if (prompt > tier.aboveInputTokens) rates = tier.rates;
  return rates;
}

function isEmpty(fees: Usage["fees"]): boolean {
  for (const _fee in fees) return false;
  return true;
}

function factorOf(usage: Usage, card: PriceCard, missingPrices: Set<string>): Ratio {
  if (!isKnownFactor(card.serviceTiers, usage.serviceTier, card))
    missingPrices.add(`service_tier:${usage.serviceTier}`);
  if (!isKnownFactor(card.speeds, usage.speed, card)) missingPrices.add(`speed:${usage.speed}`);
  const tier = factorNamed(card.serviceTiers, usage.serviceTier);
  const speed = factorNamed(card.speeds, usage.speed);
  return multiply(multiply(tier, speed), factorNamed(card.regions, usage.region));
}

function isKnownFactor(
  table: Readonly<Record<string, Ratio>>,
  name: string | undefined,
  card: PriceCard,
): boolean {
  if (name === undefined) return true;
  const key = name.toLowerCase();
  return (
    STANDARD_NAMES.has(key) || Object.hasOwn(table, key) || Object.hasOwn(card.requestFees, key)
  );
}

/** The factor of this name; one where none is named, and where the table does not know it. */
export function factorNamed(
  table: Readonly<Record<string, Ratio>>,
  name: string | undefined,
): Ratio {
  if (name === undefined) return ONE;
  const key = name.toLowerCase();
  return Object.hasOwn(table, key) ? (table[key] ?? ONE) : ONE;
}

function requestFee(card: PriceCard, rates: Rates, size: string | undefined): Pico {
  const key = (size ?? "").toLowerCase();
  return (
    (Object.hasOwn(card.requestFees, key) ? card.requestFees[key] : undefined) ??
    rates.request ??
    0n
  );
}

export function maxPico(left: Pico | undefined, right: Pico | undefined): Pico {
  const a = left ?? 0n;
  const b = right ?? 0n;
  return a > b ? a : b;
}
