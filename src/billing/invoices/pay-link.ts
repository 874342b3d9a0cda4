// Signed links to invoice pages. A link allows reading and paying one invoice. It is derived from the master secret, so
// it is not stored and can be shown again.

import {
  deriveKey,
  fingerprint,
  fingerprints,
  type MasterSecret,
} from "../../base/crypto/encryption.ts";
import { timingSafeEqualText } from "../../base/crypto/secret.ts";

const TOKEN_FORMAT = /^([0-9a-z]{26})\.([\w-]{43})$/;

export interface PayLinks {
  readonly urlFor: (invoiceId: string) => string;
  /** The path of the receipt of a paid invoice. */
  readonly receiptPath: (invoiceId: string) => string;
  /** Returns the token's invoice id; undefined if the signature is wrong. */
  readonly verifyToken: (token: string) => string | undefined;
}

export function createPayLinks(master: MasterSecret, baseUrl: string): PayLinks {
  const key = deriveKey(master, "pay-link/v1");
  const pathFor = (invoiceId: string): string =>
    `/pay/${invoiceId.slice("inv_".length)}.${fingerprint(key, invoiceId)}`;
  return {
    urlFor: (invoiceId) => baseUrl + pathFor(invoiceId),
    receiptPath: (invoiceId) => `${pathFor(invoiceId)}/receipt`,
    verifyToken: (token) => {
      const [, idSuffix = "", signature = ""] = TOKEN_FORMAT.exec(token) ?? [];
      const invoiceId = `inv_${idSuffix}`;
      const isSigned = fingerprints(key, invoiceId).some((expected) =>
        timingSafeEqualText(signature, expected),
      );
      return idSuffix !== "" && isSigned ? invoiceId : undefined;
    },
  };
}
