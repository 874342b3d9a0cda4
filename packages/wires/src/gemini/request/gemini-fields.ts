// The scalar fields of Gemini requests.

import { addFieldLoss } from "../../canonical/canonical-losses.ts";
import type { RequestField } from "../../canonical/canonical-request.ts";
import { optionalString } from "../../json-fields.ts";
import {
  firstStops,
  flag,
  integerFrom,
  knownFields,
  knownMembers,
  lost,
  missing,
  numberFrom,
  scalar,
  type ScalarField,
  stopList,
  tierOf,
  TOKENS_MAX,
  tolerated,
  type WriteContext,
  written,
} from "../../scalar-fields.ts";

const STOPS_MAX = 5;
const ANY_INTEGER = integerFrom(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
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
  scalar("maxOutputTokens", "generationConfig.maxOutputTokens", integerFrom(1, TOKENS_MAX)),
  scalar("temperature", "generationConfig.temperature", numberFrom(0, 2), sampling),
  scalar("topP", "generationConfig.topP", numberFrom(0, 1), sampling),
  scalar("topK", "generationConfig.topK", integerFrom(0, 1_000_000), sampling),
  scalar("seed", "generationConfig.seed", ANY_INTEGER),
  scalar("frequencyPenalty", "generationConfig.frequencyPenalty", numberFrom(-2, 2)),
  scalar("presencePenalty", "generationConfig.presencePenalty", numberFrom(-2, 2)),
  scalar("stop", "generationConfig.stopSequences", stopList, firstStops(STOPS_MAX)),
  scalar("n", "generationConfig.candidateCount", integerFrom(1, 128)),
  scalar("logprobs", "generationConfig.responseLogprobs", flag, (value) => value || undefined),
  written("topLogprobs", "generationConfig.responseLogprobs", (count) => count > 0 || undefined),
  scalar(
    "topLogprobs",
    "generationConfig.logprobs",
    integerFrom(0, 20),
    (count) => count || undefined,
  ),
  scalar("serviceTier", "serviceTier", readTier, TIER),
];

export const KNOWN_GEMINI_FIELDS = knownFields(
  GEMINI_FIELDS,
  "model stream contents systemInstruction tools toolConfig generationConfig",
);
/** The fields of `generationConfig` that are read. */
export const CONFIG_FIELDS = knownMembers(
  GEMINI_FIELDS,
  "generationConfig",
  "thinkingConfig responseMimeType responseSchema responseJsonSchema _responseJsonSchema responseModalities",
);

/** Google's tier `standard` is `default` in the canonical form. */
function readTier(value: unknown, path: string): string | undefined {
  const tier = optionalString(value, path)?.toLowerCase();
  return tier === "standard" || tier === "unspecified" ? "default" : tier;
}

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
