// Key derivation from the master secret, fingerprints (HMAC) and authenticated encryption. Each use derives its own key
// with its own `purpose`. While the master secret is rotated, what the previous one made is accepted too.

import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import type { Secret } from "./secret.ts";

const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** The master secret, with the previous one while it is rotated. */
export interface MasterSecret extends Secret {
  readonly previous?: Secret | undefined;
}

/** The first key encrypts and makes fingerprints; every key decrypts and may have made a stored fingerprint. */
export type DerivedKey = readonly [Uint8Array, ...Uint8Array[]];

export function deriveKey(master: MasterSecret, purpose: string): DerivedKey {
  const { previous } = master;
  const current = deriveFrom(master, purpose);
  return previous === undefined ? [current] : [current, deriveFrom(previous, purpose)];
}

function deriveFrom(master: MasterSecret, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", master.reveal(), "postern", purpose, KEY_BYTES));
}

export function fingerprint([key]: DerivedKey, text: string): string {
  return createHmac("sha256", key).update(text).digest("base64url");
}

/** The fingerprint by each key, the current one first: a stored fingerprint is one of them. */
export function fingerprints(keys: DerivedKey, text: string): readonly string[] {
  return keys.map((key) => fingerprint([key], text));
}

/** AES-256-GCM with a random nonce. `associatedData` names the record that the text belongs to. */
export function encrypt(keys: DerivedKey, associatedData: string, text: string): string {
  return encryptBytes(keys, associatedData, text).toString("base64");
}

/** For a binary column: without base64, a quarter less has to be written. */
export function encryptBytes([key]: DerivedKey, associatedData: string, text: string): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, iv);
  cipher.setAAD(Buffer.from(associatedData));
  const ciphertext = cipher.update(Buffer.from(text));
  // GCM is a stream mode: `final` returns no bytes, but must come before the tag.
  const rest = cipher.final();
  return Buffer.concat([iv, cipher.getAuthTag(), ciphertext, rest]);
}

/** Throws if every key or the associated data differ, or if the ciphertext was changed. */
export function decrypt(
  keys: DerivedKey,
  associatedData: string,
  encrypted: string | Uint8Array,
): string {
  const [current, previous] = keys;
  if (previous === undefined) return decryptWith(current, associatedData, encrypted);
  try {
    return decryptWith(current, associatedData, encrypted);
  } catch {
    return decryptWith(previous, associatedData, encrypted);
  }
}

/** Encrypts with the current key what the previous one encrypted; undefined if the current key did. */
export function reencrypt(
  keys: DerivedKey,
  associatedData: string,
  encrypted: string,
): string | undefined {
  const [current] = keys;
  try {
    decryptWith(current, associatedData, encrypted);
    return undefined;
  } catch {
    return encrypt(keys, associatedData, decrypt(keys, associatedData, encrypted));
  }
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function decryptWith(
  key: Uint8Array,
  associatedData: string,
  encrypted: string | Uint8Array,
): string {
  const bytes =
    typeof encrypted === "string" ? Buffer.from(encrypted, "base64") : viewOf(encrypted);
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, IV_BYTES));
  decipher.setAAD(Buffer.from(associatedData));
  decipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
  return Buffer.concat([
    decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)),
    decipher.final(),
  ]).toString("utf8");
}
