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

const DATA_KEY_BYTES = 32;

/** Incremented when the wrapping key or the associated data changes. */
export const KEK_VERSION = 1;

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
  return deriveKey(master, `provider-key/v${KEK_VERSION}`);
}

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
export function associatedData({ id, accountId, provider }: EncryptionBinding): string {
  return `provider-key/v${KEK_VERSION}|${accountId}|${id}|${provider}`;
}
