import type { ResponseUsage } from "openai/resources/responses/responses";
import type { JsonObject } from "../../../../base/json.ts";
import type { UsageReport } from "../../../canonical/reply.ts";

/** The disjoint meters as this API counts: cached tokens within the input, reasoning within the output. */
export function writeUsage(report: UsageReport): JsonObject {
  const { tokens } = report.usage;
  const cached = (tokens.cache_read ?? 0) + (tokens.cache_read_audio ?? 0);
  const written = (tokens.cache_write_5m ?? 0) + (tokens.cache_write_1h ?? 0);
  const fresh = (tokens.input ?? 0) + (tokens.input_audio ?? 0) + (tokens.input_image ?? 0);
  const reasoning = tokens.reasoning ?? 0;
  const said = (tokens.output ?? 0) + (tokens.output_audio ?? 0) + (tokens.output_image ?? 0);
  const usage: ResponseUsage = {
    input_tokens: fresh + cached + written,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
    output_tokens: said + reasoning,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: fresh + cached + written + said + reasoning,
  };
  return { ...usage, ...report.extras };
}
