import { type Ability, factRules, type Modality, type SupplementalModel } from "../model-facts.ts";

const PRICING_URL = "https://docs.x.ai/developers/pricing";
const CHECKED_ON = "2026-11-21";
const XAI = ["xai"];

const TEXT_IMAGE: readonly Modality[] = ["text", "image"];
const BASE_ABILITIES: readonly Ability[] = [
  "tools",
  "parallel_tools",
  "structured_output",
  "prompt_caching",
  "web_search",
];

export const XAI_FACTS = factRules({ providers: XAI, source: PRICING_URL, checked: CHECKED_ON }, [
  { match: /./, wires: ["chat", "responses"], supported: BASE_ABILITIES },
  { match: /^grok-4/, input: TEXT_IMAGE, supported: [...BASE_ABILITIES, "reasoning"] },
  { match: /non-reasoning/, supported: BASE_ABILITIES },
  { match: /^grok-(3-mini|code|build)/, supported: [...BASE_ABILITIES, "reasoning"] },
  { match: /^grok-4\.(3|20)/, context: 1_000_000 },
  { match: /^grok-4\.[567]/, context: 500_000 },
]);

// xAI: "Long context ≥ 200k tokens", so exactly 200,000 tokens are billed at the higher price.
function grokModel(
  name: string,
  title: string,
  aliases: readonly string[],
  prices: readonly [number, number, number],
): SupplementalModel {
  const [input, cacheRead, output] = prices;
  return {
    provider: "xai",
    name,
    title,
    aliases,
    pricing: [
      {
        tokens: { input, cache_read: cacheRead, output },
        tiers: [
          {
            above_input_tokens: 199_999,
            tokens: { input: input * 2, cache_read: cacheRead * 2, output: output * 2 },
          },
        ],
      },
    ],
    source: PRICING_URL,
    checked: CHECKED_ON,
  };
}

export const XAI_MODELS: readonly SupplementalModel[] = [
  grokModel(
    "grok-4.20-0309-reasoning",
    "Grok 4.20 Reasoning",
    ["grok-4.20-reasoning"],
    [1.25, 0.2, 2.5],
  ),
  grokModel(
    "grok-4.20-0309-non-reasoning",
    "Grok 4.20 Non-Reasoning",
    ["grok-4.20-non-reasoning"],
    [1.25, 0.2, 2.5],
  ),
  grokModel(
    "grok-4.20-multi-agent",
    "Grok 4.20 Multi-Agent",
    ["grok-4.20-multi-agent-0309"],
    [1.25, 0.2, 2.5],
  ),
];

/** xAI may answer, and bill, older names as this model. A hold covers the more expensive of the two. */
export const XAI_MAY_ANSWER_AS = { match: /^grok-(3|4-|code)/, id: "xai/grok-4.3" } as const;
