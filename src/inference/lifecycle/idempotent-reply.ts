// What is kept of an answer for a repetition of its request: its body, and before it a line of the headers that the call
// itself gave it. Both are sealed together.

import { Fault } from "../../base/fault.ts";
import type { StoredReply } from "./call.ts";

const STORED_REPLY_MAX_BYTES = 8 * 1_048_576;
const TOO_LARGE_REPLY: StoredReply = { status: 409, body: "" };
const GATEWAY_HEADER_PREFIX = "x-postern-";
/** No answer of an API begins like this line. */
const HEADER_LINE_START = `{"${GATEWAY_HEADER_PREFIX}`;

type ReplyHeaders = Readonly<Record<string, string>>;

export function toStoredReply(headers: ReplyHeaders, body: string): StoredReply {
  if (body.length > STORED_REPLY_MAX_BYTES) return TOO_LARGE_REPLY;
  const gatewayHeaders = Object.entries(headers).filter(([name]) =>
    name.startsWith(GATEWAY_HEADER_PREFIX),
  );
  return { status: 200, body: `${JSON.stringify(Object.fromEntries(gatewayHeaders))}\n${body}` };
}

// A reply beyond the bound is not kept; a repetition of its request is told so instead of being run again.
export function createReplyRecorder(): {
  readonly record: (bytes: Uint8Array) => void;
  readonly reply: (headers: ReplyHeaders) => StoredReply;
} {
  const chunks: Uint8Array[] = [];
  let size = 0;
  return {
    record: (bytes) => {
      size += bytes.length;
      if (size <= STORED_REPLY_MAX_BYTES) chunks.push(bytes);
    },
    reply: (headers) =>
      size <= STORED_REPLY_MAX_BYTES
        ? toStoredReply(headers, new TextDecoder().decode(Buffer.concat(chunks)))
        : TOO_LARGE_REPLY,
  };
}

/** The kept answer once more. */
export function replayReply(stored: StoredReply, requestText: string): Response {
  if (stored.status !== 200) {
    throw new Fault("conflict", "answer too large to be kept", {
      message:
        "The first answer to this Idempotency-Key was too large to be kept. Use a new key to run the request again.",
    });
  }
  const { gatewayHeaders, body } = parseStoredReply(stored.body);
  const streamed = !/^\s*\{/.test(body) && /"stream"\s*:\s*true/.test(requestText);
  const type = streamed ? "text/event-stream; charset=utf-8" : "application/json";
  return new Response(body, {
    headers: {
      ...gatewayHeaders,
      "content-type": type,
      "cache-control": "no-store",
      "idempotent-replayed": "true",
    },
  });
}

// What began in the background, and what was kept before there was such a line, has none.
function parseStoredReply(text: string): {
  readonly gatewayHeaders: ReplyHeaders;
  readonly body: string;
} {
  if (!text.startsWith(HEADER_LINE_START)) return { gatewayHeaders: {}, body: text };
  const end = text.indexOf("\n");
  // Safe because `keptReply` has written this line.
  return {
    gatewayHeaders: JSON.parse(text.slice(0, end)) as ReplyHeaders,
    body: text.slice(end + 1),
  };
}
