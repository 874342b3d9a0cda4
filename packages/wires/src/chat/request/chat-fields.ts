// The scalar fields of Chat Completions requests.

import type { RequestField } from "../../canonical/canonical-request.ts";
import { optionalNumber, optionalObject } from "../../json-fields.ts";
import { ifLogprobs, OPENAI_FIELD, OPENAI_FIELDS } from "../../openai-parameters.ts";
import {
  byRule,
  choiceOf,
  firstStops,
  flag,
  ifIgnored,
  integerFrom,
  knownFields,
  lost,
  numberFrom,
  scalar,
  type ScalarField,
  stopList,
  TOKENS_MAX,
  unlessOpenai,
  type WriteContext,
  type WriteField,
} from "../../scalar-fields.ts";

const STOPS_MAX = 4;
const ANY_INTEGER = integerFrom(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
const LIMIT = integerFrom(1, TOKENS_MAX);
const ONE_CHOICE = lost("This provider returns one choice per request.", 1);
const NO_TOP_K = unlessOpenai(lost("This provider does not support `top_k`."));

export const CHAT_FIELDS: readonly ScalarField[] = [
  ...OPENAI_FIELDS,
  scalar("includeUsage", "stream_options.include_usage", flag, byRule),
  scalar("maxOutputTokens", "max_tokens", LIMIT, byRule),
  scalar("maxOutputTokens", "max_completion_tokens", LIMIT, byRule),
  scalar("topK", "top_k", integerFrom(0, 1_000_000), NO_TOP_K),
  scalar("seed", "random_seed", ANY_INTEGER, seedNamed("random_seed")),
  scalar("seed", "seed", ANY_INTEGER, seedNamed("seed")),
  scalar("frequencyPenalty", "frequency_penalty", numberFrom(-2, 2)),
  scalar("presencePenalty", "presence_penalty", numberFrom(-2, 2)),
  scalar("logitBias", "logit_bias", readBias, ifIgnored()),
  scalar("logprobs", "logprobs", flagOrCount, ifLogprobs),
  scalar("stop", "stop", readStop, unlessOpenai(firstStops(STOPS_MAX))),
  scalar("n", "n", integerFrom(1, 128), ifChoices),
  scalar("store", "store", flag, OPENAI_FIELD),
  scalar("verbosity", "verbosity", choiceOf(["low", "medium", "high"]), OPENAI_FIELD),
];

// `usage` is OpenRouter's option for the cost, which every reply contains here.
export const KNOWN_CHAT_FIELDS = knownFields(
  CHAT_FIELDS,
  "model messages stream tools tool_choice functions function_call response_format reasoning_effort reasoning modalities usage",
);

/** The Completions API had a number in this field. */
function flagOrCount(value: unknown, path: string): boolean | undefined {
  return typeof value === "number" ? value > 0 : flag(value, path);
}

/** Mistral has the seed under another name. */
function seedNamed(name: "seed" | "random_seed"): WriteField<number> {
  return (seed, { target: { abilities } }) =>
    (abilities?.seedField ?? "seed") === name ? seed : undefined;
}

function ifChoices(value: number, context: WriteContext, field: RequestField): unknown {
  return context.target.abilities?.choices === false ? ONE_CHOICE(value, context, field) : value;
}

function readBias(value: unknown): Readonly<Record<string, number>> | undefined {
  const bias = optionalObject(value, "logit_bias");
  const read: Record<string, number> = {};
  for (const token in bias)
    read[token] = optionalNumber(bias[token], `logit_bias.${token}`, -100, 100) ?? 0;
  return Object.keys(read).length > 0 ? read : undefined;
}

function readStop(value: unknown, path: string): readonly string[] | undefined {
  return stopList(typeof value === "string" ? [value] : value, path);
}
