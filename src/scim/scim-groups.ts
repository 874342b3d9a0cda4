// The groups of a directory. It owns the tables scim_group and scim_group_member. The owner of the workspace gives a group a
// role; its members have it as long as they are in the group.

import { listMemberEmails } from "../accounts/member-identities.ts";
import { authorize, lockWorkspace, type MemberRole } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { isObject } from "../base/json.ts";
import { foldEmail } from "../base/text/email.ts";
import { replaceUnsafe } from "../base/text/safe-text.ts";
import { integer, type Reader, text, type Tx } from "../store/db.ts";
import { applyUser } from "./apply-directory.ts";
import { type EqualsFilter, invalidFilter } from "./scim-filter.ts";
import {
  getGroup,
  hasGroupRoles,
  removeMembers,
  type ScimGroup,
  toGroup,
} from "./scim-group-rows.ts";
import { idOfFilter, type PatchOperation, scimFault } from "./scim-patch.ts";
import { findUsers, type ScimUser, toUser } from "./scim-user-rows.ts";
import { readResources, type ResourcePage } from "./scim-users.ts";

const GROUPS_MAX = 1_000;
const MEMBERS_MAX = 20_000;
const ALL_MEMBERS_MAX = 100_000;
const NAME_MAX = 200;

export interface GroupFields {
  readonly displayName: string;
  readonly externalId: string | null;
  /** Ids of users. */
  readonly members: ReadonlySet<string>;
}

export function parseGroup(resource: Readonly<Record<string, unknown>>): GroupFields {
  return {
    displayName: nameOf(resource["displayName"]),
    externalId: externalIdOf(resource["externalId"]),
    members: new Set(idsOf(resource["members"])),
  };
}

function nameOf(value: unknown): string {
  if (typeof value !== "string" || value.trim() === "")
    throw scimFault("invalidValue", "`displayName` is required.");
  return replaceUnsafe(value.trim()).slice(0, NAME_MAX);
}

function externalIdOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? replaceUnsafe(value).slice(0, NAME_MAX) : null;
}

function idsOf(value: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value ?? []].flat();
  return list.map((member) => {
    const id = isObject(member) ? member["value"] : member;
    if (typeof id === "string") return id;
    throw scimFault("invalidValue", "Each member must have the id of a user as `value`.");
  });
}

export function patchedGroup(
  group: GroupFields,
  operations: readonly PatchOperation[],
): GroupFields {
  // Copied once: a copy for each operation on a large group would hold the event loop.
  const members = new Set(group.members);
  let patched: PatchedGroup = { ...group, members };
  for (const operation of operations) patched = applyOperation(patched, operation);
  return patched;
}

interface PatchedGroup extends GroupFields {
  readonly members: Set<string>;
}

function applyOperation(group: PatchedGroup, operation: PatchOperation): PatchedGroup {
  const { op, attribute, value } = operation;
  if (attribute === "displayname") return { ...group, displayName: nameOf(value) };
  if (attribute === "externalid")
    return { ...group, externalId: op === "remove" ? null : externalIdOf(value) };
  if (attribute === "members") patchMembers(group.members, operation);
  return group;
}

function patchMembers(members: Set<string>, { op, filter, value }: PatchOperation): void {
  if (op !== "remove") {
    if (op === "replace") members.clear();
    for (const id of idsOf(value)) members.add(id);
    return;
  }
  const isOfAll = filter === undefined && (value === undefined || value === null);
  // Entra names those to remove in `value`; RFC 7644 means all members where it is absent.
  if (isOfAll) members.clear();
  else
    for (const id of filter === undefined ? idsOf(value) : [idOfFilter(filter)]) members.delete(id);
}

