// Reads a request's body within limits of size, time and depth, and says plainly what is wrong with it.

import { startDeadline } from "../../base/deadline.ts";
import { Fault, invalid } from "../../base/fault.ts";
import { QUOTA_EXEMPT_BYTES } from "./body-quota.ts";

const SMALL_BODY_BYTES = 65_536;
const JSON_DEPTH_MAX = 64;
const FORM_FIELDS_MAX = 64;

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

export const BODY_LIMIT_DEFAULT_BYTES = SMALL_BODY_BYTES;

/** How long a body may take to arrive. */
export interface BodyTimeouts {
  readonly smallBodyMs: number;
  readonly largeBodyMs: number;
}

const BODY_TIMEOUTS: BodyTimeouts = { smallBodyMs: 30_000, largeBodyMs: 120_000 };

/**
 * Not `async`, and neither is what it waits with: every call has a body, and each promise of it has its price. `grow` is told
 * how much has come of one that is not small, and may throw.
 */
export function readBody(
  request: Request,
  limitBytes: number,
  timeouts: BodyTimeouts = BODY_TIMEOUTS,
  onGrowth: (bytes: number) => void = () => {},
): Promise<Uint8Array> {
  const { headers } = request;
  rejectContentEncoding(headers.get("content-encoding"));
  const contentLength = headers.get("content-length");
  // The length may come twice, and is then no number: nothing would bound what is read.
  if (contentLength !== null && !/^\d{1,15}$/.test(contentLength))
    throw invalid("content-length", "Send one content-length, in digits.");
  if (contentLength !== null && Number(contentLength) > limitBytes) throw tooLarge(limitBytes);
  const timeoutMs = limitBytes > SMALL_BODY_BYTES ? timeouts.largeBodyMs : timeouts.smallBodyMs;
  if (request.body === null) return Promise.resolve(new Uint8Array());
  // A small body of known length is read in one go, which is far cheaper; any other is counted as it comes, since a length
  // that is only announced takes no memory.
  const isSmall = contentLength !== null && Number(contentLength) <= QUOTA_EXEMPT_BYTES;
  const reading = isSmall ? request.bytes() : readCounted(request.body, limitBytes, onGrowth);
  return withTimeout(reading, timeoutMs);
}

function rejectContentEncoding(encoding: string | null): void {
  if (encoding === null || encoding.toLowerCase() === "identity") return;
  throw new Fault("unsupported_media_type", "encoded body", {
    message: "Send the body as it is, without a content-encoding.",
    param: "content-encoding",
  });
}

async function readCounted(
  stream: ReadableStream<Uint8Array>,
  limitBytes: number,
  onGrowth: (bytes: number) => void,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size > limitBytes) throw tooLarge(limitBytes);
    onGrowth(size);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function withTimeout(reading: Promise<Uint8Array>, timeoutMs: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const stop = startDeadline(timeoutMs, () =>
      reject(new Fault("request_timeout", "the body did not arrive in time")),
    );
    reading.then(
      (bytes) => {
        stop();
        resolve(bytes);
      },
      (error: unknown) => {
        stop();
        reject(error instanceof Fault ? error : incompleteBody(error));
      },
    );
  });
}

function incompleteBody(cause: unknown): Fault {
  return new Fault("request_timeout", "the body stopped half-way", {
    message: "The request body ended before it was complete.",
    status: 400,
    cause,
  });
}

function tooLarge(limitBytes: number): Fault {
  return new Fault("payload_too_large", `body above ${limitBytes} bytes`, {
    message: `The request body may have ${limitBytes} bytes at most.`,
  });
}

export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new Fault("invalid_request", "body is not UTF-8", {
      message: "The request body is not valid UTF-8.",
      cause,
    });
  }
}

/** An empty body is an empty object: the specification lets a client leave `{}` out. */
export function parseJsonBody(text: string): unknown {
  if (text.trim() === "") return {};
  if (nestingDepth(text) > JSON_DEPTH_MAX)
    throw invalid(undefined, `The JSON body is nested deeper than ${JSON_DEPTH_MAX} levels.`);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalid(
      undefined,
      `The body is not valid JSON: ${error instanceof Error ? error.message.replace(/^JSON Parse error: /, "") : "it cannot be read"}.`,
    );
  }
}

/** How deep brackets nest outside of strings; counted before parsing, since a parser recurses. */
function nestingDepth(text: string): number {
  if (hasFewBrackets(text)) return 0;
  let depth = 0;
  let deepest = 0;
  for (let place = 0; place < text.length; place++) {
    const code = text.charCodeAt(place);
    if (code === 0x22) place = endOfString(text, place);
    else if (code === 0x7b || code === 0x5b) deepest = Math.max(deepest, ++depth);
    else if (code === 0x7d || code === 0x5d) depth--;
  }
  return deepest;
}

// Most bodies have too few brackets to nest so deep, wherever they stand: looking for them is a search of the engine's own.
function hasFewBrackets(text: string): boolean {
  let left = JSON_DEPTH_MAX;
  for (const bracket of ["{", "["])
    for (let at = text.indexOf(bracket); at !== -1; at = text.indexOf(bracket, at + 1))
      if (--left < 0) return false;
  return true;
}

function endOfString(text: string, start: number): number {
  let place = text.indexOf('"', start + 1);
  while (place !== -1) {
    let slashes = 0;
    while (text.charCodeAt(place - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return place;
    place = text.indexOf('"', place + 1);
  }
  return text.length;
}

/** RFC 6749 forbids a parameter that is repeated. */
export function parseFormBody(text: string): Record<string, string> {
  const entries = [...new URLSearchParams(text)];
  if (entries.length > FORM_FIELDS_MAX) throw invalid(undefined, "The form has too many fields.");
  return uniqueFields(entries, (name) => `The field ${name} is repeated.`);
}

/** A name that is repeated is refused: two readers could each believe another one. */
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
