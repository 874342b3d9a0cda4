// The audit log. It owns the table audit. An entry is written in the transaction of its change, contains no secrets,
// and is never changed or deleted, except that closing an account erases its personal data.

import { newIdAfter } from "../base/id.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import { DAY_MS } from "../base/time.ts";
import { networksOf } from "../http/request/client-ip.ts";
import {
  enumValue,
  integer,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
} from "../store/db.ts";

export const ACTOR_TYPES = ["key", "person", "operator", "system"] as const;
type ActorType = (typeof ACTOR_TYPES)[number];

export interface Actor {
  readonly type: ActorType;
  readonly id: string;
}

/** Actions with their descriptions for the documentation. */
export const AUDIT_ACTIONS = {
  "account.created": "An agent or a person created the account.",
  "account.renamed": "The name of the account was changed.",
  "account.receipts_changed": "Whether every call gets a signed receipt was changed.",
  "account.prompt_retention_changed":
    "How long requests and replies of keys with prompt logging are kept was changed.",
  "account.data_policy_changed":
    "What providers may do with the data of the account's calls was changed.",
  "account.claimed": "A person claimed the account.",
  "account.credited": "An operator granted credit.",
  "account.adjusted": "An operator adjusted the balance.",
  "account.closing": "The account was closed; it can be reopened for 14 days.",
  "account.reopened": "The account was reopened.",
  "account.frozen": "An operator froze the account.",
  "account.unfrozen": "An operator unfroze the account.",
  "agent_session.stopped": "A session of agents was stopped.",
  "allowance.requested": "A developer asked the owner for an allowance.",
  "app.approved": "A person let an app have a key.",
  "audit_stream.changed": "The stream of the audit log was set up or changed.",
  "audit_stream.removed": "The stream of the audit log was removed.",
  "auto_top_up.changed": "Auto top-up was enabled, or its amounts were changed.",
  "auto_top_up.stopped": "The gateway stopped auto top-up.",
  "auto_top_up.turned_off": "Auto top-up was disabled.",
  "balance_alert.changed": "The threshold of `balance.low` was changed.",
  "batch.created": "A batch was created.",
  "batch.cancelled": "A batch was canceled.",
  "batch.deleted": "A batch and its results were deleted.",
  "billing_details.changed": "The billing details of invoices were changed.",
  "block.added": "An operator blocked a network or an email domain.",
  "block.removed": "An operator removed the block of a network or an email domain.",
  "budget.changed": "A daily or monthly budget was set or removed.",
  "change.rejected": "An operator rejected or withdrew a requested change.",
  "change.requested":
    "An operator requested a change of an account, which another operator must approve.",
  "claim.started": "A key asked a person to claim or join the account.",
  "claim.declined": "The person declined the claim.",
  "claim.locked": "A claim ended after five wrong codes.",
  "debt.written_off": "An operator wrote off the account's debt.",
  "device.approved": "A person let a program on their device have a key.",
  "directory.changed": "The role without a group, or what happens to keys, was changed.",
  "directory.disabled": "Directory sync was disabled.",
  "directory.enabled": "Directory sync was enabled, with its first token.",
  "directory.token_rotated": "The token of directory sync was replaced.",
  "domain.added": "An owner added an email domain, which is not verified yet.",
  "domain.lost": "The TXT record of a verified domain was missing for a week.",
  "domain.removed": "An owner removed an email domain.",
  "domain.verified": "The TXT record of an email domain was found.",
  "email_settings.changed": "A person chose which emails they get.",
  "file.created": "A file was uploaded.",
  "file.deleted": "A file was deleted.",
  "guardrail.saved": "A guardrail was created, or its settings were changed.",
  "guardrail.deleted": "A guardrail was deleted.",
  "incident.posted": "An operator wrote on the status page.",
  "invitation.declined": "The invited person declined.",
  "invitation.withdrawn": "An owner or admin withdrew an invitation.",
  "invoice.created": "An invoice for credits was created.",
  "invoice.marked_paid": "An operator marked an invoice as paid by bank transfer.",
  "invoice.marked_refunded": "An operator marked a bank transfer as refunded.",
  "invoice.voided": "An invoice was voided.",
  "key.created": "A key was created.",
  "key.changed": "A setting of a key was changed: name, limit, expiry, scopes, policy or alerts.",
  "key.rotated": "The secret of a key was replaced.",
  "key.revoked": "A key was revoked.",
  "limit.changed": "An operator changed a limit of the gateway.",
  "mcp_client.approved": "A person let an MCP client have a key.",
  "mcp_server.saved": "An MCP server was added, or its settings were changed.",
  "mcp_server.deleted": "An MCP server was deleted.",
  "member.changed": "The owner changed the role or the allowance of a member.",
  "member.invited": "An owner invited a person.",
  "member.added": "A person joined the workspace.",
  "member.removed": "A person left the workspace or was removed.",
  "member.moved_to_sso":
    "A member signed in with single sign-on; their role and keys moved to that identity.",
  "operator.refused": "A person who is not an operator signed in to the operator console.",
  "operator.signed_in": "An operator signed in.",
  "operator.signed_out": "An operator signed out.",
  "owner.changed": "Ownership was transferred to another member.",
  "payment.marked_absent": "An operator marked an x402 payment as not on chain.",
  "payment_method.removed": "The payment method was removed.",
  "payment_method.saved": "An owner saved a payment method.",
  "preset.saved": "A version of a preset was saved.",
  "preset.deleted": "A preset was deleted.",
  "prompt.viewed": "A person viewed the request and reply of a call.",
  "provider_key.added": "A provider key was added.",
  "provider_key.changed": "The name, the API keys or `allow_store` of a provider key was changed.",
  "provider_key.deleted": "A provider key was deleted.",
  "response_storage.changed": "Which responses are stored, or for how long, was changed.",
  "scim.group_changed": "The directory changed a group or its members.",
  "scim.group_created": "The directory created a group.",
  "scim.group_deleted": "The directory deleted a group.",
  "scim.group_role_changed": "The owner changed the role of a group.",
  "scim.user_changed": "The directory changed, activated or deactivated a user.",
  "scim.user_created": "The directory created a user.",
  "scim.user_deleted": "The directory deleted a user.",
  "service_credit.posted": "The gateway credited a breach of a service level.",
  "service_level.added": "An operator added a service level.",
  "service_level.ended": "An operator turned off a service level.",
  "session.ended": "A person ended their own sessions.",
  "sink.saved": "A sink was created, or its settings were changed.",
  "sink.deleted": "A sink was deleted.",
  "sink.disabled": "A sink was disabled because its destination kept failing.",
  "sso.bypassed": "The owner signed in without the single sign-on that the workspace requires.",
  "sso.changed": "The identity provider of the workspace was set or changed.",
  "sso.removed": "The identity provider of the workspace was removed.",
  "sso.requirement_changed": "Single sign-on was made required, or is no longer required.",
  "sso.signed_in": "A person signed in with the workspace's identity provider.",
  "webhook.created": "A webhook was created.",
  "webhook.changed": "A webhook was changed.",
  "webhook.deleted": "A webhook was deleted.",
  "webhook.delivery_replayed": "A webhook delivery was sent again.",
  "webhook.disabled": "A webhook was disabled because its endpoint kept failing.",
  "webhook.secret_rotated": "The signing secret of a webhook was rotated.",
  "webhook.tested": "A test event was sent to a webhook.",
} as const;
export type AuditAction = keyof typeof AUDIT_ACTIONS;