export async function createGroup(tx: Tx, act: Act, fields: GroupFields): Promise<ScimGroup> {
  const { accountId, now } = act;
  await lockWorkspace(tx, accountId);
  await requireFreeName(tx, accountId, fields.displayName, undefined);
  const row = await tx.get("select count(*) as count from scim_group where account_id = ?", [
    accountId,
  ]);
  if (row !== undefined && integer(row, "count") >= GROUPS_MAX)
    throw new Fault("forbidden", "too many groups of a directory", {
      message: `A directory can have ${GROUPS_MAX} groups.`,
    });
  const id = newId("scg", now);
  const { displayName, externalId } = fields;
  await tx.run(
    `insert into scim_group (account_id, id, display_name, display_name_folded, external_id, created_at, changed_at)
     values (?, ?, ?, ?, ?, ?, ?)`,
    [accountId, id, displayName, displayName.toLowerCase(), externalId, now, now],
  );
  await writeMembers(tx, act, id, fields.members);
  await recordChange(tx, act, "scim.group_created", { id, fields });
  return await getGroup(tx, accountId, id);
}

/** `change` gets what the directory has set before. */
export async function changeGroup(
  tx: Tx,
  act: Act,
  id: string,
  change: (before: GroupFields) => GroupFields,
): Promise<ScimGroup> {
  const { accountId, now } = act;
  await lockWorkspace(tx, accountId);
  const { displayName, externalId } = await getGroup(tx, accountId, id);
  const before = { displayName, externalId, members: await memberIds(tx, accountId, id) };
  const fields = change(before);
  await requireFreeName(tx, accountId, fields.displayName, id);
  const changesMembers = await writeMembers(tx, act, id, fields.members);
  if (!changesMembers && fields.displayName === displayName && fields.externalId === externalId)
    return await getGroup(tx, accountId, id);
  await tx.run(
    "update scim_group set display_name = ?, display_name_folded = ?, external_id = ?, changed_at = ? where account_id = ? and id = ?",
    [fields.displayName, fields.displayName.toLowerCase(), fields.externalId, now, accountId, id],
  );
  await recordChange(tx, act, "scim.group_changed", { id, fields, before });
  return await getGroup(tx, accountId, id);
}

export async function deleteGroup(tx: Tx, act: Act, id: string): Promise<void> {
  const { accountId } = act;
  await lockWorkspace(tx, accountId);
  const { displayName, externalId } = await getGroup(tx, accountId, id);
  // While the group has its role: it can be the last that has one.
  await writeMembers(tx, act, id, new Set());
  await tx.run("delete from scim_group where account_id = ? and id = ?", [accountId, id]);
  const fields = { displayName, externalId, members: new Set<string>() };
  await recordChange(tx, act, "scim.group_deleted", { id, fields });
}

/** Gives the members of a group a role, or none. */
export async function setGroupRole(
  tx: Tx,
  act: Act,
  { id, role }: { readonly id: string; readonly role: MemberRole | null },
): Promise<void> {
  const { accountId } = act;
  await authorize(tx, act, "sso.change");
  const before = await getGroup(tx, accountId, id);
  if (before.role === role) return;
  await tx.run("update scim_group set role = ? where account_id = ? and id = ?", [
    role,
    accountId,
    id,
  ]);
  const detail = { group: before.displayName, role, role_before: before.role };
  await recordAuditEntry(tx, { ...act, action: "scim.group_role_changed", target: id, detail });
  await applyUsers(tx, act, await usersWithRoles(tx, accountId));
}

/** Everyone, since the first role of a group makes the directory decide on all roles. */
async function usersWithRoles(reader: Reader, accountId: string): Promise<readonly ScimUser[]> {
  const rows = await reader.all(
    "select * from scim_user where account_id = ? and active = 1 and person_id is not null order by id",
    [accountId],
  );
  return rows.map(toUser);
}

/** Most users of a large directory have never signed in: nothing is read for them. */
async function applyUsers(tx: Tx, act: Act, users: Iterable<ScimUser>): Promise<void> {
  if (!(await hasGroupRoles(tx, act.accountId))) return;
  const emails = await listMemberEmails(tx, act.accountId);
  for (const user of users)
    if (user.personId !== null || emails.has(foldEmail(user.email))) await applyUser(tx, act, user);
}

