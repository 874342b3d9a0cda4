// What each model supports, for the wires that write requests to it. An absent ability means what the newest models do;
// the rules list the exceptions, taken from the providers' documentation and from recorded 400s.

import type { Abilities } from "./canonical/wire-interfaces.ts";
import { type UpstreamWireName, WIRE_TRAITS } from "./wire-traits.ts";

interface AbilityRule {
  readonly providers: readonly string[];
  readonly match: RegExp;
  readonly abilities: Abilities;
}

/** Matches every provider that the operator declares. */
const DECLARED_PROVIDER = "declared";

const OPENAI_PROVIDERS = ["openai", "azure"] as const;
const CLAUDE_PROVIDERS = ["anthropic", "bedrock", "vertex", DECLARED_PROVIDER] as const;
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
const OPENAI_COMPATIBLE_ABILITIES: Abilities = {
  openaiFields: false,
  developerRole: false,
  maxTokensField: "max_tokens",
};

const OPENAI_RULES: readonly AbilityRule[] = [
  {
    providers: OPENAI_PROVIDERS,
    match: /./,
    abilities: { openaiFields: true, developerRole: true, maxTokensField: "max_completion_tokens" },
  },
  {
    providers: ["azure"],
    match: /^(phi|llama|meta|mistral|deepseek|grok)/i,
    abilities: OPENAI_COMPATIBLE_ABILITIES,
  },
  { providers: OPENAI_PROVIDERS, match: /^(gpt-3|gpt-4)/, abilities: { reasoning: "none" } },
  {
    providers: OPENAI_PROVIDERS,
    match: /-search-(preview|api)/,
    abilities: { webSearchOptions: true },
  },
  {
    providers: OPENAI_PROVIDERS,
    match: /^(gpt-3\.5|gpt-4$|gpt-4-)/,
    abilities: { jsonSchema: false },
  },
  {
    providers: OPENAI_PROVIDERS,
    match: /^(o\d|gpt-[5-9])(?!.*-chat)/,
    abilities: { sampling: false, reasoning: "effort" },
  },
  {
    providers: OPENAI_PROVIDERS,
    match: /^(o\d|gpt-5-codex|gpt-5\.1-codex)/,
    abilities: { efforts: ["low", "medium", "high"] },
  },
  {
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5($|-mini|-nano|-\d)/,
    abilities: { efforts: ["minimal", "low", "medium", "high"] },
  },
  { providers: OPENAI_PROVIDERS, match: /^gpt-5-pro/, abilities: { efforts: ["high"] } },
  {
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5\.1(?!-codex)/,
    abilities: {
      efforts: ["none", "low", "medium", "high"],
      sampling: "without_reasoning",
      reasonsOnRequest: true,
    },
  },
  {
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5\.([2-5]|1-codex-max)/,
    abilities: { efforts: ["none", "low", "medium", "high", "xhigh"] },
  },
  {
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5\.[2-4](?!-codex|-pro|.*-chat)/,
    abilities: { sampling: "without_reasoning", reasonsOnRequest: true },
  },
  {
    providers: OPENAI_PROVIDERS,
    match: /^gpt-(5\.[5-9]|[6-9])(?!-codex|-pro|.*-chat)/,
    abilities: { sampling: "without_reasoning" },
  },
  // "Function tools with reasoning_effort are not supported … in /v1/chat/completions. Use /v1/responses": recorded on 2026-11-28.
  {
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5\.[245](?!.*-chat)/,
    abilities: { chatTools: "without_effort" },
  },
  {
    providers: OPENAI_PROVIDERS,
    match: /^gpt-(5\.[6-9]|[6-9])(?!.*-chat)/,
    abilities: { chatTools: "without_reasoning" },
  },
  {
    providers: OPENAI_PROVIDERS,
    match: /^gpt-5\.[2-5]-pro/,
    abilities: { efforts: ["medium", "high", "xhigh"] },
  },
  {
    providers: OPENAI_PROVIDERS,
    match: /^gpt-(5\.[6-9]|[6-9])/,
    abilities: {
      efforts: ["none", "low", "medium", "high", "xhigh", "max"],
      cacheBreakpointField: "prompt_cache_breakpoint",
    },
  },
  // "Unsupported value: 'none' is not supported with this model": they always reason. Recorded by 2026-11-28.
  {
    providers: OPENAI_PROVIDERS,
    match: /^gpt-(6-(astra|rosalind)|6\.1-(sol|terra)|6\.2)/,
    abilities: { efforts: ["low", "medium", "high", "xhigh", "max"] },
  },
  // "Unsupported parameter: 'stop' is not supported with this model"; OpenAI's reference says the same of o3 and o4-mini.
  {
    providers: OPENAI_PROVIDERS,
    match: /^(o[34]|gpt-5($|-mini|-nano|-\d)|gpt-(5\.[6-9]|[6-9]))(?!.*-chat)/,
    abilities: { stop: false, logprobs: false },
  },
];

