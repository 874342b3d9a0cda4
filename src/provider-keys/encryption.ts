// How a provider key rests: sealed under a data key of its own, which is wrapped by a key derived from the master secret.
// Both are bound to the record, so that neither opens in another account's record, or for another provider.

import { randomBytes } from "node:crypto";
import { deriveKey, encrypt, decrypt } from "../base/encryption.ts";
import { type Secret, secret } from "../base/secret.ts";

const DATA_KEY_BYTES = 32;

/** Goes up when the wrapping key, or what an envelope is bound to, changes. */
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

export function deriveKek(master: Secret): Uint8Array {
  return deriveKey(master, `provider-key/v${KEK_VERSION}`);
}

export function encryptKey(
  kek: Uint8Array,
  binding: EncryptionBinding,
  apiKey: Secret,
): EncryptedKey {
  const dataKey = randomBytes(DATA_KEY_BYTES);
  const bound = associatedData(binding);
  return {
    sealed: encrypt(dataKey, bound, apiKey.reveal()),
    dataKey: encrypt(kek, bound, dataKey.toString("base64")),
  };
}

/** Throws where the envelope was changed, is another record's, or was made under another master secret. */
export function decryptKey(
  kek: Uint8Array,
  binding: EncryptionBinding,
  envelope: EncryptedKey,
): Secret {
  const bound = associatedData(binding);
  const dataKey = Buffer.from(decrypt(kek, bound, envelope.dataKey), "base64");
  return secret(decrypt(dataKey, bound, envelope.sealed));
}

function associatedData({ id, accountId, provider }: EncryptionBinding): string {
  return `provider-key/v${KEK_VERSION}|${accountId}|${id}|${provider}`;
}
