// The scalar fields of Chat Completions requests.

import { invalid } from "../../invalid-request.ts";
import {
  mustBeArray,
  mustBeName,
  optionalNumber,
  optionalObject,
  optionalString,
} from "../../json-fields.ts";
import { readMetadata } from "../../openai-parameters.ts";
import {
  choiceOf,
  flag,
  integerFrom,
  knownFields,
  numberFrom,
  scalar,
  type ScalarField,
} from "../../scalar-fields.ts";

const STOPS_MAX = 64;
const ANY_INTEGER = integerFrom(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);

export const CHAT_FIELDS: readonly ScalarField[] = [
  scalar("parallelToolCalls", "parallel_tool_calls", flag, "by_rule"),
  scalar("temperature", "temperature", numberFrom(0, 2), "by_rule"),
  scalar("topP", "top_p", numberFrom(0, 1), "by_rule"),
  scalar("topK", "top_k", integerFrom(0, 1_000_000), "by_rule"),
  scalar("seed", "seed", ANY_INTEGER),
  scalar("frequencyPenalty", "frequency_penalty", numberFrom(-2, 2)),
  scalar("presencePenalty", "presence_penalty", numberFrom(-2, 2)),
  scalar("logitBias", "logit_bias", readBias),
  scalar("logprobs", "logprobs", flag),
  scalar("topLogprobs", "top_logprobs", integerFrom(0, 20)),
  scalar("stop", "stop", readStop, "by_rule"),
  scalar("n", "n", integerFrom(1, 128)),
  scalar("metadata", "metadata", readMetadata, "openai"),
  scalar("store", "store", flag, "openai"),
  scalar("verbosity", "verbosity", choiceOf(["low", "medium", "high"]), "openai"),
  scalar("safetyIdentifier", "safety_identifier", optionalString, "openai"),
  scalar("cacheRetention", "prompt_cache_retention", optionalString, "openai"),
  scalar("serviceTier", "service_tier", optionalString),
  scalar("cacheKey", "prompt_cache_key", optionalString, "by_rule"),
  scalar("user", "user", optionalString),
];

// `usage` is OpenRouter's option for the cost, which every reply contains here.
export const KNOWN_CHAT_FIELDS = knownFields(
  CHAT_FIELDS,
  "model messages stream stream_options tools tool_choice functions function_call response_format reasoning_effort reasoning " +
    "max_tokens max_completion_tokens modalities usage",
);

function readBias(value: unknown): Readonly<Record<string, number>> | undefined {
  const bias = optionalObject(value, "logit_bias");
  const read: Record<string, number> = {};
  for (const token in bias)
    read[token] = optionalNumber(bias[token], `logit_bias.${token}`, -100, 100) ?? 0;
  return Object.keys(read).length > 0 ? read : undefined;
}

function readStop(value: unknown): readonly string[] | undefined {
  if (value === null) return undefined;
  const list = typeof value === "string" ? [value] : mustBeArray(value, "stop");
  if (list.length > STOPS_MAX)
    throw invalid("stop", `\`stop\` can have at most ${STOPS_MAX} sequences.`);
  return list.length === 0 ? undefined : list.map((one, at) => mustBeName(one, `stop[${at}]`));
}
