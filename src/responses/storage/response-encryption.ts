// Envelope encryption of stored responses. A data key, wrapped by a key derived from the master secret, encrypts the records of
// one process for a while: wrapping one for each record costs more than encrypting it. The associated data binds each
// ciphertext to its account, id and kind.

import { randomBytes } from "node:crypto";
import {
  decrypt,
  type DerivedKey,
  deriveKey,
  encrypt,
  encryptBytes,
  type MasterSecret,
} from "../../base/crypto/encryption.ts";
import type { EncryptedColumn } from "../../store/reencrypt-rows.ts";

const DATA_KEY_BYTES = 32;
/** Far below the 2^32 random nonces that NIST SP 800-38D allows for a key. */
const DATA_KEY_USES_MAX = 1_000_000;

export interface EncryptionBinding {
  readonly id: string;
  readonly accountId: string;
}

type EncryptedPart = "input" | "response" | `events/${number}`;
/** Input and response in one ciphertext. */
const RECORD = "record";

/** Encrypts the parts of one record. */
export interface Envelope {
  readonly dataKey: string;
  readonly encrypt: (part: EncryptedPart, text: string) => string;
  readonly encryptRecord: (input: string, response: string) => Uint8Array;
}

/** Encrypts records with a data key that it replaces from time to time. */
export type Envelopes = (binding: EncryptionBinding) => Envelope;

export function deriveKek(master: MasterSecret): DerivedKey {
  return deriveKey(master, "stored-response/v1");
}

export function createEnvelopes(kek: DerivedKey, usesMax = DATA_KEY_USES_MAX): Envelopes {
  let key: DerivedKey = [randomBytes(DATA_KEY_BYTES)];
  let dataKey = wrap(kek, key);
  let uses = 0;
  return (binding) => {
    if (uses >= usesMax) {
      key = [randomBytes(DATA_KEY_BYTES)];
      dataKey = wrap(kek, key);
      uses = 0;
    }
    const current = key;
    return {
      dataKey,
      encrypt: (part, text) => {
        uses += 1;
        return encrypt(current, associatedData(binding, part), text);
      },
      encryptRecord: (input, response) => {
        uses += 1;
        const text = toRecordText(input, response);
        return encryptBytes(current, associatedData(binding, RECORD), text);
      },
    };
  };
}

function wrap(kek: DerivedKey, [dataKey]: DerivedKey): string {
  return encrypt(kek, DATA_KEY_BINDING, Buffer.from(dataKey).toString("base64"));
}

export interface EncryptedResponse extends EncryptionBinding {
  readonly dataKey: string;
  /** The whole record; null if input and response have a ciphertext each. */
  readonly record: Uint8Array | null;
  /** Empty if there is only one ciphertext. */
  readonly input: string;
  readonly response: string;
}

/** Both parts in one ciphertext cost half of two. */
function toRecordText(input: string, response: string): string {
  return `${input.length}:${input}${response}`;
}

/** Throws if the record was modified, belongs to another account or id, or was encrypted with another master secret. */
export function decryptPart(
  kek: DerivedKey,
  encrypted: EncryptedResponse,
  part: "input" | "response",
): string {
  const key = dataKeyOf(kek, encrypted);
  if (encrypted.record === null)
    return decrypt(key, associatedData(encrypted, part), encrypted[part]);
  const text = decrypt(key, associatedData(encrypted, RECORD), encrypted.record);
  const inputStart = text.indexOf(":") + 1;
  const inputEnd = inputStart + Number(text.slice(0, inputStart - 1));
  return part === "input" ? text.slice(inputStart, inputEnd) : text.slice(inputEnd);
}

/** A response that replaces that of a record, with the key of the record. */
export function encryptResponse(
  kek: DerivedKey,
  encrypted: EncryptedResponse,
  text: string,
): string {
  return encrypt(dataKeyOf(kek, encrypted), associatedData(encrypted, "response"), text);
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

function dataKeyOf(kek: DerivedKey, { dataKey }: EncryptedResponse): DerivedKey {
  return [Buffer.from(decrypt(kek, DATA_KEY_BINDING, dataKey), "base64")];
}

const DATA_KEY_BINDING = "stored-response/v2|key";

/** For the rotation of the master secret. */
export const RESPONSE_DATA_KEYS: EncryptedColumn = {
  table: "stored_response",
  column: "data_key",
  key: ["id"],
  reads: [],
  deriveKey: deriveKek,
  associatedData: () => DATA_KEY_BINDING,
};

function associatedData(
  { id, accountId }: EncryptionBinding,
  part: EncryptedPart | typeof RECORD,
): string {
  return `stored-response/v1|${accountId}|${id}|${part}`;
}
