import {
  type Ability,
  factRules,
  type Modality,
  priceRules,
  type SupplementalModel,
} from "../model-facts.ts";

const PRICING_URL = "https://developers.openai.com/api/docs/pricing";
const PRIORITY_URL = "https://openai.com/api-priority-processing/";
const MODELS_URL = "https://developers.openai.com/api/docs/models";
const CHECKED_ON = "2026-11-21";
const OPENAI = ["openai", "azure"];

const TEXT_IMAGE: readonly Modality[] = ["text", "image"];
const TEXT_IMAGE_FILE: readonly Modality[] = ["text", "image", "file"];
const BASE_ABILITIES: readonly Ability[] = [
  "tools",
  "parallel_tools",
  "structured_output",
  "prompt_caching",
];
const REASONING_ABILITIES: readonly Ability[] = [...BASE_ABILITIES, "reasoning"];

export const OPENAI_FACTS = factRules({ providers: OPENAI, source: MODELS_URL, checked: null }, [
  { match: /./, wires: ["chat", "responses"] },
  { match: /embedding|^ada$/, context: 8192, wires: ["embeddings"] },
  {
    match: /^gpt-3\.5-turbo/,
    context: 16_385,
    maxOutput: 4096,
    supported: ["tools", "parallel_tools"],
  },
  { match: /^gpt-4$/, context: 8192, maxOutput: 8192, supported: ["tools", "parallel_tools"] },
  {
    match: /^gpt-4-turbo/,
    context: 128_000,
    maxOutput: 4096,
    input: TEXT_IMAGE,
    supported: ["tools", "parallel_tools"],
  },
  {
    match: /^(gpt|chatgpt)-4o/,
    context: 128_000,
    maxOutput: 16_384,
    input: TEXT_IMAGE_FILE,
    supported: BASE_ABILITIES,
  },
  { match: /^gpt-4o-2024-05-13/, maxOutput: 4096, supported: ["tools", "parallel_tools"] },
  {
    match: /^gpt-4o(-mini)?-search/,
    input: ["text"],
    supported: ["structured_output", "web_search"],
    wires: ["chat"],
  },
  {
    match: /^gpt-(4o(-mini)?-)?audio/,
    context: 128_000,
    maxOutput: 16_384,
    input: ["text", "audio"],
    output: ["text", "audio"],
    supported: ["tools"],
    wires: ["chat"],
  },
  {
    match: /^gpt-4\.1/,
    context: 1_047_576,
    maxOutput: 32_768,
    input: TEXT_IMAGE_FILE,
    supported: BASE_ABILITIES,
  },
  {
    match: /^(o1|o3|o4)/,
    context: 200_000,
    maxOutput: 100_000,
    input: TEXT_IMAGE_FILE,
    supported: REASONING_ABILITIES,
  },
  { match: /^o3-mini/, input: ["text"] },
  {
    match: /^gpt-5/,
    context: 400_000,
    maxOutput: 128_000,
    input: TEXT_IMAGE_FILE,
    supported: REASONING_ABILITIES,
    checked: CHECKED_ON,
  },
  { match: /^gpt-5-pro/, maxOutput: 272_000 },
  {
    match: /^gpt-5.*-chat-latest$/,
    context: 128_000,
    maxOutput: 16_384,
    supported: BASE_ABILITIES,
  },
  {
    match: /^gpt-(5\.4|5\.5)(-pro)?$|^gpt-5\.6|^gpt-6/,
    context: 1_050_000,
    maxOutput: 128_000,
    input: TEXT_IMAGE_FILE,
    supported: REASONING_ABILITIES,
    checked: CHECKED_ON,
  },
  ...(
    [
      [/^gpt-6-astra$/, "2026-09-03"],
      [/^gpt-6-(sol|luna)$/, "2026-09-22"],
      [/^gpt-6\.1-sol$/, "2026-09-29"],
      [/^gpt-6\.1-terra$/, "2026-10-26"],
    ] as const
  ).map(([match, released]) => ({
    providers: OPENAI,
    match,
    released,
    source: MODELS_URL,
    checked: CHECKED_ON,
  })),
  { match: /-pro$|deep-research|codex/, wires: ["responses"] },
  {
    match: /^gpt-chat-latest$/,
    context: 400_000,
    maxOutput: 128_000,
    input: TEXT_IMAGE_FILE,
    supported: BASE_ABILITIES,
  },
]);

