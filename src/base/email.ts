// Comparison of email addresses. Only ASCII case is folded: Unicode folding would make the Kelvin sign equal to "k", and so
// two different mailboxes the same address.

import { domainToASCII } from "node:url";

/** Two addresses are the same if their folded forms are equal. */
export function foldEmail(address: string): string {
  const at = address.lastIndexOf("@");
  if (at < 0) return address;
  const local = address.slice(0, at);
  const domain = address.slice(at + 1);
  const lower = local.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  return `${lower}@${domainToASCII(domain) || domain.toLowerCase()}`;
}
