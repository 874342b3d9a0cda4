// Converts written prices (decimals, dates, hours) to price cards in integers. Our tables and the operator's models file use
// this one format.

import type { FeeMeter, TokenMeter } from "@postern/wires";
import { maxNano, type Pico } from "../base/money/money.ts";
import { DAY_MS, SECOND_MS } from "../base/time.ts";
import type { Meter, PriceCard, Rates, Tier } from "./price.ts";
import type { Ratio } from "./ratio.ts";

/** A decimal, as text or as a number: "0.15". */
export type Decimal = string | number;

export type TokenPrices = Readonly<Partial<Record<TokenMeter, Decimal>>>;
export type FeePrices = Readonly<Partial<Record<FeeMeter, Decimal>>>;

/** A price, optionally valid only from a date or within certain hours. All times are UTC. */
export interface Pricing {
  /** USD per million tokens. */
  readonly tokens: TokenPrices;
  /** USD per use. */
  readonly fees?: FeePrices | undefined;
  readonly tiers?:
    | readonly { readonly above_input_tokens: number; readonly tokens: TokenPrices }[]
    | undefined;
  /** Multipliers of token prices: "0.5", "5/3". */
  readonly service_tiers?: Readonly<Record<string, Decimal>> | undefined;
  readonly speeds?: Readonly<Record<string, Decimal>> | undefined;
  readonly regions?: Readonly<Record<string, Decimal>> | undefined;
  readonly once_per_call?: readonly FeeMeter[] | undefined;
  readonly request_fees?: Readonly<Record<string, Decimal>> | undefined;
  readonly image_fees?: ImageFees | undefined;
  /** "2026-12-01" or "2026-12-01T16:00:00Z". */
  readonly from?: string | undefined;
  readonly hours?: PriceHours | undefined;
}

/** USD per image. What is not listed costs the highest of them. */
export interface ImageFees {
  /** By size or resolution, then by quality: `{"1k": {"low": "0.04", "medium": "0.06"}}`. */
  readonly usd: Readonly<Record<string, Readonly<Record<string, Decimal>>>>;
  /** The size of a request that names none. */
  readonly default_size: string;
  readonly default_quality: string;
}

interface PriceHours {
  /** "01:00"; an end before the start means past midnight. */
  readonly start: string;
  readonly end: string;
  /** 0 is Sunday; every day if absent. */
  readonly weekdays?: readonly number[] | undefined;
}

/** A card and when it applies. Later entries of a list win. */
export interface DatedCard {
  readonly card: PriceCard;
  readonly fromMs: number;
  readonly hours?: {
    readonly startSeconds: number;
    readonly endSeconds: number;
    readonly weekdays?: readonly number[];
  };
}

const PICO_DIGITS_PER_MILLION = 6;
const PICO_DIGITS = 12;
const DAY_SECONDS = DAY_MS / SECOND_MS;
const DAYS_PER_WEEK = 7;
/** 1970-01-01 was a Thursday. */
const EPOCH_WEEKDAY = 4;

/** The card at a point in time: the last entry that applies, otherwise the first one. */
export function cardAt(prices: readonly DatedCard[], at: number): PriceCard | undefined {
  const seconds = Math.floor(at / SECOND_MS) % DAY_SECONDS;
  const weekday = (Math.floor(at / DAY_MS) + EPOCH_WEEKDAY) % DAYS_PER_WEEK;
  for (let index = prices.length - 1; index >= 0; index--) {
    const price = prices[index];
    if (price !== undefined && at >= price.fromMs && inHours(price, seconds, weekday))
      return price.card;
  }
  return prices[0]?.card;
}

/** Throws if a decimal is invalid. */
export function datedCard(pricing: Pricing): DatedCard {
  const imageFees = pricing.image_fees === undefined ? undefined : imageFeesOf(pricing.image_fees);
  const base: Rates = {
    ...ratesOf(pricing.tokens, pricing.fees),
    ...(imageFees === undefined
      ? {}
      : { image_generation: Object.values(imageFees).reduce(maxNano, 0n) }),
  };
  const tiers: Tier[] = (pricing.tiers ?? []).map((tier) => ({
    aboveInputTokens: tier.above_input_tokens,
    rates: { ...base, ...ratesOf(tier.tokens, undefined) },
  }));
  const card: PriceCard = {
    base,
    tiers: tiers.toSorted((left, right) => left.aboveInputTokens - right.aboveInputTokens),
    serviceTiers: ratiosOf(pricing.service_tiers),
    speeds: ratiosOf(pricing.speeds),
    regions: ratiosOf(pricing.regions),
    oncePerCall: pricing.once_per_call ?? [],
    requestFees: mapValues(pricing.request_fees, picoPerUnit),
    ...(imageFees === undefined ? {} : { imageFees }),
  };
  const fromMs = pricing.from === undefined ? 0 : Date.parse(pricing.from);
  return pricing.hours === undefined
    ? { card, fromMs }
    : { card, fromMs, hours: hoursOf(pricing.hours) };
}

