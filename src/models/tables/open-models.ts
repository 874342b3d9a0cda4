// Providers that host models of several makers.

import {
  type Ability,
  factRules,
  type PriceRule,
  priceRules,
  type SupplementalModel,
} from "../model-facts.ts";

const CHECKED_ON = "2026-11-21";
const BASE_ABILITIES: readonly Ability[] = ["tools", "structured_output"];

const GROQ = "https://console.groq.com/docs/models";
const MISTRAL = "https://docs.mistral.ai/models";
const PERPLEXITY = "https://docs.perplexity.ai/docs/getting-started/pricing";
const KIMI = "https://platform.kimi.ai/docs/models.md";
const ZAI = "https://docs.z.ai/guides/overview/pricing";
const OPENROUTER = "https://openrouter.ai/docs/api-reference/overview";
const GEMINI = "https://ai.google.dev/gemini-api/docs/pricing";
const BEDROCK = "https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference.html";

export const OPEN_FACTS = factRules({ providers: ["groq"], source: GROQ, checked: null }, [
  {
    providers: ["mistral"],
    match: /./,
    wires: ["chat"],
    supported: ["tools", "parallel_tools", "structured_output"],
    source: MISTRAL,
  },
  { providers: ["mistral"], match: /embed/, wires: ["embeddings"], supported: [], source: MISTRAL },
  {
    providers: ["mistral"],
    match: /pixtral|mistral-(small|medium|large)-(latest|2[56]|3)/,
    input: ["text", "image"],
    source: MISTRAL,
  },
  {
    providers: ["mistral"],
    match: /magistral/,
    input: ["text", "image"],
    supported: [...BASE_ABILITIES, "reasoning"],
    source: MISTRAL,
  },
  { providers: ["mistral"], match: /voxtral/, input: ["text", "audio"], source: MISTRAL },
  { match: /./, wires: ["chat"], supported: BASE_ABILITIES },
  {
    match: /gpt-oss/,
    context: 131_072,
    maxOutput: 65_536,
    supported: [...BASE_ABILITIES, "reasoning", "prompt_caching"],
  },
  { match: /llama-3\.3-70b-versatile/, context: 131_072, maxOutput: 32_768 },
  { match: /llama-3\.1-8b-instant/, context: 131_072, maxOutput: 131_072 },
  { match: /llama-4/, context: 131_072, maxOutput: 8192, input: ["text", "image"] },
  {
    match: /qwen3-32b/,
    context: 131_072,
    maxOutput: 40_960,
    supported: [...BASE_ABILITIES, "reasoning"],
  },
  {
    providers: ["together", "fireworks", "cerebras"],
    match: /./,
    wires: ["chat"],
    source: "https://docs.together.ai/docs/openai-api-compatibility",
  },
  {
    providers: ["cerebras"],
    match: /gpt-oss/,
    supported: [...BASE_ABILITIES, "reasoning"],
    source: "https://inference-docs.cerebras.ai/models/openai-oss",
  },
  {
    providers: ["openrouter"],
    match: /./,
    wires: ["chat", "responses", "messages"],
    source: OPENROUTER,
  },
  {
    providers: ["perplexity"],
    match: /./,
    wires: ["chat"],
    supported: ["structured_output", "web_search"],
    source: PERPLEXITY,
  },
  {
    providers: ["perplexity"],
    match: /reasoning|deep-research/,
    supported: ["structured_output", "web_search", "reasoning"],
    source: PERPLEXITY,
  },
  {
    providers: ["moonshot"],
    match: /./,
    wires: ["chat"],
    supported: [...BASE_ABILITIES, "prompt_caching"],
    source: KIMI,
  },
  {
    providers: ["moonshot"],
    match: /kimi-k(2\.[567]|3)/,
    input: ["text", "image"],
    supported: [...BASE_ABILITIES, "prompt_caching", "reasoning"],
    source: KIMI,
  },
  {
    providers: ["zai"],
    match: /./,
    wires: ["chat"],
    supported: [...BASE_ABILITIES, "prompt_caching", "reasoning"],
    source: ZAI,
  },
  { providers: ["bedrock"], match: /./, wires: ["converse"], source: BEDROCK },
  {
    providers: ["bedrock"],
    match: /nova|llama3-[123]|llama4|mistral|gpt/,
    supported: ["tools"],
    source: BEDROCK,
  },
  {
    providers: ["bedrock"],
    match:
      /nova-2|gpt-|deepseek|kimi|minimax|magistral|glm|gemma-4|grok|nemotron-(nano-3|super)|qwen3-(32b|235b)/,
    supported: ["tools", "reasoning"],
    source: BEDROCK,
    checked: CHECKED_ON,
  },
  // Bedrock has neither Anthropic's web search nor its structured output.
  {
    providers: ["bedrock"],
    match: /claude-(3-7|(opus|sonnet|haiku|fable|mythos)-)/,
    supported: ["tools", "parallel_tools", "prompt_caching", "reasoning"],
    source: BEDROCK,
    checked: CHECKED_ON,
  },
  {
    providers: ["bedrock"],
    match: /nova-(lite|pro|premier|2)|llama3-2-(11|90)b|llama4|pixtral/,
    input: ["text", "image"],
    source: BEDROCK,
  },
]);

