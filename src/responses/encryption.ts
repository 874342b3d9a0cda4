// How a stored response rests: its input and its reply sealed under a data key of its own, which is wrapped by a key
// derived from the master secret. All three are bound to the account and the id, and each to what it is.

import { randomBytes } from "node:crypto";
import { deriveKey, encrypt, decrypt } from "../base/encryption.ts";
import type { Secret } from "../base/secret.ts";

const DATA_KEY_BYTES = 32;

/** Goes up when the wrapping key, or what an envelope is bound to, changes. */
export const KEK_VERSION = 1;

export interface EncryptionBinding {
  readonly id: string;
  readonly accountId: string;
}

export type SealedPart = "input" | "response";

/** Seals the parts of one record. */
export interface Envelope {
  readonly dataKey: string;
  readonly seal: (part: SealedPart, text: string) => string;
}

export function deriveKek(master: Secret): Uint8Array {
  return deriveKey(master, `stored-response/v${KEK_VERSION}`);
}

export function newEnvelope(kek: Uint8Array, binding: EncryptionBinding): Envelope {
  const dataKey = randomBytes(DATA_KEY_BYTES);
  return {
    dataKey: encrypt(kek, associatedData(binding, "key"), dataKey.toString("base64")),
    seal: (part, text) => encrypt(dataKey, associatedData(binding, part), text),
  };
}

export interface SealedResponse extends EncryptionBinding {
  readonly dataKey: string;
  readonly input: string;
  readonly response: string;
}

/** Throws where the record was changed, is another's, or was sealed under another master secret. */
export function unsealPart(kek: Uint8Array, sealed: SealedResponse, part: SealedPart): string {
  const dataKey = Buffer.from(
    decrypt(kek, associatedData(sealed, "key"), sealed.dataKey),
    "base64",
  );
  return decrypt(dataKey, associatedData(sealed, part), sealed[part]);
}

function associatedData({ id, accountId }: EncryptionBinding, part: SealedPart | "key"): string {
  return `stored-response/v${KEK_VERSION}|${accountId}|${id}|${part}`;
}
