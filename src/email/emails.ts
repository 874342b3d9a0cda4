// The queue of emails: one row per recipient of an event. It owns the tables email and email_opt_out. email-worker.ts sends
// them. A worker leases a due email by moving `due_at` ahead.

import { readBillingDetails } from "../accounts/billing-details.ts";
import { recordAuditEntry } from "../activity/audit.ts";
import type { StoredEvent } from "../activity/events.ts";
import { newId } from "../base/id.ts";
import { foldEmail } from "../base/text/email.ts";
import { DAY_MS, MINUTE_MS } from "../base/time.ts";
import type { DueTable } from "../store/clamp-due.ts";
import {
  type Column,
  enumValue,
  integer,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
} from "../store/db.ts";
import {
  EMAIL_CATEGORY_NAMES,
  type EmailCategory,
  eventEmailOf,
  type MemberEmail,
  NAMED_RECIPIENT_EMAILS,
} from "./email-types.ts";

/** Longer than any attempt takes. */
const LEASE_MS = 2 * MINUTE_MS;
/** Anyone can name an address in a claim or an invitation, so each address gets only a few of these a day. */
const UNSOLICITED_PER_DAY_MAX = 5;
/** Sent and failed emails are kept for the page that lists them in development. */
const RETENTION_MS = 7 * DAY_MS;

export const EMAIL_DUE_TABLE: DueTable = {
  table: "email",
  where: "status = 'pending'",
  maxAheadMs: DAY_MS,
};

const EMAIL_STATUSES = ["pending", "sent", "failed"] as const;
type EmailStatus = (typeof EMAIL_STATUSES)[number];

export interface Email {
  readonly id: string;
  readonly accountId: string;
  readonly type: string;
  readonly address: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly status: EmailStatus;
  readonly tries: number;
  readonly error: string | null;
  readonly createdAt: number;
  /** null if the workspace has no name. */
  readonly workspaceName: string | null;
}

export interface LeasedEmail extends Email {
  readonly lease: string;
}

interface Recipient {
  readonly address: string;
  readonly personId: string | null;
}

const INSERT_COLUMNS: readonly Column[] = [
  "id:text",
  "account_id:text",
  "type:text",
  "address:text",
  "person_id:text",
  "data:text",
  "status:text",
  "tries:bigint",
  "due_at:bigint",
  "created_at:bigint",
];

/** Queues the emails of an event that was taken from the outbox in the same transaction. */
export async function queueEmails(tx: Tx, event: StoredEvent): Promise<void> {
  const { type, accountId, data, createdAt } = event;
  const email = eventEmailOf(type);
  if (email === undefined) return;
  const recipients =
    email.roles === undefined
      ? await findNamedRecipient(tx, event, email.category)
      : await listMemberRecipients(tx, event, email);
  await tx.insertMany(
    "email",
    INSERT_COLUMNS,
    recipients.map(({ address, personId }) => [
      newId("eml", createdAt),
      accountId,
      type,
      address,
      personId,
      JSON.stringify(data),
      "pending",
      0,
      createdAt,
      createdAt,
    ]),
  );
}

/** The members whose role receives the email and who did not turn it off. */
async function listMemberRecipients(
  tx: Tx,
  { accountId, data }: StoredEvent,
  { roles, category, exceptNamed = false, toContacts = false }: MemberEmail,
): Promise<readonly Recipient[]> {
  const rows = await tx.all(
    `select person.id, person.email from membership join person on person.id = membership.person_id
     where account_id = ? and role in (${roles.map(() => "?").join(", ")})
       and not exists (select 1 from email_opt_out where email_opt_out.person_id = person.id and category = ?)
     order by person.id`,
    [accountId, ...roles, category],
  );
  const members = rows
    .map((row) => ({ address: text(row, "email"), personId: text(row, "id") }))
    .filter(({ address }) => !exceptNamed || address !== data["email"]);
  const contacts = toContacts ? (await readBillingDetails(tx, accountId)).contacts : [];
  const addresses = new Set(members.map(({ address }) => foldEmail(address)));
  return [
    ...members,
    ...contacts
      .filter((address) => !addresses.has(address))
      .map((address) => ({ address, personId: null })),
  ];
}

