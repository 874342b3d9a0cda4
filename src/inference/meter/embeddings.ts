// Embeddings: input only, and bodies of megabytes of numbers.

import type { Usage } from "../../base/meters.ts";
import { splitInput } from "./split.ts";
import {
  at,
  count,
  firstNumber,
  member,
  nameOf,
  objectOf,
  statedCost,
  usageFrom,
  type Path,
  type Tally,
} from "./tally.ts";

// OpenAI and its like, Voyage, Cohere, Gemini.
const INPUT: readonly Path[] = [
  ["usage", "prompt_tokens"],
  ["usage", "total_tokens"],
  ["usage", "input_tokens"],
  ["meta", "billed_units", "input_tokens"],
  ["usageMetadata", "promptTokenCount"],
];

/** The usage that a list of embeddings states. */
export function usageOfEmbeddings(body: unknown, _provider: string): Usage | undefined {
  const input = firstNumber(body, INPUT);
  if (objectOf(body) === undefined || input === undefined) return undefined;
  const tally: Tally = { clamped: false };
  return usageFrom(
    {
      tokens: splitInput(tally, {
        all: count(tally, input),
        cached: 0,
        image: count(tally, at(body, ["usage", "prompt_tokens_details", "image_tokens"])),
        audio: count(tally, at(body, ["usage", "prompt_tokens_details", "audio_tokens"])),
      }),
      model: nameOf(member(body, "model")),
      statedCostUsd: statedCost(member(body, "usage")),
    },
    tally,
  );
}
