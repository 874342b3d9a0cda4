// Service tiers in OpenAI's two APIs. Other servers report further ones.

const OPENAI_TIERS: ReadonlySet<unknown> = new Set([
  "auto",
  "default",
  "flex",
  "scale",
  "priority",
  "fast",
]);

/** The tier, if these APIs have it; the usage record keeps any tier. */
export function openaiServiceTier(tier: string | undefined): string | undefined {
  return OPENAI_TIERS.has(tier) ? tier : undefined;
}
