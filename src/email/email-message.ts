// The subject and text of each email. A message contains no secrets, and its links open pages that ask for sign-in.

import type { EmailType } from "./email-types.ts";
import type { Email } from "./emails.ts";

export interface EmailMessage {
  readonly subject: string;
  readonly text: string;
}

interface Template {
  readonly subject: string;
  readonly lines: readonly string[];
  readonly link: { readonly label: string; readonly path: string };
}

interface TemplateInput {
  readonly workspace: string;
  readonly accountId: string;
  readonly text: (field: string) => string;
  /** A code such as `payment_failed`, in words. */
  readonly words: (field: string) => string;
  readonly usd: (field: string) => string;
  /** The path of the receipt of an invoice. */
  readonly receipt: (invoiceId: string) => string;
}

/** A name with these could be a link or an address, which a stranger may have chosen. */
const LINK_LIKE = /[./:@\\]/;

export interface EmailLinks {
  readonly baseUrl: string;
  /** The path of the receipt of a paid invoice. */
  readonly receiptPath: (invoiceId: string) => string;
}

export function emailMessage(email: Email, { baseUrl, receiptPath }: EmailLinks): EmailMessage {
  const { accountId, workspaceName, data, type } = email;
  const isNameSafe = workspaceName !== null && !LINK_LIKE.test(workspaceName);
  const template = templateOf(type)({
    accountId,
    workspace: isNameSafe ? `“${workspaceName}”` : accountId,
    text: (field) => textOf(data[field]),
    words: (field) => textOf(data[field]).replaceAll("_", " "),
    receipt: receiptPath,
    usd: (field) => `$${Number(data[field] ?? 0).toFixed(2)}`,
  });
  const { subject, lines, link } = template;
  const paragraphs = [
    ...lines,
    `${link.label}: ${baseUrl}${link.path}`,
    `--\nPostern at ${baseUrl}\nChoose which emails you get: ${baseUrl}/emails`,
  ];
  return { subject: oneLine(subject), text: `${paragraphs.join("\n\n")}\n` };
}

function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? oneLine(String(value)) : "";
}

function oneLine(value: string): string {
  return value.replaceAll(/\s+/g, " ").trim();
}

function templateOf(type: string): (input: TemplateInput) => Template {
  const found = Object.entries(TEMPLATES).find(([name]) => name === type);
  if (found === undefined) throw new Error(`no template for emails of type ${type}`);
  return found[1];
}

const billing = (accountId: string): Template["link"] => ({
  label: "Review billing",
  path: `/console/${accountId}/billing`,
});
const keys = (accountId: string): Template["link"] => ({
  label: "Review the key",
  path: `/console/${accountId}/keys`,
});