const LITELLM = "https://github.com/BerriAI/litellm/blob/main/model_prices_and_context_window.json";

export const OPEN_PRICE_RULES = priceRules(
  { providers: ["openrouter"], source: PERPLEXITY, checked: CHECKED_ON },
  [
    // Flex costs the on-demand price and has ten times the rate limit.
    {
      providers: ["groq"],
      match: /./,
      serviceTiers: { flex: "1", batch: "0.5" },
      source: "https://console.groq.com/docs/service-tiers",
      checked: null,
    },
    {
      providers: ["mistral"],
      match: /^(?:open-)?(?:mi[sx]tral|ministral|magistral|codestral|devstral|pixtral)/,
      serviceTiers: { batch: "0.5" },
      source: "https://mistral.ai/pricing/api",
      checked: null,
    },
    // Batches of its other models cost the list price.
    {
      providers: ["together"],
      match: /^meta-llama\/Llama-3\.3-70B-Instruct-Turbo$/,
      serviceTiers: { batch: "0.5" },
      source: "https://docs.together.ai/docs/inference/batch/overview",
      checked: "2026-11-29",
    },
    // Bedrock's replies name the tier that answered.
    {
      providers: ["bedrock"],
      match:
        /(?:^|\.)(?:amazon\.nova-(?:pro|2-lite)-|deepseek\.v3\.2|google\.gemma-3-4b|minimax\.minimax-m2\.[15]|mistral\.(?:devstral-2-123b|ministral-3-14b)|moonshotai\.kimi-k(?:2\.5|3)|nvidia\.nemotron-(?:nano-12b|super-3-120b)|openai\.gpt-oss-(?:20|120)b-1|qwen\.qwen3-(?:32b|coder-next)|writer\.palmyra-vision|xai\.grok-4\.[67]|zai\.glm-(?:4\.7|5\.3))/,
      serviceTiers: { priority: "1.75", flex: "0.5" },
      source: LITELLM,
      checked: "2026-11-28",
    },
    // Kimi K2.6 is left out: its tokens have different factors. So are models whose list says that priority costs nothing.
    ...(
      [
        [
          "1.25",
          /(?:^|\/)(?:kimi-k3(?:-us)?|deepseek-v4p1-flash(?:-1017)?(?:-us)?|glm-5p(?:2|3|3-us|3-flash|3-flash-us)|nemotron-(?:lightning-3p5-30b-a3b|3-ultra-nvfp4)|ember-1|ultramarine-1-flash-us)$/,
        ],
        ["1.2", /(?:^|\/)gpt-oss-120b$/],
        ["1.5", /(?:^|\/)(?:kimi-k2p7-code|kimi-k3p1-pro|minimax-m3|qwen3p8-max|muse-spark-open)$/],
      ] as const
    ).map(([priority, match]): PriceRule => ({
      providers: ["fireworks"],
      match,
      serviceTiers: { priority },
      source: LITELLM,
      checked: "2026-11-28",
    })),
    {
      providers: ["perplexity"],
      match: /^sonar(-reasoning)?$/,
      requestFees: { low: "0.005", medium: "0.008", high: "0.012" },
    },
    { providers: ["perplexity"], match: /^sonar-deep-research$/, fees: { web_search: "0.005" } },
    {
      providers: ["perplexity"],
      match: /^sonar(-reasoning)?-pro$/,
      requestFees: { low: "0.006", medium: "0.01", high: "0.014" },
    },
    // OpenRouter states what a call costs, which is charged. These fees only bound it.
    {
      match: /^perplexity\/sonar(-reasoning)?(-pro)?$/,
      requestFees: { low: "0.006", medium: "0.01", high: "0.014" },
      checked: "2026-11-23",
    },
    {
      match: /^perplexity\/sonar-pro-search$/,
      fees: { request: "0.018" },
      source: "https://openrouter.ai/perplexity/sonar-pro-search",
      checked: "2026-11-23",
    },
    {
      match: /^openai\/gpt-4o(-mini)?-search-preview$/,
      fees: { web_search_preview: "0.035" },
      source: "https://openrouter.ai/openai/gpt-4o-search-preview",
      checked: "2026-11-23",
    },
    {
      match: /^openai\/o\d.*-deep-research$/,
      fees: { web_search: "0.01" },
      source: "https://openrouter.ai/openai/o4-mini-deep-research",
      checked: "2026-11-23",
    },
    {
      match: /^perplexity\/sonar-deep-research$/,
      fees: { web_search: "0.005" },
      source: "https://openrouter.ai/perplexity/sonar-deep-research",
      checked: "2026-11-23",
    },
    // OpenRouter sells Gemini's audio at Google's price, which the published table lacks.
    {
      match: /^google\/gemini-2\.5-flash$/,
      tokens: { input_audio: "1", cache_write_5m: "0.083334" },
      source: OPENROUTER,
    },
    {
      match: /^google\/gemini-2\.5-flash-lite(-preview|$)/,
      tokens: { input_audio: "0.3" },
      source: OPENROUTER,
    },
    {
      match: /^google\/gemini-(2\.5-flash-preview|3-flash)/,
      tokens: { input_audio: "1" },
      source: GEMINI,
      checked: null,
    },
    {
      match: /^google\/gemini-2\.0-flash-001$/,
      tokens: { input_audio: "0.7" },
      source: GEMINI,
      checked: null,
    },
    {
      match: /^google\/gemini-3\.1-flash-lite$/,
      tokens: { input_audio: "0.5" },
      source: GEMINI,
      checked: null,
    },
    // Audio is charged by the minute; its tokens are not charged.
    {
      providers: ["mistral"],
      match: /^voxtral-small/,
      tokens: { input_audio: "0" },
      fees: { audio_second: "0.000066666667" },
      source: "https://mistral.ai/pricing/api",
      checked: "2026-11-22",
    },
  ],
);

/** The model that `-latest` points to, with the price of its predecessor; the price table has no date for the change. */
export const OPEN_MODELS: readonly SupplementalModel[] = [
  {
    provider: "mistral",
    name: "mistral-large-latest",
    title: "Mistral Large (latest)",
    aliases: ["mistral-large"],
    pricing: [
      { tokens: { input: "2", output: "6" } },
      { tokens: { input: "0.5", cache_read: "0.05", output: "1.5" }, from: "2025-12-02" },
      // Mistral Large 4, at its price since October 29; lists disagree on whether the name still points to Large 3.
      { tokens: { input: "0.7", cache_read: "0.07", output: "2.1" }, from: "2026-10-29" },
    ],
    source: MISTRAL,
    checked: "2026-11-28",
  },
  // Free of charge, with the provider's limits of its free models.
  ...(
    [
      ["glm-4.7-flash", "GLM-4.7 Flash"],
      ["glm-4.5-flash", "GLM-4.5 Flash"],
    ] as const
  ).map(([name, title]): SupplementalModel => ({
    provider: "zai",
    name,
    title,
    pricing: [{ tokens: { input: "0", output: "0" } }],
    source: LITELLM,
    checked: "2026-11-28",
  })),
];
