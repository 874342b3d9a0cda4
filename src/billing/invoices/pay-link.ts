// The link of an invoice's page. Whoever has it can look at the invoice and pay it, and nothing else. It is worked out of
// the master secret, so it can be shown again and stands in no table.

import { deriveKey, fingerprint } from "../../base/encryption.ts";
import { type Secret, timingSafeEqualText } from "../../base/secret.ts";

const TOKEN_FORMAT = /^([0-9a-z]{26})\.([\w-]{43})$/;

export interface PayLinks {
  readonly urlFor: (invoiceId: string) => string;
  /** The invoice that a token belongs to; undefined where it was made up. */
  readonly verifyToken: (token: string) => string | undefined;
}

export function createPayLinks(master: Secret, baseUrl: string): PayLinks {
  const key = deriveKey(master, "pay-link/v1");
  return {
    urlFor: (invoiceId) =>
      `${baseUrl}/pay/${invoiceId.slice("inv_".length)}.${fingerprint(key, invoiceId)}`,
    verifyToken: (token) => {
      const [, idSuffix = "", signature = ""] = TOKEN_FORMAT.exec(token) ?? [];
      const invoiceId = `inv_${idSuffix}`;
      return idSuffix !== "" && timingSafeEqualText(signature, fingerprint(key, invoiceId))
        ? invoiceId
        : undefined;
    },
  };
}
