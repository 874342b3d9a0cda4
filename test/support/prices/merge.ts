// Merges the price lists: genai-prices has the history, tiers and names; the other lists confirm it, dispute it, or add what
// it lacks.

import { isDeepStrictEqual } from "node:util";
import type { PriceRow, PriceTable } from "../../../src/models/list-prices.ts";
import type { Decimal, Pricing } from "../../../src/models/price-card.ts";
import { ADDITIONS, DECISIONS, HIGHER_REASON, MAJORITY_REASON, OUTDATED } from "./decisions.ts";
import { decimal, genaiPriceRows } from "./genai-prices.ts";
import { quotesOf, type Quote, type Quotes } from "./quotes.ts";
import type { PriceSources, SourceName } from "./sources.ts";

export interface Disagreement {
  readonly id: string;
  readonly meter: string;
  /** List → price in US dollars per million tokens. */
  readonly prices: Readonly<Partial<Record<SourceName, number>>>;
  readonly price: number;
  readonly reason: string;
}

/** Lists round: half a percent is the same price. */
const TOLERANCE = 0.005;
const BEDROCK_VERSION = /(-\d{8})?(-v\d+)?(:\d+)?$/;

export function mergePrices(
  sources: PriceSources,
  today: string,
): { readonly table: PriceTable; readonly disagreements: readonly Disagreement[] } {
  const quotes = quotesOf(sources, today);
  const disagreements: Disagreement[] = [];
  const rows = genaiPriceRows(sources.genaiPrices).map((row) => withProviderName(row, quotes));
  const names = new Set(rows.map(({ provider, name }) => `${provider}/${name}`));
  const merge = (row: PriceRow): PriceRow => mergeRow(row, quotes, today, disagreements);
  const merged = rows.flatMap((row) => {
    const own = merge(row);
    const separate = aliasRows(own, quotes)
      .filter(({ provider, name }) => !names.has(`${provider}/${name}`))
      .map(merge)
      .filter(({ pricing }) => !isDeepStrictEqual(pricing, own.pricing));
    if (separate.length === 0) return [own];
    const isAlias = (alias: string): boolean => separate.every(({ name }) => name !== alias);
    return [{ ...own, aliases: own.aliases?.filter(isAlias) }, ...separate];
  });
  const models = [...merged, ...addedRows(rows, quotes)];
  return {
    table: {
      checked: today,
      sources: sources.versions,
      models: models.toSorted(byId),
    },
    disagreements: disagreements.toSorted((left, right) => (left.id < right.id ? -1 : 1)),
  };
}

function mergeRow(
  row: PriceRow,
  quotes: Quotes,
  today: string,
  disagreements: Disagreement[],
): PriceRow {
  const found = quotesFor(row, quotes);
  const current = row.pricing.filter((step) => (step.from ?? "") <= today);
  const step = current.findLast(({ hours }) => hours === undefined);
  if (found.length === 0 || step === undefined) return row;
  // A list without hours has one of the prices of the day.
  const isPriceOfAnHour = (quote: Quote): boolean =>
    current.some(({ hours, ...pricing }) => hours !== undefined && fits(quote, pricing));
  const confirming = found.filter((quote) => fits(quote, step) || isPriceOfAnHour(quote));
  const disputing = found.filter(
    (quote) => !confirming.includes(quote) && !OUTDATED.has(quote.source),
  );
  const agreeingToday = confirming.filter(
    (quote) => !OUTDATED.has(quote.source) && fits(quote, step),
  );
  const changes = new Map<string, number>();
  for (const meter of new Set(disputing.flatMap((quote) => Object.keys(quote.rates)))) {
    const own = ratesOf(step)[meter];
    if (own === undefined) continue;
    const disagreement = judge(row, meter, own, [...agreeingToday, ...disputing]);
    if (disagreement === undefined) continue;
    disagreements.push(disagreement);
    if (!isSame(disagreement.price, own)) changes.set(meter, disagreement.price);
  }
  const changed = withRates(step, changes);
  const merged = withCacheRead(
    changed,
    found.filter((quote) => !OUTDATED.has(quote.source) && fits(quote, changed)),
  );
  const agreeing = confirming.map(({ source }) => source);
  const disagreeing = changes.size === 0 ? [] : disputing.map(({ source }) => source);
  return {
    ...row,
    pricing: row.pricing.map((pricing) => (pricing === step ? merged : pricing)),
    sources: [...row.sources, ...agreeing, ...disagreeing],
  };
}

