// Envelope encryption of records with several parts: each record has a data key, wrapped by a key derived from the master secret.
// The associated data binds each ciphertext to its purpose, account, record and part.

import { randomBytes } from "node:crypto";
import { decrypt, type DerivedKey, encrypt, encryptBytes } from "./encryption.ts";

const DATA_KEY_BYTES = 32;

export interface SealedRecord {
  /** Such as `batch/v1`. */
  readonly purpose: string;
  readonly accountId: string;
  readonly id: string;
}

/** Encrypts and decrypts the parts of one record. */
export interface Sealer<P extends string> {
  readonly seal: (part: P, content: string) => Uint8Array;
  readonly open: (part: P, sealed: Uint8Array) => string;
}

/** The wrapped data key of a new record. */
export function createDataKey(kek: DerivedKey, record: SealedRecord): string {
  const key = randomBytes(DATA_KEY_BYTES).toString("base64");
  return encrypt(kek, dataKeyBinding(record), key);
}

export function openSealer<P extends string>(
  kek: DerivedKey,
  record: SealedRecord,
  dataKey: string,
): Sealer<P> {
  const key: DerivedKey = [Buffer.from(decrypt(kek, dataKeyBinding(record), dataKey), "base64")];
  return {
    seal: (part, content) => encryptBytes(key, bindingOf(record, part), content),
    open: (part, sealed) => decrypt(key, bindingOf(record, part), sealed),
  };
}

export function dataKeyBinding(record: SealedRecord): string {
  return bindingOf(record, "key");
}

function bindingOf({ purpose, accountId, id }: SealedRecord, part: string): string {
  return `${purpose}|${accountId}|${id}|${part}`;
}
