// Bodies of model calls with one of each kind of content, from which the generated ones are mutated.

import type { Random } from "./random.ts";
import type { Json } from "./values.ts";

const PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk";
const PDF = "JVBERi0xLjQK";
const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const EPHEMERAL = { cache_control: { type: "ephemeral" } };
const TEXT = "use a tool: what is the weather?";

const CHAT: Json = {
  model: "sim/echo",
  max_tokens: 20,
  temperature: 0.5,
  stop: ["end"],
  stream_options: { include_usage: true },
  messages: [
    { role: "system", content: "Be brief." },
    {
      role: "user",
      content: [
        { type: "text", text: TEXT, ...EPHEMERAL },
        { type: "image_url", image_url: { url: PNG } },
        {
          type: "file",
          file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` },
        },
        { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } },
      ],
    },
    {
      role: "assistant",
      content: null,
      tool_calls: [
        { id: "call_1", type: "function", function: { name: "weather", arguments: "{}" } },
      ],
    },
    { role: "tool", tool_call_id: "call_1", content: "sunny" },
    { role: "user", content: TEXT },
  ],
  tools: [{ type: "function", function: { name: "weather", parameters: SCHEMA } }],
  response_format: { type: "json_schema", json_schema: { name: "answer", schema: SCHEMA } },
  provider: { order: ["sim"], allow_fallbacks: true },
};

const RESPONSES: Json = {
  model: "sim/echo",
  max_output_tokens: 20,
  instructions: "Be brief.",
  store: true,
  include: ["reasoning.encrypted_content"],
  reasoning: { effort: "low" },
  input: [
    {
      role: "user",
      content: [
        { type: "input_text", text: TEXT },
        { type: "input_image", image_url: PNG },
      ],
    },
    { type: "function_call", call_id: "call_1", name: "weather", arguments: "{}" },
    { type: "function_call_output", call_id: "call_1", output: "sunny" },
    { role: "user", content: TEXT },
  ],
  tools: [{ type: "function", name: "weather", parameters: SCHEMA, strict: true }],
  text: { format: { type: "text" } },
};

const MESSAGES: Json = {
  model: "sim/echo",
  max_tokens: 20,
  system: [{ type: "text", text: "Be brief.", ...EPHEMERAL }],
  messages: [
    {
      role: "user",
      content: [
        { type: "text", text: TEXT },
        {
          type: "document",
          title: "a",
          source: { type: "base64", media_type: "application/pdf", data: PDF },
        },
      ],
    },
    {
      role: "assistant",
      content: [{ type: "tool_use", id: "call_1", name: "weather", input: { city: "Rome" } }],
    },
    {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: "call_1", content: "sunny", is_error: false }],
    },
  ],
  tools: [{ name: "weather", input_schema: SCHEMA }],
  tool_choice: { type: "auto" },
  thinking: { type: "enabled", budget_tokens: 1_024 },
};

const GEMINI: Json = {
  systemInstruction: { parts: [{ text: "Be brief." }] },
  contents: [
    {
      role: "user",
      parts: [{ text: TEXT }, { inline_data: { mime_type: "application/pdf", data: PDF } }],
    },
    {
      role: "model",
      parts: [
        { text: "Hm.", thought: true, thoughtSignature: "c2ln" },
        { functionCall: { id: "call_1", name: "weather", args: { city: "Rome" } } },
      ],
    },
    {
      role: "user",
      parts: [
        { functionResponse: { id: "call_1", name: "weather", response: { output: "sunny" } } },
      ],
    },
    { role: "user", parts: [{ text: TEXT }] },
  ],
  tools: [{ functionDeclarations: [{ name: "weather", parametersJsonSchema: SCHEMA }] }],
  toolConfig: { functionCallingConfig: { mode: "AUTO" } },
  safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
  generationConfig: {
    maxOutputTokens: 20,
    candidateCount: 1,
    stopSequences: ["end"],
    thinkingConfig: { thinkingBudget: 512, includeThoughts: true },
    responseMimeType: "application/json",
    responseSchema: { type: "OBJECT", properties: { city: { type: "STRING" } } },
  },
};

const COMPACT: Json = { model: "sim/echo", input: [{ role: "user", content: TEXT }] };

/** Bodies by path. */
export const CALL_BODIES: Readonly<Record<string, Json>> = {
  "/v1/chat/completions": CHAT,
  "/v1/quote": CHAT,
  "/v1/responses": RESPONSES,
  "/v1/responses/compact": COMPACT,
  "/v1/messages": MESSAGES,
  "/v1/messages/count_tokens": { ...MESSAGES, max_tokens: undefined },
  "/v1beta/models/{model}:generateContent": GEMINI,
  "/v1beta/models/{model}:streamGenerateContent": GEMINI,
  "/v1beta/models/{model}:countTokens": { generateContentRequest: GEMINI },
  "/v1beta/models/{model}:batchEmbedContents": {
    requests: ["a", "b"].map((text) => ({ content: { parts: [{ text }] } })),
  },
  "/v1/embeddings": { model: "sim/embed", input: ["a", "b"], encoding_format: "float" },
  "/v1/images/generations": {
    model: "sim/image-each-size",
    prompt: TEXT,
    n: 2,
    size: "1024x1024",
    quality: "low",
    partial_images: 1,
  },
  "/v1/images/edits": { model: "sim/image", prompt: TEXT, images: [{ image_url: PNG }] },
  "/v1/audio/speech": { model: "sim/speech", input: TEXT, voice: "alloy", speed: 1 },
  "/v1/rerank": { model: "sim/rerank", query: TEXT, documents: ["a", { text: "b" }], top_n: 1 },
  "/v2/rerank": { model: "sim/rerank-tokens", query: TEXT, documents: ["a", "b"] },
  "/v1/moderations": { model: "sim/moderation", input: [TEXT] },
  "/v1/decisions": { model: "sim/echo", input: TEXT, questions: [{ type: "predicate" }] },
  "/v1/completions": { model: "sim/echo", prompt: [TEXT, "b"], max_tokens: 5, n: 2 },
};

/** Simulator directives that inject faults. */
const DIRECTIVES: readonly [string, ...string[]] = [
  "status=400",
  "status=429 retry-after=1",
  "status=500",
  "status=529",
  "usage=none",
  "usage=twice",
  "usage=negative",
  "usage=huge",
  "usage=missing",
  "usage=zero",
  "usage=text",
  "cut=1",
  "fail=2",
  "garble=1",
  "hang=1 hang-ms=20",
  "drop",
  "html",
  "error-body",
  "no-end",
  "slice=3",
  "newline=cr",
  "gzip",
  "flood=64",
  "refusal",
  "filter",
  "empty",
  "input=100000",
  "output=100000",
  "answer-model=sim/tiny",
  "content-type=text/plain",
];

/** Adds a directive to the last text of a user. */
export function withDirective(random: Random, body: Json): unknown {
  const directive = `${TEXT} [[sim: ${random.pick(DIRECTIVES)}]]`;
  if (Array.isArray(body["contents"]))
    return {
      ...body,
      contents: [...body["contents"], { role: "user", parts: [{ text: directive }] }],
    };
  return Array.isArray(body["messages"])
    ? { ...body, messages: [...body["messages"], { role: "user", content: directive }] }
    : { ...body, input: directive };
}
