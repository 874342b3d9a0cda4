// Decisions: OpenAI's API, in beta. It answers typed questions about an input with probabilities, and only the input has a price.

import { invalid } from "../invalid-request.ts";
import { arrayIn, isObject, type JsonObject } from "../json-fields.ts";
import { usageOfEmbeddings } from "./embeddings-endpoint.ts";
import { INPUT_ONLY, type RelayedEndpoint } from "./relayed-endpoint.ts";

const QUESTIONS_MAX = 400;
const QUESTION_TYPES: ReadonlySet<unknown> = new Set(["predicate", "choice", "score"]);

export const DECISIONS_ENDPOINT: RelayedEndpoint = {
  ...INPUT_ONLY,
  kind: "decision",
  modelSuffix: "-decisions",
  check: checkDecisions,
  textFields: [],
  knownFields:
    "choices instructions label levels name prompt_cache_key prompt_cache_options questions value",
  // Whether a question is read with the whole input is not documented.
  countTexts: ({ questions }) => Math.max(1, arrayIn(questions).length),
  repeatedBytes: ({ input, questions }) => bytesOf(input) * (arrayIn(questions).length - 1),
  readUsage: (reply) => {
    // The name in the reply is that of the model with its other price.
    const read = usageOfEmbeddings(reply);
    if (read === undefined) return undefined;
    const { model: _, ...usage } = read;
    return usage;
  },
};

function checkDecisions({ input, questions }: JsonObject): void {
  if (typeof input === "string" ? input === "" : !Array.isArray(input) || input.length === 0)
    throw invalid("input", "`input` is required: a string, or an array of messages.");
  if (!Array.isArray(questions) || questions.length === 0 || questions.length > QUESTIONS_MAX)
    throw invalid(
      "questions",
      `\`questions\` must be an array of 1 to ${QUESTIONS_MAX} questions.`,
    );
  for (const [index, question] of questions.entries())
    if (!isObject(question) || !QUESTION_TYPES.has(question["type"]))
      throw invalid(
        `questions[${index}]`,
        `\`questions[${index}].type\` must be "predicate", "choice" or "score".`,
      );
}

function bytesOf(input: unknown): number {
  // A UTF-16 unit takes at most three bytes in UTF-8.
  return JSON.stringify(input).length * 3;
}
