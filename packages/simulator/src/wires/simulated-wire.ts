// The interface of a simulated wire, and helpers that the wires share.

import type { Directives } from "../faults/directives.ts";
import { isObject, type JsonObject } from "../json-readers.ts";
import type { Reply } from "../reply/compose-reply.ts";
import type { Conversation } from "../reply/conversation-store.ts";
import type { NormalizedRequest, InvalidRequest } from "../reply/normalized-request.ts";

/** One complete stream event. Text has LF line endings, which a directive may change. */
export interface Frame {
  readonly data: string | Uint8Array;
  /** Has content. Directives such as `cut` count these events. */
  readonly isDelta?: true;
  readonly isUsage?: true;
  readonly isTerminal?: true;
}

/** Request data from the path, query and headers. */
export interface RequestMetadata {
  readonly pathModel: string;
  readonly isStreaming: boolean;
  readonly query: URLSearchParams;
  readonly header: (name: string) => string | undefined;
  /** The items of a stored conversation. */
  readonly findConversation: (id: string) => readonly unknown[] | undefined;
}

export interface ApiError {
  readonly status: number;
  readonly message: string;
  readonly param?: string | null;
  readonly code?: string | null;
}

export interface SimulatedWire {
  readonly name: "chat" | "responses" | "messages" | "gemini" | "converse";
  /** Caches prompts without markers. */
  readonly cachesImplicitly: boolean;
  readonly parseRequest: (
    body: JsonObject,
    metadata: RequestMetadata,
  ) => NormalizedRequest | InvalidRequest;
  readonly replyBody: (reply: Reply) => unknown;
  readonly streamReply: (reply: Reply) => Iterable<Frame>;
  /** The conversation to store, on the wire that stores replies. */
  readonly toConversation?: (reply: Reply) => Conversation;
  readonly streamContentType: (request: NormalizedRequest) => string;
  readonly newline: "lf" | "crlf";
  readonly modelNotFound: (model: string) => ApiError;
  readonly errorBody: (error: ApiError) => JsonObject;
  readonly errorHeaders: (error: ApiError) => Readonly<Record<string, string>>;
  /** `sent`: the number of frames before it. */
  readonly errorFrame: (message: string, sent: number) => Frame;
  readonly malformedFrame: Frame;
  readonly keepaliveFrame: Frame;
  readonly requestIdHeader: string;
  readonly rateLimitHeaders: (remaining: number) => Readonly<Record<string, string>>;
  readonly missingKeyError: ApiError;
  readonly invalidKeyError: ApiError;
}

export const SSE_CONTENT_TYPE = "text/event-stream; charset=utf-8";
export const JSON_CONTENT_TYPE = "application/json";

/** A named event, as in Anthropic's and OpenAI's Responses streams. */
export function namedEvent(name: string, value: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(value)}\n\n`;
}

export function dataEvent(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

const USAGE_FAULTS: Readonly<
  Record<NonNullable<Directives["usage"]>, (usage: JsonObject) => JsonObject | undefined>
> = {
  none: () => undefined,
  twice: (usage) => usage,
  negative: (usage) => mapNumbers(usage, (value) => (value === 0 ? -1 : -value)),
  huge: (usage) => mapNumbers(usage, () => Number.MAX_SAFE_INTEGER),
  zero: (usage) => mapNumbers(usage, () => 0),
  text: (usage) => mapNumbers(usage, String),
  missing: (usage) =>
    Object.fromEntries(Object.entries(usage).filter((_, index) => index % 2 === 0)),
};

/** The usage object with the fault of the `usage` directive; undefined if it is omitted. */
export function applyUsageFault(usage: JsonObject, directives: Directives): JsonObject | undefined {
  return directives.usage === undefined ? usage : USAGE_FAULTS[directives.usage](usage);
}

function mapNumbers(fields: JsonObject, transform: (value: number) => unknown): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [key, mapValue(value, transform)]),
  );
}

function mapValue(value: unknown, transform: (value: number) => unknown): unknown {
  if (typeof value === "number") return transform(value);
  if (Array.isArray(value)) return value.map((entry) => mapValue(entry, transform));
  return isObject(value) ? mapNumbers(value, transform) : value;
}
