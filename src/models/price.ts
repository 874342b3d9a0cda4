// Prices the usage of a call by its card. Only the total is rounded, once, up to a whole nano-USD. The upper bound of a
// call's cost follows the same rules in price-bound.ts.
//
// A meter without a price of its own is billed at a fallback price: cache reads and writes as plain input, one-hour cache
// writes as at least a five-minute write, audio and images as text of the same direction (cached ones as uncached), reasoning
// as output. A fee without a price costs nothing. Fallbacks that could be too low are listed in `missingPrices`.

import {
  FEE_METERS,
  TOKEN_METERS,
  type FeeMeter,
  type TokenMeter,
  type Usage,
} from "@postern/wires";
import { maxNano, nanoFromPico } from "../base/money/money.ts";
import type { Nano, Pico } from "../base/money/money.ts";
import { add, ceilOf, ONE, product, type Ratio, multiply } from "./ratio.ts";

export type Meter = TokenMeter | FeeMeter;

/** Pico-USD per token, or per use for a fee. */
export type Rates = Readonly<Partial<Record<Meter, Pico>>>;

export interface Tier {
  /** The rates apply to all tokens of a call whose prompt is longer than this. */
  readonly aboveInputTokens: number;
  readonly rates: Rates;
}

export interface PriceCard {
  readonly base: Rates;
  /** In ascending order; each is complete, nothing is inherited from `base`. */
  readonly tiers: readonly Tier[];
  /** Multipliers of token prices by the name in the reply, in lower case. Fees are not multiplied. */
  readonly serviceTiers: Readonly<Record<string, Ratio>>;
  readonly speeds: Readonly<Record<string, Ratio>>;
  readonly regions: Readonly<Record<string, Ratio>>;
  /** Fees charged once per call, no matter how many uses the reply counts. */
  readonly oncePerCall: readonly FeeMeter[];
  /** Meters that a batch of the provider does not make cheaper. */
  readonly notCheaperInBatches?: readonly TokenMeter[] | undefined;
  /** The request fee by the search size, which is reported as the service tier; without a size the `request` rate. */
  readonly requestFees: Readonly<Record<string, Pico>>;
  /** The fee of an image, by its size and quality. `image_generation` is the highest of them: what is not listed costs it. */
  readonly imageFees?: Readonly<Record<string, Pico>> | undefined;
}

export interface PriceLine {
  readonly meter: Meter;
  readonly count: number;
  /** The list price of one unit, and the factor of service tier, speed and region. */
  readonly unitPrice: Pico;
  readonly multiplier: Ratio;
  /** count × unitPrice × multiplier, rounded up to a whole pico-USD. */
  readonly pico: Pico;
  /** Set for usage of another model within the call, such as an advisor. */
  readonly model?: string;
}

export interface PricedUsage {
  readonly cost: Nano;
  readonly lines: readonly PriceLine[];
  /** What was billed at a fallback price: "web_fetch", "service_tier:turbo". */
  readonly missingPrices: readonly string[];
}

/** The card of another model that ran within the call; undefined bills its usage by the main card. */
export type CardResolver = (model: string) => PriceCard | undefined;

export const INPUT_METERS = TOKEN_METERS.slice(0, 8);
export const OUTPUT_METERS = TOKEN_METERS.slice(8);
const ALL_METERS: readonly Meter[] = [...TOKEN_METERS, ...FEE_METERS];
const FEES: ReadonlySet<Meter> = new Set(FEE_METERS);
/** A meter without a price is billed at the highest price of these. */
const FALLBACK_METERS: Readonly<Partial<Record<Meter, readonly Meter[]>>> = {
  cache_read: ["input"],
  cache_write_5m: ["input"],
  cache_write_1h: ["input", "cache_write_5m"],
  input_audio: ["input"],
  cache_read_audio: ["input", "input_audio"],
  input_image: ["input"],
  cache_read_image: ["input", "input_image"],
  output: ["input"],
  reasoning: ["output"],
  output_audio: ["output"],
  output_image: ["output"],
};
/** Fallbacks that are never too low: no provider charges more, and a request is free unless a table has a fee. */
const SAFE_FALLBACKS: ReadonlySet<Meter> = new Set<Meter>([
  "cache_read",
  "input_image",
  "cache_read_image",
  "reasoning",
  "request",
]);
/** The service tier of requests that a provider runs as a part of its own batches. */
export const BATCH_TIER = "batch";
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

/** The exact price of the usage. */
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

/** Tiers of OpenAI that models without them are called without: they only trade speed against price. */
const HINT_TIERS: ReadonlySet<string> = new Set(["flex", "priority"]);

