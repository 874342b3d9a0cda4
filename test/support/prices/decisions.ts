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
    match: /^mistral-large$/,
    source: "pi-ai",
    reason:
      "`mistral-large-latest` is Mistral Large 4; LiteLLM has Large 3, genai-prices Large 2, which can no longer be called.",
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
  anthropic: /^claude-mythos-5(-1)?$/,
  vertex: /^claude-(sonnet|opus|haiku|fable)-\d(-\d)?$|^gemini-3\.1-pro-preview-customtools$/,
  mistral:
    /^(ministral-.*|devstral-latest|devstral-medium-latest|mistral-large-3|mistral-large-4-0-8|glm-5-2)$/,
  groq: /./,
  zai: /./,
  // A `~` or `:` is a route to a model, not a model.
  openrouter: /^(?!openrouter\/)[^~:]+\/[^:]+$/,
  // Claude is sold through inference profiles only, which genai-prices has, except Mythos.
  bedrock:
    /^((us|global)\.xai|(us|global)\.openai\.gpt-6\.2|(us\.)?anthropic\.claude-mythos-5|xai|amazon\.nova-2-lite|deepseek|google|minimax|mistral|moonshotai|nvidia|openai|qwen|writer|zai)\S*$/,
};

/** The providers that make the models they sell: what a list has of them is in our table, or left out for a reason. */
export const LEFT_OUT: Readonly<
  Record<string, { readonly match: RegExp; readonly reason: string }>
> = {
  openai: {
    match:
      /^(ft:.*|(gpt-)?daybreak-.*|gpt-.*-cyber-preview|gpt-6-astra-law|.*-audio-preview.*|computer-use.*|gpt-5-search-api.*|openai\/.*)$/,
    reason: "Fine-tunes, models for approved organizations only, and other endpoints.",
  },
  anthropic: {
    match: /^claude-mythos-preview$/,
    reason: "For approved organizations only, until Claude Mythos 5.",
  },
  google: {
    match:
      /^(deep-research-.*|gemini-omni-.*|gemini-embedding-2.*|gemini-gemma-.*|gemini-2\.5-computer-use.*)$/,
    reason: "Other endpoints, or input that no meter counts.",
  },
  mistral: {
    match: /^(mistral-(vibe|code)-.*|zai-glm-.*|codestral-mamba-latest|mistral-small)$/,
    reason: "For Mistral's own tools, other names of a listed model, and retired ones.",
  },
  xai: {
    match: /^grok-(4\.20-.*|build-latest)$/,
    reason: "Other names of Grok 4.20 and Grok Build, which are listed.",
  },
  deepseek: {
    match: /^deepseek-(coder|v3|v4-flash-vision-exp)$/,
    reason: "Retired, or an experiment without a stable name.",
  },
  zai: { match: /^$/, reason: "" },
  moonshot: { match: /^moonshot-v1-auto$/, reason: "Its price is that of the model it chooses." },
};
