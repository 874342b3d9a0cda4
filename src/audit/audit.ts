// Who did what in an account: written in the transaction of the change, and never changed or deleted. It owns the table
// audit. What was done is told without secrets.

import { newIdAfter } from "../base/id.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import {
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  integer,
} from "../store/db.ts";

export const ACTOR_TYPES = ["key", "person", "operator", "system"] as const;
type ActorType = (typeof ACTOR_TYPES)[number];

export interface Actor {
  readonly type: ActorType;
  readonly id: string;
}

/** What is written down, and a sentence about it for the documents. */
export const AUDIT_ACTIONS = {
  "account.created": "An agent opened the account.",
  "account.claimed": "A human took the account over.",
  "account.credited": "An operator granted credit.",
  "account.adjusted": "An operator corrected the balance.",
  "account.frozen": "An operator stopped the account from making calls.",
  "account.unfrozen": "An operator let the account make calls again.",
  "auto_top_up.changed": "Auto top-up was turned on, or its amounts were changed.",
  "auto_top_up.stopped": "Auto top-up stopped by itself.",
  "auto_top_up.turned_off": "Auto top-up was turned off.",
  "balance_alert.changed": "The mark of `balance.low` was set.",
  "budget.changed": "The workspace's budget for a day or a month was set, or taken away.",
  "claim.started": "A key asked a human to take the account over, or to join it.",
  "claim.declined": "The human declined.",
  "claim.locked": "Five wrong codes ended a claim.",
  "debt.written_off": "An operator bore what the account owed.",
  "invoice.created": "Credits were asked for: an invoice was made.",
  "invoice.marked_paid": "An operator said that an invoice was paid by bank transfer.",
  "invoice.marked_refunded": "An operator said that a transfer was given back.",
  "invoice.voided": "An invoice was withdrawn.",
  "key.created": "A key was minted.",
  "key.changed": "A key's name, limit or expiry was changed.",
  "key.revoked": "A key was revoked.",
  "invitation.withdrawn": "An owner took an invitation back.",
  "member.invited": "An owner invited somebody.",
  "member.added": "A human joined the workspace.",
  "member.removed": "A human was taken out of the workspace.",
  "operator.refused": "Somebody who is no operator signed in on the operator's page.",
  "operator.signed_in": "An operator signed in.",
  "operator.signed_out": "An operator signed out.",
  "owner.changed": "The workspace was handed over.",
  "payment.marked_absent": "An operator said that an agent's payment by x402 never arrived.",
  "payment_method.removed": "The saved payment method was removed.",
  "payment_method.saved": "An owner saved a payment method.",
  "provider_key.added": "A key at a provider was brought.",
  "provider_key.deleted": "A key at a provider was deleted.",
  "session.ended": "A human ended sessions of their own.",
  "webhook.created": "A webhook was set up.",
  "webhook.changed": "A webhook was changed.",
  "webhook.deleted": "A webhook was deleted.",
  "webhook.disabled": "A webhook was disabled, because its endpoint failed for long.",
  "webhook.secret_rotated": "A webhook got a new signing secret.",
} as const;
export type AuditAction = keyof typeof AUDIT_ACTIONS;

type Detail = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

/** Who did something, from where, and what else there is to say of them. */
export type AuditSource = Pick<NewAuditEntry, "actor" | "network" | "detail">;

export interface NewAuditEntry {
  /** null where it concerns a person and no account. */
  readonly accountId: string | null;
  readonly actor: Actor;
  readonly action: AuditAction;
  /** The id of what was changed. */
  readonly target: string | null;
  readonly detail?: Detail;
  /** The network that it came from, never a whole address. */
  readonly network: string | null;
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
}

/** Belongs in the transaction of what it tells of. */
export async function record(tx: Tx, entry: NewAuditEntry): Promise<void> {
  const { accountId, actor, action, target, detail = {}, network, now } = entry;
  // The list's order is the order of writing: what waited for a lock knows of whatever was written before it.
  const last = await tx.get("select id from audit order by id desc limit 1");
  const id = newIdAfter("aud", now, last === undefined ? "" : text(last, "id"));
  await tx.run(
    `insert into audit (id, account_id, at, actor_type, actor_id, action, target, detail, network)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [id, accountId, now, actor.type, actor.id, action, target, JSON.stringify(detail), network],
  );
}

export interface AuditFilter {
  readonly action?: AuditAction | undefined;
  readonly actor?: string | undefined;
  readonly target?: string | undefined;
}

/** An account's entries, the newest first. */
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

/** The entries of all accounts, and those that concern none; for an operator. */
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

function toAuditEntry(row: Row): AuditEntry {
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
  };
}
