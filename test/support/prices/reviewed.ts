// Prices that were once wrong or missing, in US dollars per million tokens. If a provider changes its price, change the row.

export interface ReviewedPrice {
  readonly id: string;
  readonly input: number;
  readonly cacheRead: number;
  readonly output: number;
  /** A page of the provider with the same price, read on the day of `REVIEWED_ON`; without one, the lists alone agree. */
  readonly page?: string;
}

export const REVIEWED_ON = "2026-11-23";

const CLAUDE = "https://platform.claude.com/docs/en/about-claude/pricing";
const OPENAI = "https://developers.openai.com/api/docs/models";
const GEMINI = "https://ai.google.dev/gemini-api/docs";

export const REVIEWED: readonly ReviewedPrice[] = [
  row("anthropic/claude-sonnet-5-5", [2, 0.1, 10]),
  row("vertex/claude-opus-4-6", [5, 0.5, 25], CLAUDE),
  row("zai/glm-5.3-flash", [0.15, 0.03, 0.5]),
  row("groq/openai/gpt-oss-safeguard-20b", [0.075, 0.0375, 0.3]),
  row("fireworks/kimi-k3-us", [4.5, 0.45, 22.5]),
  row("openai/gpt-6.1-sol", [2, 0.1, 10]),
  row("openai/gpt-6.1-terra", [1, 0.05, 5], `${OPENAI}/gpt-6.1-terra`),
  row("azure/gpt-6.1-terra", [1, 0.05, 5]),
  row("bedrock/us.openai.gpt-6.1-terra", [1.1, 0.055, 5.5]),
  row("google/gemini-4-argon", [2, 0.1, 10], `${GEMINI}/generate-content/latest-model`),
  row("vertex/gemini-4-argon", [2, 0.1, 10]),
  row("google/gemini-flash-latest", [0.75, 0.075, 3.75]),
  row("google/gemini-flash-lite-latest", [0.3, 0.03, 2.5], `${GEMINI}/whats-new-gemini-3.6`),
  row("mistral/ministral-3b-latest", [0.1, 0.01, 0.1]),
  row("zai/glm-4.6", [0.6, 0.11, 2.2]),
  row("zai/glm-5.2", [1.4, 0.26, 4.4]),
  row("zai/glm-5.3", [1.4, 0.26, 4.4]),
  row("together/deepseek-ai/DeepSeek-V4.1-Flash", [0.3, 0.006, 1.2]),
  row("fireworks/deepseek-v4p1-flash", [0.3, 0.006, 1.2]),
  row("bedrock/global.anthropic.claude-sonnet-5-5", [2, 0.1, 10]),
  row("bedrock/us.anthropic.claude-sonnet-5-5", [2.2, 0.11, 11]),
  row("bedrock/us.moonshotai.kimi-k3", [3.3, 0.33, 16.5]),
];

function row(
  id: string,
  [input, cacheRead, output]: readonly [input: number, cacheRead: number, output: number],
  page?: string,
): ReviewedPrice {
  return { id, input, cacheRead, output, ...(page === undefined ? {} : { page }) };
}
