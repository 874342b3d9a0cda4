// What an image or a file of a caller must be before any provider sees it: bytes that are base64, of a type that some
// model takes, or an address that something can be fetched from.
import { invalid } from "../../base/fault.ts";
import type { Part, Source } from "./parts.ts";

/** The images that every provider takes. */
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

/** Whether it is of a type that only some providers take. */
export function isUncommonImageType(source: Source): boolean {
  return source.kind === "base64" && !COMMON_IMAGE_TYPES.has(source.mediaType);
}

function checkMediaSource(source: Source, kind: "image" | "file", path: string | undefined): void {
  const at = path ?? `An ${kind}`;
  if (source.kind === "url" && !isFetchableUrl(source.url))
    throw invalid(
      path,
      `${at} must have an address that begins with https://, or bytes in base64.`,
    );
  if (source.kind !== "base64") return;
  if (kind === "image" && !KNOWN_IMAGE_TYPES.has(source.mediaType))
    throw invalid(
      path,
      `${at} is of the type ${source.mediaType.slice(0, 80)}. Send one of: ${[...COMMON_IMAGE_TYPES].join(", ")}.`,
    );
  if (!BASE64.test(source.data)) throw invalid(path, `${at} is not base64.`);
}

function isFetchableUrl(url: string): boolean {
  return URL.canParse(url) && URL_SCHEMES.test(new URL(url).protocol);
}
