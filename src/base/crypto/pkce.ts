// Proof key for code exchange (RFC 7636), with S256 alone: `plain` protects nothing once the request has leaked.

import { createHash } from "node:crypto";
import { timingSafeEqualText } from "./secret.ts";

const CHALLENGE = /^[\w-]{43}$/;
const VERIFIER = /^[\w.~-]{43,128}$/;

/** Whether a text can be the S256 challenge of a verifier. */
export function isCodeChallenge(text: string): boolean {
  return CHALLENGE.test(text);
}

export function verifyCodeChallenge(verifier: string, challenge: string): boolean {
  if (!VERIFIER.test(verifier)) return false;
  const digest = createHash("sha256").update(verifier).digest("base64url");
  return timingSafeEqualText(digest, challenge);
}
