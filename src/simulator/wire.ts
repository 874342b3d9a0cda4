// What every wire gives to the simulator, and the parts of a reply that they share.

import type { Ask, Wrong } from "./ask.ts";
import type { Conversation } from "./conversations.ts";
import type { Order } from "./directives.ts";
import { isFields, type Fields } from "./json.ts";
import type { Reply } from "./reply.ts";

/** One event of a stream, whole. Text has LF line ends; delivery may change them. */
export interface Frame {
  readonly data: string | Uint8Array;
  /** Carries content: what directives that count deltas count. */
  readonly delta?: true;
  readonly usage?: true;
  /** The terminal event. */
  readonly end?: true;
}

/** What the path and the headers say beside the body. */
export interface Arrival {
  readonly pathModel: string;
  readonly streaming: boolean;
  readonly query: URLSearchParams;
  readonly header: (name: string) => string | undefined;
  /** What was said up to a stored reply. */
  readonly earlier: (id: string) => readonly unknown[] | undefined;
}

export interface Failure {
  readonly status: number;
  readonly message: string;
  readonly param?: string | null;
  readonly code?: string | null;
}

export interface Wire {
  readonly name: "chat" | "responses" | "messages" | "gemini" | "converse";
  /** Whether its providers cache prompts without being asked to. */
  readonly cachesUnasked: boolean;
  readonly read: (body: Fields, arrival: Arrival) => Ask | Wrong;
  readonly whole: (reply: Reply) => unknown;
  readonly stream: (reply: Reply) => Iterable<Frame>;
  /** What is stored of a reply, on the wire that stores. */
  readonly keep?: (reply: Reply) => Conversation;
  readonly streamType: (ask: Ask) => string;
  readonly newline: "lf" | "crlf";
  readonly unknownModel: (model: string) => Failure;
  readonly failure: (failure: Failure) => Fields;
  readonly failureHeaders: (failure: Failure) => Readonly<Record<string, string>>;
  /** `sent`: how many frames came before it. */
  readonly failureFrame: (message: string, sent: number) => Frame;
  readonly garbledFrame: Frame;
  readonly keepalive: Frame;
  readonly requestIdHeader: string;
  /** The headers that tell how much of a rate limit is left. */
  readonly limitHeaders: (left: number) => Readonly<Record<string, string>>;
  readonly missingKey: Failure;
  readonly wrongKey: Failure;
}

export const SSE_TYPE = "text/event-stream; charset=utf-8";
export const JSON_TYPE = "application/json";

/** An event with a name, as Anthropic's and OpenAI's Responses streams have. */
export function namedEvent(name: string, value: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(value)}\n\n`;
}

export function dataEvent(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

const SPOILERS: Readonly<
  Record<NonNullable<Order["usage"]>, (usage: Fields) => Fields | undefined>
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

/** The usage object as the order wants it; undefined where it is left out. */
export function spoilUsage(usage: Fields, order: Order): Fields | undefined {
  return order.usage === undefined ? usage : SPOILERS[order.usage](usage);
}

function mapNumbers(fields: Fields, change: (value: number) => unknown): Fields {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [key, mapValue(value, change)]),
  );
}

function mapValue(value: unknown, change: (value: number) => unknown): unknown {
  if (typeof value === "number") return change(value);
  if (Array.isArray(value)) return value.map((entry) => mapValue(entry, change));
  return isFields(value) ? mapNumbers(value, change) : value;
}
