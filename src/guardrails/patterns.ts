// Secrets and personal data by their pattern. A match must be likely, because a false one changes what the model reads: numbers are
// checked by their check digits, and keys by the prefixes that their issuers publish.

import type { TextEdit } from "../base/guard.ts";

export const ENTITIES = [
  "api_key",
  "private_key",
  "jwt",
  "email",
  "phone",
  "credit_card",
  "iban",
  "us_ssn",
  "ip_address",
] as const;
export type Entity = (typeof ENTITIES)[number];

interface Pattern {
  readonly pattern: RegExp;
  /** Checks the matched text, such as its check digits. */
  readonly isValid?: (match: string) => boolean;
}

// Every pattern is linear: no quantifier has another one within.
const PATTERNS: Readonly<Record<Entity, Pattern>> = {
  api_key: {
    pattern:
      /(?<![\w-])(?:sk-[\w-]{20,200}|(?:pk|sk|rk)_(?:live|test)_\w{16,200}|gh[pousr]_\w{36,200}|github_pat_\w{22,200}|glpat-[\w-]{20,200}|xox[abprs]-[\w-]{10,200}|AKIA[A-Z0-9]{16}|ASIA[A-Z0-9]{16}|AIza[\w-]{35}|hf_\w{30,200}|npm_\w{36}|SG\.[\w-]{16,100}\.[\w-]{16,100}|psk_\w{20,200})(?![\w-])/g,
  },
  private_key: {
    pattern:
      /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s\\:,-]{0,16000}?-----END [A-Z ]{0,40}PRIVATE KEY-----|[A-Za-z0-9+/=\s\\:,-]{0,16000})/g,
  },
  jwt: { pattern: /(?<![\w-])eyJ[\w-]{10,4000}\.eyJ[\w-]{10,8000}\.[\w-]{10,2000}/g },
  email: {
    pattern: /(?<![\w.+-])[\w.+-]{1,64}@(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}(?![\w-])/gi,
  },
  phone: {
    pattern: /(?<![\w+.])(?:\+\d[\d ().-]{7,22}\d|\(\d{3}\) ?\d{3}-\d{4}|\d{3}-\d{3}-\d{4})(?!\w)/g,
    isValid: (match) => isBetween(digitsOf(match).length, 8, 15),
  },
  credit_card: {
    pattern: /(?<![\w.])\d(?:[ -]?\d){12,18}(?!\w)/g,
    isValid: (match) => isLuhn(digitsOf(match)),
  },
  iban: {
    pattern: /(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}(?!\w)/g,
    isValid: (match) => isIban(match.replaceAll(" ", "")),
  },
  us_ssn: { pattern: /(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])/g },
  ip_address: {
    pattern:
      /(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.])/g,
  },
};

export interface Match {
  readonly start: number;
  readonly end: number;
  readonly entity: Entity;
}

/** A body has millions of short addresses, whose matches would take gigabytes. */
export const MATCHES_MAX = 100_000;

/** In order, without overlaps; of two that overlap, the one that begins first. Undefined if there are more than `max`. */
export function findMatches(
  text: string,
  entities: readonly Entity[],
  max = MATCHES_MAX,
): readonly Match[] | undefined {
  const found: Match[] = [];
  for (const entity of entities) {
    const { pattern, isValid = () => true } = PATTERNS[entity];
    for (const { 0: match, index } of text.matchAll(pattern)) {
      if (!isValid(match)) continue;
      if (found.length === max) return undefined;
      found.push({ start: index, end: index + match.length, entity });
    }
  }
  found.sort((one, other) => one.start - other.start || other.end - one.end);
  let end = 0;
  return found.filter((match) => {
    if (match.start < end) return false;
    end = match.end;
    return true;
  });
}

/** Matches with spaces are shorter. */
const SPACED_MATCH_MAX = 64;
/** A longer run of characters is not a match. */
const RUN_MAX = 16_384;

const RUN_CHARACTER = /^[\w.+/=@:\\-]$/;

/** Up to where the matches of a text that continues are known. */
export function decidedLength(text: string, matches: readonly Match[]): number {
  let run = 0;
  // A regular expression for the end of a text would begin at each of its characters.
  while (run <= RUN_MAX && RUN_CHARACTER.test(text.at(-1 - run) ?? "")) run += 1;
  const open = run <= RUN_MAX ? Math.max(run, SPACED_MATCH_MAX) : 0;
  const end = Math.max(0, text.length - open);
  const cut = matches.find((match) => match.end > end);
  return cut === undefined ? end : Math.min(end, cut.start);
}

export function maskOf({ start, end, entity }: Match): TextEdit {
  return { start, end, text: `[${entity.toUpperCase()}]` };
}

function digitsOf(text: string): string {
  return text.replaceAll(/\D/g, "");
}

function isBetween(value: number, min: number, max: number): boolean {
  return value >= min && value <= max;
}

/** The check digit of cards (ISO/IEC 7812). */
function isLuhn(digits: string): boolean {
  let sum = 0;
  for (let index = 0; index < digits.length; index++) {
    const digit = Number(digits.at(-1 - index));
    const doubled = index % 2 === 1 ? digit * 2 : digit;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0 && !/^0+$/.test(digits);
}

/** The check digits of accounts (ISO 13616): the number modulo 97. */
function isIban(iban: string): boolean {
  let remainder = 0;
  for (const character of iban.slice(4) + iban.slice(0, 4))
    for (const digit of String(Number.parseInt(character, 36)))
      remainder = (remainder * 10 + Number(digit)) % 97;
  return remainder === 1;
}
