// Email addresses of claims: which spellings are one mailbox, and how an address is masked.

import { lookUp } from "../base/look-up.ts";
import { foldEmail } from "../base/text/email.ts";

interface MailboxRules {
  /** The canonical domain of the provider. */
  readonly domain: string;
  readonly ignoresDots?: true;
}

/** Providers known to deliver `name+anything` to `name`. */
const MAILBOX_RULES: Readonly<Record<string, MailboxRules>> = {
  "gmail.com": { domain: "gmail.com", ignoresDots: true },
  "googlemail.com": { domain: "gmail.com", ignoresDots: true },
  "outlook.com": { domain: "outlook.com" },
  "hotmail.com": { domain: "hotmail.com" },
  "live.com": { domain: "live.com" },
  "msn.com": { domain: "msn.com" },
  "icloud.com": { domain: "icloud.com" },
  "me.com": { domain: "icloud.com" },
  "mac.com": { domain: "icloud.com" },
  "proton.me": { domain: "proton.me", ignoresDots: true },
  "protonmail.com": { domain: "proton.me", ignoresDots: true },
  "pm.me": { domain: "proton.me", ignoresDots: true },
  "fastmail.com": { domain: "fastmail.com" },
  "fastmail.fm": { domain: "fastmail.fm" },
  "zoho.com": { domain: "zoho.com" },
  "yandex.com": { domain: "yandex.com" },
  "yandex.ru": { domain: "yandex.com" },
  "hey.com": { domain: "hey.com" },
};

/** The same text for all spellings of one mailbox. Used for the bonus only. */
export function canonicalMailbox(address: string): string {
  const folded = foldEmail(address).toLowerCase().normalize("NFC");
  const at = folded.lastIndexOf("@");
  const local = folded.slice(0, at);
  const domain = folded.slice(at + 1);
  const rules = lookUp(MAILBOX_RULES, domain);
  if (rules === undefined) return folded;
  const [name = ""] = local.split("+", 1);
  return `${rules.ignoresDots === true ? name.replaceAll(".", "") : name}@${rules.domain}`;
}

/** Recognizable for its owner, but not enough to send mail to. */
export function maskEmail(address: string): string {
  const at = address.lastIndexOf("@");
  const [first = ""] = address;
  return `${first}•••@${address.slice(at + 1)}`;
}
