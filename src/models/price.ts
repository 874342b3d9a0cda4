// What a call costs, and the most that it can cost. Both read the same card with the same rules, so a hold can never be
// less than the charge that it was taken for. Nothing here rounds but the last step, once, up to a whole nano-USD.
//
// Where a card has no price for a meter, the meter is billed as its nearest relative, which is never the cheaper one:
// cache reads and writes as plain input, an hour's write as at least a five-minute one, audio and images as text of the
// same side (cached audio as audio), reasoning as output. A fee without a price costs nothing.
// Each such guess that could be too low is named in `gaps`, so that it is seen and not silent.

import { FEE_METERS, TOKEN_METERS } from "../base/meters.ts";
import type { FeeMeter, TokenMeter, Usage } from "../base/meters.ts";
import { nanoFromPico } from "../base/money.ts";
import type { Nano, Pico } from "../base/money.ts";

export type Meter = TokenMeter | FeeMeter;

/** Pico-USD for one token, or for one piece of what a fee counts. */
export type Rates = Readonly<Partial<Record<Meter, Pico>>>;

/** An exact fraction: no multiplier is ever a float. */
export interface Ratio {
  readonly num: bigint;
  readonly den: bigint;
}

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
  readonly each: Pico;
  readonly times: Ratio;
  /** count × each × times; rounded up to a whole pico where it is not one. */
  readonly pico: Pico;
  /** The model of a further leg. */
  readonly model?: string;
}

export interface Priced {
  readonly cost: Nano;
  readonly lines: readonly PriceLine[];
  /** What was billed by a rule for want of a price: "web_fetch", "service_tier:turbo". */
  readonly gaps: readonly string[];
}

/** The card of a further leg's own model; undefined bills the leg by the main card. */
export type CardResolver = (model: string) => PriceCard | undefined;

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

const ONE: Ratio = { num: 1n, den: 1n };

