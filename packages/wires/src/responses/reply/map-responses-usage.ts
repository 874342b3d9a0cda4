import type { ResponseUsage } from "openai/resources/responses/responses";
import type { UsageReport } from "../../canonical/canonical-reply.ts";
import type { JsonObject } from "../../json-fields.ts";

/** In this API cached tokens are part of the input tokens, and reasoning tokens part of the output tokens. */
export function writeUsage(report: UsageReport): JsonObject {
  const { tokens } = report.usage;
  const cached = (tokens.cache_read ?? 0) + (tokens.cache_read_audio ?? 0);
  const written = (tokens.cache_write_5m ?? 0) + (tokens.cache_write_1h ?? 0);
  const uncached = (tokens.input ?? 0) + (tokens.input_audio ?? 0) + (tokens.input_image ?? 0);
  const reasoning = tokens.reasoning ?? 0;
  const output = (tokens.output ?? 0) + (tokens.output_audio ?? 0) + (tokens.output_image ?? 0);
  const usage: ResponseUsage = {
    input_tokens: uncached + cached + written,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
    output_tokens: output + reasoning,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: uncached + cached + written + output + reasoning,
  };
  return { ...usage, ...report.extras };
}
