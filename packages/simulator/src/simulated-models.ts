// The simulator's models, in each API's list format.

import type { JsonObject } from "./json-readers.ts";

const CREATED_SECONDS = 1_767_225_600;
const CREATED_AT = "2026-01-01T00:00:00Z";

const MODELS = [
  { id: "sim/echo", name: "Simulated echo", generates: true },
  { id: "sim/reason", name: "Simulated reasoning", generates: true },
  { id: "sim/tiny", name: "Simulated tiny", generates: true },
  { id: "sim/embed", name: "Simulated embeddings", generates: false },
  { id: "sim/image", name: "Simulated images", generates: false },
  { id: "sim/image-each", name: "Simulated images, priced each", generates: false },
  { id: "sim/image-each-size", name: "Simulated images, priced by size", generates: false },
  { id: "sim/image-each-pixel", name: "Simulated images, priced by pixel", generates: false },
  { id: "sim/speech", name: "Simulated speech", generates: false },
  { id: "sim/speech-tokens", name: "Simulated speech, priced by token", generates: false },
  { id: "sim/transcribe", name: "Simulated transcription", generates: false },
  {
    id: "sim/transcribe-tokens",
    name: "Simulated transcription, priced by token",
    generates: false,
  },
  { id: "sim/rerank", name: "Simulated rerank", generates: false },
  { id: "sim/rerank-tokens", name: "Simulated rerank, priced by token", generates: false },
  { id: "sim/moderation", name: "Simulated moderation", generates: false },
] as const;

/** The first entry that matches applies. Models without one take a prompt of any length. */
const CONTEXT_WINDOWS: readonly (readonly [model: RegExp, tokens: number])[] = [
  [/^(sim\/)?tiny$/, 2_048],
  [/claude-((opus|sonnet)-4-[6-9]|[a-z]+-[5-9])/, 1_000_000],
  [/claude-[a-z0-9]+-/, 200_000],
  [/^gpt-4o(-mini)?-transcribe/, 16_000],
  [/^gpt-4o-mini-tts/, 4_096],
  [/^gpt-4o/, 128_000],
  [/^gpt-4\.1/, 1_047_576],
  [/^gpt-5(\.[1-3])?(?!\.|.*chat)/, 400_000],
  [/^gpt-(5\.4(-pro)?$|5\.[6-9]|[6-9])/, 1_050_000],
  [/^o[134]/, 200_000],
  [/^gemini-(2\.[05]|[3-9])(?!.*(image|embedding|robotics|live))/, 1_048_576],
  [/amazon\.nova-(lite|pro)/, 300_000],
];

/** The model's own context window in tokens. */
export function contextWindow(model: string): number | undefined {
  return CONTEXT_WINDOWS.find(([match]) => match.test(model))?.[1];
}

export function isKnownModel(model: string): boolean {
  const id = model.startsWith("sim/") ? model : `sim/${model}`;
  return MODELS.some((entry) => entry.id === id);
}

export function openAiModels(): JsonObject {
  return { object: "list", data: MODELS.map((model) => openAiModel(model.id)) };
}

export function openAiModel(id: string): JsonObject {
  return { id, object: "model", created: CREATED_SECONDS, owned_by: "simulator" };
}

export function anthropicModels(): JsonObject {
  const data = MODELS.filter((model) => model.generates).map((model) => anthropicModel(model.id));
  return {
    data,
    has_more: false,
    first_id: data[0]?.["id"] ?? null,
    last_id: data.at(-1)?.["id"] ?? null,
  };
}

export function anthropicModel(id: string): JsonObject {
  const name = MODELS.find((model) => model.id === id)?.name ?? id;
  return { type: "model", id, display_name: name, created_at: CREATED_AT };
}

export function geminiModels(): JsonObject {
  return { models: MODELS.map((model) => geminiModel(model.id)) };
}

export function geminiModel(id: string): JsonObject {
  const methods = id.endsWith("embed")
    ? ["embedContent", "batchEmbedContents"]
    : ["generateContent", "countTokens"];
  return {
    name: `models/${id}`,
    version: "001",
    displayName: id,
    inputTokenLimit: 1_048_576,
    outputTokenLimit: 65_536,
    supportedGenerationMethods: methods,
  };
}
