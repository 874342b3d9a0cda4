// Models of endpoints without a conversation: images, audio, rerank and moderation. The price lists have some of them, without an
// endpoint.

import type { FeeMeter } from "@postern/wires";
import type { FactRule, SupplementalModel } from "../model-facts.ts";
import type { TokenPrices } from "../price-card.ts";

const CHECKED_ON = "2026-11-29";
const OPENAI_PRICING = "https://developers.openai.com/api/docs/pricing";
const OPENAI_MODERATION = "https://developers.openai.com/api/docs/guides/moderation";
const OPENAI_MODELS = "https://developers.openai.com/api/docs/models";
/** OpenAI's own pages state one price for audio and text, which is lower. */
const LISTED_AUDIO = "genai-prices 0.2.3";
const VERCEL_MODELS = "https://vercel.com/ai-gateway/models";

/** The provider's own page could not be read on that day. LiteLLM's table was, and names the page that it read. */
function listedBy(page: string): string {
  return `LiteLLM 1.110.2, which names ${page}`;
}

const COHERE_RERANK_5 = listedBy("https://cohere.com/blog/rerank-5");
const VOYAGE_PRICING = listedBy("https://docs.voyageai.com/docs/pricing");
const JINA_MODELS = listedBy("https://api.jina.ai/v1/models");
const XAI_MODELS_PAGE = listedBy("https://docs.x.ai/docs/models");
const OPENAI_PRICES = listedBy("https://developers.openai.com/api/docs/pricing");
const LITELLM = "LiteLLM 1.110.2, which names no page";

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