export type AuditDetail = Readonly<
  Record<string, string | number | boolean | null | readonly string[]>
>;

/** Who changes something in an account, from where, and when: the second argument of a function that changes state. */
export interface Act {
  readonly accountId: string;
  readonly actor: Actor;
  /** The client's network, which keys of the account may see; null if it is not known. */
  readonly network: string | null;
  /** The client's address, which only the owner sees. */
  readonly ip?: string | null;
  readonly now: number;
}

interface Request {
  readonly clientIp: string;
  readonly now: number;
}

export function keyAct(
  { accountId, keyId }: { readonly accountId: string; readonly keyId: string },
  { clientIp, now }: Request,
): Act {
  const actor = { type: "key", id: keyId } as const;
  return { accountId, actor, network: networksOf(clientIp)[1], ip: clientIp, now };
}

export function personAct(accountId: string, personId: string, { clientIp, now }: Request): Act {
  const actor = { type: "person", id: personId } as const;
  return { accountId, actor, network: networksOf(clientIp)[1], ip: clientIp, now };
}

export interface NewAuditEntry {
  /** null for actions outside an account, such as an operator's sign-in. */
  readonly accountId: string | null;
  readonly actor: Actor;
  readonly action: AuditAction;
  /** The id of the changed object. */
  readonly target: string | null;
  readonly detail?: AuditDetail;
  /** The client's network, which keys of the account may see. */
  readonly network: string | null;
  /** The client's address, which only the owner sees. */
  readonly ip?: string | null;
  readonly now: number;
}

