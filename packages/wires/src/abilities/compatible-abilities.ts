// Models behind OpenAI-compatible servers, and Google's.

import {
  type AbilityRule,
  LITELLM,
  OPENAI_COMPATIBLE_ABILITIES,
  PI_AI,
  RECORDED,
} from "./ability-rule.ts";

/** Servers with an OpenAI-compatible chat API that support little beyond its common fields. */
const OPENAI_COMPATIBLE_PROVIDERS = [
  "groq",
  "deepseek",
  "together",
  "fireworks",
  "cerebras",
  "openrouter",
  "perplexity",
  "moonshot",
  "zai",
  "google",
  "xai",
  "mistral",
  "ollama",
  "vllm",
  "llamacpp",
] as const;

const FROM = {
  servers: RECORDED,
  mistral: RECORDED,
  perplexity: RECORDED,
  jsonmode: RECORDED,
  openrouter: RECORDED,
  reasoning: RECORDED,
  deepseek: {
    source: "https://api-docs.deepseek.com/guides/thinking_mode.md",
    checked: "2026-11-28",
  },
  groq: { source: "https://console.groq.com/docs/openai", checked: "2026-11-28" },
  groqdoc: LITELLM,
  kimi: {
    source:
      "https://docs.rs/synaps-engine/0.11.0/src/agent_engine/runtime/openai/catalog/kimi.rs.html",
    checked: "2026-11-28",
  },
  together: LITELLM,
  piAi: PI_AI,
  google: {
    source: "https://ai.google.dev/gemini-api/docs/generate-content/whats-new-gemini-3.7",
    checked: "2026-11-28",
  },
  grok43: {
    source: "https://newreleases.io/project/github/vercel/ai/release/@ai-sdk%2Fxai@4.0.0-canary.61",
    checked: "2026-11-28",
  },
  xai: {
    source:
      "https://docs.rs/synaps/0.10.2/synaps_cli/runtime/openai/catalog/enum.XaiReasoningCapability.html",
    checked: "2026-11-28",
  },
} as const;

export const COMPATIBLE_RULES: readonly AbilityRule[] = [
  {
    ...FROM.servers,
    providers: OPENAI_COMPATIBLE_PROVIDERS,
    match: /./,
    abilities: OPENAI_COMPATIBLE_ABILITIES,
  },
  {
    ...FROM.mistral,
    providers: ["mistral"],
    match: /./,
    abilities: {
      streamOptions: false,
      callIdFormat: "alphanumeric9",
      userAfterTool: false,
      reasoningField: "content",
      efforts: ["none", "high"],
      // 422 `extra_forbidden`.
      rejectsUnknownFields: true,
      seedField: "random_seed",
    },
  },
  // Mistral Small 4 and later reason on request; the catalog's list of abilities is older.
  {
    ...FROM.mistral,
    providers: ["mistral"],
    match: /^mistral-small-(latest|2[6-9])/,
    abilities: { reasoning: "effort" },
  },
  {
    ...FROM.piAi,
    providers: ["mistral"],
    match: /^mistral-medium-(latest|3[.-]5|2604)/,
    abilities: { reasoning: "effort", efforts: ["none", "high"] },
  },
  {
    ...FROM.piAi,
    providers: ["mistral"],
    match: /^mistral-large-(latest|4)/,
    abilities: { reasoning: "effort", efforts: ["low", "medium", "high"] },
  },
  {
    ...FROM.perplexity,
    providers: ["perplexity"],
    match: /./,
    abilities: { streamOptions: false, webSearchOptions: true },
  },
  // JSON mode without schemas. A required tool call is rejected by their reasoning models, and by some models always.
  {
    ...FROM.jsonmode,
    providers: ["deepseek", "zai", "moonshot"],
    match: /./,
    abilities: { jsonSchema: false, schemaEmulation: "instructions" },
  },
  // "Thinking mode does not support this tool_choice"; they think unless the request turns it off.
  {
    ...FROM.deepseek,
    providers: ["deepseek"],
    match: /^deepseek-(flash|pro|v[4-9])/,
    abilities: { forcedTools: "without_reasoning" },
  },
  {
    ...FROM.reasoning,
    providers: ["deepseek", "zai", "moonshot", "xai", "fireworks", "vllm", "llamacpp"],
    match: /./,
    abilities: { reasoningField: "reasoning_content" },
  },
  {
    ...FROM.reasoning,
    providers: ["openrouter", "groq", "cerebras", "together", "ollama"],
    match: /./,
    abilities: { reasoningField: "reasoning" },
  },
  {
    ...FROM.openrouter,
    providers: ["openrouter"],
    match: /claude/,
    abilities: { cacheBreakpointField: "cache_control" },
  },
  // "If `n` is supplied, it must be equal to 1."
  { ...FROM.groq, providers: ["groq"], match: /./, abilities: { choices: false } },
  {
    ...FROM.groqdoc,
    providers: ["groq", "cerebras"],
    match: /gpt-oss/,
    abilities: { efforts: ["low", "medium", "high"] },
  },
  // Groq accepts only the efforts "none" and "default", and "default" is what an absent effort means.
  { ...FROM.groqdoc, providers: ["groq"], match: /qwen/, abilities: { reasoning: "none" } },
  // Kimi K3 and GLM-5.3 always reason. Kimi's sampling is fixed: another temperature than 1 is a 400.
  {
    ...FROM.kimi,
    providers: ["moonshot"],
    match: /^kimi-k(2\.[5-9]|[3-9])/,
    abilities: { sampling: false },
  },
  {
    ...FROM.kimi,
    providers: ["moonshot", "zai"],
    match: /^(kimi-k3|glm-5\.3)/i,
    abilities: { efforts: ["low", "high", "max"] },
  },
  {
    ...FROM.together,
    providers: ["together"],
    match: /GLM-5\.3/,
    abilities: { efforts: ["low", "medium", "high", "max"] },
  },
  // "Thinking level MINIMAL is not supported for this model": Google's table of thinking levels. Gemini 4 cannot be turned off.
  {
    ...FROM.google,
    providers: ["google", "vertex"],
    match: /^gemini-(3\.[78]-flash(?!-lite)|4)/,
    abilities: { efforts: ["low", "medium", "high"] },
  },
  {
    ...FROM.xai,
    providers: ["xai"],
    match: /^grok-3-mini/,
    abilities: { efforts: ["low", "high"] },
  },
  {
    ...FROM.grok43,
    providers: ["xai"],
    match: /^grok-4\.3/,
    abilities: { efforts: ["none", "low", "medium", "high"] },
  },
  // Their reasoning cannot be turned off.
  {
    ...FROM.xai,
    providers: ["xai"],
    match: /^grok-4\.[56]/,
    abilities: { efforts: ["low", "medium", "high"] },
  },
  {
    ...FROM.xai,
    providers: ["xai"],
    match: /^grok-4\.7/,
    abilities: { efforts: ["low", "medium", "high", "xhigh"] },
  },
  // These models reason but reject `reasoning_effort`.
  { ...FROM.xai, providers: ["xai"], match: /^grok-(4-|code)/, abilities: { reasoning: "none" } },
];
