// Parses the key choices of the review form. If a choice is invalid, nothing is changed and the page is shown again.

import { plainAmount } from "../base/money/amount-text.ts";
import { MAX_NANO, type Nano, nanoFromUsd } from "../base/money/money.ts";
import { LIMIT_WINDOWS, type LimitWindow } from "../base/money/spend-window.ts";
import type { KeyChoice } from "./key-choices.ts";

export type FormFields = Readonly<Record<string, string | undefined>>;

export interface InvalidChoice {
  readonly keyId: string;
  readonly message: string;
}

const CHOICE_PREFIX = "key.";

/** The names of the form fields of a key. */
export function keyFieldNames(keyId: string): {
  readonly choice: string;
  readonly usd: string;
  readonly window: string;
  readonly models: string;
} {
  return {
    choice: `${CHOICE_PREFIX}${keyId}`,
    usd: `usd.${keyId}`,
    window: `window.${keyId}`,
    models: `models.${keyId}`,
  };
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
    if (choice !== "keep") continue;
    const limit = parseLimit(fields, keyId);
    const isModelsOnly = fields[keyFieldNames(keyId).models] === "only";
    if (limit === "invalid")
      invalid ??= { keyId, message: "Enter the limit in US dollars, for example 5 or 2.50." };
    else if (limit !== undefined || isModelsOnly)
      choices.push({ kind: "narrow", keyId, limit, isModelsOnly });
  }
  if (fields[OTHERS_FIELD] === "revoke") choices.push({ kind: "revoke_others", except: listed });
  return { choices, invalid };
}

/** Undefined if the limit stays as it is. */
function parseLimit(
  fields: FormFields,
  keyId: string,
): { readonly usd: Nano; readonly window: LimitWindow | null } | "invalid" | undefined {
  const names = keyFieldNames(keyId);
  const amount = plainAmount(fields[names.usd] ?? "");
  if (amount === "") return undefined;
  const usd = nanoFromUsd(amount);
  if (usd === undefined || usd < 0n || usd > MAX_NANO) return "invalid";
  const window: LimitWindow | null =
    LIMIT_WINDOWS.find((one) => one === fields[names.window]) ?? null;
  return { usd, window };
}