/** The address that the event names, unless its owner turned the category off or it got several today. */
async function findNamedRecipient(
  tx: Tx,
  { data, createdAt }: StoredEvent,
  category: EmailCategory,
): Promise<readonly Recipient[]> {
  const address = String(data["email"]);
  const folded = foldEmail(address);
  const recent = await tx.get(
    `select count(*) as count from email where address = ? and created_at > ?
     and type in (${NAMED_RECIPIENT_EMAILS.map(() => "?").join(", ")})`,
    [folded, createdAt - DAY_MS, ...NAMED_RECIPIENT_EMAILS],
  );
  if (recent !== undefined && integer(recent, "count") >= UNSOLICITED_PER_DAY_MAX) return [];
  const optOut = await tx.get(
    `select person_id from email_opt_out join person on person.id = person_id
     where person.email in (?, ?) and category = ?`,
    [address, folded, category],
  );
  return optOut === undefined ? [{ address: folded, personId: null }] : [];
}

export async function hasDueEmail(reader: Reader, now: number): Promise<boolean> {
  const row = await reader.get(
    "select id from email where status = 'pending' and due_at <= ? limit 1",
    [now],
  );
  return row !== undefined;
}

/**
 * Leases the oldest due email of the next account by id, so that an account with many emails does not delay those of others.
 * Two workers never lease the same email.
 */
export async function leaseEmail(
  tx: Tx,
  { now, after, lease }: { readonly now: number; readonly after: string; readonly lease: string },
): Promise<LeasedEmail | undefined> {
  const leased = await tx.get(
    `update email set due_at = ?, tries = tries + 1, lease = ? where status = 'pending' and due_at <= ?
     and id = (select id from email where status = 'pending' and account_id > ? and due_at <= ?
       order by account_id, due_at, id limit 1)
     returning id`,
    [now + LEASE_MS, lease, now, after, now],
  );
  if (leased === undefined) return undefined;
  const row = await tx.get(`${SELECT_EMAIL} where email.id = ?`, [text(leased, "id")]);
  return row && Object.assign(toEmail(row), { lease });
}

export interface EmailOutcome {
  readonly status: EmailStatus;
  readonly dueAt: number;
  readonly error: string | null;
  readonly now: number;
}

/** Does nothing if another worker took the email over. */
export async function recordEmailAttempt(
  tx: Tx,
  { id, lease }: LeasedEmail,
  { status, dueAt, error, now }: EmailOutcome,
): Promise<void> {
  await tx.run(
    "update email set status = ?, due_at = ?, error = ?, lease = null, ended_at = ? where id = ? and lease = ?",
    [status, dueAt, error, status === "pending" ? null : now, id, lease],
  );
}

/** The newest first. */
export async function listEmails(reader: Reader, limit: number): Promise<readonly Email[]> {
  const rows = await reader.all(`${SELECT_EMAIL} order by email.id desc limit ?`, [limit]);
  return rows.map(toEmail);
}

export async function sweepEmails(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from email where created_at < ?", [now - RETENTION_MS]);
}

export async function listOptOuts(
  reader: Reader,
  personId: string,
): Promise<ReadonlySet<EmailCategory>> {
  const rows = await reader.all("select category from email_opt_out where person_id = ?", [
    personId,
  ]);
  return new Set(rows.map((row) => enumValue(row, "category", EMAIL_CATEGORY_NAMES)));
}

interface OptOutAct {
  readonly personId: string;
  readonly network: string | null;
  readonly now: number;
}

export async function setOptOuts(
  tx: Tx,
  { personId, network, now }: OptOutAct,
  categories: readonly EmailCategory[],
): Promise<void> {
  await tx.run("delete from email_opt_out where person_id = ?", [personId]);
  for (const category of categories)
    await tx.run(
      "insert into email_opt_out (person_id, category) values (?, ?) on conflict do nothing",
      [personId, category],
    );
  await recordAuditEntry(tx, {
    accountId: null,
    actor: { type: "person", id: personId },
    action: "email_settings.changed",
    target: null,
    detail: { off: categories },
    network,
    now,
  });
}

const SELECT_EMAIL =
  "select email.*, account.name as workspace_name from email join account on account.id = email.account_id";

function toEmail(row: Row): Email {
  const data: unknown = JSON.parse(text(row, "data"));
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    type: text(row, "type"),
    address: text(row, "address"),
    data: typeof data === "object" && data !== null ? { ...data } : {},
    status: enumValue(row, "status", EMAIL_STATUSES),
    tries: integer(row, "tries"),
    error: textOrNull(row, "error"),
    createdAt: integer(row, "created_at"),
    workspaceName: textOrNull(row, "workspace_name"),
  };
}
