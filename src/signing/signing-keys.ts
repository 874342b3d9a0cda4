// The keys that sign quotes and receipts. It owns the table signing_key, which has public keys only: a private key is
// derived from the master secret and its number, so a new master secret or a rotation begins a new key, and what older keys
// signed can still be verified.

import { deriveKey, type MasterSecret } from "../base/crypto/encryption.ts";
import {
  publicJwk,
  type PublicJwk,
  type SigningKey,
  signingKeyFrom,
  verifyJws,
} from "../base/crypto/jws.ts";
import type { JsonObject } from "../base/json.ts";
import { MINUTE_MS, SECOND_MS } from "../base/time.ts";
import { type Db, integer, type Reader, type Row, text, type Tx } from "../store/db.ts";

export interface SigningKeys {
  readonly current: () => SigningKey;
  /** Every key that was ever used, the newest first. */
  readonly list: () => Promise<readonly PublicJwk[]>;
  /** The payload of a signature of this type by one of these keys. */
  readonly verify: (type: string, text: string) => Promise<JsonObject | undefined>;
}

interface StoredKey {
  readonly number: number;
  readonly publicKey: string;
}

/** After a rotation by another process, this one signs with its old key for at most this long. */
const REFRESH_MS = MINUTE_MS;
const UNKNOWN_KEY_READ_MS = SECOND_MS;

export async function openSigningKeys(
  db: Db,
  master: MasterSecret,
  now: () => number,
): Promise<SigningKeys> {
  let current = await db.write((tx) => ensureKey(tx, master, now()));
  let readAt = now();
  let publicKeys = new Map<string, string>();
  const refresh = async (): Promise<readonly StoredKey[]> => {
    readAt = now();
    const stored = await readKeys(db);
    publicKeys = new Map(stored.map((key) => [keyId(key.number), key.publicKey]));
    current = newestOwnKey(stored, master) ?? current;
    return stored;
  };
  await refresh();
  return {
    current: () => {
      if (now() - readAt > REFRESH_MS) refresh().catch(() => {});
      return current;
    },
    list: async () =>
      (await refresh()).map(({ number, publicKey }) => publicJwk(keyId(number), publicKey)),
    verify: async (type, text) => {
      let isUnknown = false;
      const verifyNow = (): JsonObject | undefined =>
        verifyJws(text, type, (id) => {
          const publicKey = publicKeys.get(id);
          isUnknown = publicKey === undefined;
          return publicKey;
        });
      const payload = verifyNow();
      // Another process may have begun the key. A forged id must not cause a read each time.
      if (payload !== undefined || !isUnknown || now() - readAt < UNKNOWN_KEY_READ_MS)
        return payload;
      await refresh();
      return verifyNow();
    },
  };
}

/** Begins a new key. Returns its id. */
export async function rotateSigningKey(tx: Tx, master: MasterSecret, now: number): Promise<string> {
  const [newest] = await readKeys(tx);
  return await insertNext(tx, { master, newest, now });
}

async function ensureKey(tx: Tx, master: MasterSecret, now: number): Promise<SigningKey> {
  for (;;) {
    const stored = await readKeys(tx);
    const own = newestOwnKey(stored, master);
    if (own !== undefined) return own;
    await insertNext(tx, { master, newest: stored[0], now });
  }
}

interface NextKey {
  readonly master: MasterSecret;
  readonly newest: StoredKey | undefined;
  readonly now: number;
}

/** Another process may insert the same number first. */
async function insertNext(tx: Tx, { master, newest, now }: NextKey): Promise<string> {
  const number = (newest?.number ?? 0) + 1;
  const { id, publicKey } = deriveSigningKey(master, number);
  await tx.run(
    "insert into signing_key (number, public_key, created_at) values (?, ?, ?) on conflict (number) do nothing",
    [number, publicKey, now],
  );
  return id;
}

/** Keys of another master secret have another public key than the one that this secret yields. */
function newestOwnKey(stored: readonly StoredKey[], master: MasterSecret): SigningKey | undefined {
  for (const { number, publicKey } of stored) {
    const key = deriveSigningKey(master, number);
    if (key.publicKey === publicKey) return key;
  }
  return undefined;
}

function deriveSigningKey(master: MasterSecret, number: number): SigningKey {
  const [seed] = deriveKey(master, `signing-key/v1/${number}`);
  return signingKeyFrom(seed, keyId(number));
}

function keyId(number: number): string {
  return `postern-${number}`;
}

async function readKeys(reader: Reader): Promise<readonly StoredKey[]> {
  const rows = await reader.all("select number, public_key from signing_key order by number desc");
  return rows.map(toStoredKey);
}

function toStoredKey(row: Row): StoredKey {
  return { number: integer(row, "number"), publicKey: text(row, "public_key") };
}
