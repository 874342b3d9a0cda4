// Reads a reply that is not streamed, up to a limit.

import { cancelBodyStream, nextChunk, takeIfComplete } from "../../http-client/body-stream.ts";
import type { UpstreamResponse } from "../../http-client/reply.ts";

const REPLY_MAX_BYTES = 64 * 1_048_576;

const decoder = new TextDecoder("utf-8", { fatal: true });

export type BodyResult =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "too_large" | "cut" | "not_utf8" };

export function readBody(
  reply: UpstreamResponse,
  maxBytes = REPLY_MAX_BYTES,
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
  let size = Number(headers.get("content-length") ?? 0) > maxBytes ? Infinity : 0;
  try {
    while (size <= maxBytes) {
      const chunk = await nextChunk(body);
      if (chunk === undefined) return decodeText(Buffer.concat(chunks));
      size += chunk.length;
      chunks.push(chunk);
    }
  } catch {
    return { kind: "cut" };
  }
  cancelBodyStream(body);
  return { kind: "too_large" };
}

function decodeText(bytes: Uint8Array): BodyResult {
  try {
    return { kind: "text", text: decoder.decode(bytes) };
  } catch {
    return { kind: "not_utf8" };
  }
}
