// The meters of a model call. Token meters are disjoint, so a cost is the sum of meter × price. Every wire converts its
// provider's usage to this form.

export const TOKEN_METERS = [
  "input",
  "cache_read",
  /** Kept for five minutes, or for 30 at OpenAI. */
  "cache_write_5m",
  /** Kept for an hour, or for 12 at OpenAI. */
  "cache_write_1h",
  "input_audio",
  "cache_read_audio",
  "input_image",
  "cache_read_image",
  "output",
  "reasoning",
  "output_audio",
  "output_image",
] as const;
export type TokenMeter = (typeof TOKEN_METERS)[number];

/** What a provider charges per unit, besides tokens. */
export const FEE_METERS = [
  "request",
  "web_search",
  "web_search_preview",
  "web_fetch",
  "code_execution",
  /** A minute of a container, times its memory in GB. */
  "container_minute",
  "file_search",
  "grounding",
  "x_search",
  "image_generation",
  /** A million pixels of a generated image. */
  "megapixel",
  "audio_second",
  /** A character of text that is spoken. */
  "character",
  /** A query with up to 100 documents. */
  "search_unit",
  "other_tool",
] as const;
export type FeeMeter = (typeof FEE_METERS)[number];

/** Usage of one model in a call. `reasoning` is not part of `output` here; usage records add them. */
export interface Usage {
  readonly tokens: Readonly<Partial<Record<TokenMeter, number>>>;
  readonly fees: Readonly<Partial<Record<FeeMeter, number>>>;
  /** The model that replied, by the provider's name. */
  readonly model?: string;
  /** As in the reply: "standard", "flex", "priority", "batch", … */
  readonly serviceTier?: string;
  /** Such as Anthropic's "fast" mode. */
  readonly speed?: string;
  /** Where inference ran, if the price depends on it. */
  readonly region?: string;
  /** The size and quality of the images, if the price depends on them. */
  readonly imageClass?: string;
  /** Usage at another model's price in the same call, such as an advisor model or a compaction. */
  readonly additional?: readonly Usage[];
  /** The cost that the provider reports. */
  readonly statedCostUsd?: number;
  /** True if an implausible number was clamped. */
  readonly isClamped?: true;
}

export function sumTokens({ tokens }: Usage, ...meters: readonly TokenMeter[]): number {
  return meters.reduce((total, meter) => total + (tokens[meter] ?? 0), 0);
}