/** Returns false if the members are the same. */
async function writeMembers(
  tx: Tx,
  act: Act,
  groupId: string,
  members: ReadonlySet<string>,
): Promise<boolean> {
  const { accountId } = act;
  if (members.size > MEMBERS_MAX)
    throw scimFault("tooMany", `A group can have ${MEMBERS_MAX} members.`);
  const before = await memberIds(tx, accountId, groupId);
  const [added, removed] = [members.difference(before), before.difference(members)];
  const users = await findUsers(tx, accountId, [...added, ...removed]);
  const unknown = [...added].find((userId) => !users.has(userId));
  if (unknown !== undefined)
    throw scimFault("invalidValue", `There is no user ${unknown.slice(0, NAME_MAX)}.`);
  if (added.size > removed.size) await requireFewMembers(tx, accountId, added.size - removed.size);
  await removeMembers(tx, accountId, groupId, [...removed]);
  await tx.insertMany(
    "scim_group_member",
    ["account_id:text", "group_id:text", "user_id:text"],
    [...added].map((userId) => [accountId, groupId, userId]),
  );
  await applyUsers(tx, act, users.values());
  return added.size + removed.size > 0;
}

/** A page of groups has the members of each, so they are limited together. */
async function requireFewMembers(tx: Tx, accountId: string, more: number): Promise<void> {
  const row = await tx.get("select count(*) as count from scim_group_member where account_id = ?", [
    accountId,
  ]);
  if (row !== undefined && integer(row, "count") + more > ALL_MEMBERS_MAX)
    throw scimFault(
      "tooMany",
      `The groups of a directory can have ${ALL_MEMBERS_MAX} members together.`,
    );
}

async function memberIds(
  reader: Reader,
  accountId: string,
  groupId: string,
): Promise<ReadonlySet<string>> {
  const rows = await reader.all(
    "select user_id from scim_group_member where account_id = ? and group_id = ? order by user_id",
    [accountId, groupId],
  );
  return new Set(rows.map((row) => text(row, "user_id")));
}

async function recordChange(
  tx: Tx,
  act: Act,
  action: "scim.group_created" | "scim.group_changed" | "scim.group_deleted",
  {
    id,
    fields,
    before,
  }: { readonly id: string; readonly fields: GroupFields; readonly before?: GroupFields },
): Promise<void> {
  const detail = {
    group: fields.displayName,
    members: fields.members.size,
    ...(before !== undefined && { members_before: before.members.size }),
  };
  await recordAuditEntry(tx, { ...act, action, target: id, detail });
}

async function requireFreeName(
  tx: Tx,
  accountId: string,
  displayName: string,
  id: string | undefined,
): Promise<void> {
  const row = await tx.get(
    "select id from scim_group where account_id = ? and display_name_folded = ?",
    [accountId, displayName.toLowerCase()],
  );
  if (row === undefined || text(row, "id") === id) return;
  throw new Fault("conflict", "the displayName is taken", {
    message: `Another group has the displayName ${displayName}.`,
  });
}

const GROUP_COLUMNS: Readonly<Record<string, string>> = {
  id: "id",
  displayname: "display_name_folded",
  externalid: "external_id",
};

export async function listGroups(
  reader: Reader,
  accountId: string,
  { filter, offset, limit }: ResourcePage,
): Promise<{ readonly total: number; readonly items: readonly ScimGroup[] }> {
  const { total, rows } = await readResources(reader, "from scim_group", accountId, {
    condition: groupCondition(filter),
    offset,
    limit,
  });
  return { total, items: rows.map(toGroup) };
}

function groupCondition(filter: EqualsFilter | undefined): {
  readonly sql: string;
  readonly values: readonly string[];
} {
  if (filter === undefined) return { sql: "", values: [] };
  const { attribute, value } = filter;
  const column = Object.hasOwn(GROUP_COLUMNS, attribute) ? GROUP_COLUMNS[attribute] : undefined;
  if (column === undefined)
    throw invalidFilter("Groups can be filtered by displayName, externalId and id.");
  const compared = column === "display_name_folded" ? value.toLowerCase() : value;
  return { sql: ` and ${column} = ?`, values: [compared] };
}
