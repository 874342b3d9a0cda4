// Settings of the operator pages and of the alerts for operators.

import { z } from "zod";
import { type Secret, secret } from "../base/crypto/secret.ts";
import { emailError, foldEmail } from "../base/text/email.ts";
import { httpUrl, integer, settings } from "./setting-schemas.ts";

const VERIFY_HOURS_MAX = 720;

export const OPERATOR_SETTINGS = settings({
  POSTERN_OPERATORS: [
    z
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
    "",
    "Email addresses of the operators, separated by commas, who may sign in at `/operator`, see `docs/site/operator.md`. Not set: no operator pages.",
  ],
  POSTERN_OPERATOR_APPROVAL: [
    z.enum(["off", "two_person"], { error: "must be off or two_person" }).default("off"),
    "off",
    "`two_person`: a grant, adjustment, freeze or write-off on the operator pages waits until another operator approves it. The command line is not affected.",
  ],
  POSTERN_ALERT_WEBHOOK_URL: [
    httpUrl.optional(),
    "",
    "The URL that gets the operator's alerts as signed requests, see `docs/site/operations.md#alerts`.",
  ],
  POSTERN_ALERT_WEBHOOK_SECRET: [
    z
      .string()
      .regex(
        /^whsec_[A-Za-z0-9+/]{32,}={0,2}$/,
        "must be whsec_ and at least 24 bytes as base64; generate one with: echo whsec_$(openssl rand -base64 32)",
      )
      .optional(),
    "",
    "The signing secret of the alert webhook: `whsec_` and at least 24 bytes as base64.",
  ],
  POSTERN_VERIFY_LEDGER_HOURS: [
    integer(0, VERIFY_HOURS_MAX).optional(),
    "24; 0 in development",
    "How often the gateway verifies its ledger and alerts the operator of differences, see `docs/site/operations.md#money`. 0: never.",
  ],
  POSTERN_LEDGER_PROOFS: [
    z.enum(["on", "off"], { error: "must be on or off" }).default("on"),
    "on",
    "Whether the gateway publishes the roots of its ledger every day, with which customers check their balances, see `docs/site/ledger-proofs.md`. They also show the sum of all balances. `off`: nothing new is published.",
  ],
  POSTERN_ALERT_EMAIL: [
    z
      .string()
      .refine((address) => emailError(address) === undefined, "must be an email address")
      .optional(),
    "",
    "The email address that gets the operator's alerts. Needs `POSTERN_SMTP_URL`.",
  ],
});

export interface AlertConfig {
  readonly webhook?: { readonly url: string; readonly secret: Secret };
  readonly email?: string;
}

interface AlertEnv {
  readonly POSTERN_ALERT_WEBHOOK_URL?: string | undefined;
  readonly POSTERN_ALERT_WEBHOOK_SECRET?: string | undefined;
  readonly POSTERN_ALERT_EMAIL?: string | undefined;
  readonly POSTERN_SMTP_URL?: string | undefined;
}

export function alertConfigFrom(env: AlertEnv): AlertConfig {
  const { POSTERN_ALERT_WEBHOOK_URL: url, POSTERN_ALERT_WEBHOOK_SECRET: signing } = env;
  const { POSTERN_ALERT_EMAIL: email } = env;
  return {
    ...(url === undefined || signing === undefined
      ? {}
      : { webhook: { url, secret: secret(signing) } }),
    ...(email === undefined ? {} : { email }),
  };
}

function alertConfigErrors(env: AlertEnv): readonly string[] {
  const isPaired =
    (env.POSTERN_ALERT_WEBHOOK_URL === undefined) ===
    (env.POSTERN_ALERT_WEBHOOK_SECRET === undefined);
  return [
    ...(isPaired
      ? []
      : ["POSTERN_ALERT_WEBHOOK_URL and POSTERN_ALERT_WEBHOOK_SECRET must be set together"]),
    ...(env.POSTERN_ALERT_EMAIL !== undefined && env.POSTERN_SMTP_URL === undefined
      ? ["POSTERN_ALERT_EMAIL needs POSTERN_SMTP_URL"]
      : []),
  ];
}

interface OperatorEnv extends AlertEnv {
  readonly POSTERN_OPERATOR_APPROVAL: "off" | "two_person";
  readonly POSTERN_OPERATORS: readonly string[];
}

export function operatorConfigErrors(
  env: OperatorEnv,
  { development, identity }: { readonly development: boolean; readonly identity?: unknown },
): readonly string[] {
  const canSignIn = env.POSTERN_OPERATORS.length === 0 || development || identity !== undefined;
  const isAlone = env.POSTERN_OPERATORS.length === 1;
  return [
    ...(isAlone && env.POSTERN_OPERATOR_APPROVAL === "two_person"
      ? ["POSTERN_OPERATORS must name two operators if POSTERN_OPERATOR_APPROVAL is two_person"]
      : []),
    ...(canSignIn
      ? []
      : ["OIDC_ISSUER must be set if POSTERN_OPERATORS is: operators sign in with it"]),
    ...alertConfigErrors(env),
  ];
}