const COMPATIBLE_RULES: readonly AbilityRule[] = [
  { providers: OPENAI_COMPATIBLE_PROVIDERS, match: /./, abilities: OPENAI_COMPATIBLE_ABILITIES },
  {
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
    providers: ["mistral"],
    match: /^mistral-small-(latest|2[6-9])/,
    abilities: { reasoning: "effort" },
  },
  {
    providers: ["perplexity"],
    match: /./,
    abilities: { streamOptions: false, webSearchOptions: true },
  },
  // JSON mode without schemas. A required tool call is rejected by their reasoning models, and by some models always.
  {
    providers: ["deepseek", "zai", "moonshot"],
    match: /./,
    abilities: { jsonSchema: false, schemaEmulation: "instructions" },
  },
  // "Thinking mode does not support this tool_choice"; they think unless the request turns it off.
  {
    providers: ["deepseek"],
    match: /^deepseek-(flash|pro|v[4-9])/,
    abilities: { forcedTools: "without_reasoning" },
  },
  {
    providers: ["deepseek", "zai", "moonshot", "xai", "fireworks", "vllm", "llamacpp"],
    match: /./,
    abilities: { reasoningField: "reasoning_content" },
  },
  {
    providers: ["openrouter", "groq", "cerebras", "together", "ollama"],
    match: /./,
    abilities: { reasoningField: "reasoning" },
  },
  {
    providers: ["openrouter"],
    match: /claude/,
    abilities: { cacheBreakpointField: "cache_control" },
  },
  {
    providers: ["groq", "cerebras"],
    match: /gpt-oss/,
    abilities: { efforts: ["low", "medium", "high"] },
  },
  // Groq accepts only the efforts "none" and "default", and "default" is what an absent effort means.
  { providers: ["groq"], match: /qwen/, abilities: { reasoning: "none" } },
  // Kimi K3 and GLM-5.3 always reason. Kimi's sampling is fixed: another temperature than 1 is a 400.
  { providers: ["moonshot"], match: /^kimi-k(2\.[5-9]|[3-9])/, abilities: { sampling: false } },
  {
    providers: ["moonshot", "zai"],
    match: /^(kimi-k3|glm-5\.3)/i,
    abilities: { efforts: ["low", "high", "max"] },
  },
  {
    providers: ["together"],
    match: /GLM-5\.3/,
    abilities: { efforts: ["low", "medium", "high", "max"] },
  },
  // "Thinking level MINIMAL is not supported for this model": Google's table of thinking levels. Gemini 4 cannot be turned off.
  {
    providers: ["google", "vertex"],
    match: /^gemini-(3\.[78]-flash(?!-lite)|4)/,
    abilities: { efforts: ["low", "medium", "high"] },
  },
  { providers: ["xai"], match: /^grok-3-mini/, abilities: { efforts: ["low", "high"] } },
  // These models reason but reject `reasoning_effort`.
  { providers: ["xai"], match: /^grok-(4-|code)/, abilities: { reasoning: "none" } },
];