const LITELLM_URL =
  "https://github.com/BerriAI/litellm/blob/main/model_prices_and_context_window.json";

export const OPENAI_PRICE_RULES = priceRules(
  { providers: OPENAI, source: PRIORITY_URL, checked: null },
  [
    { match: /./, serviceTiers: { batch: "0.5" }, source: PRICING_URL },
    {
      providers: ["openai"],
      match: /^(o3$|o4-mini$|gpt-5|gpt-6)/,
      serviceTiers: { flex: "0.5" },
      source: PRICING_URL,
      checked: CHECKED_ON,
    },
    {
      providers: ["azure"],
      match: /^gpt-(5\.4(-mini|-nano|-pro)?$|5\.6-|6-|6\.1-sol)/,
      serviceTiers: { flex: "0.5" },
      source: LITELLM_URL,
      checked: "2026-11-28",
    },
    {
      match: /^gpt-4o-audio/,
      tokens: { input_audio: "40", output_audio: "80" },
      source: `${MODELS_URL}/gpt-4o-audio-preview`,
      checked: "2026-11-22",
    },
    {
      match: /^gpt-4o-mini-audio/,
      tokens: { input_audio: "10", output_audio: "20" },
      source: `${MODELS_URL}/gpt-4o-mini-audio-preview`,
    },
    { match: /^gpt-4o$/, serviceTiers: { priority: "1.7" } },
    { match: /^gpt-4o-mini$/, serviceTiers: { priority: "5/3" } },
    { match: /^gpt-4o-2024-05-13$|^gpt-4\.1(-mini)?$|^o3$/, serviceTiers: { priority: "1.75" } },
    { match: /^o4-mini$/, serviceTiers: { priority: "20/11" } },
    { match: /^gpt-5-mini$/, serviceTiers: { priority: "1.8" }, checked: CHECKED_ON },
    {
      match: /^gpt-4\.1-nano$|^gpt-5$|^gpt-5\.[12]$|^gpt-5\.3-codex$|^gpt-5\.4(-mini)?$/,
      serviceTiers: { priority: "2" },
      checked: CHECKED_ON,
    },
    { match: /^gpt-5\.5$/, serviceTiers: { priority: "2.5" }, checked: CHECKED_ON },
    {
      match: /^gpt-5\.6|^gpt-6/,
      serviceTiers: { priority: "2", fast: "2" },
      cacheWrite5m: "1.25",
      source: PRICING_URL,
      checked: CHECKED_ON,
    },
    // Kept for 12 hours instead of 30 minutes.
    {
      providers: ["openai"],
      match: /^gpt-5\.6|^gpt-6/,
      cacheWrite1h: "2.5",
      source: `${MODELS_URL}/gpt-6.1-terra`,
      checked: "2026-11-23",
    },
  ],
);

function longContextModel(
  provider: string,
  name: string,
  title: string,
  prices: readonly [string, string, string, string],
): SupplementalModel {
  const [input, cacheRead, cacheWrite, output] = prices;
  const twice = (price: string): number => Number(price) * 2;
  return {
    provider,
    name,
    title,
    released: "2026-11-17",
    source: `${MODELS_URL}/${name}`,
    checked: CHECKED_ON,
    pricing: [
      {
        tokens: { input, cache_read: cacheRead, cache_write_5m: cacheWrite, output },
        // Above 272K input tokens the whole call costs 2 times the input and 1.5 times the output price.
        tiers: [
          {
            above_input_tokens: 272_000,
            tokens: {
              input: twice(input),
              cache_read: twice(cacheRead),
              cache_write_5m: twice(cacheWrite),
              output: Number(output) * 1.5,
            },
          },
        ],
      },
    ],
  };
}

/** Azure sells OpenAI's models at OpenAI's prices. */
export const OPENAI_MODELS: readonly SupplementalModel[] = OPENAI.flatMap((provider) => [
  longContextModel(provider, "gpt-6.2-sol", "GPT-6.2 Sol", ["2", "0.1", "2.5", "10"]),
  longContextModel(provider, "gpt-6.2-astra", "GPT-6.2 Astra", ["8", "0.4", "10", "40"]),
]);
