// Settings of emails: the SMTP server and the sender.

import { z } from "zod";
import { type Secret, secret } from "../base/crypto/secret.ts";
import { emailError } from "../base/text/email.ts";
import { settings, type SettingValues } from "./setting-schemas.ts";

export interface EmailConfig {
  readonly url: Secret;
  readonly from: string;
}

export const EMAIL_SETTINGS = settings({
  POSTERN_SMTP_URL: [
    z
      .string()
      .refine(
        (url) => URL.canParse(url) && /^smtps?:\/\/[^/?#]+\/?$/.test(url),
        "must be smtp://user:password@host:port or smtps://…; write @ : / in user and password as %40 %3A %2F",
      )
      .optional(),
    "",
    "The SMTP server that sends emails: `smtp://user:password@host:587` or `smtps://…:465`, see `docs/site/emails.md`. Not set: no emails.",
  ],
  POSTERN_EMAIL_FROM: [
    z
      .string()
      .refine(
        (from) => emailError(/<([^<>]+)>$/.exec(from)?.[1] ?? from) === undefined,
        "must be an email address, or a name with an address in angle brackets",
      )
      .optional(),
    "",
    "The sender's address: `postern@example.com` or `Postern <postern@example.com>`.",
  ],
});

type EmailEnv = SettingValues<typeof EMAIL_SETTINGS>;

export function emailConfigFrom({ POSTERN_SMTP_URL: url, POSTERN_EMAIL_FROM: from }: EmailEnv): {
  readonly email?: EmailConfig;
} {
  return url === undefined || from === undefined ? {} : { email: { url: secret(url), from } };
}

export function emailConfigErrors(env: EmailEnv): readonly string[] {
  return (env.POSTERN_SMTP_URL === undefined) === (env.POSTERN_EMAIL_FROM === undefined)
    ? []
    : ["POSTERN_SMTP_URL and POSTERN_EMAIL_FROM must be set together"];
}
