import { factRules, type SupplementalModel } from "../model-facts.ts";
import type { Pricing, TokenPrices } from "../price-card.ts";

const PRICING_URL = "https://api-docs.deepseek.com/quick_start/pricing";
const CHECKED_ON = "2026-11-21";

// The off-peak price is half of the peak price. Peak is 09:00–12:00 and 14:00–18:00 in Beijing, on weekdays. Chinese public
// holidays are off-peak as well, but they are announced year by year, so they are billed as weekdays here.
const PEAK_HOURS = [
  { start: "01:00", end: "04:00", weekdays: [1, 2, 3, 4, 5] },
  { start: "06:00", end: "10:00", weekdays: [1, 2, 3, 4, 5] },
];

function peakAndOffPeak(offPeak: TokenPrices, peak: TokenPrices): readonly Pricing[] {
  return [{ tokens: offPeak }, ...PEAK_HOURS.map((hours) => ({ tokens: peak, hours }))];
}

export const DEEPSEEK_FACTS = factRules(
  { providers: ["deepseek"], source: PRICING_URL, checked: CHECKED_ON },
  [
    {
      match: /./,
      wires: ["chat", "responses", "messages"],
      supported: ["tools", "structured_output", "prompt_caching"],
    },
    {
      match: /^deepseek-(flash|v4)/,
      context: 1_000_000,
      maxOutput: 384_000,
      supported: ["tools", "structured_output", "prompt_caching", "reasoning"],
    },
    { match: /^deepseek-flash/, input: ["text", "image"] },
  ],
);

export const DEEPSEEK_MODELS: readonly SupplementalModel[] = [
  {
    provider: "deepseek",
    name: "deepseek-flash",
    title: "DeepSeek V4.1 Flash",
    // Older names are answered by this model, at its price.
    aliases: ["deepseek-v4-flash", "deepseek-v4-flash-vision-exp", "deepseek-v4.1-flash"],
    pricing: peakAndOffPeak(
      { input: "0.15", cache_read: "0.003", output: "0.6" },
      { input: "0.3", cache_read: "0.006", output: "1.2" },
    ),
    source: PRICING_URL,
    checked: CHECKED_ON,
  },
  {
    provider: "deepseek",
    name: "deepseek-v4-pro",
    title: "DeepSeek V4 Pro",
    pricing: peakAndOffPeak(
      { input: "0.66", cache_read: "0.022", output: "1.98" },
      { input: "1.32", cache_read: "0.044", output: "3.96" },
    ),
    source: PRICING_URL,
    checked: CHECKED_ON,
  },
];
