// /.well-known/security.txt (RFC 9116): where to report a vulnerability.

import { DAY_MS } from "../base/time.ts";

const VALID_DAYS = 180;

export function securityTxt(contact: string, baseUrl: string, now: number): string {
  const expires = new Date((Math.floor(now / DAY_MS) + VALID_DAYS) * DAY_MS).toISOString();
  return [
    `Contact: ${contact.includes("@") && !contact.includes(":") ? `mailto:${contact}` : contact}`,
    `Expires: ${expires}`,
    "Preferred-Languages: en",
    `Canonical: ${baseUrl}/.well-known/security.txt`,
    "",
  ].join("\n");
}
