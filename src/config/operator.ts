// Settings of the operator pages.

import { z } from "zod";
import { emailError, foldEmail } from "../base/email.ts";

export const OPERATOR_SETTINGS = {
  POSTERN_OPERATORS: {
    defaultValue: "",
    description:
      "Email addresses of the operators, separated by commas, who may sign in at `/operator`, see `docs/site/operator.md`. Not set: no operator pages.",
  },
} as const;

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
      (entries) => entries.every((entry) => emailError(entry) === undefined),
      "must be email addresses separated by commas",
    )
    .transform((entries) => entries.map(foldEmail)),
};

export function operatorConfigErrors(
  operators: readonly string[],
  { development, identity }: { readonly development: boolean; readonly identity?: unknown },
): readonly string[] {
  return operators.length === 0 || development || identity !== undefined
    ? []
    : ["OIDC_ISSUER must be set if POSTERN_OPERATORS is: operators sign in with it"];
}
