// What a directory's users mean for the members of the workspace. The owner is never changed or removed by a directory.

import { listMembersWithEmail, type MemberIdentity } from "../accounts/member-identities.ts";
import {
  changeMember,
  findMembership,
  getMember,
  listMembers,
  type MemberRole,
  removeMember,
} from "../accounts/members.ts";
import type { Act } from "../activity/audit.ts";
import { Fault } from "../base/fault.ts";
import { foldEmail } from "../base/text/email.ts";
import { reassignKeys } from "../keys/keys.ts";
import { removeMemberAndKeys } from "../keys/member-keys.ts";
import { endSsoSessionsOf } from "../people/sessions.ts";
import type { Reader, Tx } from "../store/db.ts";
import { findDirectory, getDirectory } from "./directory.ts";
import { hasGroupRoles, listGroupsOfUser } from "./scim-group-rows.ts";
import { findUserOfPerson, linkUser, type ScimUser } from "./scim-user-rows.ts";

/** The role of a person in several groups is the first of these. */
const STRONGEST_FIRST = [
  "admin",
  "developer",
  "billing",
  "viewer",
] as const satisfies readonly MemberRole[];

/** Removes the members of a user who is not active, or gives them the role of their groups. Returns the user as linked. */
export async function applyUser(tx: Tx, act: Act, user: ScimUser): Promise<ScimUser> {
  const { accountId } = act;
  const found = await listMembersWithEmail(tx, accountId, foldEmail(user.email));
  const personId = user.personId ?? found.find(({ role }) => role !== "owner")?.personId ?? null;
  if (personId !== null && user.personId === null) await linkUser(tx, user, personId);
  const linked = personId !== null && !found.some((member) => member.personId === personId);
  const members = [...(linked ? [{ personId }] : []), ...found];
  for (const member of members) await applyToMember(tx, act, user, member);
  return { ...user, personId };
}

async function applyToMember(
  tx: Tx,
  act: Act,
  user: ScimUser,
  { personId }: Pick<MemberIdentity, "personId">,
): Promise<void> {
  const { accountId } = act;
  const role = (await findMembership(tx, accountId, personId))?.role;
  if (role === undefined || role === "owner") return;
  if (!user.active) return await removePerson(tx, act, personId);
  const wanted = await groupRole(tx, user);
  if (wanted === undefined || wanted === role) return;
  const { allowance } = await getMember(tx, accountId, personId);
  await changeMember(tx, act, personId, { role: wanted, allowance });
}

/** Sessions of the workspace's identity provider end; those of a person's own account open other workspaces, too. */
async function removePerson(tx: Tx, act: Act, personId: string): Promise<void> {
  const { accountId, now } = act;
  const { handsOverKeys } = await getDirectory(tx, accountId);
  if (handsOverKeys) {
    const [owner] = await listMembers(tx, accountId, { limit: 1 });
    if (owner === undefined) throw new Error(`workspace ${accountId} has no owner`);
    await reassignKeys(tx, accountId, { from: personId, to: owner.personId });
    await removeMember(tx, act, personId);
  } else await removeMemberAndKeys(tx, act, personId);
  await endSsoSessionsOf(tx, { accountId, personId }, now);
}

/** The role that groups give; undefined where no group has a role. */
async function groupRole(
  reader: Reader,
  { accountId, id }: Pick<ScimUser, "accountId" | "id">,
): Promise<MemberRole | undefined> {
  if (!(await hasGroupRoles(reader, accountId))) return undefined;
  const groups = await listGroupsOfUser(reader, accountId, id);
  const roles = new Set(groups.map(({ role }) => role));
  const { fallbackRole } = await getDirectory(reader, accountId);
  return STRONGEST_FIRST.find((role) => roles.has(role)) ?? fallbackRole;
}

/** After a sign-in: a member who joined before the directory gets the role of their groups. */
export async function syncRole(
  tx: Tx,
  { accountId, network, ip = null, now }: Omit<Act, "actor">,
  person: { readonly id: string; readonly email: string },
): Promise<void> {
  if ((await findDirectory(tx, accountId)) === undefined) return;
  const identity = { personId: person.id, email: person.email };
  const user = await findUserOfPerson(tx, accountId, identity);
  const act = { accountId, actor: { type: "system", id: "scim" }, network, ip, now } as const;
  if (user !== undefined) await applyUser(tx, act, user);
}

/**
 * The role with which a person of the directory joins; undefined for people whom it does not have. Throws `forbidden` for one
 * who is not active any more.
 */
export async function directoryRoleOf(
  tx: Tx,
  accountId: string,
  person: { readonly id: string; readonly email: string },
): Promise<MemberRole | undefined> {
  const directory = await findDirectory(tx, accountId);
  if (directory === undefined) return undefined;
  const identity = { personId: person.id, email: person.email };
  const user = await findUserOfPerson(tx, accountId, identity);
  if (user === undefined) return undefined;
  if (!user.active)
    throw new Fault("forbidden", "the user is not active in the directory", {
      message: `${person.email} is deactivated in your organization's directory. Ask your administrator.`,
    });
  if (user.personId !== person.id) await linkUser(tx, user, person.id);
  return (await groupRole(tx, user)) ?? directory.fallbackRole;
}
