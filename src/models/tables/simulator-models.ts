// The models of the built-in simulator. Their prices exist only to test billing.

import { type FactRule, factRules, type SupplementalModel } from "../model-facts.ts";
import type { TokenPrices } from "../price-card.ts";

const SOURCE = "the built-in simulator; no language model runs";
const CHECKED_ON = "2026-11-21";
const PRICES: TokenPrices = {
  input: "1",
  cache_read: "0.1",
  cache_write_5m: "1.25",
  cache_write_1h: "2",
  output: "2",
};

function simulatedModel(name: string, title: string, tokens: TokenPrices): SupplementalModel {
  return {
    provider: "sim",
    name,
    title,
    simulated: true,
    released: "2026-11-21",
    pricing: [{ tokens, fees: { web_search: "0.01" } }],
    source: SOURCE,
    checked: CHECKED_ON,
  };
}

export const SIMULATOR_MODELS: readonly SupplementalModel[] = [
  simulatedModel("echo", "Simulator: echo", PRICES),
  simulatedModel("reason", "Simulator: reasoning", PRICES),
  simulatedModel("tiny", "Simulator: tiny context", PRICES),
  {
    ...simulatedModel("embed", "Simulator: embeddings", { input: "1" }),
    kind: "embedding",
  },
  {
    ...simulatedModel("image", "Simulator: images", PRICES),
    kind: "image",
    pricing: [{ tokens: { input: "1", input_image: "1", output: "2", output_image: "2" } }],
  },
  {
    ...simulatedModel("image-each", "Simulator: images with a price each", PRICES),
    kind: "image",
    pricing: [{ tokens: { input: "0", output: "0" }, fees: { image_generation: "0.02" } }],
  },
  {
    ...simulatedModel("image-each-size", "Simulator: images with a price by size", PRICES),
    kind: "image",
    pricing: [
      {
        tokens: { input: "0", output: "0" },
        image_fees: {
          usd: {
            "1024x1024": { low: "0.01", medium: "0.02", high: "0.04" },
            "1536x1024": { low: "0.02", medium: "0.03", high: "0.06" },
          },
          default_size: "1024x1024",
          default_quality: "medium",
        },
      },
    ],
  },
  {
    ...simulatedModel("image-each-pixel", "Simulator: images with a price by pixel", PRICES),
    kind: "image",
    pricing: [{ tokens: { input: "0", output: "0" }, fees: { megapixel: "0.01" } }],
  },
  {
    ...simulatedModel("speech", "Simulator: speech with a price per character", PRICES),
    kind: "speech",
    pricing: [{ tokens: { input: "0", output: "0" }, fees: { character: "0.000015" } }],
  },
  {
    ...simulatedModel("speech-tokens", "Simulator: speech", PRICES),
    kind: "speech",
    pricing: [{ tokens: { input: "1", output: "12", output_audio: "12" } }],
  },
  {
    ...simulatedModel("transcribe", "Simulator: transcription with a price per second", PRICES),
    kind: "transcription",
    pricing: [{ tokens: { input: "0", output: "0" }, fees: { audio_second: "0.0001" } }],
  },
  {
    ...simulatedModel("transcribe-tokens", "Simulator: transcription", PRICES),
    kind: "transcription",
    pricing: [{ tokens: { input: "1", input_audio: "3", output: "2" } }],
  },
  {
    ...simulatedModel("rerank", "Simulator: rerank", PRICES),
    kind: "rerank",
    pricing: [{ tokens: { input: "0", output: "0" }, fees: { search_unit: "0.002" } }],
  },
  {
    ...simulatedModel("rerank-tokens", "Simulator: rerank with a price per token", PRICES),
    kind: "rerank",
    pricing: [{ tokens: { input: "0.05", output: "0" } }],
  },
  {
    ...simulatedModel("echo-decisions", "Simulator: decisions", PRICES),
    kind: "decision",
    pricing: [{ tokens: { input: "0.1", output: "0" } }],
  },
  {
    ...simulatedModel("moderation", "Simulator: moderation", PRICES),
    kind: "moderation",
    pricing: [{ tokens: { input: "0", output: "0" } }],
  },
];

export const SIMULATOR_FACTS = factRules(
  { providers: ["sim"], source: SOURCE, checked: CHECKED_ON },
  [
    {
      match: /./,
      context: 128_000,
      maxOutput: 16_384,
      input: ["text", "image"],
      supported: ["tools", "parallel_tools", "structured_output", "prompt_caching"],
      wires: ["chat", "responses", "messages", "gemini", "converse"],
    },
    {
      match: /^reason$/,
      supported: ["tools", "parallel_tools", "structured_output", "prompt_caching", "reasoning"],
    },
    { match: /^tiny$/, context: 2048, maxOutput: 256 },
    { match: /^embed$/, context: 8192, input: ["text"], supported: [], wires: ["embeddings"] },
    simulatedFacts(/^image/, { output: ["image"], wires: ["images", "image_edits"] }),
    simulatedFacts(/^speech/, { input: ["text"], output: ["audio"], wires: ["speech"] }),
    simulatedFacts(/^transcribe/, {
      input: ["audio", "text"],
      wires: ["transcriptions", "translations"],
      context: 16_000,
    }),
    simulatedFacts(/^rerank/, { input: ["text"], wires: ["rerank"] }),
    simulatedFacts(/^echo-decisions$/, { wires: ["decisions"] }),
    simulatedFacts(/^moderation$/, { wires: ["moderations"] }),
  ],
);

function simulatedFacts(match: RegExp, facts: Partial<FactRule>): FactRule {
  return {
    providers: ["sim"],
    match,
    context: 128_000,
    supported: [],
    source: SOURCE,
    checked: CHECKED_ON,
    ...facts,
  };
}
