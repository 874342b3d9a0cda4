// Models of endpoints without a conversation: images, rerank and moderation. The price lists have some of them, without an
// endpoint.

import type { FactRule, SupplementalModel } from "../model-facts.ts";
import type { TokenPrices } from "../price-card.ts";

const CHECKED_ON = "2026-11-28";
const OPENAI_PRICING = "https://developers.openai.com/api/docs/pricing";
const OPENAI_MODERATION = "https://developers.openai.com/api/docs/guides/moderation";
const COHERE_PRICING = "https://cohere.com/pricing";
const JINA_PRICING = "https://jina.ai/reranker/";
const VOYAGE_PRICING = "https://docs.voyageai.com/docs/pricing";

function facts(provider: string, match: RegExp, known: Partial<FactRule>): FactRule {
  return {
    providers: [provider],
    match,
    supported: [],
    source: `the API reference of ${provider}`,
    checked: CHECKED_ON,
    ...known,
  };
}

export const RELAYED_FACTS: readonly FactRule[] = [
  ...["openai", "azure"].map((provider) =>
    facts(provider, /^(gpt|chatgpt)-image-/, {
      input: ["text", "image"],
      output: ["image"],
      wires: ["images"],
      // A prompt has at most 32,000 characters.
      context: 64_000,
    }),
  ),
  facts("openai", /^omni-moderation/, {
    input: ["text", "image"],
    wires: ["moderations"],
    context: 32_768,
  }),
  facts("cohere", /^rerank-/, { wires: ["rerank"], context: 32_000 }),
  facts("jina", /^jina-reranker-/, { wires: ["rerank"], context: 10_240 }),
  facts("voyage", /^rerank-/, { wires: ["rerank"], context: 32_000 }),
];

type Own = Omit<SupplementalModel, "checked" | "pricing">;

function perToken(model: Own, tokens: TokenPrices): SupplementalModel {
  return { ...model, pricing: [{ tokens }], checked: CHECKED_ON };
}

function perSearch(name: string, title: string, usd: string): SupplementalModel {
  return {
    provider: "cohere",
    name,
    title,
    kind: "rerank",
    pricing: [{ tokens: { input: "0", output: "0" }, fees: { search_unit: usd } }],
    source: COHERE_PRICING,
    checked: CHECKED_ON,
  };
}

const GPT_IMAGE_2: TokenPrices = {
  input: "5",
  cache_read: "1.25",
  input_image: "8",
  output: "30",
  output_image: "30",
};

const OPENAI_IMAGE_MODELS: readonly (readonly [
  name: string,
  title: string,
  tokens: TokenPrices,
  snapshot?: string,
])[] = [
  ["gpt-image-2.5-sunburst", "GPT Image 2.5 Sunburst", GPT_IMAGE_2, "2026-09-08"],
  ["gpt-image-2.5-flare", "GPT Image 2.5 Flare", GPT_IMAGE_2, "2026-09-08"],
  ["gpt-image-2", "GPT Image 2", GPT_IMAGE_2, "2026-04-21"],
  [
    "gpt-image-1.5",
    "GPT Image 1.5",
    { ...GPT_IMAGE_2, output: "10", output_image: "32" },
    "2025-12-16",
  ],
  [
    "gpt-image-1",
    "GPT Image 1",
    { ...GPT_IMAGE_2, input_image: "10", output: "40", output_image: "40" },
  ],
  [
    "gpt-image-1-mini",
    "GPT Image 1 Mini",
    { input: "2", cache_read: "0.2", input_image: "2.5", output: "8", output_image: "8" },
  ],
];

export const RELAYED_MODELS: readonly SupplementalModel[] = [
  ...["openai", "azure"].flatMap((provider) =>
    OPENAI_IMAGE_MODELS.map(([name, title, tokens, snapshot]) =>
      perToken(
        {
          provider,
          name,
          title,
          kind: "image",
          aliases: snapshot === undefined ? [] : [`${name}-${snapshot}`],
          source: OPENAI_PRICING,
        },
        tokens,
      ),
    ),
  ),
  perToken(
    {
      provider: "openai",
      name: "omni-moderation-latest",
      title: "Omni Moderation",
      kind: "moderation",
      aliases: ["omni-moderation-2024-09-26"],
      source: OPENAI_MODERATION,
    },
    { input: "0", output: "0" },
  ),
  perSearch("rerank-v4.0-pro", "Rerank 4 Pro", "0.0025"),
  perSearch("rerank-v4.0-fast", "Rerank 4 Fast", "0.002"),
  perToken(
    {
      provider: "jina",
      name: "jina-reranker-m0",
      title: "Jina Reranker m0",
      kind: "rerank",
      source: JINA_PRICING,
    },
    { input: "0.05", output: "0" },
  ),
  perToken(
    {
      provider: "voyage",
      name: "rerank-2.5",
      title: "Voyage Rerank 2.5",
      kind: "rerank",
      source: VOYAGE_PRICING,
    },
    { input: "0.05", output: "0" },
  ),
  perToken(
    {
      provider: "voyage",
      name: "rerank-2.5-lite",
      title: "Voyage Rerank 2.5 Lite",
      kind: "rerank",
      source: VOYAGE_PRICING,
    },
    { input: "0.02", output: "0" },
  ),
];
