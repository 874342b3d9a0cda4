// Envelope encryption of stored responses: each has its own data key, wrapped by a key derived from the master secret. The
// associated data binds key, input and response to their account, id and kind.

import { randomBytes } from "node:crypto";
import {
  decrypt,
  type DerivedKey,
  deriveKey,
  encrypt,
  type MasterSecret,
} from "../../base/encryption.ts";

const DATA_KEY_BYTES = 32;

/** Incremented when the wrapping key or the associated data changes. */
export const KEK_VERSION = 1;

export interface EncryptionBinding {
  readonly id: string;
  readonly accountId: string;
}

export type EncryptedPart = "input" | "response" | `events/${number}`;

/** Encrypts the parts of one record. */
export interface Envelope {
  readonly dataKey: string;
  readonly encrypt: (part: EncryptedPart, text: string) => string;
}

export function deriveKek(master: MasterSecret): DerivedKey {
  return deriveKey(master, `stored-response/v${KEK_VERSION}`);
}

export function newEnvelope(kek: DerivedKey, binding: EncryptionBinding): Envelope {
  const dataKey = randomBytes(DATA_KEY_BYTES);
  return {
    dataKey: encrypt(kek, associatedData(binding, "key"), dataKey.toString("base64")),
    encrypt: (part, text) => encrypt([dataKey], associatedData(binding, part), text),
  };
}

export interface EncryptedResponse extends EncryptionBinding {
  readonly dataKey: string;
  readonly input: string;
  readonly response: string;
}

/** Throws if the record was modified, belongs to another account or id, or was encrypted with another master secret. */
export function decryptPart(
  kek: DerivedKey,
  encrypted: EncryptedResponse,
  part: "input" | "response",
): string {
  return decrypt(dataKeyOf(kek, encrypted), associatedData(encrypted, part), encrypted[part]);
}

/** The events of one part of a stream, as JSON text. */
export function decryptEvents(
  kek: DerivedKey,
  encrypted: EncryptedResponse,
  part: number,
  sealedEvents: string,
): readonly string[] {
  const data = associatedData(encrypted, `events/${part}`);
  const text = decrypt(dataKeyOf(kek, encrypted), data, sealedEvents);
  return text === "" ? [] : text.split("\n");
}

function dataKeyOf(kek: DerivedKey, encrypted: EncryptedResponse): DerivedKey {
  return [Buffer.from(decrypt(kek, associatedData(encrypted, "key"), encrypted.dataKey), "base64")];
}

/** What the data key or a part of a stored response is bound to. */
export function associatedData(
  { id, accountId }: EncryptionBinding,
  part: EncryptedPart | "key",
): string {
  return `stored-response/v${KEK_VERSION}|${accountId}|${id}|${part}`;
}
