// The rows of a directory's groups and of their members.

import { type MemberRole, MEMBER_ROLES } from "../accounts/members.ts";
import { Fault } from "../base/fault.ts";
import { integer, type Reader, type Row, text, textOrNull, type Tx } from "../store/db.ts";
import { IDS_PER_STATEMENT } from "./scim-user-rows.ts";

export interface ScimGroup {
  readonly id: string;
  readonly displayName: string;
  readonly externalId: string | null;
  /** The role of the group's members; null for none. */
  readonly role: MemberRole | null;
  readonly createdAt: number;
  readonly changedAt: number;
}

export interface NamedId {
  readonly id: string;
  readonly name: string;
}

export async function getGroup(reader: Reader, accountId: string, id: string): Promise<ScimGroup> {
  const row = await reader.get("select * from scim_group where account_id = ? and id = ?", [
    accountId,
    id,
  ]);
  if (row !== undefined) return toGroup(row);
  throw new Fault("not_found", "no such SCIM group", { message: `There is no group ${id}.` });
}

export async function listGroupMembers(
  reader: Reader,
  accountId: string,
  groupId: string,
): Promise<readonly NamedId[]> {
  const rows = await reader.all(
    `select scim_user.id, scim_user.user_name as name from scim_group_member
     join scim_user on scim_user.account_id = scim_group_member.account_id and scim_user.id = scim_group_member.user_id
     where scim_group_member.account_id = ? and group_id = ? order by scim_user.id`,
    [accountId, groupId],
  );
  return rows.map(toNamedId);
}

export async function listGroupsOfUser(
  reader: Reader,
  accountId: string,
  userId: string,
): Promise<readonly (NamedId & { readonly role: MemberRole | null })[]> {
  const rows = await reader.all(
    `select scim_group.id, display_name as name, role from scim_group_member
     join scim_group on scim_group.account_id = scim_group_member.account_id and scim_group.id = scim_group_member.group_id
     where scim_group_member.account_id = ? and user_id = ? order by scim_group.id`,
    [accountId, userId],
  );
  return rows.map((row) => ({ id: text(row, "id"), name: text(row, "name"), role: toRole(row) }));
}

/** Whether the roles of members come from groups. */
export async function hasGroupRoles(reader: Reader, accountId: string): Promise<boolean> {
  const row = await reader.get(
    "select id from scim_group where account_id = ? and role is not null limit 1",
    [accountId],
  );
  return row !== undefined;
}

export async function removeMembers(
  tx: Tx,
  accountId: string,
  groupId: string,
  userIds: readonly string[],
): Promise<void> {
  for (let from = 0; from < userIds.length; from += IDS_PER_STATEMENT) {
    const some = userIds.slice(from, from + IDS_PER_STATEMENT);
    await tx.run(
      `delete from scim_group_member where account_id = ? and group_id = ? and user_id in (${some.map(() => "?").join(", ")})`,
      [accountId, groupId, ...some],
    );
  }
}

export async function removeFromGroups(tx: Tx, accountId: string, userId: string): Promise<void> {
  await tx.run("delete from scim_group_member where account_id = ? and user_id = ?", [
    accountId,
    userId,
  ]);
}

export function toGroup(row: Row): ScimGroup {
  return {
    id: text(row, "id"),
    displayName: text(row, "display_name"),
    externalId: textOrNull(row, "external_id"),
    role: toRole(row),
    createdAt: integer(row, "created_at"),
    changedAt: integer(row, "changed_at"),
  };
}

function toNamedId(row: Row): NamedId {
  return { id: text(row, "id"), name: text(row, "name") };
}

function toRole(row: Row): MemberRole | null {
  const role = textOrNull(row, "role");
  return MEMBER_ROLES.find((name) => name === role) ?? null;
}
