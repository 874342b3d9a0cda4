// Reads the list prices published in `@pydantic/genai-prices`, with their history, hours and tiers, as price cards. Models
// that no wire can call or no meter can count are left out.

import { findProvider } from "@pydantic/genai-prices";
import type { ConditionalPrice, MatchLogic, ModelInfo, ModelPrice } from "@pydantic/genai-prices";
import { HOUR_MS, SECOND_MS } from "../base/time.ts";
import { FEE_METERS } from "../base/usage-meters.ts";
import type { Meter, PriceCard, Rates, Tier } from "./price.ts";
import { datedCard, picoPerUnit, picoPerToken } from "./price-card.ts";
import type { DatedCard } from "./price-card.ts";

/** The release of the package; a test keeps it equal to the installed version. */
export const PRICE_PACKAGE = {
  name: "@pydantic/genai-prices",
  version: "0.1.8",
  released: "2026-09-23",
} as const;

export interface ListedPrice {
  readonly provider: string;
  /** The second part of our model id. */
  readonly slug: string;
  /** The provider's own name for the model. */
  readonly name: string;
  /** Other names that the provider accepts at this price: snapshots, `-latest`. */
  readonly aliases: readonly string[];
  /** Other ways to write its name, which the provider may not accept. */
  readonly spellings: readonly string[];
  readonly title: string;
  readonly kind: "chat" | "embedding";
  readonly contextLength: number | null;
  /** False if it cannot be called: deprecated, for other endpoints, or with output that costs more than text. */
  readonly offered: boolean;
  readonly prices: readonly DatedCard[];
}

/** Our provider id → tables of the package. Azure sells OpenAI's and xAI's models at their makers' list prices. */
const PROVIDER_TABLES: Readonly<Record<string, readonly string[]>> = {
  openai: ["openai"],
  anthropic: ["anthropic"],
  mistral: ["mistral"],
  groq: ["groq"],
  xai: ["x-ai"],
  deepseek: ["deepseek"],
  together: ["together"],
  fireworks: ["fireworks"],
  cerebras: ["cerebras"],
  openrouter: ["openrouter"],
  perplexity: ["perplexity"],
  moonshot: ["moonshotai"],
  zai: ["zai"],
  google: ["google"],
  vertex: ["google"],
  azure: ["azure", "openai", "x-ai"],
  bedrock: ["aws"],
};

const TOKEN_KEYS: Readonly<Record<string, Meter>> = {
  input_mtok: "input",
  output_mtok: "output",
  cache_read_mtok: "cache_read",
  cache_write_mtok: "cache_write_5m",
  cache_write_1h_mtok: "cache_write_1h",
  input_audio_mtok: "input_audio",
  cache_audio_read_mtok: "cache_read_audio",
  output_audio_mtok: "output_audio",
  input_image_mtok: "input_image",
  output_image_mtok: "output_image",
  output_reasoning_mtok: "reasoning",
};
const THOUSAND_KEYS: Readonly<Record<string, Meter>> = {
  web_searches_kcount: "web_search",
  storage_searches_kcount: "file_search",
  requests_kcount: "request",
};
/** So far every provider counts cached images as cached text, and citations as input. */
const IGNORED_KEYS = new Set(["cache_image_read_mtok", "output_citation_mtok", "audio_hours"]);
const SECONDS_PER_HOUR = HOUR_MS / SECOND_MS;

/**
 * Models of endpoints that we do not have: images, speech, live sessions, moderation, documents, legacy completions. Their
 * price is needed if a tool runs one of them within a call.
 */
const UNSUPPORTED_ENDPOINT_MODELS =
  /(^|[/.-])(gpt-image|dall-e|whisper|tts|transcribe|realtime|live|moderation|ocr|sonic|imagen|veo)|^gpt-[\d.]+-image|-(tts|live|realtime|transcribe)(-|$)|^(ada|babbage|curie|davinci|text-(ada|babbage|curie|davinci)|computer-use)|gpt-3\.5-turbo-instruct|grok-voice|native-audio|titan-text/;
/** OpenRouter's tables have text prices only, but images and audio of these models cost many times more. */
const NON_TEXT_MODELS = /-image(-|$)|\/gpt-audio|\/voxtral/;
const EMBEDDING = /embed/;
/** Models that share a row with another one in the tables, but are separate models. */
const SEPARATE_MODELS = new Set([
  "gpt-5-codex",
  "gpt-5-chat-latest",
  "gpt-5.1-codex",
  "gpt-5.1-codex-max",
  "gpt-5.1-chat-latest",
  "gpt-5.2-codex",
  "gpt-5.2-chat-latest",
  "gpt-5.3-chat-latest",
  "gpt-audio-1.5",
  "gpt-4o-mini-search-preview",
  "openai/gpt-oss-safeguard-20b",
]);
const NAME_CORRECTIONS: Readonly<Record<string, string>> = {
  "claude-4-opus": "claude-opus-4-1",
  "claude-4-sonnet": "claude-sonnet-4",
};

/** Every published price that we can bill. */
export function publishedPrices(): ListedPrice[] {
  return Object.entries(PROVIDER_TABLES).flatMap(([provider, tables]) =>
    tables.flatMap((table) => fromTable(provider, table)),
  );
}

function fromTable(provider: string, table: string): ListedPrice[] {
  const found = findProvider({ providerId: table });
  return (found?.models ?? [])
    .filter((model) => isSoldBy(provider, model.id))
    .flatMap((model) => fromModel(provider, model))
    .map((listed) => (provider === "azure" ? withoutFees(listed) : listed));
}

