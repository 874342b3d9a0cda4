// Request parameters of Claude, on Anthropic's API and on Bedrock.

import { addFieldLoss } from "./canonical/canonical-losses.ts";
import type { RequestField } from "./canonical/canonical-request.ts";
import { lost, missing, type ScalarField, tolerated, type WriteContext } from "./scalar-fields.ts";

const TEMPERATURE_MAX = 1;
const TOP_P_MIN_THINKING = 0.95;
const NO_CACHE_KEY = tolerated("This provider caches only at cache breakpoints.");

/** What neither API has, with the value that changes nothing (`n: 1`) and so is no loss. */
export const MISSING_AT_CLAUDE: readonly ScalarField[] = [
  missing("seed"),
  missing("frequencyPenalty", lost(undefined, 0)),
  missing("presencePenalty", lost(undefined, 0)),
  missing("logitBias"),
  missing("logprobs", lost(undefined, false)),
  missing("topLogprobs", lost(undefined, 0)),
  missing("n", lost(undefined, 1)),
  missing("store", lost(undefined, false)),
  missing("verbosity", lost(undefined, "medium")),
  missing("cacheKey", NO_CACHE_KEY),
  missing("cacheRetention", NO_CACHE_KEY),
];

/** `temperature`, `topP` or `topK`, as far as the model takes it: less while it reasons, and some models take only one. */
export function claudeSampling(
  value: number,
  { request, target: { abilities = {} }, thinks = false, losses }: WriteContext,
  field: RequestField,
): number | undefined {
  const drop = (reason: string): undefined => addFieldLoss(losses, request, field, reason);
  if (
    abilities.sampling === false ||
    (thinks && !(field === "topP" && value >= TOP_P_MIN_THINKING))
  )
    return field !== "topK" && value === 1
      ? undefined
      : drop(
          abilities.sampling === false
            ? "This model does not support this parameter."
            : "This model supports it only with reasoning off.",
        );
  // Callers set the temperature on purpose, so it is kept.
  if (field === "topP" && abilities.singleSampling === true && request.temperature !== undefined)
    return drop("This model accepts only one of `temperature` and `top_p`.");
  if (field !== "temperature" || value <= TEMPERATURE_MAX) return value;
  drop(`This provider's maximum temperature is ${TEMPERATURE_MAX}, which is used instead.`);
  return TEMPERATURE_MAX;
}

/** Claude's APIs reject a sequence of white space. */
export function nonBlankStops(
  stops: readonly string[],
  { request, losses }: WriteContext,
): readonly string[] | undefined {
  const kept = stops.filter((stop) => stop.trim() !== "");
  const reason = "This provider rejects stop sequences that contain only whitespace.";
  if (kept.length < stops.length) addFieldLoss(losses, request, "stop", reason);
  return kept.length === 0 ? undefined : kept;
}
