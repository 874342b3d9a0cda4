// Models of endpoints without a conversation: images, audio, rerank and moderation. The price lists have some of them, without an
// endpoint.

import type { FactRule, SupplementalModel } from "../model-facts.ts";
import type { TokenPrices } from "../price-card.ts";

const CHECKED_ON = "2026-11-28";
const OPENAI_PRICING = "https://developers.openai.com/api/docs/pricing";
const OPENAI_MODERATION = "https://developers.openai.com/api/docs/guides/moderation";
const OPENAI_MODELS = "https://developers.openai.com/api/docs/models";
/** OpenAI's own page of the model states one price for audio and text, which is lower. */
const LISTED_AUDIO = "genai-prices 0.2.3";
/** The providers' own price pages could not be read on that day, so these are the pages that were. */
const COHERE_PRICING = "https://developer.puter.com/tutorials/cohere-api-pricing/ (June 2026)";
const COSTS = "https://www.getmaxim.ai/bifrost/llm-cost-calculator/provider";
const VERCEL_MODELS = "https://vercel.com/ai-gateway/models";

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

const WHISPER: Partial<FactRule> = { input: ["audio", "text"], context: 65_536 };

export const RELAYED_FACTS: readonly FactRule[] = [
  ...["openai", "azure"].map((provider) =>
    facts(provider, /^(gpt|chatgpt)-image-/, {
      input: ["text", "image"],
      output: ["image"],
      wires: ["images", "image_edits"],
      // A prompt has at most 32,000 characters.
      context: 64_000,
    }),
  ),
  facts("openai", /^omni-moderation/, {
    input: ["text", "image"],
    wires: ["moderations"],
    context: 32_768,
  }),
  ...["openai", "azure"].flatMap((provider) => [
    facts(provider, /^(tts-1|gpt-4o-mini-tts)/, {
      input: ["text"],
      output: ["audio"],
      wires: ["speech"],
      context: 4_096,
    }),
    facts(provider, /^gpt-4o(-mini)?-transcribe/, {
      input: ["audio", "text"],
      wires: ["transcriptions"],
      context: 16_000,
    }),
    facts(provider, /^whisper/, { ...WHISPER, wires: ["transcriptions", "translations"] }),
  ]),
  facts("groq", /^whisper-large-v3$/, { ...WHISPER, wires: ["transcriptions", "translations"] }),
  facts("groq", /^whisper-large-v3-turbo$/, { ...WHISPER, wires: ["transcriptions"] }),
  facts("mistral", /^voxtral-(small|mini)-transcribe/, { ...WHISPER, wires: ["transcriptions"] }),
  facts("openai", /^gpt-6-luna-decisions/, {
    input: ["text", "image"],
    wires: ["decisions"],
    context: 1_050_000,
  }),
  facts("xai", /^grok-imagine-image$/, {
    output: ["image"],
    wires: ["images"],
    context: 32_000,
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

function perUnit(model: Own, fee: "audio_second" | "character", usd: string): SupplementalModel {
  const pricing = [{ tokens: { input: "0", output: "0" }, fees: { [fee]: usd } }];
  return { ...model, pricing, checked: CHECKED_ON };
}

const AUDIO_MODELS: readonly SupplementalModel[] = [
  ...["openai", "azure"].flatMap((provider) => [
    perToken(
      {
        provider,
        name: "gpt-4o-transcribe",
        title: "GPT-4o Transcribe",
        kind: "transcription",
        aliases: ["gpt-4o-transcribe-diarize"],
        source: LISTED_AUDIO,
      },
      { input: "2.5", input_audio: "6", output: "10" },
    ),
    perToken(
      {
        provider,
        name: "gpt-4o-mini-transcribe",
        title: "GPT-4o Mini Transcribe",
        kind: "transcription",
        aliases: ["gpt-4o-mini-transcribe-2025-12-15"],
        source: LISTED_AUDIO,
      },
      { input: "1.25", input_audio: "3", output: "5" },
    ),
    perToken(
      {
        provider,
        name: "gpt-4o-mini-tts",
        title: "GPT-4o Mini TTS",
        kind: "speech",
        aliases: ["gpt-4o-mini-tts-2025-12-15", "gpt-4o-mini-tts-2025-03-20"],
        source: `${OPENAI_MODELS}/gpt-4o-mini-tts`,
      },
      { input: "0.6", output: "12", output_audio: "12" },
    ),
  ]),
  perUnit(
    {
      provider: "openai",
      name: "whisper-1",
      title: "Whisper",
      kind: "transcription",
      source: "https://openrouter.ai/openai/whisper-1",
    },
    "audio_second",
    "0.0001",
  ),
  perUnit(
    {
      provider: "openai",
      name: "tts-1",
      title: "TTS-1",
      kind: "speech",
      source: `${OPENAI_MODELS}/tts-1`,
    },
    "character",
    "0.000015",
  ),
  perUnit(
    {
      provider: "openai",
      name: "tts-1-hd",
      title: "TTS-1 HD",
      kind: "speech",
      source: `${OPENAI_MODELS}/tts-1`,
    },
    "character",
    "0.00003",
  ),
  perUnit(
    {
      provider: "groq",
      name: "whisper-large-v3",
      title: "Whisper Large V3",
      kind: "transcription",
      source: "https://console.groq.com/docs/speech-text",
    },
    "audio_second",
    "0.000030833334",
  ),
  perUnit(
    {
      provider: "groq",
      name: "whisper-large-v3-turbo",
      title: "Whisper Large V3 Turbo",
      kind: "transcription",
      source: "https://console.groq.com/docs/model/whisper-large-v3-turbo",
    },
    "audio_second",
    "0.000011111112",
  ),
  perUnit(
    {
      provider: "mistral",
      name: "voxtral-small-transcribe-3-0",
      title: "Voxtral Small Transcribe 3",
      kind: "transcription",
      source: "https://vercel.com/ai-gateway/models/voxtral-small-transcribe-3.md",
    },
    "audio_second",
    "0.00006667",
  ),
  perUnit(
    {
      provider: "mistral",
      name: "voxtral-mini-transcribe-3-0",
      title: "Voxtral Mini Transcribe 3",
      kind: "transcription",
      source: "https://vercel.com/ai-gateway/models/voxtral-mini-transcribe-3.md",
    },
    "audio_second",
    "0.00005834",
  ),
];

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
  ...AUDIO_MODELS,
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
      provider: "openai",
      name: "gpt-6-luna-decisions",
      title: "GPT-6 Luna Decisions",
      kind: "decision",
      source: `${VERCEL_MODELS}/openai/gpt-6-luna-decisions.md`,
    },
    { input: "0.1", output: "0" },
  ),
  ...(
    [
      [
        "cohere",
        "rerank-v5.0-pro",
        "Rerank 5 Pro",
        "0.05",
        `${COSTS}/cohere/model/rerank-v5.0-pro.md`,
      ],
      [
        "cohere",
        "rerank-v5.0-fast",
        "Rerank 5 Fast",
        "0.02",
        "https://openrouter.ai/models/cohere/rerank-5-fast-20261028",
      ],
      ["voyage", "rerank-3", "Voyage Rerank 3", "0.05", `${COSTS}/voyage/model/rerank-3.md`],
      [
        "voyage",
        "rerank-3-lite",
        "Voyage Rerank 3 Lite",
        "0.02",
        `${COSTS}/voyage/model/rerank-3-lite.md`,
      ],
    ] as const
  ).map(([provider, name, title, input, source]) =>
    perToken({ provider, name, title, kind: "rerank", source }, { input, output: "0" }),
  ),
  {
    provider: "xai",
    name: "grok-imagine-image",
    title: "Grok Imagine Image",
    kind: "image",
    pricing: [{ tokens: { input: "0", output: "0" }, fees: { image_generation: "0.02" } }],
    source: "https://docs.crazyrouter.com/en/images/grok",
    checked: CHECKED_ON,
  },
  perToken(
    {
      provider: "jina",
      name: "jina-reranker-m0",
      title: "Jina Reranker m0",
      kind: "rerank",
      source: `${COSTS}/jina_ai/model/jina-reranker-m0.md`,
    },
    { input: "0.05", output: "0" },
  ),
  perToken(
    {
      provider: "voyage",
      name: "rerank-2.5",
      title: "Voyage Rerank 2.5",
      kind: "rerank",
      source: `${VERCEL_MODELS}/rerank-2.5.md`,
    },
    { input: "0.05", output: "0" },
  ),
  perToken(
    {
      provider: "voyage",
      name: "rerank-2.5-lite",
      title: "Voyage Rerank 2.5 Lite",
      kind: "rerank",
      source: `${VERCEL_MODELS}/rerank-2.5-lite.md`,
    },
    { input: "0.02", output: "0" },
  ),
];
