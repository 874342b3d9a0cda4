// Converts the data of genai-prices, with its history, hours and tiers, to rows of our price table. Models that no wire can
// call or no meter can count are left out.

import { z } from "zod";
import { HOUR_MS, SECOND_MS } from "../../../src/base/time.ts";
import type { PriceRow } from "../../../src/models/list-prices.ts";
import type { Pricing } from "../../../src/models/price-card.ts";
import type { Meter } from "../../../src/models/price.ts";

const Amount = z.union([
  z.string(),
  z.object({
    base: z.string(),
    tiers: z.array(z.object({ start: z.number(), price: z.string() })),
  }),
]);
type Amount = z.infer<typeof Amount>;
const Prices = z.looseObject({ type: z.string() });
const Constraint = z
  .object({
    start_date: z.string().optional(),
    start_time: z.string().optional(),
    end_time: z.string().optional(),
  })
  .nullish();
const Step = z.looseObject({ prices: Prices, constraint: Constraint });
type Step = z.infer<typeof Step>;
const MatchRule: z.ZodType<Match> = z.lazy(() =>
  z.object({
    or_: z.array(MatchRule).optional(),
    and_: z.array(MatchRule).optional(),
    equals: z.string().optional(),
    starts_with: z.string().optional(),
    ends_with: z.string().optional(),
    contains: z.string().optional(),
  }),
);
interface Match {
  readonly or_?: readonly Match[] | undefined;
  readonly and_?: readonly Match[] | undefined;
  readonly equals?: string | undefined;
  readonly starts_with?: string | undefined;
  readonly ends_with?: string | undefined;
  readonly contains?: string | undefined;
}
const Model = z.looseObject({
  id: z.string(),
  match: MatchRule,
  name: z.string().optional(),
  context_window: z.number().optional(),
  deprecated: z.boolean().optional(),
  prices: z.union([z.array(Step), Prices]),
});
type Model = z.infer<typeof Model>;
const Providers = z.array(z.looseObject({ id: z.string(), models: z.array(Model) }));

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
const REQUEST_FEE_KEY = "requests_kcount";
/**
 * Fees of tools are in `src/models/tables/server-tool-prices.ts`. So far every provider counts cached images as cached text, and
 * citations as input.
 */
const IGNORED_KEYS = new Set([
  "type",
  "web_searches_kcount",
  "storage_searches_kcount",
  "cache_image_read_mtok",
  "output_citation_mtok",
  "audio_hours",
]);
const SECONDS_PER_HOUR = HOUR_MS / SECOND_MS;

/**
 * Models of endpoints that we do not have: images, speech, live sessions, moderation, documents, legacy completions. Their
 * price is needed if a tool runs one of them within a call.
 */
const UNSUPPORTED_ENDPOINT_MODELS =
  /(^|[/.-])(gpt-image|chatgpt-image|nano-banana|robotics-er-2-streaming|dall-e|whisper|tts|transcribe|realtime|live|moderation|ocr|sonic|imagen|veo)|^gpt-[\d.]+-image|-(tts|live|realtime|transcribe)(-|$)|^(ada|babbage|curie|davinci|text-(ada|babbage|curie|davinci)|computer-use)|gpt-3\.5-turbo-instruct|gpt-rosalind|grok-voice|native-audio|titan-text/;
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

/** Every price of the package that we can bill. */
export function genaiPriceRows(data: unknown): PriceRow[] {
  const tables = new Map(Providers.parse(data).map(({ id, models }) => [id, models]));
  return Object.entries(PROVIDER_TABLES).flatMap(([provider, names]) =>
    names
      .flatMap((name) => tables.get(name) ?? [])
      .filter((model) => isSoldBy(provider, model.id))
      .flatMap((model) => rowsOf(provider, model)),
  );
}

function isSoldBy(provider: string, name: string): boolean {
  if (provider === "openrouter") return name.includes("/") && !name.startsWith("~");
  // Names with a slash and the classifiers belong to other endpoints.
  if (provider === "perplexity") return !name.includes("/") && !name.startsWith("pplx-decider");
  if (provider === "google") return !name.startsWith("claude") && !name.endsWith("-maas");
  // Bedrock's embeddings use no wire of ours.
  if (provider === "bedrock") return !EMBEDDING.test(name);
  return true;
}

