// Members of a workspace and the permissions of their roles. It owns the table membership, where `owner_of` is unique.

import { type Act, type AuditDetail, recordAuditEntry } from "../activity/audit.ts";
import { emitEvent } from "../activity/events.ts";
import { Fault } from "../base/fault.ts";
import { type Nano, toNano, usdText } from "../base/money/money.ts";
import { type LimitWindow, toLimitWindow } from "../base/money/spend-window.ts";
import {
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  integer,
  integerOrNull,
} from "../store/db.ts";
import { requireOwnIdentity, requireOwnSignIn } from "./sso-identity.ts";

export const ROLES = ["owner", "admin", "developer", "billing", "viewer"] as const;
export type Role = (typeof ROLES)[number];

/** The roles that the owner can give to a member. */
export const MEMBER_ROLES = ["admin", "developer", "billing", "viewer"] as const;
export type MemberRole = (typeof MEMBER_ROLES)[number];

const MANAGERS = ["owner", "admin"] as const;
const CODERS = ["owner", "admin", "developer"] as const;

/** For all routes with a session. A developer creates keys within an allowance and changes only their own. */
export const ROLE_PERMISSIONS = {
  "workspace.read": ROLES,
  "workspace.rename": MANAGERS,
  "workspace.export": MANAGERS,
  "workspace.close": ["owner"],
  "workspace.leave": MEMBER_ROLES,
  "workspace.transfer": ["owner"],
  "usage.read": ROLES,
  "agent_sessions.stop": MANAGERS,
  "keys.read": ROLES,
  "keys.create": CODERS,
  "keys.change": CODERS,
  "keys.revoke": CODERS,
  "keys.raise": MANAGERS,
  "members.read": ROLES,
  "members.invite": MANAGERS,
  "members.change": ["owner"],
  "members.remove": MANAGERS,
  "budgets.read": ROLES,
  "budgets.change": ["owner", "admin", "billing"],
  "responses.read": MANAGERS,
  "responses.change": MANAGERS,
  "batches.manage": MANAGERS,
  "prompts.read": MANAGERS,
  "billing.read": ROLES,
  "billing.buy": ["owner", "admin", "billing"],
  "billing.auto_top_up": ["owner"],
  "provider_keys.read": MANAGERS,
  "provider_keys.change": MANAGERS,
  "presets.read": ROLES,
  "presets.change": MANAGERS,
  "guardrails.read": ROLES,
  "guardrails.change": MANAGERS,
  "sinks.read": MANAGERS,
  "sinks.change": MANAGERS,
  "mcp_servers.change": MANAGERS,
  "webhooks.read": MANAGERS,
  "webhooks.change": MANAGERS,
  "audit.read": MANAGERS,
  "audit.stream": ["owner"],
  "sso.read": MANAGERS,
  "sso.change": ["owner"],
} as const satisfies Record<string, readonly Role[]>;

export type Permission = keyof typeof ROLE_PERMISSIONS;

export function hasPermission(role: Role, permission: Permission): boolean {
  const roles: readonly Role[] = ROLE_PERMISSIONS[permission];
  return roles.includes(role);
}

/** What the live keys of a member may spend together, per window or in total. */
export interface Allowance {
  readonly limit: Nano;
  readonly window: LimitWindow | null;
}

export interface Member {
  readonly personId: string;
  readonly email: string;
  /** As the identity provider says it. */
  readonly name: string | null;
  readonly role: Role;
  readonly addedAt: number;
  /** The key through whose claim link the member joined. */
  readonly viaKeyId: string | null;
  readonly allowance: Allowance | undefined;
  /** Since when a developer waits for an allowance; null without a request. */
  readonly allowanceRequestedAt: number | null;
}

export interface Membership {
  readonly accountId: string;
  /** The name of the workspace; null if it has none. */
  readonly name: string | null;
  readonly role: Role;
  readonly addedAt: number;
  /** Whether the person must sign in with the workspace's identity provider to open it. */
  readonly needsSso: boolean;
}

export interface NewMember {
  readonly accountId: string;
  readonly personId: string;
  readonly role: Role;
  /** What added the person, such as the id of a claim attempt. */
  readonly via: string;
  /** The key of the claim attempt. */
  readonly viaKeyId?: string;
  readonly allowance?: Allowance | undefined;
  /** The network of the request; null if it is not known. */
  readonly network: string | null;
  readonly now: number;
}

