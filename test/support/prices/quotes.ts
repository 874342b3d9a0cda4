// Reads the price lists that genai-prices is compared to. A quote is a list's price of a model today, in US dollars per
// million tokens.

import { z } from "zod";
import type { PriceSources, SourceName } from "./sources.ts";

export interface Quote {
  readonly source: SourceName;
  /** Meter → price. Above a prompt length: `input>272000`. */
  readonly rates: Readonly<Record<string, number>>;
  readonly title?: string | undefined;
  readonly context?: number | undefined;
  readonly isEmbedding?: boolean | undefined;
  /** False if the list has prices of this model that no meter counts, or has announced its end. */
  readonly isComplete: boolean;
}

/** `<provider>/<name>` in lower case → the quotes of the other lists. */
export type Quotes = ReadonlyMap<string, readonly Quote[]>;

const PER_MILLION = 1_000_000;

export function quotesOf(sources: PriceSources, today: string): Quotes {
  const quotes = new Map<string, Quote[]>();
  const add = (provider: string, name: string, quote: Quote): void => {
    const key = `${provider}/${name}`.toLowerCase();
    const known = quotes.get(key) ?? [];
    if (!known.some(({ source }) => source === quote.source)) quotes.set(key, [...known, quote]);
  };
  for (const [key, entry] of Object.entries(LiteLlm.parse(sources.liteLlm)))
    for (const [provider, name] of liteLlmNames(key, entry))
      add(provider, name, liteLlmQuote(entry, today));
  for (const [provider, file] of Object.entries(PI_AI_FILES))
    for (const model of Object.values(PiAi.parse(sources.piAi[file] ?? {})).flatMap(Object.values))
      if (model.type === "chat") add(provider, model.id, piAiQuote(model));
  for (const [provider, file] of Object.entries(TOKENLENS_FILES))
    for (const model of Object.values(Tokenlens.parse(sources.tokenlens[file]).models))
      if (model.cost !== undefined) add(provider, model.id, tokenlensQuote(model.cost));
  return quotes;
}

/** LiteLLM's entries under our names. */
export function liteLlmModels(sources: PriceSources): readonly {
  readonly provider: string;
  readonly name: string;
  readonly entry: LiteLlmEntry;
}[] {
  return Object.entries(LiteLlm.parse(sources.liteLlm)).flatMap(([key, entry]) =>
    liteLlmNames(key, entry).map(([provider, name]) => ({ provider, name, entry })),
  );
}

const LiteLlmEntry = z.looseObject({
  litellm_provider: z.string().optional(),
  mode: z.string().optional(),
  deprecation_date: z.string().optional(),
  max_input_tokens: z.union([z.number(), z.string()]).optional(),
});
type LiteLlmEntry = z.infer<typeof LiteLlmEntry>;
const LiteLlm = z.record(z.string(), LiteLlmEntry);

/** LiteLLM's provider → ours, and the prefix of its keys. */
const LITELLM_PROVIDERS: Readonly<Record<string, readonly [string, string]>> = {
  openai: ["openai", ""],
  anthropic: ["anthropic", ""],
  mistral: ["mistral", "mistral/"],
  groq: ["groq", "groq/"],
  xai: ["xai", "xai/"],
  deepseek: ["deepseek", "deepseek/"],
  together_ai: ["together", "together_ai/"],
  fireworks_ai: ["fireworks", "fireworks_ai/"],
  cerebras: ["cerebras", "cerebras/"],
  openrouter: ["openrouter", "openrouter/"],
  perplexity: ["perplexity", "perplexity/"],
  moonshot: ["moonshot", "moonshot/"],
  zai: ["zai", "zai/"],
  gemini: ["google", "gemini/"],
  vertex_ai: ["vertex", "vertex_ai/"],
  "vertex_ai-language-models": ["vertex", ""],
  "vertex_ai-anthropic_models": ["vertex", "vertex_ai/"],
  azure: ["azure", "azure/"],
  bedrock_converse: ["bedrock", ""],
  bedrock: ["bedrock", ""],
};

function liteLlmNames(key: string, entry: LiteLlmEntry): (readonly [string, string])[] {
  const found = LITELLM_PROVIDERS[entry.litellm_provider ?? ""];
  if (found === undefined || !["chat", "responses", "embedding"].includes(entry.mode ?? ""))
    return [];
  const [provider, prefix] = found;
  if (!key.startsWith(prefix)) return provider === "deepseek" ? [[provider, key]] : [];
  const name = key.slice(prefix.length);
  return [[provider, name]];
}

const LITELLM_METERS: readonly (readonly [string, string])[] = [
  ["input_cost_per_token", "input"],
  ["output_cost_per_token", "output"],
  ["cache_read_input_token_cost", "cache_read"],
  ["cache_creation_input_token_cost", "cache_write_5m"],
  ["cache_creation_input_token_cost_above_1hr", "cache_write_1h"],
  ["input_cost_per_audio_token", "input_audio"],
  ["output_cost_per_audio_token", "output_audio"],
  ["output_cost_per_reasoning_token", "reasoning"],
];
/** Prices of other services, and of tiers that our own rules state. */
const LITELLM_IGNORED =
  /batches|flex|priority|ultrafast|balanced|search_context|grounding|above_\d+k_tokens|above_12hr|audio|image|video|multiplier|uplift|cache_hit|code_interpreter|character/;