/** The aliases for which a list has another price than for the model itself, as models of their own. */
function aliasRows(row: PriceRow, quotes: Quotes): PriceRow[] {
  // Bedrock's names share quotes, and OpenRouter's lists only bound a cost.
  if (row.provider === "bedrock" || row.provider === "openrouter") return [];
  const own = quotesFor({ ...row, aliases: [], spellings: [] }, quotes);
  const { aliases = [], spellings: _, slug, ...shared } = row;
  return aliases.flatMap((name) => {
    const differs = (quotes.get(`${row.provider}/${name}`.toLowerCase()) ?? []).some(
      ({ source, rates, isComplete }) =>
        isComplete &&
        !OUTDATED.has(source) &&
        own.some((quote) => quote.source === source && !isDeepStrictEqual(quote.rates, rates)),
    );
    const shortName = slug === undefined ? {} : { slug: name.slice(name.lastIndexOf("/") + 1) };
    return differs ? [{ ...shared, name, ...shortName, sources: ["genai-prices"] }] : [];
  });
}

// genai-prices adds a version to every name on Bedrock, `claude-opus-4-8-v1:0`, but Bedrock does not accept it for all models.
function withProviderName(row: PriceRow, quotes: Quotes): PriceRow {
  if (row.provider !== "bedrock" || quotes.has(`bedrock/${row.name}`)) return row;
  const stem = `bedrock/${row.name.replace(BEDROCK_VERSION, "")}`;
  const found = [...quotes.keys()].find(
    (id) => id.startsWith(stem) && id.slice(stem.length).replace(BEDROCK_VERSION, "") === "",
  );
  if (found === undefined) return row;
  const name = found.slice("bedrock/".length);
  const spellings = [row.name, ...(row.spellings ?? [])].filter((spelling) => spelling !== name);
  return { ...row, name, spellings };
}

function judge(
  row: PriceRow,
  meter: string,
  own: number,
  quotes: readonly Quote[],
): Disagreement | undefined {
  const stated = quotes.flatMap(({ source, rates }) => {
    const price = rates[meter];
    return price === undefined ? [] : [[source, Number(decimal(price))] as const];
  });
  if (stated.every(([, price]) => isSame(price, own))) return undefined;
  const all: readonly (readonly [SourceName, number])[] = [["genai-prices", own], ...stated];
  const decision = DECISIONS.find(
    ({ provider, match }) => provider === row.provider && match.test(row.slug ?? row.name),
  );
  const decided = all.find(([source]) => source === decision?.source)?.[1];
  const majority = all.find(([source, price]) =>
    all.some(([other, same]) => other !== source && isSame(price, same)),
  )?.[1];
  const [price, reason] =
    decided !== undefined && decision !== undefined
      ? [decided, decision.reason]
      : majority !== undefined
        ? [majority, MAJORITY_REASON]
        : [Math.max(...all.map(([, amount]) => amount)), HIGHER_REASON];
  return {
    id: `${row.provider}/${row.slug ?? row.name}`,
    meter,
    prices: Object.fromEntries(all),
    price,
    reason,
  };
}

function withRates(pricing: Pricing, changes: ReadonlyMap<string, number>): Pricing {
  const changed = (tokens: Pricing["tokens"], suffix: string): Record<string, Decimal> =>
    Object.fromEntries(
      Object.entries(tokens).map(([meter, price]) => {
        const change = changes.get(`${meter}${suffix}`);
        return [meter, change === undefined ? price : decimal(change)];
      }),
    );
  return {
    ...pricing,
    tokens: changed(pricing.tokens, ""),
    ...(pricing.tiers === undefined
      ? {}
      : {
          tiers: pricing.tiers.map((tier) => ({
            ...tier,
            tokens: changed(tier.tokens, `>${tier.above_input_tokens}`),
          })),
        }),
  };
}

