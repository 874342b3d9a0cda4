// Streamed requests of each API by kind of content, for callers that leave. The simulator replies with a text and a call of
// the tool `lookup`, slowly enough to leave in between.

import type { Json, STREAMED_APIS } from "./harness.ts";
import type { StreamTexts } from "./ways-of-leaving.ts";

export type StreamedApi = (typeof STREAMED_APIS)[number];

/** What the request contains, and the input tokens that the provider reports for it. */
export interface ContentKind {
  /** An API that is missing has no such content. */
  readonly parts?: Readonly<Partial<Record<StreamedApi, Json>>>;
  readonly text?: string;
  readonly tools?: number;
  readonly inputTokens: number;
  /** The least that OpenAI's tokenizer counts, if that is less: it depends on the marker in each function. */
  readonly countedMin?: number;
}

/** Between two deltas of the provider. */
export const PACE_MS = 30;

const PNG_BASE64 = "iVBORw0K".repeat(40);
const PNG_URL = `data:image/png;base64,${PNG_BASE64}`;
const PDF_BASE64 = "JVBERi0x".repeat(2_000);
const PDF_URL = `data:application/pdf;base64,${PDF_BASE64}`;
const base64 = (type: string, data: string): Json => ({ type: "base64", media_type: type, data });

export const CONTENT_KINDS = {
  text: { text: "word ".repeat(1_400), inputTokens: 1_400 },
  image: {
    parts: {
      chat: { type: "image_url", image_url: { url: PNG_URL } },
      responses: { type: "input_image", image_url: PNG_URL },
      messages: { type: "image", source: base64("image/png", PNG_BASE64) },
    },
    inputTokens: 1_450,
  },
  PDF: {
    parts: {
      chat: { type: "file", file: { file_data: PDF_URL, filename: "a.pdf" } },
      responses: { type: "input_file", file_data: PDF_URL, filename: "a.pdf" },
      messages: { type: "document", source: base64("application/pdf", PDF_BASE64) },
    },
    inputTokens: 150_000,
  },
  "audio in": {
    parts: {
      chat: {
        type: "input_audio",
        input_audio: { data: "UklGRg==".repeat(500), format: "wav" },
      },
    },
    inputTokens: 3_000,
  },
  functions: { tools: 30, inputTokens: 1_120, countedMin: 1_000 },
} as const satisfies Readonly<Record<string, ContentKind>>;

export const STREAM_TEXTS: Readonly<Record<StreamedApi, StreamTexts>> = {
  chat: { first: "I will use", toolCall: '"tool_calls":[', last: "[DONE]" },
  responses: { first: "I will use", toolCall: '"function_call"', last: "response.completed" },
  messages: { first: "I will use", toolCall: '"tool_use"', last: "message_stop" },
};

/** `marker` names the request, and keeps the provider from finding its prompt in the cache. */
export function abandonedRequest(
  api: StreamedApi,
  model: string,
  kind: ContentKind,
  marker: string,
): Json {
  const directives = `[[sim: preamble chunks=1 latency=${PACE_MS} pace=${PACE_MS} input=${kind.inputTokens} output=40]]`;
  const text = `${marker} ${kind.text ?? "Look at this."} ${directives}`;
  const part = kind.parts?.[api];
  const tools = Array.from({ length: kind.tools ?? 1 }, (_, index) => toolOf(api, marker, index));
  const content = [
    ...(part === undefined ? [] : [part]),
    { type: api === "responses" ? "input_text" : "text", text },
  ];
  const messages = [{ role: "user", content }];
  const common = { model, stream: true, tools };
  switch (api) {
    case "chat":
      return {
        ...common,
        max_tokens: 1_000,
        messages,
        tool_choice: { type: "function", function: { name: "lookup" } },
      };
    case "responses":
      return {
        ...common,
        max_output_tokens: 1_000,
        store: false,
        input: messages,
        tool_choice: { type: "function", name: "lookup" },
      };
    case "messages":
      return {
        ...common,
        max_tokens: 1_000,
        messages,
        tool_choice: { type: "tool", name: "lookup" },
      };
  }
}

function toolOf(api: StreamedApi, marker: string, index: number): Json {
  const name = index === 0 ? "lookup" : `lookup_${index}`;
  const description = `Looks a customer of ${marker} up by name, city and year of birth.`;
  const schema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
  switch (api) {
    case "chat":
      return { type: "function", function: { name, description, parameters: schema } };
    case "responses":
      return { type: "function", name, description, parameters: schema };
    case "messages":
      return { name, description, input_schema: schema };
  }
}
