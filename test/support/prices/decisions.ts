// Which price list decides where they disagree, and which models to add that genai-prices lacks.

import type { SourceName } from "./sources.ts";

export interface Decision {
  readonly provider: string;
  readonly match: RegExp;
  readonly source: SourceName;
  readonly reason: string;
}

/** The first match applies. Without one, two lists with the same price win, and otherwise the higher price. */
export const DECISIONS: readonly Decision[] = [
  {
    provider: "openrouter",
    match: /./,
    source: "genai-prices",
    reason:
      "OpenRouter's price depends on the host. The cost that its reply states is charged; the list only bounds it.",
  },
  {
    provider: "fireworks",
    match: /deepseek-v4-pro/,
    source: "genai-prices",
    reason: "LiteLLM lists Fireworks' price by parameter count; this model has a price of its own.",
  },
  {
    provider: "mistral",
    match: /^magistral-(small|medium)-latest$/,
    source: "litellm",
    reason: "The name now points to Mistral Small 4 and Mistral Medium 3.5, at their prices.",
  },
  {
    provider: "mistral",
    match: /^mistral-large-4$/,
    source: "genai-prices",
    reason:
      "Mistral's pricing page lists the lower price since 2026-10-29; LiteLLM has the one before.",
  },
  {
    provider: "mistral",
    match: /^mistral-medium-3-1$/,
    source: "genai-prices",
    reason:
      "Mistral Medium 3 and 3.1 keep their price; LiteLLM's row is that of `mistral-medium`, now 3.5.",
  },
  {
    provider: "xai",
    match: /^grok-code-fast-1$/,
    source: "genai-prices",
    reason:
      "LiteLLM has the price of the model that xAI answers this name with; that model is priced by its own name.",
  },
  {
    provider: "azure",
    match: /./,
    source: "genai-prices",
    reason:
      "The maker's list price is that of a global deployment; LiteLLM's is that of a regional one, 10% higher.",
  },
];
export const MAJORITY_REASON = "Two lists agree.";
export const HIGHER_REASON =
  "One list against another: the higher price, so that no call is sold below cost.";

/** tokenlens is from January 2026. Its differences are price changes since, so it confirms prices and never disputes one. */
export const OUTDATED: ReadonlySet<SourceName> = new Set<SourceName>(["tokenlens"]);

/** Our provider → names of models to add from LiteLLM and pi-ai; both also list models that can no longer be called. */
export const ADDITIONS: Readonly<Record<string, RegExp>> = {
  openai: /^gpt-5\.3-codex-spark$/,
  google: /^gemini-3\.1-pro-preview-customtools$/,
  vertex: /^claude-(sonnet|opus|haiku|fable)-\d(-\d)?$|^gemini-3\.1-pro-preview-customtools$/,
  mistral: /^(ministral-.*|devstral-latest|devstral-medium-latest|mistral-large-3)$/,
  groq: /./,
  zai: /./,
  openrouter: /^anthropic\/[^:]*$/,
  // Claude is sold through inference profiles only, which genai-prices has.
  bedrock:
    /^(amazon\.nova-2-lite|deepseek|google|minimax|mistral|moonshotai|nvidia|openai|qwen|writer|zai)\S*$/,
};
