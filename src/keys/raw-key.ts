// Format of a raw key: `<prefix>-rt-`, 43 random characters (256 bits) and a checksum of six. The checksum detects
// typos without a lookup, and lets scanners for leaked secrets recognize real keys.

import { crc32 } from "node:zlib";
import { toBase62, randomBase62 } from "../base/crypto/secret.ts";

const RANDOM_CHARACTERS = 43;
const CHECKSUM_CHARACTERS = 6;

export function newRawKey(prefix: string): string {
  const body = `${prefix}-rt-${randomBase62(RANDOM_CHARACTERS)}`;
  return body + checksumOf(body);
}

/** Checks prefix, length, alphabet and checksum, before a lookup. */
export function isRawKey(prefix: string, raw: string): boolean {
  const start = `${prefix}-rt-`;
  if (
    raw.length !== start.length + RANDOM_CHARACTERS + CHECKSUM_CHARACTERS ||
    !raw.startsWith(start)
  )
    return false;
  if (!/^[0-9A-Za-z]+$/.test(raw.slice(start.length))) return false;
  return checksumOf(raw.slice(0, -CHECKSUM_CHARACTERS)) === raw.slice(-CHECKSUM_CHARACTERS);
}

function checksumOf(body: string): string {
  return toBase62(crc32(body), CHECKSUM_CHARACTERS);
}
