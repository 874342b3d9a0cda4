// Why a raw key is rejected, for the 401 that its holder gets. It tells nothing about keys that the caller does not have.

import { fingerprints, type MasterSecret } from "../base/crypto/encryption.ts";
import { integerOrNull, type Reader } from "../store/db.ts";
import { keyPepper } from "./key-hashes.ts";
import { isRawKey } from "./raw-key.ts";

interface RejectedKeyDeps {
  readonly db: Reader;
  readonly master: MasterSecret;
  readonly prefix: string;
}

/** Undefined if the key is live now. */
export async function explainRejectedKey(
  { db, master, prefix }: RejectedKeyDeps,
  raw: string,
  now: number,
): Promise<string | undefined> {
  if (!raw.startsWith(`${prefix}-rt-`))
    return `This is not an API key of this gateway: its keys begin with \`${prefix}-rt-\`.`;
  if (!isRawKey(prefix, raw)) return "The API key is incomplete or contains a typo.";
  for (const hash of fingerprints(keyPepper(master), raw)) {
    const row = await db.get("select revoked_at, expires_at from api_key where hash = ?", [hash]);
    if (row === undefined) continue;
    const revokedAt = integerOrNull(row, "revoked_at");
    if (revokedAt !== null) return `The API key was revoked at ${timestamp(revokedAt)}.`;
    const expiresAt = integerOrNull(row, "expires_at");
    if (expiresAt === null || expiresAt > now) return undefined;
    return `The API key expired at ${timestamp(expiresAt)}.`;
  }
  return "This gateway has no such API key.";
}

function timestamp(ms: number): string {
  return new Date(ms).toISOString();
}
