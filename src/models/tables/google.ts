import {
  type Ability,
  factRules,
  type Modality,
  type PriceRule,
  type SupplementalModel,
} from "../model-facts.ts";
import type { Pricing } from "../price-card.ts";

const PRICING_URL = "https://ai.google.dev/gemini-api/docs/pricing";
const MODELS_URL = "https://ai.google.dev/gemini-api/docs/models";
const CHECKED_ON = "2026-11-21";
const GOOGLE_HOSTS = ["google", "vertex"];

const ALL_MODALITIES: readonly Modality[] = ["text", "image", "audio", "video", "file"];
const BASE_ABILITIES: readonly Ability[] = ["tools", "parallel_tools", "structured_output"];
const REASONING_ABILITIES: readonly Ability[] = [
  ...BASE_ABILITIES,
  "reasoning",
  "prompt_caching",
  "web_search",
];

export const GOOGLE_FACTS = factRules(
  { providers: GOOGLE_HOSTS, source: MODELS_URL, checked: CHECKED_ON },
  [
    { providers: ["google"], match: /./, wires: ["gemini", "chat"] },
    { providers: ["vertex"], match: /gemini|gemma/, wires: ["gemini"] },
    { match: /embedding/, context: 2048, wires: ["embeddings"], checked: null },
    { match: /^gemini-embedding-2/, context: 8192, checked: "2026-11-28" },
    {
      match: /^gemini-2\.0-flash/,
      context: 1_048_576,
      maxOutput: 8192,
      input: ALL_MODALITIES,
      supported: BASE_ABILITIES,
      checked: null,
    },
    {
      match: /^gemini-(2\.5|3|4)(?!.*image)/,
      context: 1_048_576,
      maxOutput: 65_536,
      input: ALL_MODALITIES,
      supported: REASONING_ABILITIES,
    },
    {
      match: /^gemini-((2\.5-flash|3.*)-image|nano-banana)/,
      input: ["text", "image"],
      output: ["text", "image"],
      supported: [],
      // Google's OpenAI-compatible API does not report which tokens were images.
      wires: ["gemini", "images", "image_edits"],
      checked: null,
    },
  ],
);

export const GOOGLE_PRICE_RULES: readonly PriceRule[] = [
  {
    providers: GOOGLE_HOSTS,
    match: /^gemini/,
    serviceTiers: { batch: "0.5", flex: "0.5" },
    // "Cached tokens are priced the same as for non-batch API traffic": ai.google.dev/gemini-api/docs/batch-api, read 2026-11-29.
    notCheaperInBatches: ["cache_read", "cache_read_audio"],
    // Tools of other APIs, which the translation refuses, or drops if the caller allows it.
    fees: { code_execution: "0", web_fetch: "0", web_search: "0.035" },
    source: PRICING_URL,
    checked: null,
  },
  {
    providers: GOOGLE_HOSTS,
    match: /^gemini-(3\.[78]|4)/,
    serviceTiers: { priority: "1.8" },
    source: PRICING_URL,
    checked: "2026-11-23",
  },
];

function gemini4(provider: string, metal: string, pricing: readonly Pricing[]): SupplementalModel {
  return {
    provider,
    name: `gemini-4-${metal.toLowerCase()}`,
    title: `Gemini 4 ${metal}`,
    source: PRICING_URL,
    checked: "2026-11-28",
    pricing,
  };
}

/** Newer than the published lists, or in one of them only. */
const GEMINI_4: readonly SupplementalModel[] = GOOGLE_HOSTS.flatMap((provider) => [
  gemini4(provider, "Carbon", [
    { tokens: { input: "2", cache_read: "0.1", output: "10" } },
    { tokens: { input: "4", cache_read: "0.2", output: "20" }, from: "2026-12-01" },
  ]),
  gemini4(provider, "Hydrogen", [{ tokens: { input: "1.5", cache_read: "0.075", output: "7.5" } }]),
  gemini4(provider, "Neon", [{ tokens: { input: "3", cache_read: "0.15", output: "15" } }]),
]);

/** Under their names since June 2026; the published lists have those of the previews. */
const IMAGE_MODELS: readonly SupplementalModel[] = GOOGLE_HOSTS.flatMap((provider) =>
  (
    [
      ["gemini-3-pro-image", "Gemini 3 Pro Image", "2", "12", "120"],
      ["gemini-3.1-flash-image", "Gemini 3.1 Flash Image", "0.5", "3", "60"],
    ] as const
  ).map(([name, title, input, output, image]) => ({
    provider,
    name,
    title,
    source: PRICING_URL,
    checked: "2026-11-29",
    pricing: [{ tokens: { input, output, output_image: image } }],
  })),
);

export const GOOGLE_MODELS: readonly SupplementalModel[] = [
  ...GEMINI_4,
  ...IMAGE_MODELS,
  {
    provider: "google",
    name: "gemini-embedding-2",
    title: "Gemini Embedding 2",
    kind: "embedding",
    source: PRICING_URL,
    checked: "2026-11-28",
    pricing: [{ tokens: { input: "0.2", output: "0" } }],
  },
];
