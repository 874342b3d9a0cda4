// Parses the key choices of the review form. If a choice is invalid, nothing is changed and the page is shown again.

import { MAX_NANO, nanoFromUsd } from "../base/money/money.ts";
import { LIMIT_WINDOWS, type LimitWindow } from "../base/money/spend-window.ts";
import type { KeyChoice } from "./key-choices.ts";

export type FormFields = Readonly<Record<string, string | undefined>>;

export interface InvalidChoice {
  readonly keyId: string;
  readonly message: string;
}

const CHOICE_PREFIX = "key.";
/** A comma before three digits may separate thousands: `1,000` must not become a limit of $1. */
const DECIMAL_COMMA = /^(\d+),(\d{1,2})$/;

/** The names of the form fields of a key. */
export function keyFieldNames(keyId: string): {
  readonly choice: string;
  readonly usd: string;
  readonly window: string;
} {
  return { choice: `${CHOICE_PREFIX}${keyId}`, usd: `usd.${keyId}`, window: `window.${keyId}` };
}

export const OTHERS_FIELD = "others";

export function parseKeyChoices(fields: FormFields): {
  readonly choices: readonly KeyChoice[];
  readonly invalid: InvalidChoice | undefined;
} {
  const choices: KeyChoice[] = [];
  const listed: string[] = [];
  let invalid: InvalidChoice | undefined;
  for (const [name, choice] of Object.entries(fields)) {
    if (!name.startsWith(CHOICE_PREFIX)) continue;
    const keyId = name.slice(CHOICE_PREFIX.length);
    listed.push(keyId);
    if (choice === "revoke") choices.push({ kind: "revoke", keyId });
    if (choice === "models") choices.push({ kind: "models", keyId });
    if (choice !== "limit") continue;
    const limit = parseLimit(fields, keyId);
    if (limit === undefined)
      invalid ??= { keyId, message: "Enter the limit in US dollars, for example 5 or 2.50." };
    else choices.push(limit);
  }
  if (fields[OTHERS_FIELD] === "revoke") choices.push({ kind: "revoke_others", except: listed });
  return { choices, invalid };
}

function parseLimit(fields: FormFields, keyId: string): KeyChoice | undefined {
  const names = keyFieldNames(keyId);
  const amount = (fields[names.usd] ?? "")
    .trim()
    .replace(/^\$\s*/, "")
    .replace(DECIMAL_COMMA, "$1.$2");
  const limit = nanoFromUsd(amount);
  if (limit === undefined || limit < 0n || limit > MAX_NANO) return undefined;
  const window: LimitWindow | null =
    LIMIT_WINDOWS.find((one) => one === fields[names.window]) ?? null;
  return { kind: "limit", keyId, limit, window };
}