// Azure sells OpenAI's models at OpenAI's prices, but not its tools.
function withoutFees(listed: ListedPrice): ListedPrice {
  const fees = new Set<string>(FEE_METERS);
  const toTokenRates = (rates: Rates): Rates =>
    Object.fromEntries(Object.entries(rates).filter(([meter]) => !fees.has(meter)));
  const prices = listed.prices.map((price) => ({
    ...price,
    card: { ...price.card, base: toTokenRates(price.card.base) },
  }));
  return { ...listed, prices };
}

function isSoldBy(provider: string, name: string): boolean {
  if (provider === "openrouter") return name.includes("/") && !name.startsWith("~");
  if (provider === "google") return !name.startsWith("claude") && !name.endsWith("-maas");
  // Bedrock's embeddings use no wire of ours.
  if (provider === "bedrock") return !EMBEDDING.test(name);
  return true;
}

function fromModel(provider: string, model: ModelInfo): ListedPrice[] {
  const steps: readonly ConditionalPrice[] = Array.isArray(model.prices)
    ? model.prices
    : [{ prices: model.prices }];
  if (steps.length === 0 || !steps.every((step) => isBillable(step.prices))) return [];
  const exact = matchLiterals(model.match, true);
  const name = nameOf(provider, model.id, exact);
  const listed: ListedPrice = {
    provider,
    slug: provider === "fireworks" ? model.id : name,
    name,
    aliases: exact.filter((alias) => alias !== name),
    spellings: [model.id, ...matchLiterals(model.match, false)],
    title: model.name ?? model.id,
    kind: EMBEDDING.test(model.id) ? "embedding" : "chat",
    contextLength: model.context_window ?? null,
    offered: !(model.deprecated ?? false) && isOffered(provider, model.id),
    prices: steps.map(toDatedCard),
  };
  return [
    listed,
    ...exact
      .filter((alias) => SEPARATE_MODELS.has(alias) && alias !== name)
      .map((alias) => separateModel(listed, alias)),
  ];
}

function isOffered(provider: string, id: string): boolean {
  if (provider === "openrouter" && NON_TEXT_MODELS.test(id)) return false;
  return !UNSUPPORTED_ENDPOINT_MODELS.test(id);
}

function separateModel(listed: ListedPrice, name: string): ListedPrice {
  return {
    ...listed,
    slug: name,
    name,
    aliases: [],
    spellings: [],
    title: name,
    contextLength: null,
  };
}

// A price for something that no meter counts would be billed too low, so such a model is left out.
function isBillable(prices: ModelPrice): boolean {
  if (prices["input_mtok"] === undefined) return false;
  return Object.keys(prices).every(
    (key) =>
      key in TOKEN_KEYS ||
      key in THOUSAND_KEYS ||
      key === "input_audio_hours" ||
      IGNORED_KEYS.has(key),
  );
}

function toDatedCard({ prices, constraint }: ConditionalPrice): DatedCard {
  const card = toPriceCard(prices);
  if (constraint === undefined) return { card, fromMs: 0 };
  if (constraint.type === "start_date") return { card, fromMs: Date.parse(constraint.start_date) };
  return {
    ...datedCard({ tokens: {}, hours: { start: constraint.start_time, end: constraint.end_time } }),
    card,
  };
}

function toPriceCard(prices: ModelPrice): PriceCard {
  const starts = new Set<number>();
  for (const price of Object.values(prices)) {
    if (typeof price === "object") for (const { start } of price.tiers) starts.add(start);
  }
  const tiers: Tier[] = [...starts]
    .toSorted((left, right) => left - right)
    .map((start) => ({ aboveInputTokens: start, rates: ratesAt(prices, start + 1) }));
  return {
    base: ratesAt(prices, 0),
    tiers,
    serviceTiers: {},
    speeds: {},
    regions: {},
    oncePerCall: [],
    requestFees: {},
  };
}

function ratesAt(prices: ModelPrice, promptTokens: number): Rates {
  const rates: Partial<Record<Meter, bigint>> = {};
  for (const [key, price] of Object.entries(prices)) {
    const value = amountAt(price, promptTokens);
    const tokenMeter = TOKEN_KEYS[key];
    const feeMeter = THOUSAND_KEYS[key];
    if (tokenMeter !== undefined) rates[tokenMeter] = picoPerToken(value);
    else if (feeMeter !== undefined) rates[feeMeter] = picoPerUnit(value / 1000);
    else if (key === "input_audio_hours")
      rates.audio_second = picoPerUnit(value / SECONDS_PER_HOUR);
  }
  return rates;
}

function amountAt(price: ModelPrice[string], promptTokens: number): number {
  if (typeof price !== "object") return price ?? 0;
  let amount = price.base;
  for (const tier of price.tiers.toSorted((left, right) => left.start - right.start))
    if (promptTokens > tier.start) amount = tier.price;
  return amount;
}

// Exact literals are names; prefixes and parts of names are spellings. Regular expressions only match dated names, which
// catalog.ts resolves itself.
function matchLiterals(match: MatchLogic, exact: boolean): string[] {
  if ("or" in match) return match.or.flatMap((part) => matchLiterals(part, exact));
  if ("and" in match) return match.and.flatMap((part) => matchLiterals(part, exact));
  if ("equals" in match) return exact ? [match.equals] : [];
  if (exact) return [];
  if ("starts_with" in match) return [match.starts_with];
  if ("ends_with" in match) return [match.ends_with];
  return "contains" in match ? [match.contains] : [];
}

function nameOf(provider: string, id: string, exact: readonly string[]): string {
  if (provider === "fireworks") return exact[0] ?? id;
  if (provider === "bedrock") return id.replace(/^regional\./, "us.");
  if (provider === "zai") return id.toLowerCase();
  if (provider === "mistral")
    return /^(magistral|codestral)-?[a-z]*$/.test(id) ? `${id}-latest` : id;
  return NAME_CORRECTIONS[id] ?? id;
}