const TEMPLATES: Readonly<Record<EmailType, (input: TemplateInput) => Template>> = {
  "claim.started": ({ accountId }) => ({
    subject: "An agent asks you to take over its account",
    lines: [
      `An AI agent named this email address when it asked a person to claim or join the account ${accountId}.`,
      "If you expect this, open the page below, sign in with this email address and enter the six-digit code that the agent gives you. The page shows what you would take over before you confirm.",
      "If you do not expect this, do nothing: the request expires after 15 minutes.",
    ],
    link: { label: "Review the request", path: "/claim" },
  }),
  "member.invited": ({ workspace, text }) => ({
    subject: `Invitation to the workspace ${workspace}`,
    lines: [
      `${text("by")} invites you to join the workspace ${workspace} with the role ${text("role")}.`,
      "Sign in with this email address to accept or decline. The invitation expires after 14 days.",
    ],
    link: {
      label: "Open the invitation",
      path: `/console?invitation=${encodeURIComponent(text("invitation_id"))}`,
    },
  }),
  "allowance.requested": ({ workspace, accountId, text }) => ({
    subject: `${text("email")} asks for an allowance in ${workspace}`,
    lines: [
      `${text("email")} is a developer in ${workspace} and cannot create keys without an allowance.`,
      "The allowance is what the keys of this person may spend together.",
    ],
    link: { label: "Set the allowance", path: `/console/${accountId}/members` },
  }),
  "balance.low": ({ workspace, accountId, usd }) => ({
    subject: `Balance of ${workspace} is below ${usd("below_usd")}`,
    lines: [`The balance of ${workspace} is ${usd("usd")}. Calls are rejected once it is used up.`],
    link: billing(accountId),
  }),
  "balance.empty": ({ workspace, accountId }) => ({
    subject: `Balance of ${workspace} is used up`,
    lines: [
      `The balance of ${workspace} is used up. Calls that cost credits are rejected until you buy credits.`,
    ],
    link: billing(accountId),
  }),
  "budget.reached": ({ workspace, accountId, text, usd }) => ({
    subject: `${text("percent")}% of the ${text("window")} budget of ${workspace} is used`,
    lines: [
      `${workspace} has used ${usd("used_usd")} of its budget of ${usd("limit_usd")} per ${text("window")}. It resets at ${text("resets_at")}.`,
    ],
    link: { label: "Review budgets", path: `/console/${accountId}/budgets` },
  }),
  "key.limit_reached": ({ workspace, accountId, text, usd }) => ({
    subject: `A key of ${workspace} has used ${text("percent")}% of its limit`,
    lines: [
      `The key ${text("key_id")} of ${workspace} has spent ${usd("spent_usd")} of its limit of ${usd("limit_usd")}.`,
    ],
    link: keys(accountId),
  }),
  "key.expiring": ({ workspace, accountId, text }) => ({
    subject: `A key of ${workspace} expires soon`,
    lines: [
      `The key that ends in ${text("last4")} of ${workspace} expires at ${text("expires_at")}. Requests with it are rejected from then on. Create a new key, or change its expiry.`,
    ],
    link: keys(accountId),
  }),
  "invoice.paid": ({ workspace, text, usd, receipt }) => ({
    subject: `Receipt: ${usd("amount_usd")} of credits for ${workspace}`,
    lines: [
      `${workspace} bought credits worth ${usd("amount_usd")}. The receipt shows fee, tax and total, and has the invoice as PDF.`,
      "Anyone with the link can open the receipt.",
    ],
    link: { label: "Open the receipt", path: receipt(text("invoice_id")) },
  }),
  "top_up.failed": ({ workspace, accountId, text, words, usd }) => ({
    subject: `Automatic purchase for ${workspace} failed`,
    lines: [
      `An automatic purchase of ${usd("amount_usd")} for ${workspace} failed: ${words("reason")}.`,
      text("next_try_at") === ""
        ? "It is not retried automatically."
        : `The next attempt is at ${text("next_try_at")}.`,
    ],
    link: billing(accountId),
  }),
  "top_up.stopped": ({ workspace, accountId, words }) => ({
    subject: `Auto top-up of ${workspace} was stopped`,
    lines: [`Auto top-up of ${workspace} was stopped: ${words("reason")}.`],
    link: billing(accountId),
  }),
  "top_up.ceiling_reached": ({ workspace, accountId, text, usd }) => ({
    subject: `Auto top-up of ${workspace} reached its monthly limit`,
    lines: [
      `${workspace} has bought ${usd("bought_this_month_usd")} this month; the limit is ${usd("monthly_ceiling_usd")}. Auto top-up continues at ${text("resumes_at")}.`,
    ],
    link: billing(accountId),
  }),
  "webhook.disabled": ({ workspace, accountId, text }) => ({
    subject: `A webhook of ${workspace} was disabled`,
    lines: [
      `The webhook to ${text("host")} of ${workspace} was disabled: ${text("reason")}. It receives no events until you enable it again.`,
    ],
    link: { label: "Review the webhook", path: `/console/${accountId}/webhooks` },
  }),
  "sink.disabled": ({ workspace, accountId, text }) => ({
    subject: `A sink of ${workspace} was disabled`,
    lines: [
      `The sink ${text("sink")} of ${workspace}, at ${text("host")}, was disabled: ${text("reason")}. Save it again to send the usage of new calls.`,
    ],
    link: { label: "Review the sinks", path: `/console/${accountId}/sinks` },
  }),
  "member.added": ({ workspace, accountId, text }) => ({
    subject: `${text("email")} joined ${workspace}`,
    lines: [`${text("email")} joined the workspace ${workspace} with the role ${text("role")}.`],
    link: { label: "Review the members", path: `/console/${accountId}/members` },
  }),
};