export interface AuditEntry {
  readonly id: string;
  readonly accountId: string | null;
  readonly at: number;
  readonly actor: Actor;
  readonly action: string;
  readonly target: string | null;
  readonly detail: Readonly<Record<string, unknown>>;
  readonly network: string | null;
  /** Null after 90 days. */
  readonly ip: string | null;
}

/** Must be called in the transaction of the change. */
export async function recordAuditEntry(tx: Tx, entry: NewAuditEntry): Promise<void> {
  const { accountId, actor, action, target, detail = {}, network, ip = null, now } = entry;
  // Ids follow the order of writing, even across processes whose clocks differ.
  const last = await tx.get("select id from audit order by id desc limit 1");
  const id = newIdAfter("aud", now, last === undefined ? "" : text(last, "id"));
  await tx.run(
    `insert into audit (id, account_id, at, actor_type, actor_id, action, target, detail, network, ip)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [
      id,
      accountId,
      now,
      actor.type,
      actor.id,
      action,
      target,
      JSON.stringify(detail),
      network,
      ip === "" ? null : ip,
    ],
  );
  if (accountId !== null) await queueForStream(tx, { accountId, auditId: id, now });
}

/** How long the owner sees addresses. */
const IP_RETENTION_DAYS = 90;

export async function eraseOldAddresses(tx: Tx, now: number): Promise<void> {
  await tx.run("update audit set ip = null where ip is not null and at < ?", [
    now - IP_RETENTION_DAYS * DAY_MS,
  ]);
}

export interface AuditFilter {
  readonly action?: AuditAction | undefined;
  readonly actor?: string | undefined;
  readonly target?: string | undefined;
}

/** Newest first. */
export async function listAuditEntries(
  reader: Reader,
  accountId: string,
  page: PageRequest,
  filter: AuditFilter = {},
): Promise<Page<AuditEntry>> {
  const given = [
    ["action", filter.action],
    ["actor_id", filter.actor],
    ["target", filter.target],
  ] as const;
  const wanted = given.flatMap(([column, value]) => (value === undefined ? [] : [[column, value]]));
  const rows = await reader.all(
    `select * from audit where account_id = ? and id < ?${wanted.map(([column]) => ` and ${column} = ?`).join("")}
     order by id desc limit ?`,
    [
      accountId,
      page.cursor ?? maxId("aud"),
      ...wanted.map(([, value]) => value ?? null),
      page.limit + 1,
    ],
  );
  return toPage(rows.map(toAuditEntry), page.limit);
}

export interface AllAccountsAuditFilter extends AuditFilter {
  readonly accountId?: string | undefined;
}

/** Entries of all accounts and of none, for operators. */
export async function listAllAuditEntries(
  reader: Reader,
  page: PageRequest,
  { accountId, action, actor, target }: AllAccountsAuditFilter = {},
): Promise<Page<AuditEntry>> {
  const wanted = Object.entries({ account_id: accountId, action, actor_id: actor, target }).flatMap(
    ([column, value]) => (value === undefined ? [] : [[column, value] as const]),
  );
  const rows = await reader.all(
    `select * from audit where id < ?${wanted.map(([column]) => ` and ${column} = ?`).join("")} order by id desc limit ?`,
    [page.cursor ?? maxId("aud"), ...wanted.map(([, value]) => value), page.limit + 1],
  );
  return toPage(rows.map(toAuditEntry), page.limit);
}

export function toAuditEntry(row: Row): AuditEntry {
  const detail: unknown = JSON.parse(text(row, "detail"));
  return {
    id: text(row, "id"),
    accountId: textOrNull(row, "account_id"),
    at: integer(row, "at"),
    actor: { type: enumValue(row, "actor_type", ACTOR_TYPES), id: text(row, "actor_id") },
    action: text(row, "action"),
    target: textOrNull(row, "target"),
    detail: typeof detail === "object" && detail !== null ? { ...detail } : {},
    network: textOrNull(row, "network"),
    ip: textOrNull(row, "ip"),
  };
}

// The queue of an audit log stream: an entry is queued in the transaction that writes it, so none is lost or sent before it is
// committed, and a slow destination holds up no change.

interface QueuedEntry {
  readonly accountId: string;
  readonly auditId: string;
  readonly now: number;
}

/** Does nothing for an account without a stream. */
async function queueForStream(tx: Tx, { accountId, auditId, now }: QueuedEntry): Promise<void> {
  await tx.run(
    `insert into audit_stream_entry (account_id, audit_id, created_at)
     select account_id, ?, ? from audit_stream where account_id = ?`,
    [auditId, now, accountId],
  );
}
