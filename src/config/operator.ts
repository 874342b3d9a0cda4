// The settings of the operator's pages: who may sign in there. Without one there are no such pages.

import { z } from "zod";
import { foldEmail } from "../base/email.ts";

export const OPERATOR_SETTINGS = {
  POSTERN_OPERATORS: {
    defaultValue: "",
    description:
      "Email addresses, with commas, whose owners may sign in at `/operator`, see `docs/operator.md`; not set, there is no such page.",
  },
} as const;

const EMAIL = /^[^\s@,]+@[^\s@,]+$/;

export const OPERATOR_ENVIRONMENT = {
  POSTERN_OPERATORS: z
    .string()
    .default("")
    .transform((list) =>
      list
        .split(",")
        .map((entry) => entry.trim())
        .filter((entry) => entry !== ""),
    )
    .refine(
      (entries) => entries.every((entry) => EMAIL.test(entry)),
      "must be email addresses with commas between",
    )
    .transform((entries) => entries.map(foldEmail)),
};

/** An operator signs in with an address that somebody has verified. */
export function operatorConfigErrors(
  operators: readonly string[],
  { development, identity }: { readonly development: boolean; readonly identity?: unknown },
): readonly string[] {
  return operators.length === 0 || development || identity !== undefined
    ? []
    : ["OIDC_ISSUER must be set where POSTERN_OPERATORS is: an operator signs in there"];
}
