// What an image or a file of a caller must be before any provider sees it: bytes that are base64, of a type that some
// model takes, or an address that something can be fetched from.
import { invalid } from "../base/fault.ts";
import type { Part, Source } from "./canonical.ts";

/** The images that every provider takes. */
export const COMMON_IMAGES: ReadonlySet<string> = new Set([
  "image/png",
  "image/jpeg",
  "image/gif",
  "image/webp",
]);
const KNOWN_IMAGES: ReadonlySet<string> = new Set([
  ...COMMON_IMAGES,
  "image/jpg",
  "image/heic",
  "image/heif",
  "image/avif",
  "image/bmp",
  "image/tiff",
]);
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}\s*$/;
const ADDRESS = /^(https?|gs|s3):$/;

export function checkSources(parts: readonly Part[], turnPath: string | undefined): void {
  for (const part of parts) {
    if (part.type === "tool_result") checkSources(part.content, part.path ?? turnPath);
    else if (part.type === "image" || part.type === "file")
      checkSource(part.source, part.type, part.path ?? turnPath);
  }
}

/** Whether it is of a type that only some providers take. */
export function isUncommonImage(source: Source): boolean {
  return source.kind === "base64" && !COMMON_IMAGES.has(source.mediaType);
}

function checkSource(source: Source, what: "image" | "file", path: string | undefined): void {
  const at = path ?? `An ${what}`;
  if (source.kind === "url" && !isAddress(source.url))
    throw invalid(
      path,
      `${at} must have an address that begins with https://, or bytes in base64.`,
    );
  if (source.kind !== "base64") return;
  if (what === "image" && !KNOWN_IMAGES.has(source.mediaType))
    throw invalid(
      path,
      `${at} is of the type ${source.mediaType.slice(0, 80)}. Send one of: ${[...COMMON_IMAGES].join(", ")}.`,
    );
  if (!BASE64.test(source.data)) throw invalid(path, `${at} is not base64.`);
}

function isAddress(url: string): boolean {
  return URL.canParse(url) && ADDRESS.test(new URL(url).protocol);
}
