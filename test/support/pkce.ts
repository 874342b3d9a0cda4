// What the tests of sign-ins share: a verifier with its challenge (RFC 7636), and queries with fields that can be left out.

import { createHash, randomBytes } from "node:crypto";

export interface Pkce {
  readonly verifier: string;
  readonly challenge: string;
}

export function pkce(): Pkce {
  const verifier = randomBytes(32).toString("base64url");
  return { verifier, challenge: createHash("sha256").update(verifier).digest("base64url") };
}

export type Fields = Readonly<Record<string, string | undefined>>;

export function queryOf(fields: Fields): string {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  // Safe because the undefined values are left out.
  return new URLSearchParams(given as [string, string][]).toString();
}
