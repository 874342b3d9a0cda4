// A model's reply in canonical form.

import type { JsonObject } from "../json-fields.ts";
import type { Usage } from "../usage/usage-meters.ts";
import type { Part } from "./canonical-parts.ts";

export const FINISH_REASONS = [
  "stop",
  "stop_sequence",
  "tool_calls",
  "length",
  "context_full",
  "refusal",
  "content_filter",
  "pause",
  "bad_tool_call",
  "error",
] as const;
export type FinishReason = (typeof FINISH_REASONS)[number];

export interface Finish {
  readonly reason: FinishReason;
  /** The provider's own reason. */
  readonly nativeReason?: string | undefined;
  /** The stop sequence that ended the output. */
  readonly stopSequence?: string | undefined;
  /** The provider's explanation of a refusal. */
  readonly detail?: string | undefined;
}

export interface Choice {
  readonly parts: readonly Part[];
  readonly finish: Finish;
}

export interface CanonicalReply {
  readonly id?: string | undefined;
  readonly model?: string | undefined;
  readonly createdSeconds?: number | undefined;
  /** Never empty: a blocked reply has one choice without parts. */
  readonly choices: readonly Choice[];
  readonly usage?: UsageReport | undefined;
  readonly serviceTier?: string | undefined;
}

/** `extras`, such as the cost, are added unchanged to the caller's usage object. */
export interface UsageReport {
  readonly usage: Usage;
  readonly extras?: JsonObject | undefined;
}