/** Every change of members takes this lock first, so that changes are serialized. */
export async function lockWorkspace(
  tx: Tx,
  accountId: string,
): Promise<{ readonly isClaimed: boolean }> {
  const [row] = await tx.lockMany("account", "id", [accountId]);
  if (row === undefined) throw workspaceNotFound();
  return { isClaimed: row["claimed_at"] !== null };
}

/** A person must have the permission, a key the scope of its route. Locks the workspace: roles change after the transaction. */
export async function authorize(
  tx: Tx,
  { accountId, actor }: Act,
  permission: Permission,
): Promise<void> {
  if (actor.type !== "person") return;
  await lockWorkspace(tx, accountId);
  await requirePermission(tx, accountId, actor.id, permission);
}

/** The account must be locked and unclaimed. */
export async function claimWorkspace(
  tx: Tx,
  member: Omit<NewMember, "role" | "network">,
): Promise<void> {
  const updated = await tx.run(
    "update account set claimed_at = ? where id = ? and claimed_at is null",
    [member.now, member.accountId],
  );
  if (updated !== 1) throw new Error(`account ${member.accountId} is already claimed`);
  await insertMember(tx, { ...member, role: "owner" });
}

/** Adds a member and returns the role; a member keeps the role they have. */
export async function addMember(
  tx: Tx,
  member: NewMember & { readonly role: MemberRole },
): Promise<Role> {
  const { accountId, personId, role, via, viaKeyId, network, now } = member;
  const held = await findMembership(tx, accountId, personId);
  if (held !== undefined) return held.role;
  await insertMember(tx, member);
  const email = await emailOf(tx, personId);
  const claimAttemptId = viaKeyId === undefined ? null : via;
  await recordAuditEntry(tx, {
    accountId,
    actor: { type: "person", id: personId },
    action: "member.added",
    target: claimAttemptId ?? personId,
    detail: { email, role },
    network,
    now,
  });
  const data = { claim_attempt_id: claimAttemptId, email, role };
  await emitEvent(tx, { type: "member.added", accountId, data, now });
  return role;
}

/** The role with which the person may act now: undefined also for a member who must use single sign-on first. */
export async function roleOf(
  reader: Reader,
  accountId: string,
  personId: string,
): Promise<Role | undefined> {
  const membership = await findMembership(reader, accountId, personId);
  return membership === undefined || membership.needsSso ? undefined : membership.role;
}

/** A person of the workspace's identity provider is never its owner, who can always sign in without it. */
const NEEDS_SSO = `case when account.sso_required_at is not null and membership.role <> 'owner'
  and person.sso_account_id <> account.id then 1 else 0 end as needs_sso`;

export async function findMembership(
  reader: Reader,
  accountId: string,
  personId: string,
): Promise<Pick<Membership, "role" | "needsSso"> | undefined> {
  const row = await reader.get(
    `select membership.role, ${NEEDS_SSO} from membership
     join account on account.id = membership.account_id join person on person.id = membership.person_id
     where membership.account_id = ? and membership.person_id = ?`,
    [accountId, personId],
  );
  return row && { role: toRole(row), needsSso: integer(row, "needs_sso") === 1 };
}

/** Throws 404 for people who are not members, so that they cannot find out which workspaces exist. */
export async function requirePermission(
  reader: Reader,
  accountId: string,
  personId: string,
  permission: Permission,
): Promise<Role> {
  const role = await roleOf(reader, accountId, personId);
  if (role === undefined) throw workspaceNotFound();
  if (!hasPermission(role, permission))
    throw new Fault("forbidden", `role ${role} lacks permission ${permission}`, {
      message: "Your role in this workspace does not allow this. Ask the owner.",
    });
  return role;
}

/** The owner first. */
export async function listAllMembers(
  reader: Reader,
  accountId: string,
): Promise<readonly Member[]> {
  const rows = await reader.all(`${SELECT_MEMBER} where account_id = ? ${OWNER_FIRST}`, [
    accountId,
  ]);
  return rows.map(toMember);
}

export interface MemberPageRequest {
  readonly limit: number;
  /** The `memberCursor` of the first member on the page; absent for the first page, which starts with the owner. */
  readonly from?: string | undefined;
}

export async function listMembers(
  reader: Reader,
  accountId: string,
  { limit, from }: MemberPageRequest,
): Promise<readonly Member[]> {
  const [, addedAt = "", personId = ""] = /^(\d+)-(.+)$/.exec(from ?? "") ?? [];
  const rows = await reader.all(
    `${SELECT_MEMBER} where account_id = ?
       ${from === undefined ? "" : "and role <> 'owner' and (added_at, person_id) >= (?, ?)"} ${OWNER_FIRST} limit ?`,
    [accountId, ...(from === undefined ? [] : [Number(addedAt), personId]), limit],
  );
  return rows.map(toMember);
}

