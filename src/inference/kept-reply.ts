// What is kept of an answer for a repetition of its request: its body, and before it a line of the headers that the call
// itself gave it. Both are sealed together.

import { Fault } from "../base/fault.ts";
import type { StoredReply } from "./call.ts";

const KEPT_MAX_BYTES = 8 * 1_048_576;
const TOO_LARGE_TO_KEEP: StoredReply = { status: 409, body: "" };
const OWN = "x-postern-";
/** No answer of an API begins like this line. */
const HEAD = `{"${OWN}`;

type Told = Readonly<Record<string, string>>;

export function keptReply(headers: Told, body: string): StoredReply {
  if (body.length > KEPT_MAX_BYTES) return TOO_LARGE_TO_KEEP;
  const own = Object.entries(headers).filter(([name]) => name.startsWith(OWN));
  return { status: 200, body: `${JSON.stringify(Object.fromEntries(own))}\n${body}` };
}

// A reply beyond the bound is not kept; a repetition of its request is told so instead of being run again.
export function createKeeper(): {
  readonly keep: (bytes: Uint8Array) => void;
  readonly reply: (headers: Told) => StoredReply;
} {
  const parts: Uint8Array[] = [];
  let size = 0;
  return {
    keep: (bytes) => {
      size += bytes.length;
      if (size <= KEPT_MAX_BYTES) parts.push(bytes);
    },
    reply: (headers) =>
      size <= KEPT_MAX_BYTES
        ? keptReply(headers, new TextDecoder().decode(Buffer.concat(parts)))
        : TOO_LARGE_TO_KEEP,
  };
}

/** The kept answer once more. */
export function replayed(stored: StoredReply, requestText: string): Response {
  if (stored.status !== 200) {
    throw new Fault("conflict", "answer too large to be kept", {
      message:
        "The first answer to this Idempotency-Key was too large to be kept. Use a new key to run the request again.",
    });
  }
  const { own, body } = opened(stored.body);
  const streamed = !/^\s*\{/.test(body) && /"stream"\s*:\s*true/.test(requestText);
  const type = streamed ? "text/event-stream; charset=utf-8" : "application/json";
  return new Response(body, {
    headers: {
      ...own,
      "content-type": type,
      "cache-control": "no-store",
      "idempotent-replayed": "true",
    },
  });
}

// What began in the background, and what was kept before there was such a line, has none.
function opened(text: string): { readonly own: Told; readonly body: string } {
  if (!text.startsWith(HEAD)) return { own: {}, body: text };
  const end = text.indexOf("\n");
  // Safe because `keptReply` has written this line.
  return { own: JSON.parse(text.slice(0, end)) as Told, body: text.slice(end + 1) };
}
