// Email addresses, for two different questions. Is this the address that the agent named? Then letter case alone is
// forgiven. Is this a human who had the bonus before? Then all spellings of one mailbox are the same.

import { domainToASCII } from "node:url";
import { foldEmail } from "../base/email.ts";

const ADDRESS_MAX = 254;
const LOCAL_MAX = 64;
const INVISIBLE = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/u;
const LOCAL_PART = /^[\p{L}\p{M}\p{N}!#$%&'*+/=?^_`{|}~.-]+$/u;

/** Scripts that are written together; any other mixture is made to be mistaken for something else. */
const SCRIPT_GROUPS: readonly RegExp[] = [
  /^\p{Script=Latin}$/u,
  /^\p{Script=Greek}$/u,
  /^\p{Script=Cyrillic}$/u,
  /^\p{Script=Arabic}$/u,
  /^\p{Script=Hebrew}$/u,
  /^\p{Script=Armenian}$/u,
  /^\p{Script=Georgian}$/u,
  /^\p{Script=Devanagari}$/u,
  /^\p{Script=Bengali}$/u,
  /^\p{Script=Tamil}$/u,
  /^\p{Script=Thai}$/u,
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]$/u,
  /^[\p{Script=Han}\p{Script=Hangul}]$/u,
];

/** Says what is wrong with an address, or undefined where it may be used. */
export function emailError(address: string): string | undefined {
  const at = address.lastIndexOf("@");
  const local = address.slice(0, at);
  const domain = address.slice(at + 1);
  if (address.length > ADDRESS_MAX || local.length > LOCAL_MAX) return "is too long";
  if (INVISIBLE.test(address)) return "has spaces or characters that cannot be seen";
  if (address.normalize("NFC") !== address) return "is not in Unicode's composed form (NFC)";
  const isPlausible =
    at > 0 &&
    LOCAL_PART.test(local) &&
    !/^\.|\.\.|\.$/.test(local) &&
    /^[^.]+(\.[^.]+)+$/.test(domain) &&
    /^[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z][a-z0-9-]+$/.test(domainToASCII(domain));
  if (!isPlausible) return "is not an email address";
  if ([local, ...domain.split(".")].some(mixesScripts)) return "mixes letters of different scripts";
  return undefined;
}

interface MailboxRules {
  /** The domain that all of its domains are the same as. */
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

/** One name for all spellings of one mailbox. It decides about the bonus and about nothing else. */
export function canonicalMailbox(address: string): string {
  const folded = foldEmail(address).toLowerCase().normalize("NFC");
  const at = folded.lastIndexOf("@");
  const local = folded.slice(0, at);
  const domain = folded.slice(at + 1);
  const rules = MAILBOX_RULES[domain];
  if (rules === undefined) return folded;
  const name = local.replace(/\+.*$/, "");
  return `${rules.ignoresDots === true ? name.replaceAll(".", "") : name}@${rules.domain}`;
}

/** Enough for its owner to recognise it, and too little to write to. */
export function maskEmail(address: string): string {
  const at = address.lastIndexOf("@");
  const [first = ""] = address;
  return `${first}•••@${address.slice(at + 1)}`;
}

function mixesScripts(part: string): boolean {
  const letters = [...part.replaceAll(/[^\p{L}]|[\p{Script=Common}\p{Script=Inherited}]/gu, "")];
  const known = letters.filter((letter) => SCRIPT_GROUPS.some((script) => script.test(letter)));
  if (known.length === 0) return false;
  return !SCRIPT_GROUPS.some((script) => letters.every((letter) => script.test(letter)));
}
