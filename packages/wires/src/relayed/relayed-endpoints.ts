// The table of endpoints without a conversation, and those of them that need no file of their own.

import { invalid } from "../invalid-request.ts";
import { type JsonObject, arrayIn, isObject } from "../json-fields.ts";
import { buildUsage, readName } from "../usage/read-numbers.ts";
import { COMPLETIONS_ENDPOINT } from "./completions-endpoint.ts";
import { EMBEDDINGS_ENDPOINT, usageOfEmbeddings } from "./embeddings-endpoint.ts";
import { IMAGE_EDITS_ENDPOINT, IMAGES_ENDPOINT } from "./images-endpoint.ts";
import { type ModelKind, type RelayedEndpoint, INPUT_ONLY } from "./relayed-endpoint.ts";
import { RERANK_ENDPOINT } from "./rerank-endpoint.ts";
import { SPEECH_ENDPOINT } from "./speech-endpoint.ts";
import { TRANSCRIPTIONS_ENDPOINT, TRANSLATIONS_ENDPOINT } from "./transcriptions-endpoint.ts";

export const RELAYED_APIS = [
  "embeddings",
  "images",
  "image_edits",
  "speech",
  "transcriptions",
  "translations",
  "rerank",
  "moderations",
  "decisions",
  "completions",
] as const;
export type RelayedApi = (typeof RELAYED_APIS)[number];

/** OpenAI's API. It is free there, and reports no usage. */
const MODERATIONS_ENDPOINT: RelayedEndpoint = {
  ...INPUT_ONLY,
  kind: "moderation",
  defaultModel: "openai/omni-moderation-latest",
  check: checkModeration,
  textFields: [],
  knownFields: "",
  countTexts: ({ input }) => (Array.isArray(input) ? Math.max(1, input.length) : 1),
  readUsage: (reply) =>
    usageOfEmbeddings(reply) ??
    buildUsage({ tokens: {}, model: readName(reply["model"]) }, { clamped: false }),
};

function checkModeration({ input }: JsonObject): void {
  if (typeof input === "string" ? input === "" : !Array.isArray(input) || input.length === 0)
    throw invalid("input", "`input` is required: a string, or an array of strings or parts.");
}

const QUESTIONS_MAX = 400;
const QUESTION_TYPES: ReadonlySet<unknown> = new Set(["predicate", "choice", "score"]);

/** OpenAI's API, in beta. It answers typed questions about an input with probabilities, and only the input has a price. */
const DECISIONS_ENDPOINT: RelayedEndpoint = {
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

export const RELAYED_ENDPOINTS: Readonly<Record<RelayedApi, RelayedEndpoint>> = {
  embeddings: EMBEDDINGS_ENDPOINT,
  images: IMAGES_ENDPOINT,
  image_edits: IMAGE_EDITS_ENDPOINT,
  speech: SPEECH_ENDPOINT,
  transcriptions: TRANSCRIPTIONS_ENDPOINT,
  translations: TRANSLATIONS_ENDPOINT,
  rerank: RERANK_ENDPOINT,
  moderations: MODERATIONS_ENDPOINT,
  decisions: DECISIONS_ENDPOINT,
  completions: COMPLETIONS_ENDPOINT,
};

/** The kind of models that this wire serves. */
export function kindOfWire(wire: string): ModelKind {
  const endpoints: Readonly<Record<string, RelayedEndpoint>> = RELAYED_ENDPOINTS;
  return Object.hasOwn(endpoints, wire) ? (endpoints[wire]?.kind ?? "chat") : "chat";
}
