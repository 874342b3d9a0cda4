// A document in memory with its headers and a strong ETag, served with 304 to a client that has it.

import { createHash } from "node:crypto";
import { matchesEtag } from "../http/etag.ts";
import type { ResponseDoc } from "../http/route.ts";

export interface CachedDocument {
  readonly body: string;
  readonly etag: string;
  readonly headers: Readonly<Record<string, string>>;
}

export const ETAG_DOC = {
  etag: "Send it as `if-none-match` to get a 304 if nothing has changed.",
} as const;
export const NOT_MODIFIED: ResponseDoc = {
  description: "Not modified since the response with this `etag`.",
  headers: ETAG_DOC,
};

export const MARKDOWN_TYPE = "text/markdown; charset=utf-8";
const CACHE_FIVE_MINUTES = "public, max-age=300";
export const CACHE_ONE_MINUTE = { "cache-control": "public, max-age=60" };

export function cachedDocument(
  body: string,
  contentType: string,
  extraHeaders: Readonly<Record<string, string>> = {},
): CachedDocument {
  const etag = `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`;
  return {
    body,
    etag,
    headers: {
      "content-type": contentType,
      "cache-control": CACHE_FIVE_MINUTES,
      "x-content-type-options": "nosniff",
      etag,
      ...extraHeaders,
    },
  };
}

export function respondWithDocument(document: CachedDocument, request: Headers): Response {
  const { body, etag, headers } = document;
  if (!matchesEtag(etag, request.get("if-none-match"))) return new Response(body, { headers });
  const current = new Headers(headers);
  current.delete("content-type");
  return new Response(null, { status: 304, headers: current });
}
