import type { Ability, FactRule, Modality, PriceRule } from "../model-facts.ts";

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

export const ANTHROPIC_FACTS: readonly FactRule[] = [
  {
    providers: ANTHROPIC,
    match: /./,
    wires: ["messages"],
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ["vertex"],
    match: /claude/,
    wires: ["messages"],
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-3-(haiku|opus|sonnet)/,
    context: 200_000,
    maxOutput: 4096,
    input: TEXT_IMAGE_FILE,
    supported: BASE_ABILITIES,
    source: MODELS_URL,
    checked: null,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-3-5-/,
    context: 200_000,
    maxOutput: 8192,
    input: TEXT_IMAGE_FILE,
    supported: BASE_ABILITIES,
    source: MODELS_URL,
    checked: null,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-(3-7-sonnet|sonnet-4(-0|-2025|$))/,
    context: 200_000,
    maxOutput: 64_000,
    input: TEXT_IMAGE_FILE,
    supported: REASONING_ABILITIES,
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-opus-4(-0|-1|-2025|$)/,
    context: 200_000,
    maxOutput: 32_000,
    input: TEXT_IMAGE_FILE,
    supported: REASONING_ABILITIES,
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-(sonnet|opus|haiku)-4-5/,
    context: 200_000,
    maxOutput: 64_000,
    input: TEXT_IMAGE_FILE,
    supported: NEWEST_ABILITIES,
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-(sonnet|opus)-4-[678]/,
    context: 1_000_000,
    maxOutput: 128_000,
    input: TEXT_IMAGE_FILE,
    supported: NEWEST_ABILITIES,
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-(sonnet|opus|haiku|fable|mythos)-5/,
    context: 1_000_000,
    maxOutput: 128_000,
    input: TEXT_IMAGE_FILE,
    supported: NEWEST_ABILITIES,
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-opus-4-5/,
    released: "2025-11-01",
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-sonnet-4-5/,
    released: "2025-09-29",
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-haiku-4-5/,
    released: "2025-10-15",
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-sonnet-5(-v|$)/,
    released: "2026-06-30",
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-opus-5(-v|$)/,
    released: "2026-07-24",
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-fable-5(-v|$)/,
    released: "2026-06-09",
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-fable-5-1/,
    released: "2026-09-01",
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-haiku-5-5/,
    released: "2026-10-07",
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude-fable-5-2/,
    released: "2026-11-09",
    source: MODELS_URL,
    checked: CHECKED_ON,
  },
];

export const ANTHROPIC_PRICE_RULES: readonly PriceRule[] = [
  // A five-minute cache write costs 1.25 times, a one-hour write 2 times the input price, at every provider of Claude.
  {
    providers: ANTHROPIC_HOSTS,
    match: /claude/,
    cacheWrite5m: "1.25",
    cacheWrite1h: "2",
    source: PRICING_URL,
    checked: CHECKED_ON,
  },
  // Priority uses capacity that the organization committed to: its calls are charged at list price.
  {
    providers: ANTHROPIC,
    match: /./,
    serviceTiers: { batch: "0.5", priority: "1" },
    source: PRICING_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC,
    match: /claude-(sonnet|opus)-4-[678]|claude-(sonnet|opus|haiku|fable|mythos)-5/,
    regions: { us: "1.1" },
    source: PRICING_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC,
    match: /claude-opus-4-[67]/,
    speeds: { fast: "6" },
    source: FAST_MODE_URL,
    checked: CHECKED_ON,
  },
  {
    providers: ANTHROPIC,
    match: /claude-opus-5(-5)?$/,
    speeds: { fast: "2" },
    source: FAST_MODE_URL,
    checked: CHECKED_ON,
  },
];
