import type { UsageReport } from "../../canonical/canonical-reply.ts";
import type { JsonObject } from "../../json-fields.ts";
import type { Usage } from "../../usage/usage-meters.ts";

/** In this API cached tokens are part of the prompt tokens, and reasoning tokens part of the completion tokens. */
export function writeUsage(report: UsageReport): JsonObject {
  const { tokens } = report.usage;
  const cached =
    (tokens.cache_read ?? 0) + (tokens.cache_read_audio ?? 0) + (tokens.cache_read_image ?? 0);
  const cacheWrites = (tokens.cache_write_5m ?? 0) + (tokens.cache_write_1h ?? 0);
  const inputAudio = (tokens.input_audio ?? 0) + (tokens.cache_read_audio ?? 0);
  const prompt = inputTokens(report.usage);
  const completion =
    (tokens.output ?? 0) +
    (tokens.reasoning ?? 0) +
    (tokens.output_audio ?? 0) +
    (tokens.output_image ?? 0);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: cached,
      audio_tokens: inputAudio,
      ...(cacheWrites > 0 ? { cache_write_tokens: cacheWrites } : undefined),
    },
    completion_tokens_details: {
      reasoning_tokens: tokens.reasoning ?? 0,
      audio_tokens: tokens.output_audio ?? 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
    ...report.extras,
  };
}

function inputTokens({ tokens }: Usage): number {
  let sum = tokens.input ?? 0;
  for (const meter of [
    "cache_read",
    "cache_write_5m",
    "cache_write_1h",
    "input_audio",
    "cache_read_audio",
    "input_image",
    "cache_read_image",
  ] as const) {
    sum += tokens[meter] ?? 0;
  }
  return sum;
}
