// Standard Webhooks signatures: HMAC-SHA-256 over id, timestamp and body, with a secret that begins with `whsec_`.

import { createHmac, randomBytes } from "node:crypto";
import { type Secret, secret } from "../base/crypto/secret.ts";

const SECRET_PREFIX = "whsec_";
const SECRET_BYTES = 32;

export function newSigningSecret(): Secret {
  return secret(SECRET_PREFIX + randomBytes(SECRET_BYTES).toString("base64"));
}

export interface SignedContent {
  readonly id: string;
  /** The time of this attempt, not of the event. */
  readonly at: number;
  readonly body: string;
}

/** The three headers. During a rotation there are two secrets and two signatures. */
export function signatureHeaders(
  { id, at, body }: SignedContent,
  secrets: readonly Secret[],
): Readonly<Record<string, string>> {
  const seconds = Math.floor(at / 1_000);
  const signatures = secrets.map((signingSecret) => {
    const key = Buffer.from(signingSecret.reveal().slice(SECRET_PREFIX.length), "base64");
    return `v1,${createHmac("sha256", key).update(`${id}.${seconds}.${body}`).digest("base64")}`;
  });
  return {
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": signatures.join(" "),
  };
}
