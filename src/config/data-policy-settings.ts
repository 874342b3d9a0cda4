// Settings of what providers may do with the data of calls.

import { z } from "zod";
import {
  type DataRules,
  dataRulesOf,
  type OwnDataPolicy,
  parseDataRules,
} from "../base/data-rules.ts";
import { settings } from "./setting-schemas.ts";

export const DATA_POLICY_SETTINGS = settings({
  POSTERN_DATA_POLICY: [
    z
      .string()
      .default("")
      .transform(parseDataRules)
      .refine((rules) => rules !== undefined, {
        error: "must be zdr, deny or region=<name>, or several of them separated by commas",
      }),
    "",
    "What every call requires of its provider, separated by commas: `zdr`, `deny` (no training) or `region=<name>`. See `docs/site/data-policy.md`.",
  ],
  POSTERN_ZDR_PROVIDERS: [
    z
      .string()
      .default("")
      .transform((text) => text.toLowerCase().split(/[\s,]+/))
      .transform((ids) => ids.filter((id) => id !== "")),
    "",
    "Ids of providers with which you agreed that they store nothing of your accounts' calls, separated by commas.",
  ],
});

export function dataPolicyConfigFrom(env: {
  readonly POSTERN_DATA_POLICY: DataRules | undefined;
  readonly POSTERN_ZDR_PROVIDERS: readonly string[];
}): OwnDataPolicy {
  const rules = dataRulesOf(env.POSTERN_DATA_POLICY);
  return { zdrProviders: new Set(env.POSTERN_ZDR_PROVIDERS), ...(rules && { rules }) };
}