function liteLlmQuote(entry: LiteLlmEntry, today: string): Quote {
  const rates: Record<string, number> = {};
  for (const [key, meter] of LITELLM_METERS) {
    const base = entry[key];
    // A cache write at 0 means that it is not charged beyond the input.
    if (typeof base !== "number" || (base === 0 && meter.startsWith("cache_"))) continue;
    rates[meter] = base * PER_MILLION;
    for (const [tierKey, price] of Object.entries(entry)) {
      const above = new RegExp(`^${key}_above_(\\d+)k_tokens$`).exec(tierKey)?.[1];
      if (above !== undefined && typeof price === "number")
        rates[`${meter}>${above}000`] = price * PER_MILLION;
    }
  }
  // A reasoning price equal to the output price is no price of its own.
  if (rates["reasoning"] === rates["output"]) delete rates["reasoning"];
  const isKnown = (key: string): boolean =>
    LITELLM_METERS.some(([known]) => known === key) || LITELLM_IGNORED.test(key);
  const input = Number(entry.max_input_tokens);
  return {
    source: "litellm",
    rates,
    context: Number.isInteger(input) && input > 0 ? input : undefined,
    isEmbedding: entry.mode === "embedding",
    isComplete:
      (entry.deprecation_date ?? "9999") > today &&
      Object.keys(entry).every((key) => !key.includes("cost") || isKnown(key)),
  };
}

export const PI_AI_FILES: Readonly<Record<string, string>> = {
  openai: "openai",
  anthropic: "anthropic",
  mistral: "mistral",
  groq: "groq",
  xai: "xai",
  deepseek: "deepseek",
  together: "together",
  fireworks: "fireworks",
  cerebras: "cerebras",
  openrouter: "openrouter",
  moonshot: "moonshotai",
  zai: "zai",
  google: "google",
  vertex: "google-vertex",
  bedrock: "amazon-bedrock",
};
const PiAiCost = z.object({
  input: z.number(),
  output: z.number(),
  cacheRead: z.number(),
  cacheWrite: z.number(),
});
const PiAiModel = z.looseObject({
  id: z.string(),
  name: z.string(),
  type: z.string(),
  contextWindow: z.number().optional(),
  cost: PiAiCost.extend({
    tiers: z.array(PiAiCost.extend({ inputTokensAbove: z.number() })).optional(),
  }),
});
const PiAi = z.record(z.string(), z.record(z.string(), PiAiModel));

function piAiQuote(model: z.infer<typeof PiAiModel>): Quote {
  const rates = piAiRates(model.cost, "");
  for (const tier of model.cost.tiers ?? [])
    Object.assign(rates, piAiRates(tier, `>${tier.inputTokensAbove}`));
  return {
    source: "pi-ai",
    rates,
    title: model.name,
    context: model.contextWindow,
    isComplete: true,
  };
}

// It writes 0 for prices that it does not know.
function piAiRates(cost: z.infer<typeof PiAiCost>, suffix: string): Record<string, number> {
  const named = {
    input: cost.input,
    output: cost.output,
    cache_read: cost.cacheRead,
    cache_write_5m: cost.cacheWrite,
  };
  return Object.fromEntries(
    Object.entries(named)
      .filter(([, price]) => price > 0)
      .map(([meter, price]) => [`${meter}${suffix}`, price]),
  );
}

export const TOKENLENS_FILES: Readonly<Record<string, string>> = {
  openai: "openai",
  anthropic: "anthropic",
  mistral: "mistral",
  groq: "groq",
  xai: "xai",
  together: "togetherai",
  fireworks: "fireworks-ai",
  cerebras: "cerebras",
  openrouter: "openrouter",
  perplexity: "perplexity",
  moonshot: "moonshotai",
  zai: "zai",
  google: "google",
  bedrock: "amazon-bedrock",
};
const TokenlensCost = z.looseObject({
  input: z.number(),
  output: z.number(),
  cache_read: z.number().optional(),
  cache_write: z.number().optional(),
});
const Tokenlens = z.looseObject({
  models: z.record(z.string(), z.looseObject({ id: z.string(), cost: TokenlensCost.optional() })),
});

function tokenlensQuote(cost: z.infer<typeof TokenlensCost>): Quote {
  const { input, output, cache_read, cache_write } = cost;
  return {
    source: "tokenlens",
    rates: {
      input,
      output,
      ...(cache_read === undefined ? {} : { cache_read }),
      ...(cache_write === undefined ? {} : { cache_write_5m: cache_write }),
    },
    isComplete: false,
  };
}