const INPUT_METERS = TOKEN_METERS.slice(0, 7);
const OUTPUT_METERS = TOKEN_METERS.slice(7);
const ALL_METERS: readonly Meter[] = [...TOKEN_METERS, ...FEE_METERS];
const FEES: ReadonlySet<Meter> = new Set(FEE_METERS);
/** A meter without a price of its own is billed as the dearest of these. */
const RELATIVES: Readonly<Partial<Record<Meter, readonly Meter[]>>> = {
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
const NEVER_TOO_LOW: ReadonlySet<Meter> = new Set<Meter>([
  "cache_read",
  "input_image",
  "reasoning",
  "request",
]);
const PLAIN_NAMES = new Set([
  "",
  "standard",
  "default",
  "auto",
  "on_demand",
  "standard_only",
  "normal",
  "unspecified",
]);
const FRACTION = 1_000_000;
const PICO_PER_NANO = 1_000n;

/** The exact price of what was used. */
export function price(
  usage: Usage,
  card: PriceCard,
  cardOf: CardResolver = () => undefined,
): Priced {
  const lines: PriceLine[] = [];
  const gaps = new Set<string>();
  let sum: Ratio = { num: 0n, den: 1n };
  const legs = [
    { usage, card, main: true },
    ...(usage.also ?? []).map((leg) => legOf(leg, card, cardOf, gaps)),
  ];
  for (const leg of legs) sum = add(sum, priceLeg(leg, lines, gaps));
  return { cost: nanoFromPico(ceilOf(sum)), lines, gaps: [...gaps] };
}

/** The most that a call within these bounds can cost on any of the cards that may answer it. */
export function priceUpperBound(bounds: Bounds, cards: PriceCard | readonly PriceCard[]): Nano {
  return boundOn(bounds, cards)(bounds.outputTokens);
}

/** The same for several output limits of one call: what does not depend on the limit is worked out once. */
export function boundOn(
  bounds: Omit<Bounds, "outputTokens">,
  cards: PriceCard | readonly PriceCard[],
): (outputTokens: number) => Nano {
  const parts = isList(cards)
    ? cards.flatMap((card) => partsOf(bounds, card))
    : partsOf(bounds, cards);
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

/** What a request asks for beyond plain tokens. */
export interface Asked {
  readonly serviceTier?: string;
  readonly speed?: string;
  readonly fees?: readonly FeeMeter[];
}

/** False for a service tier, a speed or a tool whose price is not known; a request that asks for it must be refused. */
export function isPriced(card: PriceCard, asked: Asked): boolean {
  if (asked.serviceTier !== undefined && !knows(card.serviceTiers, asked.serviceTier, card))
    return false;
  if (asked.speed !== undefined && !knows(card.speeds, asked.speed, card)) return false;
  return (asked.fees ?? []).every((fee) => !rateOf(card.base, fee).guessed);
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
    for (const { fixed, output } of partsOf(bounds, card)) {
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

/** The list price that a meter is billed at, and whether that is only a guess that may be too low. */
export function rateOf(
  rates: Rates,
  meter: Meter,
): { readonly each: Pico; readonly guessed: boolean } {
  const own = rates[meter];
  if (own !== undefined) return { each: own, guessed: false };
  const each = (RELATIVES[meter] ?? []).reduce(
    (most: Pico, relative) => larger(most, rates[relative]),
    0n,
  );
  return { each, guessed: !NEVER_TOO_LOW.has(meter) };
}

interface Leg {
  readonly usage: Usage;
  readonly card: PriceCard;
  readonly main: boolean;
}

function legOf(usage: Usage, main: PriceCard, cardOf: CardResolver, gaps: Set<string>): Leg {
  if (usage.model === undefined) return { usage, card: main, main: false };
  const card = cardOf(usage.model);
  if (card === undefined) gaps.add(`model:${usage.model}`);
  return { usage, card: card ?? main, main: false };
}

function priceLeg(leg: Leg, lines: PriceLine[], gaps: Set<string>): Ratio {
  const { usage, card } = leg;
  const rates = ratesFor(card, promptTokens(usage));
  const times = factorOf(usage, card, gaps);
  let sum: Ratio = { num: 0n, den: 1n };
  for (const meter of ALL_METERS) {
    const count = countOf(meter, usage, card);
    if (count <= 0) continue;
    const isFee = FEES.has(meter);
    const { each, guessed } =
      meter === "request"
        ? { each: requestFee(card, rates, usage.serviceTier), guessed: false }
        : rateOf(rates, meter);
    if (guessed) gaps.add(meter);
    const factor = isFee ? ONE : times;
    const exact = product(count, each, factor);
    sum = add(sum, exact);
    const line = { meter, count, each, times: factor, pico: ceilOf(exact) };
    lines.push(leg.main || usage.model === undefined ? line : { ...line, model: usage.model });
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
  return count > 1 && card.oncePerCall.some((fee) => fee === meter) ? 1 : count;
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

function factorOf(usage: Usage, card: PriceCard, gaps: Set<string>): Ratio {
  if (!knows(card.serviceTiers, usage.serviceTier, card))
    gaps.add(`service_tier:${usage.serviceTier}`);
  if (!knows(card.speeds, usage.speed, card)) gaps.add(`speed:${usage.speed}`);
  const tier = named(card.serviceTiers, usage.serviceTier);
  const speed = named(card.speeds, usage.speed);
  return times(times(tier, speed), named(card.regions, usage.region));
}

function knows(
  table: Readonly<Record<string, Ratio>>,
  name: string | undefined,
  card: PriceCard,
): boolean {
  const key = (name ?? "").toLowerCase();
  return PLAIN_NAMES.has(key) || Object.hasOwn(table, key) || Object.hasOwn(card.requestFees, key);
}

function named(table: Readonly<Record<string, Ratio>>, name: string | undefined): Ratio {
  const key = (name ?? "").toLowerCase();
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

interface BoundParts {
  /** Input and fees at their dearest. */
  readonly fixed: Ratio;
  /** One token of output at its dearest. */
  readonly output: Ratio;
}

/** The dearest prices in each tier that the prompt can reach. */
function partsOf(bounds: Omit<Bounds, "outputTokens">, card: PriceCard): BoundParts[] {
  const factor = dearestFactor(bounds, card);
  const tokens = wholeTokens(bounds.inputTokens);
  const parts: BoundParts[] = [];
  for (const { aboveInputTokens, rates, input, output, request } of dearestRates(card)) {
    if (aboveInputTokens !== undefined && bounds.inputTokens <= aboveInputTokens) continue;
    parts.push({
      fixed: add(product(tokens, input, factor), feesBound(bounds, card, rates, request)),
      output: product(1, output, factor),
    });
  }
  return parts;
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

function dearestOf(table: Readonly<Record<string, Ratio>>): Ratio {
  return Object.values(table).reduce(max, ONE);
}

/** What is not a number of tokens counts as more than anybody can pay for. */
function wholeTokens(count: number): number {
  return count <= Number.MAX_SAFE_INTEGER ? Math.max(0, Math.ceil(count)) : Number.MAX_SAFE_INTEGER;
}

function isList(cards: PriceCard | readonly PriceCard[]): cards is readonly PriceCard[] {
  return Array.isArray(cards);
}

// A second of audio may be counted in fractions; a token never is, and costs no more work for it.
function product(count: number, each: Pico, factor: Ratio): Ratio {
  if (Number.isSafeInteger(count))
    return { num: BigInt(count) * each * factor.num, den: factor.den };
  const parts = BigInt(Math.ceil(count * FRACTION));
  return { num: parts * each * factor.num, den: factor.den * BigInt(FRACTION) };
}

function add(left: Ratio, right: Ratio): Ratio {
  if (left.den === right.den) return { num: left.num + right.num, den: left.den };
  return { num: left.num * right.den + right.num * left.den, den: left.den * right.den };
}

function times(left: Ratio, right: Ratio): Ratio {
  return { num: left.num * right.num, den: left.den * right.den };
}

function max(left: Ratio, right: Ratio): Ratio {
  return left.num * right.den >= right.num * left.den ? left : right;
}

function ceilOf({ num, den }: Ratio): bigint {
  return (num + den - 1n) / den;
}

function larger(left: Pico | undefined, right: Pico | undefined): Pico {
  const a = left ?? 0n;
  const b = right ?? 0n;
  return a > b ? a : b;
}
