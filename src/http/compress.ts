// Compresses text responses for clients that accept gzip.

import { randomBytes, randomInt } from "node:crypto";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { gzipEtag } from "./etag.ts";

const gzipAsync = promisify(gzip);
const TEXT_TYPE = /^(?:text\/(?!event-stream)|application\/(?:json|yaml|javascript|problem\+json))/;
/** Smaller texts fit into one packet anyway. */
const COMPRESSED_MIN_BYTES = 1_000;
/** Hides differences in length by which a compressed page could reveal a secret in it (BREACH). */
const PADDING_MAX_BYTES = 64;
/** Documents with an ETag are compressed once. */
const CACHED_DOCUMENTS_MAX = 64;
const CACHED_DOCUMENT_MAX_BYTES = 4_000_000;

const cache = new Map<string, Buffer>();

export async function compressResponse(request: Request, response: Response): Promise<Response> {
  const { headers } = response;
  if (response.status === 304) return withSentEtag(request, response);
  const type = headers.get("content-type") ?? "";
  if (response.body === null || !TEXT_TYPE.test(type) || headers.has("content-encoding"))
    return response;
  headers.append("vary", "accept-encoding");
  if (!acceptsGzip(request.headers.get("accept-encoding"))) return response;
  const etag = headers.get("etag");
  const text = Buffer.from(await response.arrayBuffer());
  if (text.length < COMPRESSED_MIN_BYTES)
    return new Response(text, { status: response.status, headers });
  // A strong ETag promises the same bytes, so each encoding has its own.
  if (etag !== null) headers.set("etag", gzipEtag(etag));
  headers.set("content-encoding", "gzip");
  const body = etag === null ? await compressPrivate(text, type) : await compressCached(text, etag);
  return new Response(new Uint8Array(body), { status: response.status, headers });
}

/** A client that has the compressed text gets its ETag. */
function withSentEtag(request: Request, response: Response): Response {
  const compressed = gzipEtag(response.headers.get("etag") ?? "");
  if (compressed !== "" && request.headers.get("if-none-match")?.includes(compressed) === true)
    response.headers.set("etag", compressed);
  return response;
}

/** RFC 9110 §12.5.3: `*` stands for the codings that the header does not name. */
function acceptsGzip(header: string | null): boolean {
  const weights = new Map<string, number>();
  for (const coding of (header ?? "").split(",")) {
    const [name = "", weight = "q=1"] = coding.split(";");
    weights.set(name.trim().toLowerCase(), Number(weight.replace(/^\s*q=/i, "")));
  }
  return (weights.get("gzip") ?? weights.get("*") ?? 0) > 0;
}

async function compressPrivate(text: Buffer, type: string): Promise<Buffer> {
  if (!type.startsWith("text/html")) return await gzipAsync(text);
  const padding = randomBytes(randomInt(1, PADDING_MAX_BYTES)).toString("base64url");
  return await gzipAsync(
    Buffer.concat([text, Buffer.from(`<!-- ${padding.replaceAll("-", "_")} -->`)]),
  );
}

async function compressCached(text: Buffer, etag: string): Promise<Buffer> {
  const cached = cache.get(etag);
  if (cached !== undefined) return cached;
  const compressed = await gzipAsync(text);
  if (text.length <= CACHED_DOCUMENT_MAX_BYTES) {
    if (cache.size >= CACHED_DOCUMENTS_MAX) cache.clear();
    cache.set(etag, compressed);
  }
  return compressed;
}
