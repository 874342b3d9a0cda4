// What a model can take, for the wires that write requests to it. Absent means the newest models' way; the rules here say
// where a provider or an older model differs.

import type { Model } from "../models/catalog.ts";
import type { Abilities } from "./canonical-wire.ts";

interface Rule {
  readonly providers: readonly string[];
  readonly match: RegExp;
  readonly abilities: Abilities;
}

const OPENAI = ["openai", "azure"] as const;
const CLAUDE_HOSTS = ["anthropic", "bedrock", "vertex"] as const;
/** Servers that speak OpenAI's chat wire and know little beyond its common fields. */
const COMPATIBLE = [
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

const RULES: readonly Rule[] = [
  {
    providers: COMPATIBLE,
    match: /./,
    abilities: { openaiFields: false, developerRole: false, maxTokensField: "max_tokens" },
  },
  {
    providers: OPENAI,
    match: /./,
    abilities: { openaiFields: true, developerRole: true, maxTokensField: "max_completion_tokens" },
  },
  { providers: OPENAI, match: /^(gpt-3|gpt-4)/, abilities: { reasoning: "none" } },
  {
    providers: OPENAI,
    match: /^(o1|o3|o4|gpt-5)/,
    abilities: { sampling: false, reasoning: "effort" },
  },
  {
    providers: ["mistral"],
    match: /./,
    abilities: { streamOptions: false, callIds: "alphanumeric9", reasoningField: "content" },
  },
  { providers: ["perplexity"], match: /./, abilities: { streamOptions: false } },
  {
    providers: ["deepseek", "zai", "moonshot"],
    match: /./,
    abilities: { jsonSchema: false, reasoningField: "reasoning_content" },
  },
  {
    providers: ["openrouter", "groq", "ollama"],
    match: /./,
    abilities: { reasoningField: "reasoning" },
  },
  { providers: ["openrouter"], match: /claude/, abilities: { cacheMarks: "cache_control" } },
  {
    providers: CLAUDE_HOSTS,
    match: /claude-(2|3|instant)/,
    abilities: { reasoning: "none", jsonSchema: false, laterInstructions: false },
  },
  {
    providers: CLAUDE_HOSTS,
    match: /claude-3-7|claude-(opus|sonnet|haiku)-4(?!-[5-9])/,
    abilities: { reasoning: "budget", jsonSchema: false, laterInstructions: false },
  },
  {
    providers: CLAUDE_HOSTS,
    match: /claude-(opus|sonnet|haiku)-4-5/,
    abilities: { reasoning: "budget", laterInstructions: false },
  },
  {
    providers: CLAUDE_HOSTS,
    match: /claude-(opus-4-[7-9]|opus-5|sonnet-5|fable)/,
    abilities: { sampling: false, prefill: false },
  },
];

export function abilitiesOf(model: Model): Abilities {
  const rules = RULES.filter(
    (rule) => rule.providers.includes(model.provider) && rule.match.test(model.name),
  );
  // A later rule wins over an earlier one.
  const abilities: Abilities = Object.assign({}, ...rules.map((rule) => rule.abilities));
  return model.supported.includes("reasoning") ||
    abilities.reasoning !== undefined ||
    model.supported.length === 0
    ? abilities
    : { ...abilities, reasoning: "none" };
}
