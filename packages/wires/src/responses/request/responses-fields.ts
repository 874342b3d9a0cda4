// The scalar fields of Responses requests.

import { addFieldLoss } from "../../canonical/canonical-losses.ts";
import { OPENAI_FIELDS } from "../../openai-parameters.ts";
import {
  byRule,
  choiceOf,
  flag,
  integerFrom,
  knownFields,
  lost,
  missing,
  numberFrom,
  scalar,
  type ScalarField,
  TOKENS_MAX,
  unlessOpenai,
  type WriteContext,
} from "../../scalar-fields.ts";

/** OpenAI's smallest output limit. */
export const OUTPUT_TOKENS_MIN = 16;
const LIMIT = integerFrom(1, TOKENS_MAX);
const PENALTY = unlessOpenai(lost("This provider does not support penalties.", 0));

export const RESPONSES_FIELDS: readonly ScalarField[] = [
  ...OPENAI_FIELDS,
  scalar("maxOutputTokens", "max_output_tokens", LIMIT, unlessOpenai(raisedLimit)),
  missing("topK", lost("This provider does not support `top_k`.")),
  missing("seed", lost("This provider does not support `seed`.")),
  missing("logitBias", lost("This provider does not support logit bias.")),
  missing("stop", lost("This provider does not support stop sequences.")),
  missing("n", lost("This provider returns one choice per request.", 1)),
  scalar("frequencyPenalty", "frequency_penalty", numberFrom(-2, 2), PENALTY),
  scalar("presencePenalty", "presence_penalty", numberFrom(-2, 2), PENALTY),
  scalar("verbosity", "text.verbosity", choiceOf(["low", "medium", "high"])),
  scalar("store", "store", flag, byRule),
];

export const KNOWN_RESPONSES_FIELDS = knownFields(
  RESPONSES_FIELDS,
  "model input instructions stream stream_options tools tool_choice text reasoning include truncation background",
);

function raisedLimit(limit: number, { request, losses }: WriteContext): number {
  const reason = `This provider requires an output limit of at least ${OUTPUT_TOKENS_MIN} tokens.`;
  if (limit < OUTPUT_TOKENS_MIN) addFieldLoss(losses, request, "maxOutputTokens", reason);
  return Math.max(limit, OUTPUT_TOKENS_MIN);
}
