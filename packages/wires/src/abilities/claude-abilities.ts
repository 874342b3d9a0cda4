// Claude's models, at Anthropic and at clouds.

import { DECLARED_PROVIDER, type AbilityRule, LITELLM, RECORDED } from "./ability-rule.ts";

const CLAUDE_PROVIDERS = ["anthropic", "bedrock", "vertex", DECLARED_PROVIDER] as const;

const FROM = {
  litellm: LITELLM,
  thinking: {
    source:
      "https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-adaptive-thinking.html",
    checked: "2026-11-28",
  },
  computer: {
    source: "https://platform.claude.com/docs/en/agents-and-tools/tool-use/computer-use-tool",
    checked: "2026-11-23",
  },
  bedrock: RECORDED,
  recorded: RECORDED,
} as const;

export const CLAUDE_RULES: readonly AbilityRule[] = [
  {
    ...FROM.litellm,
    providers: CLAUDE_PROVIDERS,
    match: /claude-(2|3|instant)/,
    abilities: { reasoning: "none", jsonSchema: false },
  },
  {
    ...FROM.thinking,
    providers: CLAUDE_PROVIDERS,
    match: /claude-3-7|claude-(opus|sonnet|haiku)-4(?!-[5-9])/,
    abilities: { reasoning: "budget", jsonSchema: false },
  },
  {
    ...FROM.thinking,
    providers: CLAUDE_PROVIDERS,
    match: /claude-(opus|sonnet|haiku)-4-5/,
    abilities: { reasoning: "budget" },
  },
  {
    ...FROM.thinking,
    providers: CLAUDE_PROVIDERS,
    match: /claude-(opus|sonnet)-4-6/,
    abilities: { efforts: ["low", "medium", "high", "max"], prefill: false },
  },
  {
    ...FROM.thinking,
    providers: CLAUDE_PROVIDERS,
    match: /claude-(opus-4-[7-9]|(opus|sonnet|haiku|fable|mythos)-[5-9])/,
    abilities: { sampling: false, prefill: false, thinkingBudget: false },
  },
  {
    ...FROM.recorded,
    providers: CLAUDE_PROVIDERS,
    match: /claude-sonnet-(5-[5-9]|[6-9])/,
    abilities: { thinkingOff: "between_tools", forcedTools: false },
  },
  {
    ...FROM.recorded,
    providers: CLAUDE_PROVIDERS,
    match: /claude-(opus-(5-[5-9]|[6-9])|(fable|mythos)-(5-[1-9]|[6-9]))/,
    abilities: { thinkingOff: "never", forcedTools: false },
  },
  {
    ...FROM.computer,
    providers: ["anthropic", "vertex"],
    match: /claude-(opus|sonnet|haiku)-(5-[5-9]|[6-9])/,
    abilities: { computerTool: false },
  },
  {
    ...FROM.recorded,
    providers: ["anthropic"],
    match: /claude-opus-(4-8|[5-9])/,
    abilities: { midConversationInstructions: true },
  },
  {
    ...FROM.recorded,
    providers: CLAUDE_PROVIDERS,
    match: /claude-(opus-4-1|(opus|sonnet|haiku)-4-[56])/,
    abilities: { singleSampling: true },
  },
  {
    ...FROM.bedrock,
    providers: ["bedrock"],
    match: /amazon\.nova/,
    abilities: { jsonSchema: false },
  },
  // Bedrock and Vertex accept Claude's images and documents only as bytes.
  {
    ...FROM.bedrock,
    providers: ["bedrock", "vertex"],
    match: /claude/,
    abilities: { urlSources: false },
  },
];
