// Embeddings: OpenAI's API, which most providers have.

import { invalid } from "../invalid-request.ts";
import { type JsonObject, objectIn } from "../json-fields.ts";
import {
  buildUsage,
  firstNumber,
  ownMember,
  type Path,
  readCount,
  readName,
  type ReadNotes,
  readStatedCost,
  valueAt,
} from "../usage/read-numbers.ts";
import { splitInput } from "../usage/token-breakdown.ts";
import type { Usage } from "../usage/usage-meters.ts";
import { INPUT_ONLY, type RelayedEndpoint } from "./relayed-endpoint.ts";

export const EMBEDDINGS_ENDPOINT: RelayedEndpoint = {
  ...INPUT_ONLY,
  kind: "embedding",
  check: checkEmbeddings,
  textFields: [],
  knownFields:
    "dimensions encoding_format input_type instruction output_dimension output_dtype prompt_template task",
  countTexts: ({ input }) => textsOf(input),
  readUsage: usageOfEmbeddings,
};

function checkEmbeddings({ input }: JsonObject): void {
  if (input === undefined || input === "")
    throw invalid("input", "`input` is required: a string or an array of strings.");
  if (typeof input !== "string" && !Array.isArray(input))
    throw invalid("input", "`input` must be a string or an array.");
}

/** Each text may fill the model's context. An array of numbers is one text, given as tokens. */
function textsOf(input: unknown): number {
  return Array.isArray(input) && typeof input[0] !== "number" ? Math.max(1, input.length) : 1;
}

// OpenAI and compatible providers, Voyage, Cohere, Gemini.
const INPUT_PATHS: readonly Path[] = [
  ["usage", "prompt_tokens"],
  ["usage", "total_tokens"],
  ["usage", "input_tokens"],
  ["meta", "billed_units", "input_tokens"],
  ["usageMetadata", "promptTokenCount"],
];

/** The usage of a reply that reports input tokens only. */
export function usageOfEmbeddings(body: unknown): Usage | undefined {
  const input = firstNumber(body, INPUT_PATHS);
  if (objectIn(body) === undefined || input === undefined) return undefined;
  const notes: ReadNotes = { clamped: false };
  return buildUsage(
    {
      tokens: splitInput(notes, {
        total: readCount(notes, input),
        cached: 0,
        image: readCount(notes, valueAt(body, ["usage", "prompt_tokens_details", "image_tokens"])),
        audio: readCount(notes, valueAt(body, ["usage", "prompt_tokens_details", "audio_tokens"])),
      }),
      model: readName(ownMember(body, "model")),
      statedCostUsd: readStatedCost(ownMember(body, "usage")),
    },
    notes,
  );
}