/** By `<size> <quality>`, where an absent part means the default. */
function imageFeesOf({ usd, default_size, default_quality }: ImageFees): Record<string, Pico> {
  const nameOf = (name: string, otherwise: string): readonly string[] =>
    name.toLowerCase() === otherwise.toLowerCase() ? [name, ""] : [name];
  const fees = Object.entries(usd).flatMap(([size, byQuality]) =>
    Object.entries(byQuality).flatMap(([quality, fee]) =>
      nameOf(size, default_size).flatMap((sizeName) =>
        nameOf(quality, default_quality).map(
          (qualityName) => [`${sizeName} ${qualityName}`, fee] as const,
        ),
      ),
    ),
  );
  return mapValues(Object.fromEntries(fees), picoPerUnit);
}

/** USD per million tokens → pico-USD per token, rounded up. */
export function picoPerToken(usdPerMillion: Decimal): Pico {
  return parseDecimal(usdPerMillion, PICO_DIGITS_PER_MILLION);
}

/** USD per use → pico-USD, rounded up. */
export function picoPerUnit(usd: Decimal): Pico {
  return parseDecimal(usd, PICO_DIGITS);
}

/** "0.5", 2 or "5/3" as an exact fraction. */
export function ratioOf(factor: Decimal): Ratio {
  const [num = "1", den = "1"] = String(factor).split("/");
  const ratio = { num: parseDecimal(num, PICO_DIGITS), den: parseDecimal(den, PICO_DIGITS) };
  if (ratio.den === 0n) throw new Error(`"${String(factor)}" divides by zero`);
  const common = greatestCommonDivisor(ratio.num, ratio.den);
  return { num: ratio.num / common, den: ratio.den / common };
}

export function ratiosOf(
  factors: Readonly<Record<string, Decimal>> | undefined,
): Record<string, Ratio> {
  return mapValues(factors, ratioOf);
}

export function ratesOf(tokens: TokenPrices, fees: FeePrices | undefined): Rates {
  const rates: Partial<Record<Meter, Pico>> = {};
  for (const meter of keysOf(tokens)) rates[meter] = picoPerToken(tokens[meter] ?? 0);
  for (const meter of keysOf(fees ?? {})) rates[meter] = picoPerUnit(fees?.[meter] ?? 0);
  return rates;
}

function inHours({ hours }: DatedCard, seconds: number, weekday: number): boolean {
  if (hours === undefined) return true;
  const { startSeconds, endSeconds, weekdays } = hours;
  if (weekdays !== undefined && !weekdays.includes(weekday)) return false;
  if (endSeconds < startSeconds) return seconds >= startSeconds || seconds < endSeconds;
  return seconds >= startSeconds && seconds < endSeconds;
}

function hoursOf({ start, end, weekdays }: PriceHours): NonNullable<DatedCard["hours"]> {
  const span = { startSeconds: secondsOf(start), endSeconds: secondsOf(end) };
  return weekdays === undefined ? span : { ...span, weekdays };
}

function secondsOf(timeOfDay: string): number {
  const [hours = 0, minutes = 0, seconds = 0] = timeOfDay.replace("Z", "").split(":").map(Number);
  return (hours * 60 + minutes) * 60 + seconds;
}

function parseDecimal(value: Decimal, digits: number): bigint {
  const text = typeof value === "number" ? plainDecimal(value) : value.trim();
  const match = /^(\d{1,9})(?:\.(\d{1,20}))?$/.exec(text);
  if (!match) throw new Error(`"${String(value)}" is not a decimal of at least 0, such as "0.15"`);
  const [, whole = "0", fraction = ""] = match;
  const kept = BigInt(whole + fraction.slice(0, digits).padEnd(digits, "0"));
  return /[1-9]/.test(fraction.slice(digits)) ? kept + 1n : kept;
}

// Twelve significant digits: more than any list price has, and few enough to drop the rounding noise of floats.
function plainDecimal(value: number): string {
  const text = value.toPrecision(12);
  return Number(text).toFixed(PICO_DIGITS);
}

function greatestCommonDivisor(left: bigint, right: bigint): bigint {
  return right === 0n ? left : greatestCommonDivisor(right, left % right);
}

function mapValues<A, B>(
  table: Readonly<Record<string, A>> | undefined,
  change: (value: A) => B,
): Record<string, B> {
  return Object.fromEntries(
    Object.entries(table ?? {}).map(([key, value]) => [key.toLowerCase(), change(value)]),
  );
}

function keysOf<K extends string>(table: Readonly<Partial<Record<K, unknown>>>): K[] {
  // Safe: `Object.keys` returns strings, and the table has no other keys than K.
  return Object.keys(table) as K[];
}
