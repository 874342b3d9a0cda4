// Validates the images and files of a request: base64 of a known media type, or a URL that a provider can fetch.

import { invalid } from "../invalid-request.ts";
import type { Part, Source } from "./canonical-parts.ts";

/** Supported by every provider. */
export const COMMON_IMAGE_TYPES: ReadonlySet<string> = new Set([
  "image/png",
  "image/jpeg",
  "image/gif",
  "image/webp",
]);
const KNOWN_IMAGE_TYPES: ReadonlySet<string> = new Set([
  ...COMMON_IMAGE_TYPES,
  "image/jpg",
  "image/heic",
  "image/heif",
  "image/avif",
  "image/bmp",
  "image/tiff",
]);
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}\s*$/;
const URL_SCHEMES = /^(https?|gs|s3):$/;

export function checkMediaSources(parts: readonly Part[], turnPath: string | undefined): void {
  for (const part of parts) {
    if (part.type === "tool_result") checkMediaSources(part.content, part.path ?? turnPath);
    else if (part.type === "image" || part.type === "file")
      checkMediaSource(part.source, part.type, part.path ?? turnPath);
  }
}

/** A type that only some providers support. */
export function isUncommonImageType(source: Source): boolean {
  return source.kind === "base64" && !COMMON_IMAGE_TYPES.has(source.mediaType);
}

function checkMediaSource(source: Source, kind: "image" | "file", path: string | undefined): void {
  const label = path === undefined ? `The ${kind}` : `\`${path}\``;
  if (source.kind === "url" && !isFetchableUrl(source.url))
    throw invalid(path, `${label} must be an \`https:\` URL or base64.`);
  if (source.kind !== "base64") return;
  if (kind === "image" && !KNOWN_IMAGE_TYPES.has(source.mediaType))
    throw invalid(
      path,
      `${label} has the unsupported media type ${source.mediaType.slice(0, 80)}. Use one of: ${[...COMMON_IMAGE_TYPES].join(", ")}.`,
    );
  if (!BASE64.test(source.data)) throw invalid(path, `${label} is not valid base64.`);
}

function isFetchableUrl(url: string): boolean {
  return URL.canParse(url) && URL_SCHEMES.test(new URL(url).protocol);
}
