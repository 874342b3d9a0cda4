// The scalar fields of Gemini requests.

import { addFieldLoss } from "../../canonical/canonical-losses.ts";
import type { RequestField } from "../../canonical/canonical-request.ts";
import {
  firstStops,
  lost,
  missing,
  type ScalarField,
  tierOf,
  tolerated,
  type WriteContext,
  written,
} from "../../scalar-fields.ts";

const STOPS_MAX = 5;
const CACHES_BY_ITSELF = tolerated("This provider caches automatically.");
const NO_USER = tolerated("This provider does not accept an end-user ID.");
const TIER = tierOf({
  auto: undefined,
  default: undefined,
  standard: undefined,
  flex: "flex",
  priority: "priority",
});

export const GEMINI_FIELDS: readonly ScalarField[] = [
  missing("logitBias"),
  missing("metadata"),
  missing("store", lost(undefined, false)),
  missing("verbosity", lost(undefined, "medium")),
  missing("cache", CACHES_BY_ITSELF),
  missing("cacheKey", CACHES_BY_ITSELF),
  missing("cacheRetention", CACHES_BY_ITSELF),
  missing("user", NO_USER),
  missing("safetyIdentifier", NO_USER),
  written("maxOutputTokens", "generationConfig.maxOutputTokens"),
  written("temperature", "generationConfig.temperature", sampling),
  written("topP", "generationConfig.topP", sampling),
  written("topK", "generationConfig.topK", sampling),
  written("seed", "generationConfig.seed"),
  written("frequencyPenalty", "generationConfig.frequencyPenalty"),
  written("presencePenalty", "generationConfig.presencePenalty"),
  written("stop", "generationConfig.stopSequences", firstStops(STOPS_MAX)),
  written("n", "generationConfig.candidateCount"),
  written("logprobs", "generationConfig.responseLogprobs", (value) => value || undefined),
  written("topLogprobs", "generationConfig.responseLogprobs", (count) => count > 0 || undefined),
  written("topLogprobs", "generationConfig.logprobs", (count) => count || undefined),
  written("serviceTier", "serviceTier", TIER),
];

function sampling(
  value: number,
  { request, target, losses }: WriteContext,
  field: RequestField,
): number | undefined {
  if (target.abilities?.sampling !== false) return value;
  if (value !== 1)
    addFieldLoss(losses, request, field, "This model does not support this parameter.");
  return undefined;
}
