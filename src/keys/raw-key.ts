// The form of a raw key: `<prefix>-rt-`, 43 characters of chance (256 bits) and six of checksum. A typo is found
// without a look-up, and a scanner for leaked secrets can tell a real key from a lookalike.

import { crc32 } from "node:zlib";
import { toBase62, randomBase62 } from "../base/secret.ts";

const RANDOM_CHARACTERS = 43;
const CHECKSUM_CHARACTERS = 6;

export function newRawKey(prefix: string): string {
  const body = `${prefix}-rt-${randomBase62(RANDOM_CHARACTERS)}`;
  return body + checksumOf(body);
}

/** True for a key that was made here and not mistyped; false says that no look-up is worth its cost. */
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