/** A model without a price for the tier gets the request without it, at the standard price. */
export function isHintTier(tier: string): boolean {
  return HINT_TIERS.has(tier);
}

/** Requested features that change the price. */
export interface RequestedFeatures {
  readonly serviceTier?: string;
  readonly speed?: string;
  readonly fees?: readonly FeeMeter[];
}

/** False if the price of a requested service tier, speed or tool is unknown; such a request must be rejected. */
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

/** The list price of a meter; `isEstimated` if it is a fallback price that may be too low. */
export function rateOf(
  rates: Rates,
  meter: Meter,
): { readonly unitPrice: Pico; readonly isEstimated: boolean } {
  const own = rates[meter];
  if (own !== undefined) return { unitPrice: own, isEstimated: false };
  const unitPrice = (FALLBACK_METERS[meter] ?? []).reduce(
    (max: Pico, fallback) => maxNano(max, rates[fallback] ?? 0n),
    0n,
  );
  return { unitPrice, isEstimated: !SAFE_FALLBACKS.has(meter) };
}

/** The list price of a meter, of an image by its size and quality. */
export function feeOf(
  { imageFees }: PriceCard,
  rates: Rates,
  meter: Meter,
  imageClass: string | undefined,
): ReturnType<typeof rateOf> {
  const unitPrice =
    meter === "image_generation" && imageFees !== undefined && imageClass !== undefined
      ? fieldOf(imageFees, imageClass)
      : undefined;
  return unitPrice === undefined ? rateOf(rates, meter) : { unitPrice, isEstimated: false };
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
  const rates = ratesFor(card, averagePromptTokens(usage));
  const multiplier = factorOf(usage, card, missingPrices);
  const listed = usage.serviceTier === BATCH_TIER ? card.notCheaperInBatches : undefined;
  let sum: Ratio = { num: 0n, den: 1n };
  for (const meter of isEmpty(usage.fees) ? TOKEN_METERS : ALL_METERS) {
    const count = countOf(meter, usage, card);
    if (count <= 0) continue;
    const isFee = FEES.has(meter);
    const { unitPrice, isEstimated } =
      meter === "request"
        ? { unitPrice: requestFee(card, rates, usage.serviceTier), isEstimated: false }
        : feeOf(card, rates, meter, usage.imageClass);
    if (isEstimated) missingPrices.add(meter);
    const isListed = isFee || listed?.some((one) => one === meter) === true;
    const factor = isListed ? ONE : multiplier;
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
  // The meters only produce valid counts; anything else must not become a charge.
  if (!Number.isFinite(count) || count < 0) return 0;
  return count > 1 && isOncePerCall(card, meter) ? 1 : count;
}

function isOncePerCall({ oncePerCall }: PriceCard, meter: Meter): boolean {
  return oncePerCall.some((fee) => fee === meter);
}

/** Each use of these tools adds a model run that reads the results, and the reply reports the sum of all prompts. */
const ROUND_FEES = [
  "web_search",
  "web_fetch",
  "code_execution",
  "file_search",
  "x_search",
] as const;

// Tiers apply by the length of a single prompt. If only the sum of several prompts is known, it is split evenly, so that the
// caller is not charged the tier of a prompt longer than any of them.
function averagePromptTokens(usage: Usage): number {
  if (isEmpty(usage.fees)) return promptTokens(usage);
  const rounds = ROUND_FEES.reduce((sum, fee) => sum + Math.max(0, usage.fees[fee] ?? 0), 1);
  return promptTokens(usage) / rounds;
}

function promptTokens(usage: Usage): number {
  let sum = 0;
  for (const meter of INPUT_METERS) sum += Math.max(0, usage.tokens[meter] ?? 0);
  return sum;
}

function ratesFor(card: PriceCard, promptLength: number): Rates {
  let rates = card.base;
  for (const tier of card.tiers) if (promptLength > tier.aboveInputTokens) rates = tier.rates;
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

/** The factor of this name; 1 if there is no name or the table does not have it. */
export function factorNamed(
  table: Readonly<Record<string, Ratio>>,
  name: string | undefined,
): Ratio {
  if (name === undefined) return ONE;
  const key = name.toLowerCase();
  return Object.hasOwn(table, key) ? (table[key] ?? ONE) : ONE;
}

function fieldOf(table: Readonly<Record<string, Pico>>, name: string): Pico | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

function requestFee(card: PriceCard, rates: Rates, size: string | undefined): Pico {
  const key = (size ?? "").toLowerCase();
  return fieldOf(card.requestFees, key) ?? rates.request ?? 0n;
}
