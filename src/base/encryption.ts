// Key derivation from the master secret, fingerprints (HMAC) and authenticated encryption. Each use derives its own key
// with its own `purpose`.

import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import type { Secret } from "./secret.ts";

const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;

export function deriveKey(master: Secret, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", master.reveal(), "postern", purpose, KEY_BYTES));
}

export function fingerprint(key: Uint8Array, text: string): string {
  return createHmac("sha256", key).update(text).digest("base64url");
}

/** AES-256-GCM with a random nonce. `associatedData` names the record that the text belongs to. */
export function encrypt(key: Uint8Array, associatedData: string, text: string): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, iv);
  cipher.setAAD(Buffer.from(associatedData));
  const ciphertext = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), ciphertext]).toString("base64");
}

/** Throws if the key or the associated data differ, or if the ciphertext was changed. */
export function decrypt(key: Uint8Array, associatedData: string, encrypted: string): string {
  const bytes = Buffer.from(encrypted, "base64");
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, IV_BYTES));
  decipher.setAAD(Buffer.from(associatedData));
  decipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
  return Buffer.concat([
    decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)),
    decipher.final(),
  ]).toString("utf8");
}
