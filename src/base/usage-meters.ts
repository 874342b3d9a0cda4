// What a model call is measured in. The token meters are disjoint: no token is counted by two of them,
// so a cost is the plain sum of meter × price. Every wire proves its provider's numbers into this form.

export const TOKEN_METERS = [
  "input",
  "cache_read",
  "cache_write_5m",
  "cache_write_1h",
  "input_audio",
  "cache_read_audio",
  "input_image",
  "output",
  "reasoning",
  "output_audio",
  "output_image",
] as const;
export type TokenMeter = (typeof TOKEN_METERS)[number];

/** Things a provider charges by the piece, beside tokens. */
export const FEE_METERS = [
  "request",
  "web_search",
  "web_fetch",
  "code_execution",
  "file_search",
  "grounding",
  "x_search",
  "image_generation",
  "audio_second",
  "other_tool",
] as const;
export type FeeMeter = (typeof FEE_METERS)[number];

/** What one model answered within a call. `reasoning` is not part of `output` here; the records that users see add them up. */
export interface Usage {
  readonly tokens: Readonly<Partial<Record<TokenMeter, number>>>;
  readonly fees: Readonly<Partial<Record<FeeMeter, number>>>;
  /** The model that answered, as the provider names it, when it said so. */
  readonly model?: string;
  /** "standard", "flex", "priority", "batch", … as the reply said. */
  readonly serviceTier?: string;
  /** Anthropic's "fast" mode and its like. */
  readonly speed?: string;
  /** Where the provider says that inference ran, when its price depends on it. */
  readonly region?: string;
  /** Further legs at their own model's price, such as an advisor model or a compaction. */
  readonly additional?: readonly Usage[];
  /** The provider's own statement of the cost in USD, kept to compare, never to bill by. */
  readonly statedCostUsd?: number;
  /** True where a number was absurd and was clamped. */
  readonly isClamped?: true;
}