/** genai-prices lacks some prices of cache reads: the highest of the lists that have its other prices. */
function withCacheRead(pricing: Pricing, agreeing: readonly Quote[]): Pricing {
  const { cache_read: known, input, output } = pricing.tokens;
  const stated = agreeing.flatMap(({ rates }) => rates["cache_read"] ?? []);
  const isComparable = pricing.tiers === undefined && input !== undefined && output !== undefined;
  if (known !== undefined || stated.length === 0 || !isComparable) return pricing;
  const price = Math.max(...stated);
  return price >= Number(input)
    ? pricing
    : { ...pricing, tokens: { ...pricing.tokens, cache_read: decimal(price) } };
}

function addedRows(rows: readonly PriceRow[], quotes: Quotes): PriceRow[] {
  const known = new Set(rows.flatMap((row) => namesOf(row)));
  return [...quotes].flatMap(([id, found]) => {
    const provider = id.slice(0, id.indexOf("/"));
    const name = id.slice(provider.length + 1);
    const usable = found.filter(({ source, isComplete }) => isComplete && !OUTDATED.has(source));
    const [first, second] = usable;
    if (first === undefined || known.has(id) || !(ADDITIONS[provider]?.test(name) ?? false))
      return [];
    if ((first.rates["input"] ?? 0) === 0) return [];
    const rates = second === undefined ? first.rates : { ...second.rates, ...first.rates };
    const context = first.context ?? second?.context;
    return [
      {
        provider,
        name,
        title: found.find(({ title }) => title !== undefined)?.title ?? name,
        ...(first.isEmbedding === true ? { kind: "embedding" as const } : {}),
        ...(context === undefined ? {} : { context }),
        pricing: [pricingOf(rates)],
        sources: usable.map(({ source }) => source),
      },
    ];
  });
}

function pricingOf(rates: Readonly<Record<string, number>>): Pricing {
  const tokens: Record<string, string> = {};
  const tiers = new Map<number, Record<string, string>>();
  for (const [key, price] of Object.entries(rates)) {
    const [meter = "", above] = key.split(">");
    if (above === undefined) tokens[meter] = decimal(price);
    else tiers.set(Number(above), { ...tiers.get(Number(above)), [meter]: decimal(price) });
  }
  if (tiers.size === 0) return { tokens };
  return {
    tokens,
    tiers: [...tiers].map(([above, changed]) => ({ above_input_tokens: above, tokens: changed })),
  };
}

// On Bedrock, a profile and the model behind it have names in common, but different prices.
function quotesFor(row: PriceRow, quotes: Quotes): readonly Quote[] {
  const bySource = new Map<SourceName, Quote>();
  const names = row.provider === "bedrock" ? [`bedrock/${row.name}`.toLowerCase()] : namesOf(row);
  for (const name of names)
    for (const quote of quotes.get(name) ?? [])
      if (!bySource.has(quote.source)) bySource.set(quote.source, quote);
  return [...bySource.values()];
}

function namesOf(row: PriceRow): string[] {
  const { name, slug = name, aliases = [], spellings = [] } = row;
  return [name, slug, ...aliases, ...spellings].map((text) =>
    `${row.provider}/${text}`.toLowerCase(),
  );
}

function fits(quote: Quote, pricing: Pricing): boolean {
  const rates = ratesOf(pricing);
  return Object.entries(quote.rates).every(
    ([meter, price]) => rates[meter] === undefined || isSame(rates[meter], price),
  );
}

function ratesOf(pricing: Pricing): Record<string, number> {
  const rates: Record<string, number> = {};
  for (const [meter, price] of Object.entries(pricing.tokens)) rates[meter] = Number(price);
  for (const { above_input_tokens: above, tokens } of pricing.tiers ?? [])
    for (const [meter, price] of Object.entries(tokens)) rates[`${meter}>${above}`] = Number(price);
  return rates;
}

function isSame(left: number, right: number): boolean {
  return Math.abs(left - right) <= TOLERANCE * Math.max(left, right);
}

function byId(left: PriceRow, right: PriceRow): number {
  const leftId = `${left.provider}/${left.slug ?? left.name}`;
  const rightId = `${right.provider}/${right.slug ?? right.name}`;
  return leftId < rightId ? -1 : leftId > rightId ? 1 : 0;
}
