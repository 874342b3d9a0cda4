// Which events are also sent by email, to which members, and the categories in which a person can turn emails off.

import type { Role } from "../accounts/members.ts";
import type { EMAILED_TYPES } from "../activity/events.ts";

/** Categories with their labels on the page of email settings. */
export const EMAIL_CATEGORIES = {
  claims: "An agent asks you to claim or join an account",
  invitations: "A person invites you to a workspace",
  balance: "The balance of a workspace is low or used up",
  budgets: "A budget or the limit of a key reaches a threshold",
  receipts: "A purchase of credits is paid",
  top_ups: "An automatic purchase fails or stops",
  keys: "A key expires soon",
  webhooks: "A webhook or a sink is disabled because its destination keeps failing",
  members: "A person joins a workspace, or asks for an allowance",
} as const;
export type EmailCategory = keyof typeof EMAIL_CATEGORIES;

// Safe because it has exactly the keys of EMAIL_CATEGORIES.
export const EMAIL_CATEGORY_NAMES = Object.keys(EMAIL_CATEGORIES) as EmailCategory[];

const OWNERS_AND_ADMINS: readonly Role[] = ["owner", "admin"];
const PAYERS: readonly Role[] = ["owner", "admin", "billing"];

export interface MemberEmail {
  readonly category: EmailCategory;
  readonly roles: readonly Role[];
  /** Not to the person whom the event names. */
  readonly exceptNamed?: boolean;
  /** Also to the billing contacts of the account. */
  readonly toContacts?: boolean;
}

/** An email to the address in the event's data, whose owner may never have signed in. */
interface NamedRecipientEmail {
  readonly category: EmailCategory;
  readonly roles?: undefined;
}

const EVENT_EMAILS = {
  "claim.started": { category: "claims" },
  "member.invited": { category: "invitations" },
  "balance.low": { category: "balance", roles: PAYERS },
  "balance.empty": { category: "balance", roles: PAYERS },
  "budget.reached": { category: "budgets", roles: PAYERS },
  "key.limit_reached": { category: "budgets", roles: OWNERS_AND_ADMINS },
  "key.expiring": { category: "keys", roles: OWNERS_AND_ADMINS },
  "invoice.paid": { category: "receipts", roles: PAYERS, toContacts: true },
  "top_up.failed": { category: "top_ups", roles: PAYERS },
  "top_up.stopped": { category: "top_ups", roles: PAYERS },
  "top_up.ceiling_reached": { category: "top_ups", roles: PAYERS },
  "webhook.disabled": { category: "webhooks", roles: OWNERS_AND_ADMINS },
  "sink.disabled": { category: "webhooks", roles: OWNERS_AND_ADMINS },
  "allowance.requested": { category: "members", roles: ["owner"] },
  "member.added": { category: "members", roles: OWNERS_AND_ADMINS, exceptNamed: true },
} as const satisfies Record<(typeof EMAILED_TYPES)[number], MemberEmail | NamedRecipientEmail>;

export const NAMED_RECIPIENT_EMAILS = ["claim.started", "member.invited"] as const;

export type EmailType = keyof typeof EVENT_EMAILS;

export function eventEmailOf(type: string): MemberEmail | NamedRecipientEmail | undefined {
  return Object.entries(EVENT_EMAILS).find(([name]) => name === type)?.[1];
}
