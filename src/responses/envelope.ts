// How a stored response rests: its input and its reply sealed under a data key of its own, which is wrapped by a key
// derived from the master secret. All three are bound to the account and the id, and each to what it is.

import { randomBytes } from "node:crypto";
import { deriveKey, seal, unseal } from "../base/seal.ts";
import type { Secret } from "../base/secret.ts";

const DATA_KEY_BYTES = 32;

/** Goes up when the wrapping key, or what an envelope is bound to, changes. */
export const KEK_VERSION = 1;

export interface Binding {
  readonly id: string;
  readonly accountId: string;
}

export type Part = "input" | "response";

/** Seals the parts of one record. */
export interface Envelope {
  readonly dataKey: string;
  readonly seal: (part: Part, text: string) => string;
}

export function deriveKek(master: Secret): Uint8Array {
  return deriveKey(master, `stored-response/v${KEK_VERSION}`);
}

export function newEnvelope(kek: Uint8Array, binding: Binding): Envelope {
  const dataKey = randomBytes(DATA_KEY_BYTES);
  return {
    dataKey: seal(kek, boundTo(binding, "key"), dataKey.toString("base64")),
    seal: (part, text) => seal(dataKey, boundTo(binding, part), text),
  };
}

export interface Sealed extends Binding {
  readonly dataKey: string;
  readonly input: string;
  readonly response: string;
}

/** Throws where the record was changed, is another's, or was sealed under another master secret. */
export function openPart(kek: Uint8Array, sealed: Sealed, part: Part): string {
  const dataKey = Buffer.from(unseal(kek, boundTo(sealed, "key"), sealed.dataKey), "base64");
  return unseal(dataKey, boundTo(sealed, part), sealed[part]);
}

function boundTo({ id, accountId }: Binding, part: Part | "key"): string {
  return `stored-response/v${KEK_VERSION}|${accountId}|${id}|${part}`;
}
