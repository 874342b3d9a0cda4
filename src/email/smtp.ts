// Sends one message over SMTP with nodemailer, which is loaded with the first email.

import type { Secret } from "../base/crypto/secret.ts";
import { lazy } from "../base/lazy.ts";
import { SECOND_MS } from "../base/time.ts";

const TIMEOUT_MS = 20 * SECOND_MS;
const VERIFY_TIMEOUT_MS = 5 * SECOND_MS;
/** SMTP replies from 500 on are permanent, RFC 5321 section 4.2.1. */
const PERMANENT_FROM = 500;
/** The server does not accept the credentials, which the operator can correct. */
const AUTHENTICATION_REPLIES: ReadonlySet<number> = new Set([530, 534, 535, 538]);

export interface SmtpSettings {
  /** `smtp://` or `smtps://`, with user and password. */
  readonly url: Secret;
  readonly from: string;
}

export interface OutgoingEmail {
  readonly id: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

type SendResult =
  | { readonly isSent: true }
  | { readonly isSent: false; readonly isPermanent: boolean; readonly error: string };

export type SendEmail = (email: OutgoingEmail) => Promise<SendResult>;

async function createTransportOf({ url }: Pick<SmtpSettings, "url">, timeoutMs: number) {
  const { createTransport } = await import("nodemailer");
  return createTransport({
    url: url.reveal(),
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/** Connects, says EHLO and authenticates, without sending. Returns what is wrong. */
export async function verifySmtp(settings: Pick<SmtpSettings, "url">): Promise<string | undefined> {
  try {
    const transport = await createTransportOf(settings, VERIFY_TIMEOUT_MS);
    await transport.verify();
    transport.close();
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

export function createSmtpSender(settings: SmtpSettings, baseUrl: string): SendEmail {
  const { from } = settings;
  const { hostname } = new URL(baseUrl);
  const transport = lazy(() => createTransportOf(settings, TIMEOUT_MS));
  return async ({ id, to, subject, text }) => {
    try {
      const sender = await transport();
      await sender.sendMail({
        from,
        // As an object, so that the address cannot name further recipients.
        to: { name: "", address: to },
        subject,
        text,
        messageId: `<${id}@${hostname}>`,
        headers: { "auto-submitted": "auto-generated" },
      });
      return { isSent: true };
    } catch (error) {
      return { isSent: false, isPermanent: isPermanent(error), error: messageOf(error) };
    }
  };
}

function isPermanent(error: unknown): boolean {
  if (typeof error !== "object" || error === null || !("responseCode" in error)) return false;
  const { responseCode } = error;
  return (
    typeof responseCode === "number" &&
    responseCode >= PERMANENT_FROM &&
    !AUTHENTICATION_REPLIES.has(responseCode)
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
