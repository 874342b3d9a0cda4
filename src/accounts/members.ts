// An account is a workspace once a human has claimed it: who belongs to it, in which role, and what each role may do.
// It owns the table membership. A workspace has one owner: `owner_of` is unique.

import { Fault } from "../base/fault.ts";
import { type Reader, type Row, text, type Tx, integer } from "../store/db.ts";

export const ROLES = ["owner", "developer"] as const;
export type Role = (typeof ROLES)[number];

/** What each role may do, for the console and for every route that a person reaches. */
export const ROLE_PERMISSIONS = {
  "workspace.read": { owner: true, developer: true },
  "workspace.rename": { owner: true, developer: false },
  "workspace.leave": { owner: false, developer: true },
  "workspace.transfer": { owner: true, developer: false },
  "usage.read": { owner: true, developer: true },
  "keys.read": { owner: true, developer: true },
  "keys.create": { owner: true, developer: true },
  "keys.change": { owner: true, developer: true },
  "keys.revoke": { owner: true, developer: true },
  "members.read": { owner: true, developer: true },
  "members.invite": { owner: true, developer: false },
  "members.change": { owner: true, developer: false },
  "members.remove": { owner: true, developer: false },
  "budgets.read": { owner: true, developer: true },
  "budgets.change": { owner: true, developer: false },
  "billing.read": { owner: true, developer: true },
  "billing.buy": { owner: true, developer: false },
  "billing.auto_top_up": { owner: true, developer: false },
  "provider_keys.read": { owner: true, developer: false },
  "provider_keys.change": { owner: true, developer: false },
  "webhooks.read": { owner: true, developer: false },
  "webhooks.change": { owner: true, developer: false },
  "audit.read": { owner: true, developer: false },
} as const satisfies Record<string, Readonly<Record<Role, boolean>>>;

export type Permission = keyof typeof ROLE_PERMISSIONS;

export function hasPermission(role: Role, permission: Permission): boolean {
  return ROLE_PERMISSIONS[permission][role];
}

export interface Member {
  readonly personId: string;
  readonly email: string;
  readonly role: Role;
  readonly addedAt: number;
}

export interface Membership {
  readonly accountId: string;
  readonly role: Role;
  readonly addedAt: number;
}

export interface NewMember {
  readonly accountId: string;
  readonly personId: string;
  readonly role: Role;
  /** What added them, such as the id of a claim attempt. */
  readonly via: string;
  readonly now: number;
}

/** A change that a human made, for those who want to know. */
export interface MemberChange {
  readonly kind:
    | "member.invited"
    | "invitation.withdrawn"
    | "member.added"
    | "member.removed"
    | "owner.changed";
  readonly accountId: string;
  readonly actor: { readonly personId: string; readonly email: string };
  /** The person or the invitation. */
  readonly target: string;
  readonly email?: string;
  readonly role?: string;
  readonly clientIp: string;
  readonly now: number;
}

/** Whoever changes who belongs to a workspace locks it first, so that two changes come one after the other. */
export async function lockWorkspace(
  tx: Tx,
  accountId: string,
): Promise<{ readonly isClaimed: boolean }> {
  const [row] = await tx.lockMany("account", "id", [accountId]);
  if (row === undefined) throw workspaceNotFound();
  return { isClaimed: row["claimed_at"] !== null };
}

/** Turns a locked, unclaimed account into a workspace with an owner. */
export async function claimWorkspace(tx: Tx, member: Omit<NewMember, "role">): Promise<void> {
  const taken = await tx.run(
    "update account set claimed_at = ? where id = ? and claimed_at is null",
    [member.now, member.accountId],
  );
  if (taken !== 1) throw new Error(`account ${member.accountId} has an owner`);
  await insertMember(tx, { ...member, role: "owner" });
}

/** Adds a developer; whoever belongs to the workspace already keeps their role. Answers the role. */
export async function addDeveloper(tx: Tx, member: Omit<NewMember, "role">): Promise<Role> {
  const role = await roleOf(tx, member.accountId, member.personId);
  if (role !== undefined) return role;
  await insertMember(tx, { ...member, role: "developer" });
  return "developer";
}

export async function roleOf(
  reader: Reader,
  accountId: string,
  personId: string,
): Promise<Role | undefined> {
  const row = await reader.get(
    "select role from membership where account_id = ? and person_id = ?",
    [accountId, personId],
  );
  return row === undefined ? undefined : toRole(row);
}

