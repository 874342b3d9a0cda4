// The media type of a fetched file. Servers often send the wrong one, so the first bytes decide where the format has a
// signature; text has none.

import { isUtf8 } from "node:buffer";

const SIGNATURES: readonly (readonly [mediaType: string, pattern: RegExp])[] = [
  ["image/png", /^\x89PNG\r\n/],
  ["image/jpeg", /^\xff\xd8\xff/],
  ["image/gif", /^GIF8[79]a/],
  ["image/webp", /^RIFF[^]{4}WEBP/],
  ["application/pdf", /^%PDF-/],
];
const SIGNATURE_MAX_BYTES = 16;

const TEXT_TYPES: ReadonlySet<string> = new Set([
  "text/plain",
  "text/markdown",
  "text/csv",
  "text/html",
]);

/** Undefined for a file that is no image, PDF or text. */
export function mediaTypeOf(body: Buffer, contentType: string): string | undefined {
  const start = body.toString("latin1", 0, SIGNATURE_MAX_BYTES);
  const found = SIGNATURES.find(([, pattern]) => pattern.test(start));
  if (found !== undefined) return found[0];
  const declared = contentType.split(";")[0]?.trim().toLowerCase() ?? "";
  return TEXT_TYPES.has(declared) && isText(body) ? declared : undefined;
}

function isText(body: Buffer): boolean {
  return isUtf8(body) && !body.includes(0);
}
