// Usage of embeddings: input only.

import { objectIn } from "../json-fields.ts";
import {
  valueAt,
  readCount,
  firstNumber,
  ownMember,
  readName,
  readStatedCost,
  buildUsage,
  type Path,
  type ReadNotes,
} from "./read-numbers.ts";
import { splitInput } from "./token-breakdown.ts";
import type { Usage } from "./usage-meters.ts";

// OpenAI and compatible providers, Voyage, Cohere, Gemini.
const INPUT_PATHS: readonly Path[] = [
  ["usage", "prompt_tokens"],
  ["usage", "total_tokens"],
  ["usage", "input_tokens"],
  ["meta", "billed_units", "input_tokens"],
  ["usageMetadata", "promptTokenCount"],
];

/** The usage of an embeddings reply. */
export function usageOfEmbeddings(body: unknown, _provider: string): Usage | undefined {
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