/** The members who joined since a time, besides the owner, newest first. */
export async function listNewMembers(
  reader: Reader,
  accountId: string,
  { since, limit }: { readonly since: number; readonly limit: number },
): Promise<readonly Member[]> {
  const rows = await reader.all(
    `${SELECT_MEMBER} where account_id = ? and role <> 'owner' and added_at >= ? order by added_at desc, person_id limit ?`,
    [accountId, since, limit],
  );
  return rows.map(toMember);
}

/** Stays valid if the member is removed. */
export function memberCursor({ addedAt, personId }: Member): string {
  return `${addedAt}-${personId}`;
}

export async function countMembers(reader: Reader, accountId: string): Promise<number> {
  const row = await reader.get("select count(*) as count from membership where account_id = ?", [
    accountId,
  ]);
  return row === undefined ? 0 : integer(row, "count");
}

/** The oldest membership first. */
export async function listMemberships(
  reader: Reader,
  personId: string,
): Promise<readonly Membership[]> {
  const rows = await reader.all(
    `select membership.*, account.name, ${NEEDS_SSO} from membership
     join account on account.id = membership.account_id join person on person.id = membership.person_id
     where membership.person_id = ? order by added_at, membership.account_id`,
    [personId],
  );
  return rows.map((row) => ({
    accountId: text(row, "account_id"),
    name: textOrNull(row, "name"),
    role: toRole(row),
    addedAt: integer(row, "added_at"),
    needsSso: integer(row, "needs_sso") === 1,
  }));
}

export async function getMember(
  reader: Reader,
  accountId: string,
  personId: string,
): Promise<Member> {
  const row = await reader.get(`${SELECT_MEMBER} where account_id = ? and person_id = ?`, [
    accountId,
    personId,
  ]);
  if (row === undefined) throw memberNotFound();
  return toMember(row);
}

/** Sets the role and the allowance of a member who is not the owner. */
export async function changeMember(
  tx: Tx,
  act: Act,
  personId: string,
  { role, allowance }: { readonly role: MemberRole; readonly allowance: Allowance | undefined },
): Promise<void> {
  const { accountId } = act;
  await lockWorkspace(tx, accountId);
  await authorize(tx, act, "members.change");
  const member = await getMember(tx, accountId, personId);
  if (member.role === "owner")
    throw new Fault("conflict", "the owner's role cannot be changed", {
      message: "The owner keeps their role. Transfer ownership to another member first.",
    });
  const { limit = null, window = null } = allowance ?? {};
  await tx.run(
    `update membership set role = ?, allowance_nano = ?, allowance_window = ?, allowance_requested_at = null
     where account_id = ? and person_id = ?`,
    [role, limit, window, accountId, personId],
  );
  const detail = {
    role,
    allowance_usd: limit === null ? null : usdText(limit),
    allowance_window: window,
    ...(role !== member.role && { role_before: member.role }),
    ...(limit !== (member.allowance?.limit ?? null) && {
      allowance_usd_before: member.allowance === undefined ? null : usdText(member.allowance.limit),
    }),
  };
  await recordMemberChange(tx, act, "member.changed", { target: personId, detail });
}

/** An owner must transfer ownership first. Returns false if the person is not a member any more. */
export async function removeMember(tx: Tx, act: Act, personId: string): Promise<boolean> {
  const { accountId, actor } = act;
  const leaves = actor.id === personId;
  await lockWorkspace(tx, accountId);
  await authorize(tx, act, leaves ? "workspace.leave" : "members.remove");
  const role = (await findMembership(tx, accountId, personId))?.role;
  if (role === undefined) return false;
  if (role === "owner")
    throw new Fault("conflict", "an owner cannot be removed", {
      message: "The owner cannot leave. Transfer ownership to another member first.",
    });
  if (role === "admin" && !leaves)
    await assertManagesAdmins(tx, act, "Only the owner can remove an admin.");
  await tx.run("delete from membership where account_id = ? and person_id = ?", [
    accountId,
    personId,
  ]);
  await recordMemberChange(tx, act, "member.removed", { target: personId });
  return true;
}

