// The scalar fields of Responses requests.

import { optionalString } from "../../json-fields.ts";
import { readMetadata } from "../../openai-parameters.ts";
import {
  flag,
  integerFrom,
  knownFields,
  numberFrom,
  scalar,
  type ScalarField,
} from "../../scalar-fields.ts";

export const TOKENS_MAX = 100_000_000;
/** OpenAI's smallest output limit. */
export const OUTPUT_TOKENS_MIN = 16;

export const RESPONSES_FIELDS: readonly ScalarField[] = [
  scalar("parallelToolCalls", "parallel_tool_calls", flag, "by_rule"),
  scalar("maxOutputTokens", "max_output_tokens", integerFrom(1, TOKENS_MAX), "by_rule"),
  scalar("temperature", "temperature", numberFrom(0, 2), "by_rule"),
  scalar("topP", "top_p", numberFrom(0, 1), "by_rule"),
  scalar("frequencyPenalty", "frequency_penalty", numberFrom(-2, 2), "by_rule"),
  scalar("presencePenalty", "presence_penalty", numberFrom(-2, 2), "by_rule"),
  scalar("topLogprobs", "top_logprobs", integerFrom(0, 20)),
  scalar("metadata", "metadata", readMetadata, "openai"),
  scalar("safetyIdentifier", "safety_identifier", optionalString, "openai"),
  scalar("cacheRetention", "prompt_cache_retention", optionalString, "openai"),
  scalar("serviceTier", "service_tier", optionalString),
  scalar("cacheKey", "prompt_cache_key", optionalString, "by_rule"),
  scalar("user", "user", optionalString),
  scalar("store", "store", flag, "by_rule"),
];

export const KNOWN_RESPONSES_FIELDS = knownFields(
  RESPONSES_FIELDS,
  "model input instructions stream stream_options tools tool_choice text reasoning include truncation background",
);