/** The role of a person who may do this in a workspace; a stranger learns nothing about it. */
export async function requirePermission(
  reader: Reader,
  accountId: string,
  personId: string,
  permission: Permission,
): Promise<Role> {
  const role = await roleOf(reader, accountId, personId);
  if (role === undefined) throw workspaceNotFound();
  if (!hasPermission(role, permission))
    throw new Fault("forbidden", `a ${role} may not ${permission}`, {
      message: "Your role in this workspace does not allow that. Ask its owner.",
    });
  return role;
}

/** Everybody in a workspace, the owner first. */
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
  /** The first of the page, as `cursorOfMember` tells them; absent for the owner, who comes before all. */
  readonly from?: string | undefined;
}

/** The same, from one member on. */
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

/** Tells a place in the list that stays where it is when the member is removed. */
export function memberCursor({ addedAt, personId }: Member): string {
  return `${addedAt}-${personId}`;
}

export async function countMembers(reader: Reader, accountId: string): Promise<number> {
  const row = await reader.get("select count(*) as count from membership where account_id = ?", [
    accountId,
  ]);
  return row === undefined ? 0 : integer(row, "count");
}

/** The workspaces that a person belongs to, the oldest membership first. */
export async function listMemberships(
  reader: Reader,
  personId: string,
): Promise<readonly Membership[]> {
  const rows = await reader.all(
    "select * from membership where person_id = ? order by added_at, account_id",
    [personId],
  );
  return rows.map((row) => ({
    accountId: text(row, "account_id"),
    role: toRole(row),
    addedAt: integer(row, "added_at"),
  }));
}

/** The workspace that a person joined by this, where they belong to it still. */
export async function workspaceJoinedVia(
  reader: Reader,
  personId: string,
  via: string,
): Promise<string | undefined> {
  const row = await reader.get(
    "select account_id from membership where person_id = ? and via = ?",
    [personId, via],
  );
  return row === undefined ? undefined : text(row, "account_id");
}

/** Takes a developer out of a workspace; an owner must hand over first. Answers their address. */
export async function removeMember(tx: Tx, accountId: string, personId: string): Promise<string> {
  await lockWorkspace(tx, accountId);
  const role = await roleOf(tx, accountId, personId);
  if (role === undefined) throw memberNotFound();
  if (role === "owner")
    throw new Fault("conflict", "an owner cannot be removed", {
      message: "The owner cannot leave. Hand the workspace over to another member first.",
    });
  await tx.run("delete from membership where account_id = ? and person_id = ?", [
    accountId,
    personId,
  ]);
  return await emailOf(tx, personId);
}

/** Makes another member the owner; the owner before becomes a developer. Answers the new owner's address. */
export async function transferOwnership(
  tx: Tx,
  accountId: string,
  from: string,
  to: string,
): Promise<string> {
  await lockWorkspace(tx, accountId);
  if ((await roleOf(tx, accountId, from)) !== "owner")
    throw new Fault("forbidden", "only an owner hands over", {
      message: "Only the owner can hand a workspace over.",
    });
  // The owner's payment method would go, and nothing come of it.
  if (from === to)
    throw new Fault("conflict", "handing over to oneself", {
      message: "You own this workspace already. Choose another member to hand it over to.",
    });
  if ((await roleOf(tx, accountId, to)) === undefined) throw memberNotFound();
  await setRole(tx, accountId, from, "developer");
  await setRole(tx, accountId, to, "owner");
  return await emailOf(tx, to);
}

async function emailOf(reader: Reader, personId: string): Promise<string> {
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

async function insertMember(tx: Tx, member: NewMember): Promise<void> {
  const { accountId, personId, role, now, via } = member;
  await tx.run(
    "insert into membership (account_id, person_id, role, owner_of, added_at, via) values (?, ?, ?, ?, ?, ?)",
    [accountId, personId, role, role === "owner" ? accountId : null, now, via],
  );
}

const SELECT_MEMBER =
  "select membership.*, person.email from membership join person on person.id = membership.person_id";
const OWNER_FIRST = "order by case role when 'owner' then 0 else 1 end, added_at, person_id";

function toMember(row: Row): Member {
  return {
    personId: text(row, "person_id"),
    email: text(row, "email"),
    role: toRole(row),
    addedAt: integer(row, "added_at"),
  };
}

function toRole(row: Row): Role {
  const role = text(row, "role");
  if (role !== "owner" && role !== "developer") throw new Error(`unknown role ${role}`);
  return role;
}

function workspaceNotFound(): Fault {
  return new Fault("not_found", "no such workspace", {
    message: "There is no such workspace, or you do not belong to it.",
  });
}

function memberNotFound(): Fault {
  return new Fault("not_found", "no such member", {
    message: "There is no such member in this workspace.",
  });
}
