import type { UsageReport } from "../../canonical/canonical-reply.ts";
import type { JsonObject } from "../../json-fields.ts";
import { sumTokens } from "../../usage/usage-meters.ts";

const SERVICE_TIERS: ReadonlySet<unknown> = new Set(["standard", "priority", "batch"]);
const SPEEDS: ReadonlySet<unknown> = new Set(["standard", "fast"]);

/** In this API the input tokens exclude tokens that were read from or written to the cache. */
export function writeUsage({ usage, extras }: UsageReport): JsonObject {
  const { tokens, fees, serviceTier, speed, region } = usage;
  const written5m = tokens.cache_write_5m ?? 0;
  const written1h = tokens.cache_write_1h ?? 0;
  const tools = {
    web_search_requests: fees.web_search ?? 0,
    web_fetch_requests: fees.web_fetch ?? 0,
  };
  return {
    input_tokens: sumTokens(usage, "input", "input_audio", "input_image"),
    cache_creation_input_tokens: written5m + written1h,
    cache_read_input_tokens: sumTokens(usage, "cache_read", "cache_read_audio", "cache_read_image"),
    cache_creation: { ephemeral_5m_input_tokens: written5m, ephemeral_1h_input_tokens: written1h },
    output_tokens: sumTokens(usage, "output", "reasoning", "output_audio", "output_image"),
    output_tokens_details: tokens.reasoning ? { thinking_tokens: tokens.reasoning } : null,
    server_tool_use: tools.web_search_requests + tools.web_fetch_requests > 0 ? tools : null,
    service_tier: SERVICE_TIERS.has(serviceTier) ? serviceTier : null,
    speed: SPEEDS.has(speed) ? speed : null,
    inference_geo: region ?? null,
    ...extras,
  };
}

/** The usage at the start of a stream. */
export function initialUsage(inputTokens: number): JsonObject {
  return writeUsage({ usage: { tokens: { input: inputTokens }, fees: {} } });
}
