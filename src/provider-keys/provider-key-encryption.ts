// Envelope encryption of provider keys: each has its own data key, wrapped by a key derived from the master secret. The
// associated data binds both to the record, so they cannot be decrypted for another account or provider.

import { randomBytes } from "node:crypto";
import {
  decrypt,
  type DerivedKey,
  deriveKey,
  encrypt,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { type Secret, secret } from "../base/crypto/secret.ts";
import { text } from "../store/db.ts";
import type { EncryptedColumn } from "../store/reencrypt-rows.ts";

const DATA_KEY_BYTES = 32;

/** The purpose of the wrapping key and of the associated data. */
const PURPOSE = "provider-key/v1";

export interface EncryptionBinding {
  readonly id: string;
  readonly accountId: string;
  readonly provider: string;
}

export interface EncryptedKey {
  readonly sealed: string;
  readonly dataKey: string;
}

export function deriveKek(master: MasterSecret): DerivedKey {
  return deriveKey(master, PURPOSE);
}

/** For the rotation of the master secret. */
export const PROVIDER_DATA_KEYS: EncryptedColumn = {
  table: "provider_key",
  column: "data_key",
  key: ["id"],
  reads: ["account_id", "provider"],
  deriveKey: deriveKek,
  associatedData: (row) =>
    associatedData({
      id: text(row, "id"),
      accountId: text(row, "account_id"),
      provider: text(row, "provider"),
    }),
};

export function encryptKey(
  kek: DerivedKey,
  binding: EncryptionBinding,
  apiKey: Secret,
): EncryptedKey {
  const dataKey = randomBytes(DATA_KEY_BYTES);
  const data = associatedData(binding);
  return {
    sealed: encrypt([dataKey], data, apiKey.reveal()),
    dataKey: encrypt(kek, data, dataKey.toString("base64")),
  };
}

/** Throws if the key was modified, belongs to another record, or was encrypted with another master secret. */
export function decryptKey(
  kek: DerivedKey,
  binding: EncryptionBinding,
  encrypted: EncryptedKey,
): Secret {
  const data = associatedData(binding);
  const dataKey = Buffer.from(decrypt(kek, data, encrypted.dataKey), "base64");
  return secret(decrypt([dataKey], data, encrypted.sealed));
}

/** What the data key of a provider key is bound to. */
function associatedData({ id, accountId, provider }: EncryptionBinding): string {
  return `${PURPOSE}|${accountId}|${id}|${provider}`;
}