function rowsOf(provider: string, model: Model): PriceRow[] {
  const { prices } = model;
  const steps = Array.isArray(prices) ? prices : [Step.parse({ prices })];
  if (steps.length === 0 || !steps.every((step) => isBillable(step))) return [];
  const exact = matchLiterals(model.match, true);
  const name = nameOf(provider, model.id, exact);
  const isOffered = !(model.deprecated ?? false) && hasEndpoint(provider, model.id.toLowerCase());
  const shared = {
    ...(EMBEDDING.test(model.id) ? { kind: "embedding" as const } : {}),
    ...(isOffered ? {} : { offered: false as const }),
    pricing: steps.map((step) => pricingOf(step)),
    sources: ["genai-prices"],
  };
  const aliases = exact.filter((alias) => alias !== name);
  const spellings = [model.id, ...matchLiterals(model.match, false)].filter(
    (text) => text !== name,
  );
  return [
    {
      provider,
      name,
      ...(provider === "fireworks" && model.id !== name ? { slug: model.id } : {}),
      ...(aliases.length === 0 ? {} : { aliases }),
      ...(spellings.length === 0 ? {} : { spellings: [...new Set(spellings)] }),
      title: model.name ?? model.id,
      ...(model.context_window === undefined ? {} : { context: model.context_window }),
      ...shared,
    },
    ...aliases
      .filter((alias) => SEPARATE_MODELS.has(alias))
      .map((alias) => ({ provider, name: alias, ...shared })),
  ];
}

function hasEndpoint(provider: string, id: string): boolean {
  // Batches are another endpoint.
  if (provider === "openrouter" && (NON_TEXT_MODELS.test(id) || id.endsWith(":batch")))
    return false;
  return !UNSUPPORTED_ENDPOINT_MODELS.test(id);
}

// A price for something that no meter counts would be billed too low, so such a model is left out.
function isBillable({ prices }: Step): boolean {
  return (
    prices["input_mtok"] !== undefined &&
    Object.keys(prices).every(
      (key) =>
        key in TOKEN_KEYS ||
        key === REQUEST_FEE_KEY ||
        key === "input_audio_hours" ||
        IGNORED_KEYS.has(key),
    )
  );
}

function pricingOf({ prices, constraint }: Step): Pricing {
  const tokens: Record<string, string> = {};
  const fees: Record<string, string> = {};
  const tiers = new Map<number, Record<string, string>>();
  for (const [key, raw] of Object.entries(prices)) {
    if (IGNORED_KEYS.has(key)) continue;
    const amount = Amount.parse(raw);
    const meter = TOKEN_KEYS[key];
    if (key === REQUEST_FEE_KEY) fees["request"] = decimal(baseOf(amount) / 1000);
    else if (meter === undefined) fees["audio_second"] = decimal(baseOf(amount) / SECONDS_PER_HOUR);
    else {
      tokens[meter] = plain(typeof amount === "string" ? amount : amount.base);
      for (const { start, price } of typeof amount === "string" ? [] : amount.tiers)
        tiers.set(start, { ...tiers.get(start), [meter]: plain(price) });
    }
  }
  return {
    tokens,
    ...(Object.keys(fees).length === 0 ? {} : { fees }),
    ...(tiers.size === 0 ? {} : { tiers: tierList(tiers) }),
    ...(constraint?.start_date === undefined ? {} : { from: constraint.start_date }),
    ...(constraint?.start_time === undefined || constraint.end_time === undefined
      ? {}
      : { hours: { start: constraint.start_time, end: constraint.end_time } }),
  };
}

// A tier lists only meters that it changes, so each higher tier starts from the one below.
function tierList(tiers: ReadonlyMap<number, Record<string, string>>): Pricing["tiers"] {
  let tokens: Record<string, string> = {};
  return [...tiers]
    .toSorted(([left], [right]) => left - right)
    .map(([start, changed]) => {
      tokens = { ...tokens, ...changed };
      return { above_input_tokens: start, tokens };
    });
}

function baseOf(amount: Amount): number {
  return Number(typeof amount === "string" ? amount : amount.base);
}

/** A decimal without an exponent or rounding noise. */
export function decimal(value: number): string {
  return plain(Number(value.toPrecision(12)).toFixed(12));
}

function plain(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

// Exact literals are names; prefixes and parts of names are spellings. Regular expressions only match dated names, which
// catalog.ts resolves itself.
function matchLiterals(match: Match, exact: boolean): string[] {
  const parts = match.or_ ?? match.and_;
  if (parts !== undefined) return parts.flatMap((part) => matchLiterals(part, exact));
  if (match.equals !== undefined) return exact ? [match.equals] : [];
  if (exact) return [];
  return [match.starts_with, match.ends_with, match.contains].filter((text) => text !== undefined);
}

function nameOf(provider: string, id: string, exact: readonly string[]): string {
  if (provider === "fireworks") return exact[0] ?? id;
  if (provider === "bedrock") return id.replace(/^regional\./, "us.");
  if (provider === "zai") return id.toLowerCase();
  if (provider === "mistral")
    return /^(magistral|codestral)-?[a-z]*$/.test(id) ? `${id}-latest` : id;
  return NAME_CORRECTIONS[id] ?? id;
}