/** An admin manages the roles below their own. */
export async function assertManagesAdmins(
  tx: Tx,
  { accountId, actor }: Act,
  message: string,
): Promise<void> {
  if (actor.type === "person" && (await roleOf(tx, accountId, actor.id)) !== "owner")
    throw new Fault("forbidden", "an admin cannot manage admins", { message });
}

/** Makes another member the owner; the actor, who was the owner, becomes a developer. */
export async function transferOwnership(tx: Tx, act: Act, to: string): Promise<void> {
  const { accountId, actor } = act;
  await lockWorkspace(tx, accountId);
  await authorize(tx, act, "workspace.transfer");
  if ((await roleOf(tx, accountId, actor.id)) !== "owner")
    throw new Fault("forbidden", "only an owner can transfer ownership", {
      message: "Only the owner can transfer ownership.",
    });
  // A transfer removes the owner's payment method, so one without effect must not succeed.
  if (actor.id === to)
    throw new Fault("conflict", "ownership transfer to the same person", {
      message: "You already own this workspace. Choose another member.",
    });
  if ((await findMembership(tx, accountId, to)) === undefined) throw memberNotFound();
  await requireOwnSignIn(tx, to);
  await setRole(tx, accountId, actor.id, "developer");
  await setRole(tx, accountId, to, "owner");
  await recordMemberChange(tx, act, "owner.changed", { target: to });
}

interface AuditedMember {
  /** The person's id. */
  readonly target: string;
  readonly detail?: AuditDetail;
}

async function recordMemberChange(
  tx: Tx,
  act: Act,
  action: "member.changed" | "member.removed" | "owner.changed",
  { target, detail }: AuditedMember,
): Promise<void> {
  const email = await emailOf(tx, target);
  const entry = {
    ...act,
    action,
    target,
    detail: { ...(await byActor(tx, act)), email, ...detail },
  };
  await recordAuditEntry(tx, entry);
}

/** The email address of the person who acts, for the detail of an audit entry. */
export async function byActor(
  reader: Reader,
  { actor }: Pick<Act, "actor">,
): Promise<{ readonly by?: string }> {
  return actor.type === "person" ? { by: await emailOf(reader, actor.id) } : {};
}

export async function emailOf(reader: Reader, personId: string): Promise<string> {
  const row = await reader.get("select email from person where id = ?", [personId]);
  if (row === undefined) throw new Error(`no person ${personId}`);
  return text(row, "email");
}

async function setRole(tx: Tx, accountId: string, personId: string, role: Role): Promise<void> {
  await tx.run(
    "update membership set role = ?, owner_of = ? where account_id = ? and person_id = ?",
    [role, role === "owner" ? accountId : null, accountId, personId],
  );
}

async function insertMember(tx: Tx, member: Omit<NewMember, "network">): Promise<void> {
  const { accountId, personId, role, now, via, viaKeyId = null, allowance } = member;
  await requireOwnIdentity(tx, accountId, personId);
  const ownerOf = role === "owner" ? accountId : null;
  const { limit = null, window = null } = allowance ?? {};
  await tx.run(
    `insert into membership (account_id, person_id, role, owner_of, added_at, via, via_key_id, allowance_nano, allowance_window)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [accountId, personId, role, ownerOf, now, via, viaKeyId, limit, window],
  );
}

export const SELECT_MEMBER =
  "select membership.*, person.email, person.name from membership join person on person.id = membership.person_id";
const OWNER_FIRST = "order by case role when 'owner' then 0 else 1 end, added_at, person_id";

export function toMember(row: Row): Member {
  return {
    personId: text(row, "person_id"),
    email: text(row, "email"),
    name: textOrNull(row, "name"),
    role: toRole(row),
    addedAt: integer(row, "added_at"),
    viaKeyId: textOrNull(row, "via_key_id"),
    allowance: toAllowance(row),
    allowanceRequestedAt: integerOrNull(row, "allowance_requested_at"),
  };
}

export function toAllowance(row: Row): Allowance | undefined {
  if (row["allowance_nano"] === null) return undefined;
  return {
    limit: toNano(row["allowance_nano"]),
    window: toLimitWindow(textOrNull(row, "allowance_window")),
  };
}

export function toRole(row: Row): Role {
  return enumValue(row, "role", ROLES);
}

function workspaceNotFound(): Fault {
  return new Fault("not_found", "no such workspace", {
    message: "The workspace does not exist, or you are not a member.",
  });
}

function memberNotFound(): Fault {
  return new Fault("not_found", "no such member", {
    message: "This person is not a member of the workspace.",
  });
}
