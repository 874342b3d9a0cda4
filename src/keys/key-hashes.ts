// The stored hashes of API keys (HMAC with a key derived from the master secret). While the secret is rotated, a key that is
// known by the previous secret moves to the current one when it is used.

import {
  type DerivedKey,
  deriveKey,
  encrypt,
  fingerprint,
  fingerprints,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { type Db, integer, type Reader, type Row, text } from "../store/db.ts";
import { chainOf } from "./derived-key.ts";
import { isCredentialName } from "./key-credential.ts";
import { type LiveKey, readLiveKeyByFormerHash, readLiveKeyByHash } from "./live-keys.ts";

const SECRET_ID_CHARACTERS = 12;

/** The hash of a key, and which master secret made it. */
export interface KeyHash {
  readonly hash: string;
  readonly secretId: string;
  /** What keys derived from it name it by; null for a derived key, whose children name its root. */
  readonly chainReference: string | null;
  readonly chainSecret: string | null;
}

export function chainSecretKey(master: MasterSecret): DerivedKey {
  return deriveKey(master, "derived-key/v1");
}

export interface KeyHashes {
  readonly of: (raw: string) => KeyHash;
  /** The hash alone. */
  readonly hashOf: (raw: string) => string;
  readonly findLiveKey: (db: Db, raw: string, now: number) => Promise<LiveKey | undefined>;
}

export function keyPepper(master: MasterSecret): DerivedKey {
  return deriveKey(master, "api-key/v1");
}

export function createKeyHashes(master: MasterSecret): KeyHashes {
  const pepper = keyPepper(master);
  const secretId = secretIdOf(master);
  const sealKey = chainSecretKey(master);
  const sealChain = (raw: string) => {
    // The name of a credential is public: anyone could derive keys from it.
    if (raw.includes("-dk-") || isCredentialName(raw))
      return { chainReference: null, chainSecret: null };
    const { reference, secret } = chainOf(raw);
    return { chainReference: reference, chainSecret: encrypt(sealKey, reference, secret) };
  };
  return {
    of: (raw) => ({ hash: fingerprint(pepper, raw), secretId, ...sealChain(raw) }),
    hashOf: (raw) => fingerprint(pepper, raw),
    findLiveKey: async (db, raw, now) => {
      const [hash = "", ...previous] = fingerprints(pepper, raw);
      const found = await readLiveKeyByHash(db, hash, now);
      if (found !== undefined) return found;
      for (const previousHash of previous) {
        const key = await readLiveKeyByHash(db, previousHash, now);
        if (key === undefined) continue;
        await db.write((tx) =>
          tx.run(
            "update api_key set hash = ?, secret_id = ?, chain_secret = ? where id = ? and hash = ?",
            [hash, secretId, sealChain(raw).chainSecret, key.keyId, previousHash],
          ),
        );
        return key;
      }
      for (const each of [hash, ...previous]) {
        const key = await readLiveKeyByFormerHash(db, each, now);
        if (key !== undefined) return key;
      }
      return undefined;
    },
  };
}

// Names a master secret without telling anything about it.
function secretIdOf(master: MasterSecret): string {
  return fingerprint(deriveKey(master, "secret-id/v1"), "").slice(0, SECRET_ID_CHARACTERS);
}

export interface KeysByPreviousSecret {
  readonly live: number;
  /** Live keys that have not been used since the rotation began. */
  readonly waiting: number;
  readonly oldest: readonly { readonly id: string; readonly accountId: string }[];
}

/** How many live keys are still known by the previous secret only. */
export async function countKeysByPreviousSecret(
  reader: Reader,
  master: MasterSecret,
  now: number,
): Promise<KeysByPreviousSecret> {
  const live = "revoked_at is null and (expires_at is null or expires_at > ?)";
  const waiting = `${live} and (secret_id is null or secret_id <> ?)`;
  const count = async (where: string, values: readonly (string | number)[]): Promise<number> => {
    const row = await reader.get(`select count(*) as count from api_key where ${where}`, values);
    return row === undefined ? 0 : integer(row, "count");
  };
  const secretId = secretIdOf(master);
  const oldest = await reader.all(
    `select id, account_id from api_key where ${waiting} order by id limit 20`,
    [now, secretId],
  );
  return {
    live: await count(live, [now]),
    waiting: await count(waiting, [now, secretId]),
    oldest: oldest.map((row: Row) => ({ id: text(row, "id"), accountId: text(row, "account_id") })),
  };
}
