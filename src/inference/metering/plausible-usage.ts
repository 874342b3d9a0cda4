// Usage that a provider can have billed for a request: what it reports beyond is its mistake.

export interface PlausibleUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Reported usage above the bound by this factor is implausible. */
const IMPLAUSIBLE_FACTOR = 2;
/** Tokens that providers add themselves: system instructions and framing of every message. */
const PROVIDER_INPUT_SLACK_TOKENS = 4_000;
const PROVIDER_OUTPUT_SLACK_TOKENS = 1_000;
/** How often a provider may run the model within one call to process the results of its own tools. */
export const TOOL_ROUNDS_MAX = 64;

// Every tool round counts the whole prompt again, so with provider tools only the model's context bounds the input. A provider
// that ignores the caller's output limit bills up to the model's own.
export function plausibleUsage(
  bound: PlausibleUsage & { readonly hasTools: boolean; readonly choices: number },
  limits: { readonly input: number; readonly output: number },
): PlausibleUsage {
  const input = bound.inputTokens * IMPLAUSIBLE_FACTOR + PROVIDER_INPUT_SLACK_TOKENS;
  const output = Math.max(
    PROVIDER_OUTPUT_SLACK_TOKENS,
    bound.outputTokens * IMPLAUSIBLE_FACTOR,
    limits.output * bound.choices,
  );
  return !bound.hasTools
    ? { inputTokens: input, outputTokens: output }
    : {
        inputTokens: Math.max(input, limits.input * TOOL_ROUNDS_MAX),
        outputTokens: Math.max(output, limits.output * TOOL_ROUNDS_MAX),
      };
}
