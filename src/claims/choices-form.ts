// Reads what the form says about each key. A choice that cannot be read changes nothing: the page is shown again.

import { MAX_NANO, nanoFromUsd } from "../base/money.ts";
import { LIMIT_WINDOWS, type LimitWindow } from "../base/window.ts";
import type { KeyChoice } from "./key-choices.ts";

export type FormFields = Readonly<Record<string, string | undefined>>;

export interface WrongChoice {
  readonly keyId: string;
  readonly message: string;
}

const PREFIX = "key.";
/** A comma before three digits may part thousands: $1 in place of $1,000 would be another limit than was meant. */
const COMMA_AS_POINT = /^(\d+),(\d{1,2})$/;

/** The names of a key's fields in the form. */
export function fieldsOf(keyId: string): {
  readonly choice: string;
  readonly usd: string;
  readonly window: string;
} {
  return { choice: `${PREFIX}${keyId}`, usd: `usd.${keyId}`, window: `window.${keyId}` };
}

export const OTHERS_FIELD = "others";

export function readChoices(fields: FormFields): {
  readonly choices: readonly KeyChoice[];
  readonly wrong: WrongChoice | undefined;
} {
  const choices: KeyChoice[] = [];
  const listed: string[] = [];
  let wrong: WrongChoice | undefined;
  for (const [name, choice] of Object.entries(fields)) {
    if (!name.startsWith(PREFIX)) continue;
    const keyId = name.slice(PREFIX.length);
    listed.push(keyId);
    if (choice === "revoke") choices.push({ kind: "revoke", keyId });
    if (choice !== "limit") continue;
    const limit = readLimit(fields, keyId);
    if (limit === undefined)
      wrong ??= { keyId, message: "Give the limit in US dollars, such as 5 or 2.50." };
    else choices.push(limit);
  }
  if (fields[OTHERS_FIELD] === "revoke") choices.push({ kind: "revoke_others", but: listed });
  return { choices, wrong };
}

function readLimit(fields: FormFields, keyId: string): KeyChoice | undefined {
  const names = fieldsOf(keyId);
  const typed = (fields[names.usd] ?? "")
    .trim()
    .replace(/^\$\s*/, "")
    .replace(COMMA_AS_POINT, "$1.$2");
  const limit = nanoFromUsd(typed);
  if (limit === undefined || limit < 0n || limit > MAX_NANO) return undefined;
  const window: LimitWindow | null =
    LIMIT_WINDOWS.find((one) => one === fields[names.window]) ?? null;
  return { kind: "limit", keyId, limit, window };
}
