// What becomes of each event of a stream on its way to the caller. On the same wire it is passed on as the bytes that
// came; only the usage that the gateway itself asked for is taken out, and the cost is put into usage that is shown.

import type { SseEvent } from "../../base/streams/sse.ts";
import { memberSpans, withMembers } from "../request/json-edit.ts";

export interface StreamTransform {
  /** An event that is of no matter to the money. */
  readonly transformEvent: (event: SseEvent) => Uint8Array | undefined;
  /** The event that carries the final usage, with the cost where it is known. */
  readonly transformUsageEvent: (
    event: SseEvent,
    costUsd: string | undefined,
  ) => Uint8Array | undefined;
  /** Takes keys and names of accounts out of what a provider says of its failure. */
  readonly scrub: (bytes: Uint8Array) => Uint8Array;
  /** What is said when the provider has ended well: on the same wire nothing where its own last event was passed on. */
  readonly finish: (hasTerminalEvent: boolean) => Uint8Array | undefined;
  /** The error event of this API, for a failure of the gateway's own making; nothing where one was already said. */
  readonly errorEvent: (body: unknown) => Uint8Array | undefined;
  /** What is sent in silence, so that nobody on the way takes the connection for dead. */
  readonly keepAlive: Uint8Array;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const KEEP_ALIVE_COMMENT = encoder.encode(": keep-alive\n\n");
const KEEP_ALIVE_PING = encoder.encode('event: ping\ndata: {"type":"ping"}\n\n');

export type StreamingApi = "chat" | "responses" | "messages";

/** Where the usage object stands in the event that carries it. */
const USAGE_PATHS: Readonly<Record<StreamingApi, readonly string[]>> = {
  chat: ["usage"],
  messages: ["usage"],
  responses: ["response", "usage"],
};

/** The event that ends a stream, for an API where it says nothing else. */
const TERMINAL_EVENTS: Readonly<Partial<Record<StreamingApi, Uint8Array>>> = {
  chat: encoder.encode("data: [DONE]\n\n"),
  messages: encoder.encode('event: message_stop\ndata: {"type":"message_stop"}\n\n'),
};

export interface PassthroughOptions {
  readonly wantsUsage: boolean;
  /** Whether this provider's streams just close. */
  readonly lacksTerminalEvent: boolean;
  readonly scrub: (text: string) => string;
}

export function passthroughTransform(
  api: StreamingApi,
  { wantsUsage, lacksTerminalEvent, scrub }: PassthroughOptions,
): StreamTransform {
  const path = USAGE_PATHS[api];
  let latest: SseEvent | undefined;
  return {
    transformEvent: (event) => {
      latest = event;
      return event.raw;
    },
    transformUsageEvent: (event, costUsd) => {
      latest = event;
      if (api === "chat" && !wantsUsage && isUsageOnly(event)) return undefined;
      return costUsd === undefined ? event.raw : addCostToEvent(event.raw, path, costUsd);
    },
    scrub: (bytes) => encoder.encode(scrub(decoder.decode(bytes))),
    // A provider that said all, and its usage, and then closed without its last event: the caller's stream has one.
    finish: (hasTerminalEvent) =>
      hasTerminalEvent || lacksTerminalEvent ? undefined : TERMINAL_EVENTS[api],
    errorEvent: (body) => errorEvent(api, body, latest?.raw),
    keepAlive: keepAliveBytes(api),
  };
}

/**
 * Puts the cost into the usage object of a whole reply. Where its name stands in the text once, that is where the object
 * stands, and the rest need not be looked at.
 */
export function addCostToReply(text: string, usage: unknown, costUsd: string): string {
  const name = text.indexOf(USAGE_KEY);
  const isOnlyOne = name > 0 && text.indexOf(USAGE_KEY, name + 1) === -1;
  const open = isOnlyOne ? openingBrace(text, name) : undefined;
  const isPlain =
    typeof usage === "object" &&
    usage !== null &&
    !("cost" in usage) &&
    Object.keys(usage).length > 0;
  if (open === undefined || !isPlain) return addCostAtPath(text, 0, ["usage"], costUsd);
  return `${text.slice(0, open + 1)}"cost":${costUsd},${text.slice(open + 1)}`;
}

const USAGE_KEY = '"usage"';

/** Where the object begins whose name stands here; undefined where it is not a name, or not of an object. */
function openingBrace(text: string, name: number): number | undefined {
  // After a backslash it is the end of a text that holds quotes.
  if (text[name - 1] === "\\") return undefined;
  const pattern = /\s*:\s*\{/y;
  pattern.lastIndex = name + USAGE_KEY.length;
  return pattern.test(text) ? pattern.lastIndex - 1 : undefined;
}

/** Puts the cost into the usage object at this path of a JSON text; the text as it was where there is none. */
export function addCostAtPath(
  json: string,
  from: number,
  path: readonly string[],
  costUsd: string,
): string {
  try {
    return insertCostAtPath(json, from, path, costUsd);
  } catch {
    // A reply that names a member twice, or is nested too deep, is passed on as it is.
    return json;
  }
}

function insertCostAtPath(
  json: string,
  from: number,
  path: readonly string[],
  costUsd: string,
): string {
  let at = from;
  for (const name of path) {
    const span = memberSpans(json, at)?.members.get(name);
    if (span === undefined) return json;
    at = span.start;
  }
  const usage = memberSpans(json, at);
  if (usage === undefined) return json;
  const edited = withMembers(json.slice(0, usage.end), usage, { cost: costUsd });
  return edited + json.slice(usage.end);
}

function addCostToEvent(raw: Uint8Array, path: readonly string[], costUsd: string): Uint8Array {
  const text = decoder.decode(raw);
  const data = /^data: ?/m.exec(text);
  // An event whose data is spread over several lines is passed on as it is.
  if (data === null || text.indexOf("\ndata:", data.index + 1) !== -1) return raw;
  return encoder.encode(addCostAtPath(text, data.index + data[0].length, path, costUsd));
}

function isUsageOnly(event: SseEvent): boolean {
  return /"choices"\s*:\s*\[\s*\]/.test(decoder.decode(event.raw));
}

export function keepAliveBytes(api: StreamingApi): Uint8Array {
  return api === "messages" ? KEEP_ALIVE_PING : KEEP_ALIVE_COMMENT;
}

/** `after`: the last bytes that were sent, for the API that numbers its events. */
export function errorEvent(
  api: StreamingApi,
  body: unknown,
  after: Uint8Array | undefined,
): Uint8Array {
  switch (api) {
    case "chat":
      return encoder.encode(`data: ${JSON.stringify(body)}\n\n`);
    case "messages":
      return encoder.encode(`event: error\ndata: ${JSON.stringify(body)}\n\n`);
    case "responses": {
      const data = {
        type: "error",
        sequence_number: nextSequenceNumber(after),
        ...responsesErrorFields(body),
      };
      return encoder.encode(`event: error\ndata: ${JSON.stringify(data)}\n\n`);
    }
  }
}

// The description has these fields flat, the provider itself nests them: both are said.
function responsesErrorFields(body: unknown): object {
  const error: unknown =
    typeof body === "object" && body !== null && "error" in body ? body.error : undefined;
  if (typeof error !== "object" || error === null) return {};
  const code = "code" in error ? error.code : null;
  const message = "message" in error ? error.message : "";
  const param = "param" in error ? (error.param ?? null) : null;
  return { code, message, param, error };
}

function nextSequenceNumber(after: Uint8Array | undefined): number {
  const lastNumber = [...decoder.decode(after).matchAll(/"sequence_number"\s*:\s*(\d+)/g)].at(
    -1,
  )?.[1];
  return lastNumber === undefined ? 0 : Number(lastNumber) + 1;
}
