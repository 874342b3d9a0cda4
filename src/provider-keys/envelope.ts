// How a provider key rests: sealed under a data key of its own, which is wrapped by a key derived from the master secret.
// Both are bound to the record, so that neither opens in another account's record, or for another provider.

import { randomBytes } from "node:crypto";
import { deriveKey, seal, unseal } from "../base/seal.ts";
import { type Secret, secret } from "../base/secret.ts";

const DATA_KEY_BYTES = 32;

/** Goes up when the wrapping key, or what an envelope is bound to, changes. */
export const KEK_VERSION = 1;

export interface Binding {
  readonly id: string;
  readonly accountId: string;
  readonly provider: string;
}

export interface Envelope {
  readonly sealed: string;
  readonly dataKey: string;
}

export function deriveKek(master: Secret): Uint8Array {
  return deriveKey(master, `provider-key/v${KEK_VERSION}`);
}

export function sealKey(kek: Uint8Array, binding: Binding, apiKey: Secret): Envelope {
  const dataKey = randomBytes(DATA_KEY_BYTES);
  const bound = boundTo(binding);
  return {
    sealed: seal(dataKey, bound, apiKey.reveal()),
    dataKey: seal(kek, bound, dataKey.toString("base64")),
  };
}

/** Throws where the envelope was changed, is another record's, or was made under another master secret. */
export function openKey(kek: Uint8Array, binding: Binding, envelope: Envelope): Secret {
  const bound = boundTo(binding);
  const dataKey = Buffer.from(unseal(kek, bound, envelope.dataKey), "base64");
  return secret(unseal(dataKey, bound, envelope.sealed));
}

function boundTo({ id, accountId, provider }: Binding): string {
  return `provider-key/v${KEK_VERSION}|${accountId}|${id}|${provider}`;
}
