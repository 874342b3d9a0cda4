import { type Ability, factRules, type Modality, priceRules } from "../model-facts.ts";

const PRICING_URL = "https://platform.claude.com/docs/en/about-claude/pricing";
const FAST_MODE_URL = "https://platform.claude.com/docs/en/build-with-claude/fast-mode";
const MODELS_URL = "https://platform.claude.com/docs/en/about-claude/models/overview";
const CHECKED_ON = "2026-11-21";

/** All of them have "claude" in their model names. */
const ANTHROPIC_HOSTS = ["anthropic", "vertex", "bedrock"];
const ANTHROPIC = ["anthropic"];
const TEXT_IMAGE_FILE: readonly Modality[] = ["text", "image", "file"];
const BASE_ABILITIES: readonly Ability[] = ["tools", "parallel_tools", "prompt_caching"];
const REASONING_ABILITIES: readonly Ability[] = [...BASE_ABILITIES, "reasoning"];
const NEWEST_ABILITIES: readonly Ability[] = [
  ...REASONING_ABILITIES,
  "structured_output",
  "web_search",
];

export const ANTHROPIC_FACTS = factRules(
  { providers: ANTHROPIC_HOSTS, source: MODELS_URL, checked: CHECKED_ON },
  [
    { providers: ANTHROPIC, match: /./, wires: ["messages"] },
    { providers: ["vertex"], match: /claude/, wires: ["messages"] },
    {
      match: /claude-3-(haiku|opus|sonnet)/,
      context: 200_000,
      maxOutput: 4096,
      input: TEXT_IMAGE_FILE,
      supported: BASE_ABILITIES,
      checked: null,
    },
    {
      match: /claude-3-5-/,
      context: 200_000,
      maxOutput: 8192,
      input: TEXT_IMAGE_FILE,
      supported: BASE_ABILITIES,
      checked: null,
    },
    {
      match: /claude-(3-7-sonnet|sonnet-4(-0|-2025|$))/,
      context: 200_000,
      maxOutput: 64_000,
      input: TEXT_IMAGE_FILE,
      supported: REASONING_ABILITIES,
    },
    {
      match: /claude-opus-4(-0|-1|-2025|$)/,
      context: 200_000,
      maxOutput: 32_000,
      input: TEXT_IMAGE_FILE,
      supported: REASONING_ABILITIES,
    },
    {
      match: /claude-(sonnet|opus|haiku)-4-5/,
      context: 200_000,
      maxOutput: 64_000,
      input: TEXT_IMAGE_FILE,
      supported: NEWEST_ABILITIES,
    },
    {
      match: /claude-(sonnet|opus)-4-[678]/,
      context: 1_000_000,
      maxOutput: 128_000,
      input: TEXT_IMAGE_FILE,
      supported: NEWEST_ABILITIES,
    },
    {
      match: /claude-(sonnet|opus|haiku|fable|mythos)-5/,
      context: 1_000_000,
      maxOutput: 128_000,
      input: TEXT_IMAGE_FILE,
      supported: NEWEST_ABILITIES,
    },
    { match: /claude-opus-4-5/, released: "2025-11-01" },
    { match: /claude-sonnet-4-5/, released: "2025-09-29" },
    { match: /claude-haiku-4-5/, released: "2025-10-15" },
    { match: /claude-sonnet-5(-v|$)/, released: "2026-06-30" },
    { match: /claude-opus-5(-v|$)/, released: "2026-07-24" },
    { match: /claude-fable-5(-v|$)/, released: "2026-06-09" },
    { match: /claude-fable-5-1/, released: "2026-09-01" },
    { match: /claude-haiku-5-5/, released: "2026-10-07" },
    { match: /claude-fable-5-2/, released: "2026-11-09" },
  ],
);

export const ANTHROPIC_PRICE_RULES = priceRules(
  { providers: ANTHROPIC, source: PRICING_URL, checked: CHECKED_ON },
  [
    // A five-minute cache write costs 1.25 times, a one-hour write 2 times the input price, at every provider of Claude.
    { providers: ANTHROPIC_HOSTS, match: /claude/, cacheWrite5m: "1.25", cacheWrite1h: "2" },
    // Priority uses capacity that the organization committed to: its calls are charged at list price.
    { match: /./, serviceTiers: { batch: "0.5", priority: "1" } },
    {
      match: /claude-(sonnet|opus)-4-[678]|claude-(sonnet|opus|haiku|fable|mythos)-5/,
      regions: { us: "1.1" },
    },
    { match: /claude-opus-4-[67]/, speeds: { fast: "6" }, source: FAST_MODE_URL },
    { match: /claude-opus-5(-5)?$/, speeds: { fast: "2" }, source: FAST_MODE_URL },
  ],
);
