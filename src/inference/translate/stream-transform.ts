// Transforms each stream event on its way to the caller. On the caller's own wire the bytes pass through, except that usage
// which only the gateway requested is removed, the cost is added to usage that the caller sees, and the model has its id.

import {
  type ApiTraits,
  API_TRAITS,
  failedResponseError,
  INBOUND_WIRES,
  type RelayedApi,
  type SseEvent,
} from "@postern/wires";
import { type JsonObject, numberIn, objectIn, parseObject } from "../../base/json.ts";
import { memberSpans, quoted, skipWhitespace, withMembers } from "../request/json-edit.ts";
import { createModelWriter } from "./reply-model.ts";

/** Called only where the cost is shown, because computing it is not free. */
export type CostSoFar = () => string | undefined;

export interface StreamTransform {
  /** An event without final usage. */
  readonly transformEvent: (event: SseEvent) => Uint8Array | undefined;
  /** The event that carries the final usage; adds the cost if it is known. */
  readonly transformUsageEvent: (event: SseEvent, costUsd: CostSoFar) => Uint8Array | undefined;
  /** Writes the provider's error event as the gateway's own; undefined for what follows it. */
  readonly rewriteError: (bytes: Uint8Array) => Uint8Array | undefined;
  /** The bytes that complete a successful stream; none if the provider's terminal event was passed through. */
  readonly finish: (hasTerminalEvent: boolean, costUsd: CostSoFar) => Uint8Array | undefined;
  /**
   * The error event for a failure that the gateway found, after the `latest` event for the client; undefined after an error
   * event of the provider.
   */
  readonly errorEvent: (body: JsonObject, latest: Uint8Array | undefined) => Uint8Array | undefined;
  /** Sent while the provider is silent, so that proxies do not close an idle connection. */
  readonly keepAlive: Uint8Array;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export type StreamingApi = keyof typeof INBOUND_WIRES;
type EventApi = StreamingApi | RelayedApi;

export function isStreamingApi(api: string): api is StreamingApi {
  return Object.hasOwn(INBOUND_WIRES, api);
}

export interface PassthroughOptions {
  readonly wantsUsage: boolean;
  readonly modelIdOf: (name: string) => string;
  /** The request fields that were dropped, as a JSON array; undefined without any. */
  readonly dropped?: string | undefined;
  /** This provider ends its streams by closing the connection. */
  readonly lacksTerminalEvent: boolean;
  /** The gateway's error body for the data of a provider's error event. */
  readonly toErrorBody: (data: unknown) => JsonObject;
}

export function passthroughTransform(
  api: EventApi,
  { wantsUsage, modelIdOf, dropped, lacksTerminalEvent, toErrorBody }: PassthroughOptions,
): StreamTransform {
  const { hasUsageOption, terminalEvent, usagePath, modelPath } = API_TRAITS[api];
  const writeModel = createModelWriter(modelIdOf, modelPath);
  let hasErrorEvent = false;
  return {
    transformEvent: ({ raw }) => writeModel(raw),
    transformUsageEvent: (event, costUsd) => {
      if (hasUsageOption && !wantsUsage && isUsageOnly(event)) return undefined;
      const cost = costUsd();
      return writeModel(
        cost === undefined ? event.raw : addExtrasToEvent(event, usagePath, { cost, dropped }),
      );
    },
    rewriteError: (bytes) => {
      const text = decoder.decode(bytes);
      const [, line = ""] = /^data: ?(.*)$/m.exec(text) ?? [];
      const data = parseObject(line);
      const response = objectIn(data?.["response"]);
      if (response !== undefined)
        return failedEvent({ ...data, response: withError(response, toErrorBody(response)) });
      if (hasErrorEvent) return undefined;
      hasErrorEvent = true;
      return errorEvent(api, toErrorBody(data ?? line), numberIn(data?.["sequence_number"]) ?? 0);
    },
    // The provider sent everything including usage, then closed without its terminal event: add it.
    finish: (hasTerminalEvent) =>
      hasTerminalEvent || lacksTerminalEvent ? undefined : terminalEvent,
    errorEvent: (body, latest) => errorEvent(api, body, nextSequenceNumber(latest)),
    keepAlive: keepAliveBytes(api),
  };
}

/**
 * The bytes of a file. Each chunk waits for the next one, so that the last waits for the settlement. A file has no place for an
 * error, so its response is broken off.
 */
export function bytesTransform(
  decode: (event: SseEvent) => Uint8Array | undefined,
): StreamTransform {
  let held: Uint8Array | undefined;
  const transformEvent = (event: SseEvent): Uint8Array | undefined => {
    const bytes = decode(event);
    if (bytes === undefined || bytes.length === 0) return undefined;
    const ready = held;
    held = bytes;
    return ready;
  };
  return {
    transformEvent,
    transformUsageEvent: transformEvent,
    rewriteError: () => undefined,
    finish: () => held,
    errorEvent: () => undefined,
    keepAlive: NO_BYTES,
  };
}

const NO_BYTES = new Uint8Array(0);

/** What the gateway adds to a usage object, as JSON text. */
export interface UsageExtras {
  readonly cost: string | undefined;
  readonly dropped?: string | undefined;
}

/** Adds the extras to the usage object of a non-streamed reply. */
export function addExtrasToReply(
  text: string,
  usage: unknown,
  extras: UsageExtras,
  field: ApiTraits["usageField"] = "usage",
): string {
  return (
    addExtrasToOnlyUsage(text, usage, field, extras) ?? addExtrasAtPath(text, 0, [field], extras)
  );
}

/** If the field occurs only once in the text, the usage object is there and the text need not be parsed. */
function addExtrasToOnlyUsage(
  text: string,
  usage: unknown,
  field: string,
  { cost, dropped }: UsageExtras,
): string | undefined {
  const key = quoted(field);
  const name = text.indexOf(key);
  const isOnlyOne = name > 0 && text.indexOf(key, name + 1) === -1;
  const open = isOnlyOne ? openingBrace(text, name, key) : undefined;
  const isPlain =
    typeof usage === "object" &&
    usage !== null &&
    !("cost" in usage) &&
    !("dropped" in usage) &&
    Object.keys(usage).length > 0;
  if (open === undefined || !isPlain) return undefined;
  const added = dropped === undefined ? `"cost":${cost},` : `"cost":${cost},"dropped":${dropped},`;
  return text.slice(0, open + 1) + added + text.slice(open + 1);
}

/** The position of the `{` after the key at `name`; undefined if it is not a key or its value is not an object. */
function openingBrace(text: string, name: number, key: string): number | undefined {
  // After a backslash the quote is inside a string.
  if (text[name - 1] === "\\") return undefined;
  const colon = skipWhitespace(text, name + key.length);
  if (text[colon] !== ":") return undefined;
  const open = skipWhitespace(text, colon + 1);
  return text[open] === "{" ? open : undefined;
}

/** Adds the extras to the usage object at this path of a JSON text; returns the text unchanged if there is none. */
export function addExtrasAtPath(
  json: string,
  from: number,
  path: readonly string[],
  extras: UsageExtras,
): string {
  try {
    return insertAtPath(json, from, path, extras);
  } catch {
    // Duplicate members or too deep nesting: pass the reply through unchanged.
    return json;
  }
}

function insertAtPath(
  json: string,
  from: number,
  path: readonly string[],
  { cost, dropped }: UsageExtras,
): string {
  let at = from;
  for (const name of path) {
    const span = memberSpans(json, at)?.members.get(name);
    if (span === undefined) return json;
    at = span.start;
  }
  const usage = memberSpans(json, at);
  if (usage === undefined) return json;
  const members = dropped === undefined ? { cost } : { cost, dropped };
  const edited = withMembers(json.slice(0, usage.end), usage, members);
  return edited + json.slice(usage.end);
}

function addExtrasToEvent(
  { raw, message }: SseEvent,
  path: readonly string[],
  extras: UsageExtras,
): Uint8Array {
  const text = decoder.decode(raw);
  const data = /^data: ?/m.exec(text);
  // An event with several data lines passes through unchanged.
  if (data === null || text.indexOf("\ndata:", data.index + 1) !== -1) return raw;
  let usage = message?.json;
  for (const name of path) usage = objectIn(usage)?.[name];
  const added =
    addExtrasToOnlyUsage(text, usage, path.at(-1) ?? "", extras) ??
    addExtrasAtPath(text, data.index + data[0].length, path, extras);
  return encoder.encode(added);
}

function isUsageOnly(event: SseEvent): boolean {
  return /"choices"\s*:\s*\[\s*\]/.test(decoder.decode(event.raw));
}

export function keepAliveBytes(api: EventApi): Uint8Array {
  return API_TRAITS[api].keepAlive;
}

export function errorEvent(api: EventApi, body: JsonObject, sequenceNumber: number): Uint8Array {
  return encoder.encode(API_TRAITS[api].errorFrame(body, sequenceNumber));
}

function failedEvent(data: JsonObject): Uint8Array {
  return encoder.encode(`event: response.failed\ndata: ${JSON.stringify(data)}\n\n`);
}

function withError(response: JsonObject, body: JsonObject): JsonObject {
  return { ...response, error: failedResponseError(objectIn(body["error"]) ?? {}) };
}

/** The number of the event that follows these bytes. */
export function nextSequenceNumber(after: Uint8Array | undefined): number {
  const lastNumber = [...decoder.decode(after).matchAll(/"sequence_number"\s*:\s*(\d+)/g)].at(
    -1,
  )?.[1];
  return lastNumber === undefined ? 0 : Number(lastNumber) + 1;
}
