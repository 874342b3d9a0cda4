// How two email addresses are compared: letter case alone is forgiven, and of ASCII alone. A letter that Unicode turns
// into another one is another address: "K" may also be the sign of the kelvin, which somebody else could hold.

import { domainToASCII } from "node:url";

/** The form that two addresses are compared in. */
export function foldEmail(address: string): string {
  const at = address.lastIndexOf("@");
  if (at < 0) return address;
  const local = address.slice(0, at);
  const domain = address.slice(at + 1);
  const lower = local.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  return `${lower}@${domainToASCII(domain) || domain.toLowerCase()}`;
}
