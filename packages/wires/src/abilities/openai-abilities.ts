// OpenAI's models, at OpenAI and at Azure.

import {
  type AbilityRule,
  LITELLM,
  OPENAI_COMPATIBLE_ABILITIES,
  PI_AI,
  RECORDED,
} from "./ability-rule.ts";

const OPENAI_PROVIDERS = ["openai", "azure"] as const;

const FROM = {
  api: LITELLM,
  efforts: {
    source: "https://learn.microsoft.com/en-us/javascript/api/@azure/ai-projects/reasoningeffort",
    checked: "2026-11-28",
  },
  newest: {
    source: "https://github.com/anomalyco/opencode/issues/36141",
    checked: "2026-11-28",
  },
  sampling: { source: "https://github.com/vercel/ai/issues/10932", checked: "2026-11-28" },
  tools: { source: "https://github.com/itzcrazykns/vane/issues/1173", checked: "2026-11-28" },
  recorded: RECORDED,
} as const;

export const OPENAI_RULES: readonly AbilityRule[] = [
  {
    ...FROM.api,
    providers: OPENAI_PROVIDERS,
    match: /./,
    abilities: { openaiFields: true, developerRole: true, maxTokensField: "max_completion_tokens" },
  },
  {
    ...FROM.api,
    providers: ["azure"],
    match: /^(phi|llama|meta|mistral|deepseek|grok)/i,
    abilities: OPENAI_COMPATIBLE_ABILITIES,
  },
  {
    ...FROM.api,
    providers: OPENAI_PROVIDERS,
    match: /^(gpt-3|gpt-4)/,
    abilities: { reasoning: "none" },
  },
  {
    ...FROM.api,
    providers: OPENAI_PROVIDERS,
    match: /-search-(preview|api)/,
    abilities: { webSearchOptions: true },
  },
  {
    ...FROM.api,
    providers: OPENAI_PROVIDERS,
    match: /^(gpt-3\.5|gpt-4$|gpt-4-)/,
    abilities: { jsonSchema: false },
  },
  {
    ...FROM.sampling,
    providers: OPENAI_PROVIDERS,
    match: /^(o\d|gpt-[5-9])(?!.*-chat)/,
    abilities: { sampling: false, reasoning: "effort" },
  },
  {
    ...FROM.efforts,
    providers: OPENAI_PROVIDERS,
    match: /^(o\d|gpt-5-codex|gpt-5\.1-codex)/,
    abilities: { efforts: ["low", "medium", "high"] },
  },
  {
    ...FROM.efforts,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5($|-mini|-nano|-\d)/,
    abilities: { efforts: ["minimal", "low", "medium", "high"] },
  },
  {
    ...FROM.efforts,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5-pro/,
    abilities: { efforts: ["high"] },
  },
  {
    ...FROM.efforts,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5\.1(?!-codex)/,
    abilities: {
      efforts: ["none", "low", "medium", "high"],
      sampling: "without_reasoning",
      reasonsOnRequest: true,
    },
  },
  {
    ...FROM.efforts,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5\.([2-5]|1-codex-max)/,
    abilities: { efforts: ["none", "low", "medium", "high", "xhigh"] },
  },
  {
    ...FROM.sampling,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5\.[2-4](?!-codex|-pro|.*-chat)/,
    abilities: { sampling: "without_reasoning", reasonsOnRequest: true },
  },
  {
    ...FROM.sampling,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-(5\.[5-9]|[6-9])(?!-codex|-pro|.*-chat)/,
    abilities: { sampling: "without_reasoning" },
  },
  // "Function tools with reasoning_effort are not supported … in /v1/chat/completions. Use /v1/responses": recorded on 2026-11-28.
  {
    ...FROM.tools,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5\.[245](?!.*-chat)/,
    abilities: { chatTools: "without_effort" },
  },
  {
    ...FROM.tools,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-(5\.[6-9]|[6-9])(?!.*-chat)/,
    abilities: { chatTools: "without_reasoning" },
  },
  {
    ...FROM.efforts,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5\.[2-5]-pro/,
    abilities: { efforts: ["medium", "high", "xhigh"] },
  },
  {
    ...FROM.newest,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-(5\.[6-9]|[6-9])/,
    abilities: {
      efforts: ["none", "low", "medium", "high", "xhigh", "max"],
      cacheBreakpointField: "prompt_cache_breakpoint",
    },
  },
  // "Unsupported value: 'none' is not supported with this model": they always reason. Recorded by 2026-11-28.
  {
    ...FROM.recorded,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-(6-(astra|rosalind)|6\.1-(sol|terra)|6\.2)/,
    abilities: { efforts: ["low", "medium", "high", "xhigh", "max"] },
  },
  {
    ...PI_AI,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-(5\.6|6)-cyber/,
    abilities: { efforts: ["low", "medium", "high", "xhigh", "max"] },
  },
  {
    ...PI_AI,
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5\.3-codex-spark/,
    abilities: { efforts: ["low", "medium", "high", "xhigh"] },
  },
  // "Unsupported parameter: 'stop' is not supported with this model"; OpenAI's reference says the same of o3 and o4-mini.
  {
    ...FROM.recorded,
    providers: OPENAI_PROVIDERS,
    match: /^(o[34]|gpt-5($|-mini|-nano|-\d)|gpt-(5\.[6-9]|[6-9]))(?!.*-chat)/,
    abilities: { stop: false, logprobs: false },
  },
];
