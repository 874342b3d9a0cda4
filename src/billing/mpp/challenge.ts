// The HTTP authentication scheme `Payment` (draft-ryan-httpauth-payment): challenges, credentials and receipts. A challenge is
// not stored: its id is an HMAC of its parameters, so a credential proves which challenge it fulfills.

import { randomBytes } from "node:crypto";
import { z } from "zod";
import { decodeJson, encodeJson } from "../../base/canonical-json.ts";
import {
  type DerivedKey,
  deriveKey,
  fingerprint,
  fingerprints,
} from "../../base/crypto/encryption.ts";
import type { MasterSecret } from "../../base/crypto/encryption.ts";
import { timingSafeEqualText } from "../../base/crypto/secret.ts";
import { invalid } from "../../base/fault.ts";
import { isObject } from "../../base/json.ts";
import { MINUTE_MS } from "../../base/time.ts";

/** How long a challenge is valid. The client must sign, or get a token, within this time. */
const VALIDITY_MS = 5 * MINUTE_MS;
const CREDENTIAL_CHARACTERS_MAX = 8_192;
const NONCE_BYTES = 12;
const CHARGE = "charge";

const ChallengeSchema = z.object({
  id: z.string(),
  realm: z.string(),
  method: z.string(),
  intent: z.string(),
  /** Base64url of canonical JSON. */
  request: z.string(),
  expires: z.string().default(""),
  digest: z.string().default(""),
  opaque: z.string().default(""),
});
export type PaymentChallenge = Readonly<z.infer<typeof ChallengeSchema>>;

const CredentialSchema = z.object({
  challenge: ChallengeSchema,
  payload: z.unknown(),
  /** The payer's DID, as stated by the payer. It is not verified. */
  source: z.string().optional(),
});
/** What a client sends to pay: the challenge as it was, and the method's proof. */
export type PaymentCredential = Readonly<z.infer<typeof CredentialSchema>>;

export interface Challenger {
  readonly key: DerivedKey;
  /** The host of the gateway. */
  readonly realm: string;
}

export function createChallenger(master: MasterSecret, baseUrl: string): Challenger {
  return { key: deriveKey(master, "payment-challenge/v1"), realm: new URL(baseUrl).host };
}

export function createChallenge(
  { key, realm }: Challenger,
  {
    method,
    request,
    accountId,
    now,
  }: { readonly method: string; readonly request: object; accountId: string; now: number },
): PaymentChallenge {
  const challenge = {
    realm,
    method,
    intent: CHARGE,
    request: encodeJson(request),
    // Whole seconds, the unit of a signature's expiry.
    expires: new Date(Math.ceil((now + VALIDITY_MS) / 1_000) * 1_000).toISOString(),
    digest: "",
    // The nonce makes the id, and with it the payment, unique.
    opaque: encodeJson({ account: accountId, nonce: randomBytes(NONCE_BYTES).toString("hex") }),
  };
  return { ...challenge, id: fingerprint(key, boundText(challenge)) };
}

/** The header `WWW-Authenticate`. */
export function challengeHeader(
  challenges: readonly PaymentChallenge[],
  description: string,
): string {
  return challenges
    .map((challenge) => {
      const { id, realm, method, intent, request, expires, opaque } = challenge;
      const parameters = { id, realm, method, intent, request, description, expires, opaque };
      const list = Object.entries(parameters).map(([name, value]) => `${name}="${value}"`);
      return `Payment ${list.join(", ")}`;
    })
    .join(", ");
}

/** Parses the header `Authorization: Payment`. */
export function parseCredential(header: string): PaymentCredential {
  const encoded = /^payment +([\w-]+)=*$/i.exec(header.trim())?.[1] ?? "";
  const json = encoded.length > CREDENTIAL_CHARACTERS_MAX ? undefined : decodeJson(encoded);
  const parsed = CredentialSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  throw invalid(
    "authorization",
    "`Authorization: Payment` needs a credential after it: base64url-encoded JSON with `challenge` (copied from the `WWW-Authenticate` header of the 402) and `payload` (the proof of payment).",
  );
}

/** Why the challenge was not issued by this gateway for this account; undefined if it was. */
export function foreignReason(
  { key }: Challenger,
  challenge: PaymentChallenge,
  accountId: string,
): string | undefined {
  const isIssued = fingerprints(key, boundText(challenge)).some((expected) =>
    timingSafeEqualText(challenge.id, expected),
  );
  if (!isIssued) return "the challenge was not issued by this gateway, or was changed";
  const opaque = decodeJson(challenge.opaque);
  return isObject(opaque) && opaque["account"] === accountId
    ? undefined
    : "the challenge was issued to another account";
}

export function expiresAt({ expires }: PaymentChallenge): number {
  return Date.parse(expires);
}

/** The header `Payment-Receipt`. */
export function receiptHeader(method: string, reference: string, at: number): string {
  const timestamp = new Date(at).toISOString();
  return encodeJson({ method, reference, status: "success", timestamp });
}

/** The slots that the specification binds to the id, in its order. */
function boundText(challenge: Omit<PaymentChallenge, "id">): string {
  const { realm, method, intent, request, expires, digest, opaque } = challenge;
  return [realm, method, intent, request, expires, digest, opaque].join("|");
}
