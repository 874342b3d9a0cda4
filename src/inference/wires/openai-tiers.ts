// The service tiers that OpenAI's two APIs know. Other servers have names of their own for what they do without being asked.

const OPENAI_TIERS: ReadonlySet<unknown> = new Set([
  "auto",
  "default",
  "flex",
  "scale",
  "priority",
  "fast",
]);

/** The tier as those APIs may show it; what they have no name for is left to the usage record. */
export function openaiServiceTier(tier: string | undefined): string | undefined {
  return OPENAI_TIERS.has(tier) ? tier : undefined;
}