const CLAUDE_RULES: readonly AbilityRule[] = [
  {
    providers: CLAUDE_PROVIDERS,
    match: /claude-(2|3|instant)/,
    abilities: { reasoning: "none", jsonSchema: false },
  },
  {
    providers: CLAUDE_PROVIDERS,
    match: /claude-3-7|claude-(opus|sonnet|haiku)-4(?!-[5-9])/,
    abilities: { reasoning: "budget", jsonSchema: false },
  },
  {
    providers: CLAUDE_PROVIDERS,
    match: /claude-(opus|sonnet|haiku)-4-5/,
    abilities: { reasoning: "budget" },
  },
  {
    providers: CLAUDE_PROVIDERS,
    match: /claude-(opus|sonnet)-4-6/,
    abilities: { efforts: ["low", "medium", "high", "max"], prefill: false },
  },
  {
    providers: CLAUDE_PROVIDERS,
    match: /claude-(opus-4-[7-9]|(opus|sonnet|haiku|fable|mythos)-[5-9])/,
    abilities: { sampling: false, prefill: false, thinkingBudget: false },
  },
  {
    providers: CLAUDE_PROVIDERS,
    match: /claude-sonnet-(5-[5-9]|[6-9])/,
    abilities: { thinkingOff: "between_tools", forcedTools: false },
  },
  {
    providers: CLAUDE_PROVIDERS,
    match: /claude-(opus-(5-[5-9]|[6-9])|(fable|mythos)-(5-[1-9]|[6-9]))/,
    abilities: { thinkingOff: "never", forcedTools: false },
  },
  {
    providers: ["anthropic", "vertex"],
    match: /claude-(opus|sonnet|haiku)-(5-[5-9]|[6-9])/,
    abilities: { computerTool: false },
  },
  {
    providers: ["anthropic"],
    match: /claude-opus-(4-8|[5-9])/,
    abilities: { midConversationInstructions: true },
  },
  {
    providers: CLAUDE_PROVIDERS,
    match: /claude-(opus-4-1|(opus|sonnet|haiku)-4-[56])/,
    abilities: { singleSampling: true },
  },
  { providers: ["bedrock"], match: /amazon\.nova/, abilities: { jsonSchema: false } },
  // Bedrock and Vertex accept Claude's images and documents only as bytes.
  { providers: ["bedrock", "vertex"], match: /claude/, abilities: { urlSources: false } },
];

/** Later rules override earlier ones. */
const RULES: readonly AbilityRule[] = [...OPENAI_RULES, ...COMPATIBLE_RULES, ...CLAUDE_RULES];

interface ModelAtProvider {
  readonly provider: string;
  /** The provider's own name for it. */
  readonly name: string;
  readonly wires: readonly UpstreamWireName[];
  /** What the catalog lists; empty if it lists nothing. */
  readonly supported: readonly string[];
  /** The operator declares the provider, so nothing else is known of it. */
  readonly isDeclared: boolean;
}

export function findAbilities({
  provider,
  name,
  wires,
  supported,
  isDeclared,
}: ModelAtProvider): Abilities {
  const host = isDeclared ? DECLARED_PROVIDER : provider;
  const rules = RULES.filter((rule) => rule.providers.includes(host) && rule.match.test(name));
  // Of a declared chat server, assume only the common fields.
  const openaiFields = new Set(wires.map((wire) => WIRE_TRAITS[wire].openaiFields));
  const isPlainChatServer = isDeclared && openaiFields.has("common") && !openaiFields.has("all");
  const abilities: Abilities = Object.assign(
    {},
    isPlainChatServer ? OPENAI_COMPATIBLE_ABILITIES : {},
    ...rules.map((rule) => rule.abilities),
  );
  return supported.includes("reasoning") ||
    abilities.reasoning !== undefined ||
    supported.length === 0
    ? abilities
    : { ...abilities, reasoning: "none" };
}
