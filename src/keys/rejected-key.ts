// Why a raw key is rejected, for the 401 that its holder gets. It tells nothing about keys that the caller does not have.

import { fingerprints, type MasterSecret } from "../base/crypto/encryption.ts";
import type { KeyRejection } from "../http/steps/authenticate.ts";
import { integerOrNull, type Reader, type Row, text } from "../store/db.ts";
import { isDerivedKey, readDerivedKey } from "./derived-key.ts";
import { keyPepper } from "./key-hashes.ts";
import { isRawKey } from "./raw-key.ts";

const SELECT_KEY = `select api_key.id, account_id, revoked_at, expires_at, claimed_at, former_until from api_key
  left join account on account.id = api_key.account_id`;

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
): Promise<KeyRejection | undefined> {
  const isDerived = isDerivedKey(prefix, raw);
  if (!raw.startsWith(`${prefix}-rt-`) && !isDerived)
    return never(`This is not an API key of this gateway: its keys begin with \`${prefix}-rt-\`.`);
  if (!isDerived && !isRawKey(prefix, raw))
    return never("The API key is incomplete or contains a typo.");
  for (const hash of fingerprints(keyPepper(master), raw)) {
    const current = await db.get(`${SELECT_KEY} where hash = ?`, [hash]);
    if (current !== undefined) return explainEnd(current, now);
    const former = await db.get(`${SELECT_KEY} where former_hash = ?`, [hash]);
    if (former !== undefined) return explainEnd(former, now) ?? explainRotation(former, now);
  }
  return isDerived ? explainDerived(prefix, raw) : never("This gateway has no such API key.");
}

function explainDerived(prefix: string, raw: string): KeyRejection {
  return never(
    readDerivedKey(prefix, raw) === undefined
      ? "The derived key is malformed or has an unknown caveat. See `/docs/derived-keys`."
      : "The derived key has expired, its signature is wrong, or a key that it was derived from has ended.",
  );
}

function explainEnd(row: Row, now: number): KeyRejection | undefined {
  const revokedAt = integerOrNull(row, "revoked_at");
  if (revokedAt !== null) {
    const by = row["claimed_at"] === null ? "" : " by the owner or a key of its account";
    return {
      reason: `The API key was revoked at ${timestamp(revokedAt)}${by}.`,
      wasLive: true,
      key: keyOf(row),
    };
  }
  const expiresAt = integerOrNull(row, "expires_at");
  if (expiresAt === null || expiresAt > now) return undefined;
  return {
    reason: `The API key expired at ${timestamp(expiresAt)}.`,
    wasLive: true,
    key: keyOf(row),
  };
}

function explainRotation(row: Row, now: number): KeyRejection | undefined {
  const until = integerOrNull(row, "former_until") ?? 0;
  if (until > now) return undefined;
  const reason = `The API key was rotated: this secret was accepted until ${timestamp(until)}.`;
  return { reason, wasLive: true, key: keyOf(row) };
}

function keyOf(row: Row): NonNullable<KeyRejection["key"]> {
  return { accountId: text(row, "account_id"), keyId: text(row, "id") };
}

function never(reason: string): KeyRejection {
  return { reason, wasLive: false };
}

function timestamp(ms: number): string {
  return new Date(ms).toISOString();
}
