// The stored form of a response for `Idempotency-Key`: one line of JSON with the gateway's headers, then the body.

import { Fault } from "../../../base/fault.ts";
import type { StoredReply } from "../call.ts";

const STORED_REPLY_MAX_BYTES = 8 * 1_048_576;
const TOO_LARGE_REPLY: StoredReply = { status: 409, body: "" };
const GATEWAY_HEADER_PREFIX = "x-postern-";
/** No response body of these APIs begins like the header line. */
const HEADER_LINE_START = `{"${GATEWAY_HEADER_PREFIX}`;

const CONTENT_TYPE = "content-type";

function isFile(headers: Headers): boolean {
  return /^(audio\/|application\/octet-stream)/.test(headers.get(CONTENT_TYPE) ?? "");
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

type ReplyHeaders = Readonly<Record<string, string>>;

export function toStoredReply(headers: Headers, body: string): StoredReply {
  if (Buffer.byteLength(body) > STORED_REPLY_MAX_BYTES) return TOO_LARGE_REPLY;
  const gatewayHeaders = [...headers].filter(([name]) => name.startsWith(GATEWAY_HEADER_PREFIX));
  const contentType = headers.get(CONTENT_TYPE) ?? "";
  if (!/^(application\/json|text\/event-stream)/.test(contentType))
    gatewayHeaders.push([CONTENT_TYPE, contentType]);
  return { status: 200, body: `${JSON.stringify(Object.fromEntries(gatewayHeaders))}\n${body}` };
}

const FILE_TEXT = "(a file)";

/** The reply as the log of prompts has it, which keeps no files. */
export function loggedText(headers: Headers, text: string): string {
  return isFile(headers) ? FILE_TEXT : text;
}

/** Records a stream. Beyond the limit nothing is kept, and a repetition fails instead of running the request again. */
export function createReplyRecorder(): {
  readonly record: (bytes: Uint8Array) => void;
  readonly reply: (headers: Headers) => StoredReply;
  /** For the log of prompts: as much as was kept. */
  readonly logged: (headers: Headers) => string;
} {
  const chunks: Uint8Array[] = [];
  let size = 0;
  return {
    logged: (headers) => (isFile(headers) ? FILE_TEXT : decode(Buffer.concat(chunks))),
    record: (bytes) => {
      size += bytes.length;
      if (size <= STORED_REPLY_MAX_BYTES) chunks.push(bytes);
    },
    reply: (headers) => {
      if (size > STORED_REPLY_MAX_BYTES) return TOO_LARGE_REPLY;
      const bytes = Buffer.concat(chunks);
      return toStoredReply(headers, isFile(headers) ? bytes.toString("base64") : decode(bytes));
    },
  };
}

export function replayReply(stored: StoredReply, requestText: string): Response {
  if (stored.status !== 200) {
    throw new Fault("conflict", "response too large to be stored", {
      message:
        "The response to this `Idempotency-Key` was too large to be stored. Use a new key to run the request again.",
    });
  }
  return storedResponse(stored, requestText, { "idempotent-replayed": "true" });
}

/** The response of a reply that was small enough to be stored. */
export function storedResponse(
  stored: StoredReply,
  requestText: string,
  headers: ReplyHeaders,
): Response {
  const { gatewayHeaders, body } = parseStoredReply(stored.body);
  const isStream = !/^\s*\{/.test(body) && /"stream"\s*:\s*true/.test(requestText);
  const all = new Headers({
    [CONTENT_TYPE]: isStream ? "text/event-stream; charset=utf-8" : "application/json",
    ...gatewayHeaders,
    "cache-control": "no-store",
    ...headers,
  });
  return new Response(isFile(all) ? Buffer.from(body, "base64") : body, { headers: all });
}

// Responses of background calls have no header line.
function parseStoredReply(text: string): {
  readonly gatewayHeaders: ReplyHeaders;
  readonly body: string;
} {
  if (!text.startsWith(HEADER_LINE_START)) return { gatewayHeaders: {}, body: text };
  const end = text.indexOf("\n");
  // Safe because `toStoredReply` has written this line.
  return {
    gatewayHeaders: JSON.parse(text.slice(0, end)) as ReplyHeaders,
    body: text.slice(end + 1),
  };
}