const MADE_IMAGES: Partial<FactRule> = { output: ["image"], wires: ["images"], context: 10_000 };
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
    facts(provider, /^gpt-(4o-(mini-)?)?transcribe/, {
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
  facts("xai", /^grok-imagine-image(-2\.0)?$/, {
    input: ["text", "image"],
    output: ["image"],
    wires: ["images", "image_edits"],
    context: 32_000,
  }),
  facts("together", /^black-forest-labs\//, MADE_IMAGES),
  facts("fireworks", /^flux-/, MADE_IMAGES),
  facts("bedrock", /^stability\./, MADE_IMAGES),
  facts("groq", /^canopylabs\/orpheus/, { output: ["audio"], wires: ["speech"], context: 4_000 }),
  facts("cohere", /^rerank-/, { wires: ["rerank"], context: 32_000 }),
  facts("bedrock", /^(cohere|amazon)\.rerank-/, { wires: ["rerank"], context: 32_000 }),
  facts("fireworks", /qwen3-reranker/, { wires: ["rerank"], context: 40_960 }),
  facts("jina", /^jina-reranker-/, { wires: ["rerank"], context: 10_240 }),
  facts("jina", /^jina-reranker-v3\.5$/, { wires: ["rerank"], context: 131_072 }),
  facts("voyage", /^rerank-/, { wires: ["rerank"], context: 32_000 }),
];

type Own = Omit<SupplementalModel, "checked" | "pricing">;

function perToken(model: Own, tokens: TokenPrices): SupplementalModel {
  return { ...model, pricing: [{ tokens }], checked: CHECKED_ON };
}

/** Priced by unit alone. */
function perUnit(model: Own, fee: FeeMeter, usd: string): SupplementalModel {
  const pricing = [{ tokens: { input: "0", output: "0" }, fees: { [fee]: usd } }];
  return { ...model, pricing, checked: CHECKED_ON };
}

const AUDIO_MODELS: readonly SupplementalModel[] = [
  ...(
    [
      ["openai", OPENAI_PRICES, "2.5", "1.25"],
      ["azure", LISTED_AUDIO, "6", "3"],
    ] as const
  ).flatMap(([provider, source, audio, miniAudio]) => [
    perToken(
      {
        provider,
        name: "gpt-4o-transcribe",
        title: "GPT-4o Transcribe",
        kind: "transcription",
        aliases: ["gpt-4o-transcribe-diarize"],
        source,
      },
      { input: "2.5", input_audio: audio, output: "10" },
    ),
    perToken(
      {
        provider,
        name: "gpt-4o-mini-transcribe",
        title: "GPT-4o Mini Transcribe",
        kind: "transcription",
        aliases: ["gpt-4o-mini-transcribe-2025-12-15"],
        source,
      },
      { input: "1.25", input_audio: miniAudio, output: "5" },
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
  ...[
    ["canopylabs/orpheus-v1-english", "Orpheus English", "0.000022"],
    ["canopylabs/orpheus-arabic-saudi", "Orpheus Arabic", "0.00004"],
  ].map(([name = "", title = "", usd = ""]) =>
    perUnit(
      {
        provider: "groq",
        name,
        title,
        kind: "speech",
        source: listedBy("https://console.groq.com/docs/models"),
      },
      "character",
      usd,
    ),
  ),
  perUnit(
    {
      provider: "openai",
      name: "gpt-transcribe",
      title: "GPT Transcribe",
      kind: "transcription",
      source: OPENAI_PRICES,
    },
    "audio_second",
    "0.000075",
  ),
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
  cache_read_image: "2",
  output: "30",
  output_image: "30",
};

const OPENAI_IMAGE_MODELS: readonly (readonly [
  name: string,
  title: string,
  tokens: TokenPrices,
  snapshot?: string,
])[] = [
  ["gpt-image-2.6-sunburst", "GPT Image 2.6 Sunburst", GPT_IMAGE_2],
  ["gpt-image-2.6-flare", "GPT Image 2.6 Flare", GPT_IMAGE_2],
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
    {
      ...GPT_IMAGE_2,
      input_image: "10",
      cache_read_image: "2.5",
      output: "40",
      output_image: "40",
    },
  ],
  [
    "gpt-image-1-mini",
    "GPT Image 1 Mini",
    {
      input: "2",
      cache_read: "0.2",
      input_image: "2.5",
      cache_read_image: "0.25",
      output: "8",
      output_image: "8",
    },
  ],
];

type Listed = readonly (readonly [
  provider: string,
  name: string,
  title: string,
  usd: string,
  source: string,
])[];

const BEDROCK_CARD = listedBy("https://docs.aws.amazon.com (model card of Cohere Rerank 3.5)");

/** USD per search. */
const RERANK_BY_SEARCH: Listed = [
  ["cohere", "rerank-v4.0-pro", "Rerank 4 Pro", "0.0025", listedBy("https://cohere.com/pricing")],
  ["cohere", "rerank-v4.0-fast", "Rerank 4 Fast", "0.002", listedBy("https://cohere.com/pricing")],
  ["cohere", "rerank-v3.5", "Rerank 3.5", "0.002", LITELLM],
  ["bedrock", "cohere.rerank-v3-5:0", "Cohere Rerank 3.5", "0.002", BEDROCK_CARD],
  ["bedrock", "amazon.rerank-v1:0", "Amazon Rerank 1", "0.001", LITELLM],
];

/** USD per million tokens. */
const RERANK_BY_TOKEN: Listed = [
  ["cohere", "rerank-v5.0-pro", "Rerank 5 Pro", "0.05", COHERE_RERANK_5],
  ["cohere", "rerank-v5.0-fast", "Rerank 5 Fast", "0.02", COHERE_RERANK_5],
  ["voyage", "rerank-3", "Voyage Rerank 3", "0.05", VOYAGE_PRICING],
  ["voyage", "rerank-3-lite", "Voyage Rerank 3 Lite", "0.02", VOYAGE_PRICING],
  ["voyage", "rerank-2.5", "Voyage Rerank 2.5", "0.05", `${VERCEL_MODELS}/rerank-2.5.md`],
  [
    "voyage",
    "rerank-2.5-lite",
    "Voyage Rerank 2.5 Lite",
    "0.02",
    `${VERCEL_MODELS}/rerank-2.5-lite.md`,
  ],
  ["jina", "jina-reranker-v3.5", "Jina Reranker 3.5", "0.05", JINA_MODELS],
  ["jina", "jina-reranker-m0", "Jina Reranker m0", "0.05", JINA_MODELS],
  [
    "jina",
    "jina-reranker-v2-base-multilingual",
    "Jina Reranker 2 Multilingual",
    "0.05",
    JINA_MODELS,
  ],
  [
    "fireworks",
    "accounts/fireworks/models/qwen3-reranker-8b",
    "Qwen3 Reranker 8B",
    "0.2",
    listedBy("https://api.fireworks.ai/v1/serverless/models"),
  ],
];

/** USD per image. At Fireworks, of 4 and 28 steps at the listed price of a step. */
const IMAGES_EACH: Listed = [
  ["xai", "grok-imagine-image", "Grok Imagine Image", "0.02", XAI_MODELS_PAGE],
  ["fireworks", "flux-1-schnell-fp8", "FLUX.1 Schnell", "0.0014", LITELLM],
  ["fireworks", "flux-1-dev-fp8", "FLUX.1 Dev", "0.014", LITELLM],
  ["bedrock", "stability.stable-image-core-v1:1", "Stable Image Core", "0.04", LITELLM],
  ["bedrock", "stability.sd3-5-large-v1:0", "Stable Diffusion 3.5 Large", "0.08", LITELLM],
  ["bedrock", "stability.stable-image-ultra-v1:1", "Stable Image Ultra", "0.14", LITELLM],
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
  ...RERANK_BY_SEARCH.map(([provider, name, title, usd, source]) =>
    perUnit({ provider, name, title, kind: "rerank", source }, "search_unit", usd),
  ),
  ...RERANK_BY_TOKEN.map(([provider, name, title, input, source]) =>
    perToken({ provider, name, title, kind: "rerank", source }, { input, output: "0" }),
  ),
  ...IMAGES_EACH.map(([provider, name, title, usd, source]) =>
    perUnit({ provider, name, title, kind: "image", source }, "image_generation", usd),
  ),
  perUnit(
    {
      provider: "together",
      name: "black-forest-labs/FLUX.1-schnell",
      title: "FLUX.1 Schnell",
      kind: "image",
      source: "https://www.workflowlab.dev/cost/flux-schnell-together (May 2026)",
    },
    "megapixel",
    "0.0027",
  ),
  {
    provider: "xai",
    name: "grok-imagine-image-2.0",
    title: "Grok Imagine Image 2.0",
    kind: "image",
    pricing: [
      {
        tokens: { input: "0", output: "0" },
        image_fees: {
          usd: { "1k": { low: "0.04", medium: "0.06" }, "2k": { low: "0.06", medium: "0.08" } },
          default_size: "1k",
          // xAI chooses the quality where a request names none, and states what it billed.
          default_quality: "medium",
        },
      },
    ],
    source: `${XAI_MODELS_PAGE}; medium at https://docs.apiyi.com (grok-imagine-image-official)`,
    checked: CHECKED_ON,
  },
  ...["google", "vertex"].map((provider) =>
    perToken(
      {
        provider,
        name: "gemini-nano-banana-2.1",
        title: "Gemini Nano Banana 2.1",
        released: "2026-10-06",
        source: "genai-prices 0.2.3 and https://github.com/BerriAI/litellm/discussions/44983",
      },
      { input: "1.5", output: "7.5", output_image: "30" },
    ),
  ),
];
