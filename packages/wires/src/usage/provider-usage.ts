// Reads usage from a provider's reply or stream, on every wire.

import { parseJson } from "../json-fields.ts";
import { usageOfEmbeddings } from "../relayed/embeddings-endpoint.ts";
import { createChatStreamMeter, usageOfChat } from "./chat-usage.ts";
import { createConverseStreamMeter, usageOfConverse } from "./converse-usage.ts";
import { createGeminiStreamMeter, usageOfGemini } from "./gemini-usage.ts";
import { createMessagesStreamMeter, usageOfMessages } from "./messages-usage.ts";
import { createResponsesStreamMeter, usageOfResponses } from "./responses-usage.ts";
import type { StreamMeter } from "./stream-meter.ts";
import type { Usage } from "./usage-meters.ts";

const REPLY_READERS = {
  chat: usageOfChat,
  responses: usageOfResponses,
  messages: usageOfMessages,
  gemini: usageOfGemini,
  converse: usageOfConverse,
  embeddings: usageOfEmbeddings,
} as const;

const STREAM_METERS = {
  chat: createChatStreamMeter,
  responses: createResponsesStreamMeter,
  messages: createMessagesStreamMeter,
  gemini: createGeminiStreamMeter,
  converse: createConverseStreamMeter,
} as const;

export type MeteredWire = keyof typeof REPLY_READERS;
export type StreamedWire = keyof typeof STREAM_METERS;

export function isStreamedWire(wire: string): wire is StreamedWire {
  return Object.hasOwn(STREAM_METERS, wire);
}

const decoder = new TextDecoder();

/** The usage reported by a complete reply, given as bytes, text or parsed JSON; undefined if it has none or is not JSON. */
export function usageOf(wire: MeteredWire, body: unknown, provider: string): Usage | undefined {
  const text = body instanceof Uint8Array ? decoder.decode(body) : body;
  return REPLY_READERS[wire](typeof text === "string" ? parseJson(text) : text, provider);
}

/** `choices`: how many choices were requested. Each of them ends separately. */
export function createStreamMeter(wire: StreamedWire, provider: string, choices = 1): StreamMeter {
  return STREAM_METERS[wire](provider, choices);
}
