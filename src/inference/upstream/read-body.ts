// Reads a reply that is not streamed, up to a limit.

import {
  type BodyStream,
  nextChunk,
  takeIfComplete,
  type UpstreamResponse,
} from "@postern/http-client";
import { parseObject } from "../../base/json.ts";

const decoder = new TextDecoder("utf-8", { fatal: true });

export type BodyResult =
  | { readonly kind: "text"; readonly text: string }
  /** `tail`: its last bytes, where its usage is. */
  | { readonly kind: "too_large"; readonly tail: string }
  | { readonly kind: "cut" | "not_utf8" };

const TAIL_BYTES = 65_536;

export function readBody(
  reply: UpstreamResponse,
  maxBytes: number,
): BodyResult | Promise<BodyResult> {
  // Most replies arrive together with their headers.
  const bytes = takeIfComplete(reply.body, maxBytes);
  return bytes === undefined ? readChunks(reply, maxBytes) : decodeText(bytes);
}

async function readChunks(
  { headers, body }: UpstreamResponse,
  maxBytes: number,
): Promise<BodyResult> {
  const chunks: Uint8Array[] = [];
  let size = Number(headers.get("content-length") ?? 0) > maxBytes ? maxBytes : 0;
  try {
    while (size <= maxBytes) {
      const chunk = await nextChunk(body);
      if (chunk === undefined) return decodeText(Buffer.concat(chunks));
      size += chunk.length;
      chunks.push(chunk);
    }
    return { kind: "too_large", tail: await readTail(body, Buffer.concat(chunks)) };
  } catch {
    // A whole JSON object has its usage, whatever the framing lacks.
    const body = decodeText(Buffer.concat(chunks));
    return body.kind === "text" && parseObject(body.text) !== undefined ? body : { kind: "cut" };
  }
}

/** Reads a body to its end, whose length the deadline of the attempt limits. */
async function readTail(body: BodyStream, first: Uint8Array): Promise<string> {
  let tail = first.subarray(-TAIL_BYTES);
  for (;;) {
    const chunk = await nextChunk(body);
    if (chunk === undefined) return new TextDecoder().decode(tail);
    tail = Buffer.concat([tail, chunk]).subarray(-TAIL_BYTES);
  }
}

function decodeText(bytes: Uint8Array): BodyResult {
  try {
    return { kind: "text", text: decoder.decode(bytes) };
  } catch {
    return { kind: "not_utf8" };
  }
}
