// The abilities of each provider's main models, from their documentation and recorded errors.

import { describe, expect, test } from "bun:test";
import type { Abilities } from "@postern/wires";
import type { Model } from "../../src/models/catalog.ts";
import { abilitiesOf } from "../../src/models/model-abilities.ts";

function model(id: string, more: Partial<Model> = {}): Model {
  const [provider = "", ...name] = id.split("/");
  return {
    id,
    provider,
    name: name.join("/"),
    title: id,
    kind: "chat",
    created: 0,
    contextLength: null,
    maxOutputTokens: null,
    inputModalities: ["text"],
    outputModalities: ["text"],
    supported: ["reasoning", "tools"],
    wires: ["chat"],
    aliases: [],
    spellings: [],
    prices: [],
    source: "",
    checked: "",
    retired: false,
    shutdownDate: null,
    simulated: false,
    ...more,
  };
}

const EXPECTED: readonly (readonly [id: string, abilities: Abilities])[] = [
  ["openai/gpt-4o", { openaiFields: true, reasoning: "none" }],
  ["openai/gpt-4-turbo", { jsonSchema: false }],
  ["openai/gpt-5-nano", { sampling: false, efforts: ["minimal", "low", "medium", "high"] }],
  ["openai/gpt-5.1", { efforts: ["none", "low", "medium", "high"], reasonsOnRequest: true }],
  [
    "openai/gpt-5.6-sol",
    { cacheBreakpointField: "prompt_cache_breakpoint", sampling: "without_reasoning" },
  ],
  ["openai/gpt-5-codex", { sampling: false }],
  ["openai/gpt-5.2", { sampling: "without_reasoning", reasonsOnRequest: true }],
  ["openai/gpt-6-sol", { sampling: "without_reasoning", reasoning: "effort" }],
  ["openai/o3", { efforts: ["low", "medium", "high"], maxTokensField: "max_completion_tokens" }],
  ["anthropic/claude-3-5-haiku-latest", { reasoning: "none", jsonSchema: false }],
  ["anthropic/claude-3-7-sonnet-20250219", { reasoning: "budget", jsonSchema: false }],
  ["anthropic/claude-sonnet-4-20250514", { reasoning: "budget", jsonSchema: false }],
  ["anthropic/claude-sonnet-4-5", { reasoning: "budget" }],
  ["anthropic/claude-opus-4-1-20250805", { singleSampling: true }],
  ["bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0", { singleSampling: true }],
  ["anthropic/claude-opus-4-6", { efforts: ["low", "medium", "high", "max"], prefill: false }],
  [
    "anthropic/claude-opus-4-8",
    { sampling: false, prefill: false, midConversationInstructions: true },
  ],
  ["anthropic/claude-mythos-5", { sampling: false, prefill: false }],
  ["google/gemini-3.7-flash", { efforts: ["low", "medium", "high"] }],
  ["vertex/gemini-4-argon", { efforts: ["low", "medium", "high"] }],
  ["anthropic/claude-fable-5-1", { sampling: false, prefill: false, thinkingOff: "never" }],
  ["bedrock/us.anthropic.claude-opus-5-5", { thinkingOff: "never", thinkingBudget: false }],
  ["anthropic/claude-sonnet-5-5", { thinkingOff: "between_tools", thinkingBudget: false }],
  [
    "bedrock/global.anthropic.claude-sonnet-4-20250514-v1:0",
    { reasoning: "budget", urlSources: false },
  ],
  ["vertex/claude-opus-4-7", { sampling: false, urlSources: false }],
  ["openai/gpt-6.2-sol", { stop: false, efforts: ["low", "medium", "high", "xhigh", "max"] }],
  ["openai/gpt-5-mini", { stop: false, logprobs: false }],
  ["deepseek/deepseek-v4-pro", { forcedTools: "without_reasoning" }],
  ["mistral/mistral-large-latest", { rejectsUnknownFields: true, seedField: "random_seed" }],
  ["mistral/magistral-medium-latest", { callIdFormat: "alphanumeric9", streamOptions: false }],
  ["mistral/mistral-small-latest", { reasoning: "effort", efforts: ["none", "high"] }],
  ["deepseek/deepseek-v4-pro", { jsonSchema: false, reasoningField: "reasoning_content" }],
  ["groq/openai/gpt-oss-120b", { reasoningField: "reasoning", efforts: ["low", "medium", "high"] }],
  ["xai/grok-4-0709", { reasoning: "none", openaiFields: false }],
  ["xai/grok-3-mini", { efforts: ["low", "high"] }],
  ["moonshot/kimi-k3", { efforts: ["low", "high", "max"], sampling: false }],
  ["moonshot/kimi-k3.1-pro-highspeed", { efforts: ["low", "high", "max"], sampling: false }],
  ["zai/glm-5.3-flash", { efforts: ["low", "high", "max"] }],
  ["together/zai-org/GLM-5.3", { efforts: ["low", "medium", "high", "max"] }],
  ["openrouter/anthropic/claude-haiku-4.5", { cacheBreakpointField: "cache_control" }],
  ["mine/llama-4", { openaiFields: false, developerRole: false, maxTokensField: "max_tokens" }],
];

describe("abilities", () => {
  for (const [id, abilities] of EXPECTED)
    test(id, () => {
      expect(abilitiesOf(model(id))).toMatchObject(abilities);
    });

  test("OpenAI's chat-latest models take a temperature and do not reason", () => {
    const found = abilitiesOf(model("openai/gpt-5-chat-latest", { supported: ["tools"] }));
    expect(found).toMatchObject({ reasoning: "none" });
    expect(found.sampling).toBeUndefined();
    expect(found.efforts).toBeUndefined();
  });

  test("an unknown model has no restrictions", () => {
    expect(abilitiesOf(model("mine/x", { supported: [], wires: ["messages"] }))).toEqual({});
  });
});
