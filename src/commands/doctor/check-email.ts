// `doctor` on email: whether the SMTP server accepts a connection, EHLO and the credentials. Nothing is sent.

import type { EmailConfig } from "../../config/email-settings.ts";
import { verifySmtp } from "../../email/smtp.ts";
import type { Finding } from "./finding.ts";

/** No finding if emails are off. */
export async function checkEmail(settings: EmailConfig | undefined): Promise<readonly Finding[]> {
  if (settings === undefined) return [];
  const { host } = new URL(settings.url.reveal());
  const problem = await verifySmtp(settings);
  if (problem === undefined)
    return [
      {
        status: "ok",
        check: "email",
        message: `${host} accepts the connection and the credentials`,
      },
    ];
  return [
    {
      status: "fail",
      check: "email",
      message: `${host} does not accept emails: ${problem}`,
      effect:
        "No receipts, alerts and reminders are sent; they are kept and tried again for some days.",
      hint: "Check host, port, user and password in POSTERN_SMTP_URL: smtp:// upgrades to TLS (usually port 587), smtps:// begins with it (465).",
    },
  ];
}
