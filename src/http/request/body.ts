// Reads a request body within limits of size, time and nesting depth.

import { startDeadline } from "../../base/async/deadline.ts";
import { Fault, invalid } from "../../base/fault.ts";
import { COUNTED_AT_ONCE_BYTES } from "./body-quota.ts";

const SMALL_BODY_BYTES = 65_536;
const JSON_DEPTH_MAX = 64;
/** The most members of one object. No API defines more than a hundred; the caller chooses the members of labels and schemas. */
const JSON_MEMBERS_MAX = 10_000;
/** More than the token ids of the largest embeddings request, 300,000. */
const JSON_VALUES_MAX = 500_000;
const FORM_FIELDS_MAX = 64;

/** Chunks are joined in groups of this size: each chunk takes 80 bytes besides its content, which the memory quota does not count. */
const CHUNKS_JOINED = 512;

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

export const BODY_LIMIT_DEFAULT_BYTES = SMALL_BODY_BYTES;

/** Time limits for receiving a body. */
export interface BodyTimeouts {
  readonly smallBodyMs: number;
  readonly largeBodyMs: number;
  /** For callers without a valid key or session. */
  readonly anonymousBodyMs: number;
}

const BODY_TIMEOUTS: BodyTimeouts = {
  smallBodyMs: 30_000,
  largeBodyMs: 120_000,
  anonymousBodyMs: 10_000,
};

export interface BodyOptions {
  readonly limitBytes: number;
  readonly isAnonymous: boolean;
  readonly timeouts?: BodyTimeouts | undefined;
  /** Called with the bytes that the body takes so far. It may throw. */
  readonly onGrowth?: (bytes: number) => void;
  /** Called before the body is read. It may throw; otherwise `onEnd` follows when the reading ends. */
  readonly onStart?: () => void;
  readonly onEnd?: () => void;
}

const NOTHING = (): void => {};

/** Not `async`: every call reads a body, and each promise costs. */
export function readBody(request: Request, options: BodyOptions): Promise<Uint8Array> {
  const { limitBytes, onGrowth = NOTHING, onStart = NOTHING, onEnd = NOTHING } = options;
  const { headers } = request;
  rejectContentEncoding(headers.get("content-encoding"));
  const contentLength = headers.get("content-length");
  // A repeated header is joined by a comma: parsed as NaN, it would disable the size limit.
  if (contentLength !== null && !/^\d{1,15}$/.test(contentLength))
    throw invalid("content-length", "Send the `content-length` header once, as a decimal number.");
  if (contentLength !== null && Number(contentLength) > limitBytes) throw tooLarge(limitBytes);
  const timeoutMs = timeoutOf(options);
  const knownLength = contentLength === null ? undefined : Number(contentLength);
  if (knownLength === 0) return Promise.resolve(new Uint8Array());
  // Reading a body at once takes half the CPU of reading a stream, but hides how much has arrived. A small body counts with
  // its announced length, any other as it arrives: the announcement of a large body alone must not use up a quota.
  if (knownLength !== undefined && knownLength <= COUNTED_AT_ONCE_BYTES) {
    onGrowth(knownLength);
    onStart();
    return withTimeout(request.bytes(), timeoutMs, { onTimeout: NOTHING, onEnd });
  }
  // Read only here: the first access to `body` creates a stream, which costs as much as reading a small body.
  if (request.body === null) return Promise.resolve(new Uint8Array());
  onStart();
  let isLate = false;
  const reading = readCounted(request.body, limitBytes, (bytes) => {
    // Stops reading: bytes that arrive after the response would never be released from the quota.
    if (isLate) throw bodyTimeout();
    onGrowth(bytes);
  });
  const onTimeout = (): void => {
    isLate = true;
  };
  return withTimeout(reading, timeoutMs, { onTimeout, onEnd });
}

function timeoutOf({ limitBytes, isAnonymous, timeouts = BODY_TIMEOUTS }: BodyOptions): number {
  const { smallBodyMs, largeBodyMs, anonymousBodyMs } = timeouts;
  if (isAnonymous) return Math.min(anonymousBodyMs, smallBodyMs);
  return limitBytes > SMALL_BODY_BYTES ? largeBodyMs : smallBodyMs;
}

function rejectContentEncoding(encoding: string | null): void {
  if (encoding === null || encoding.toLowerCase() === "identity") return;
  throw new Fault("unsupported_media_type", "encoded body", {
    message: `The content encoding \`${encoding.slice(0, 100)}\` is not supported. Send the body uncompressed, without \`content-encoding\`.`,
    param: "content-encoding",
  });
}

async function readCounted(
  stream: ReadableStream<Uint8Array>,
  limitBytes: number,
  onGrowth: (bytes: number) => void,
): Promise<Uint8Array> {
  const joined: Uint8Array[] = [];
  let chunks: Uint8Array[] = [];
  let size = 0;
  // Half the CPU of `for await`.
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return Buffer.concat([...joined, ...chunks]);
      size += value.length;
      if (size > limitBytes) throw tooLarge(limitBytes);
      onGrowth(size);
      chunks.push(value);
      if (chunks.length === CHUNKS_JOINED) {
        joined.push(Buffer.concat(chunks));
        chunks = [];
      }
    }
  } catch (error) {
    reader.cancel().catch(() => {});
    throw error;
  }
}

