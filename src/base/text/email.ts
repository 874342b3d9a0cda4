// Validates and compares email addresses. Only the case of ASCII letters and the spelling of an internationalized
// domain are equal: Unicode folds some letters to ASCII ("K" can be the Kelvin sign), and another person could own that
// address.

import { domainToASCII, domainToUnicode } from "node:url";

const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const LDH_DOMAIN = new RegExp(`^(?=.{1,253}$)${LABEL}(?:\\.${LABEL})*$`);
const TOP_LEVEL_DOMAIN = /\.[a-z][a-z0-9-]+$/;
/** `domainToASCII` parses a URL host: it cuts at `/ ? # \\`, decodes `%2e` and drops ignorable characters. */
const DOMAIN_CHARACTERS = /^[\p{L}\p{M}\p{N}.-]+$/u;

const ADDRESS_MAX = 254;
const LOCAL_MAX = 64;
const INVISIBLE = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/u;
const LOCAL_PART = /^[\p{L}\p{M}\p{N}!#$%&'*+/=?^_`{|}~.-]+$/u;

/** Scripts that are written together. Other mixtures are used to imitate another address. */
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

/** What is wrong with an address, for a sentence that begins with its field; undefined if it is valid. */
export function emailError(address: string): string | undefined {
  const at = address.lastIndexOf("@");
  const local = address.slice(0, at);
  const domain = address.slice(at + 1);
  if (address.length > ADDRESS_MAX || local.length > LOCAL_MAX)
    return `must have at most ${ADDRESS_MAX} characters, and ${LOCAL_MAX} before the @`;
  if (INVISIBLE.test(address)) return "must not contain spaces or invisible characters";
  if (address.normalize("NFC") !== address) return "must be in Unicode normalization form NFC";
  const isPlausible =
    at > 0 &&
    LOCAL_PART.test(local) &&
    !/^\.|\.\.|\.$/.test(local) &&
    TOP_LEVEL_DOMAIN.test(emailDomain(domain) ?? "");
  if (!isPlausible) return "must be an email address such as ada@example.com";
  if ([local, ...domain.split(".")].some(mixesScripts))
    return "must not mix letters of different scripts";
  return undefined;
}

/** The form in which two addresses are compared. An invalid domain is left as it is, so it equals no valid address. */
export function foldEmail(address: string): string {
  const at = address.lastIndexOf("@");
  const domain = at < 0 ? undefined : emailDomain(address.slice(at + 1));
  if (domain === undefined) return address;
  return `${toLowerAscii(address.slice(0, at))}@${domain}`;
}

/** The domain of an email address in the form in which domains are compared. */
export function domainOf(address: string): string | undefined {
  return emailDomain(address.slice(address.lastIndexOf("@") + 1));
}

/** A domain name as a person types it, in the form in which domains are compared; undefined if it is none. */
export function parseDomain(typed: string): string | undefined {
  const domain = emailDomain(typed.trim().replace(/^@/, "").replace(/\.$/, ""));
  return domain !== undefined && TOP_LEVEL_DOMAIN.test(domain) ? domain : undefined;
}

/** The ASCII form of a domain of letters, digits and hyphens, or of one that UTS 46 maps to itself; else undefined. */
function emailDomain(domain: string): string | undefined {
  if (!DOMAIN_CHARACTERS.test(domain)) return undefined;
  const lower = domain.toLowerCase().normalize("NFC");
  const ascii = domainToASCII(lower);
  const isStable = ascii === lower || domainToUnicode(ascii) === lower;
  return isStable && LDH_DOMAIN.test(ascii) ? ascii : undefined;
}

function toLowerAscii(text: string): string {
  return text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
}

function mixesScripts(part: string): boolean {
  const letters = [...part.replaceAll(/[^\p{L}]|[\p{Script=Common}\p{Script=Inherited}]/gu, "")];
  const known = letters.filter((letter) => SCRIPT_GROUPS.some((script) => script.test(letter)));
  if (known.length === 0) return false;
  return !SCRIPT_GROUPS.some((script) => letters.every((letter) => script.test(letter)));
}