function withTimeout(
  reading: Promise<Uint8Array>,
  timeoutMs: number,
  { onTimeout, onEnd }: { readonly onTimeout: () => void; readonly onEnd: () => void },
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const stop = startDeadline(timeoutMs, () => {
      onTimeout();
      onEnd();
      reject(bodyTimeout());
    });
    reading.then(
      (bytes) => {
        if (stop()) onEnd();
        resolve(bytes);
      },
      (error: unknown) => {
        if (stop()) onEnd();
        reject(error instanceof Fault ? error : incompleteBody(error));
      },
    );
  });
}

/** The chunks of a body that a route reads itself. A client that is too slow, stalls or leaves gets the error of `readBody`. */
export async function* readInTime(
  body: ReadableStream<Uint8Array>,
  timeoutMs: number,
): AsyncGenerator<Uint8Array, undefined> {
  const reader = body.getReader();
  const late = Promise.withResolvers<never>();
  // Whether it is late matters only to a read that waits.
  late.promise.catch(() => {});
  const stop = startDeadline(timeoutMs, () => late.reject(bodyTimeout()));
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), late.promise]);
      if (done) return undefined;
      yield value;
    }
  } catch (error) {
    throw error instanceof Fault ? error : incompleteBody(error);
  } finally {
    stop();
    reader.cancel().catch(() => {});
  }
}

/** Closes the connection, so that a slow client cannot keep it by continuing to send. */
function bodyTimeout(): Fault {
  return new Fault("request_timeout", "body timeout", { headers: { connection: "close" } });
}

function incompleteBody(cause: unknown): Fault {
  return new Fault("request_timeout", "the body ended early", {
    message: "The request body ended before it was complete. Send it again.",
    status: 400,
    cause,
  });
}

function tooLarge(limitBytes: number): Fault {
  return new Fault("payload_too_large", `body above ${limitBytes} bytes`, {
    message: `The request body must have at most ${limitBytes} bytes.`,
  });
}

export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new Fault("invalid_request", "body is not UTF-8", {
      message: "The request body must be valid UTF-8.",
      cause,
    });
  }
}

/** An empty body counts as `{}`. */
export function parseJsonBody(text: string): unknown {
  if (text.trim() === "") return {};
  rejectUnboundedJson(text);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalid(
      undefined,
      `The request body is not valid JSON: ${error instanceof Error ? error.message.replace(/^JSON Parse error: /, "") : "unreadable"}.`,
    );
  }
}

/**
 * Limits nesting, values and the members of an object, before parsing: the parser recurses, and many small values or names take
 * far more time and memory than their bytes. They are counted by the commas and brackets outside strings.
 */
export function rejectUnboundedJson(text: string): void {
  // A member and its comma have five characters at least.
  if (text.length < 5 * JSON_MEMBERS_MAX && hasFewBrackets(text)) return;
  // Of each open value, the commas so far; below 0 in a list.
  const commas: number[] = [];
  let values = 0;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 0x22) index = endOfString(text, index);
    else if (code === 0x7b || code === 0x5b) {
      values++;
      commas.push(code === 0x7b ? 0 : -Infinity);
      if (commas.length > JSON_DEPTH_MAX)
        throw invalid(
          undefined,
          `The JSON body must have at most ${JSON_DEPTH_MAX} nesting levels.`,
        );
    } else if (code === 0x7d || code === 0x5d) commas.pop();
    else if (code === 0x2c) {
      values++;
      const last = commas.length - 1;
      if ((commas[last] = (commas[last] ?? 0) + 1) >= JSON_MEMBERS_MAX)
        throw invalid(
          undefined,
          `An object of the JSON body may have at most ${JSON_MEMBERS_MAX} fields.`,
        );
    }
    if (values > JSON_VALUES_MAX)
      throw invalid(
        undefined,
        `The JSON body must have at most ${JSON_VALUES_MAX} values. Send large lists of numbers as base64, or in several requests.`,
      );
  }
}

// Fast path with native search: most bodies have too few brackets in all to exceed the depth.
function hasFewBrackets(text: string): boolean {
  let left = JSON_DEPTH_MAX;
  for (const bracket of ["{", "["])
    for (let at = text.indexOf(bracket); at !== -1; at = text.indexOf(bracket, at + 1))
      if (--left < 0) return false;
  return true;
}

function endOfString(text: string, start: number): number {
  let quote = text.indexOf('"', start + 1);
  while (quote !== -1) {
    let slashes = 0;
    while (text.charCodeAt(quote - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return quote;
    quote = text.indexOf('"', quote + 1);
  }
  return text.length;
}

/** RFC 6749 §3.1 forbids repeated parameters. */
export function parseFormBody(text: string): Record<string, string> {
  const entries = [...new URLSearchParams(text)];
  if (entries.length > FORM_FIELDS_MAX)
    throw invalid(undefined, `The form must have at most ${FORM_FIELDS_MAX} fields.`);
  return uniqueFields(entries, (name) => `The field \`${name}\` is repeated. Send it once.`);
}

/** Rejects repeated names: two parsers could each pick a different value. */
export function uniqueFields(
  entries: Iterable<readonly [string, string]>,
  duplicateMessage: (name: string) => string,
): Record<string, string> {
  const fields = new Map<string, string>();
  for (const [name, value] of entries) {
    if (fields.has(name)) throw invalid(name, duplicateMessage(name));
    fields.set(name, value);
  }
  return Object.fromEntries(fields);
}
