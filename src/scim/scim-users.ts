// The users of a directory. It owns the table scim_user. A user becomes a member at the first sign-in with the workspace's
// identity provider; one who is not active, or was deleted, is no member any more.

import { lockWorkspace } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { isObject } from "../base/json.ts";
import { emailError, foldEmail } from "../base/text/email.ts";
import { replaceUnsafe } from "../base/text/safe-text.ts";
import { integer, type Reader, type Row, text, type Tx } from "../store/db.ts";
import { applyUser } from "./apply-directory.ts";
import { type EqualsFilter, invalidFilter } from "./scim-filter.ts";
import { removeFromGroups } from "./scim-group-rows.ts";
import { parseActive, type PatchOperation, scimFault } from "./scim-patch.ts";
import { getUser, type ScimUser, toUser } from "./scim-user-rows.ts";

const USERS_MAX = 20_000;
const TEXT_MAX = 320;

/** What a directory sets. */
export interface UserFields {
  readonly userName: string;
  readonly email: string;
  readonly externalId: string | null;
  readonly active: boolean;
  readonly displayName: string | null;
  readonly givenName: string | null;
  readonly familyName: string | null;
}

/** The fields of a resource as a directory sends it; other attributes are ignored. */
export function parseUser(resource: Readonly<Record<string, unknown>>): UserFields {
  const { userName, emails, name, active = true } = resource;
  if (typeof userName !== "string" || userName.trim() === "")
    throw scimFault("invalidValue", "`userName` is required.");
  const { givenName, familyName } = isObject(name) ? name : {};
  return requireEmail({
    userName: textOf(userName) ?? "",
    email: primaryEmail(emails) ?? userName.trim(),
    externalId: textOf(resource["externalId"]),
    active: parseActive(active),
    displayName: textOf(resource["displayName"]),
    givenName: textOf(givenName),
    familyName: textOf(familyName),
  });
}

function requireEmail(fields: UserFields): UserFields {
  const error = emailError(fields.email);
  if (error === undefined) return fields;
  throw scimFault(
    "invalidValue",
    `The primary address in \`emails\`, or \`userName\` without one, ${error}.`,
  );
}

function primaryEmail(emails: unknown): string | undefined {
  const list: readonly unknown[] = Array.isArray(emails) ? emails : [];
  const objects = list.filter((entry) => isObject(entry));
  const chosen =
    objects.find(({ primary }) => primary === true || primary === "True") ?? objects[0];
  const value = chosen?.["value"];
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

function textOf(value: unknown): string | null {
  if (typeof value !== "string" || value.trim() === "") return null;
  return replaceUnsafe(value.trim()).slice(0, TEXT_MAX);
}

export function patchedUser(user: UserFields, operations: readonly PatchOperation[]): UserFields {
  let patched = user;
  for (const operation of operations) patched = applyOperation(patched, operation);
  return requireEmail(patched);
}

function applyOperation(user: UserFields, operation: PatchOperation): UserFields {
  const { op, attribute, sub } = operation;
  const value = op === "remove" ? null : operation.value;
  switch (attribute) {
    case "active":
      return { ...user, active: op === "remove" ? false : parseActive(value) };
    case "username": {
      const userName = textOf(value);
      if (userName === null) throw scimFault("mutability", "`userName` cannot be removed.");
      // Without an address of its own, a user has the name as address.
      const email = user.email === user.userName ? userName : user.email;
      return { ...user, userName, email };
    }
    case "externalid":
      return { ...user, externalId: textOf(value) };
    case "displayname":
      return { ...user, displayName: textOf(value) };
    case "name":
      return patchedName(user, sub, value);
    case "emails":
      return patchedEmail(user, sub, value);
    case undefined:
    default:
      return user;
  }
}

function patchedEmail(user: UserFields, sub: string | undefined, value: unknown): UserFields {
  if (sub !== undefined && sub !== "value") return user;
  const typed = sub === "value" ? textOf(value) : primaryEmail([value].flat());
  return { ...user, email: typed ?? user.userName };
}

function patchedName(user: UserFields, sub: string | undefined, value: unknown): UserFields {
  if (sub === "givenname") return { ...user, givenName: textOf(value) };
  if (sub === "familyname") return { ...user, familyName: textOf(value) };
  if (sub !== undefined) return user;
  const { givenName, familyName } = isObject(value) ? value : {};
  return { ...user, givenName: textOf(givenName), familyName: textOf(familyName) };
}

export async function createUser(tx: Tx, act: Act, fields: UserFields): Promise<ScimUser> {
  const { accountId, now } = act;
  await lockWorkspace(tx, accountId);
  await requireFreeName(tx, accountId, fields.userName, undefined);
  const row = await tx.get("select count(*) as count from scim_user where account_id = ?", [
    accountId,
  ]);
  if (row !== undefined && integer(row, "count") >= USERS_MAX)
    throw new Fault("forbidden", "too many users of a directory", {
      message: `A directory can have ${USERS_MAX} users.`,
    });
  const id = newId("scu", now);
  await tx.run(
    `insert into scim_user (account_id, id, user_name, user_name_folded, email, email_folded, active, created_at, changed_at)
     values (?, ?, ?, ?, ?, ?, 1, ?, ?)`,
    [
      accountId,
      id,
      fields.userName,
      fields.userName.toLowerCase(),
      fields.email,
      foldEmail(fields.email),
      now,
      now,
    ],
  );
  await writeFields(tx, act, id, fields);
  const { email, active } = fields;
  await recordAuditEntry(tx, {
    ...act,
    action: "scim.user_created",
    target: id,
    detail: { email, active },
  });
  return await applyUser(tx, act, await getUser(tx, accountId, id));
}

export async function changeUser(
  tx: Tx,
  act: Act,
  id: string,
  change: (before: ScimUser) => UserFields,
): Promise<ScimUser> {
  const { accountId } = act;
  await lockWorkspace(tx, accountId);
  const found = await getUser(tx, accountId, id);
  // The member is linked before the address changes: afterwards it would not be found.
  const before = await applyUser(tx, act, found);
  const fields = change(before);
  await requireFreeName(tx, accountId, fields.userName, id);
  if (!(await writeFields(tx, act, id, fields))) return before;
  const detail = {
    email: fields.email,
    active: fields.active,
    ...(fields.email !== before.email && { email_before: before.email }),
    ...(fields.active !== before.active && { active_before: before.active }),
  };
  await recordAuditEntry(tx, { ...act, action: "scim.user_changed", target: id, detail });
  return await applyUser(tx, act, await getUser(tx, accountId, id));
}

/** The person is no member any more, as if the user were not active. */
export async function deleteUser(tx: Tx, act: Act, id: string): Promise<void> {
  const { accountId } = act;
  await lockWorkspace(tx, accountId);
  const user = await getUser(tx, accountId, id);
  await applyUser(tx, act, { ...user, active: false });
  await removeFromGroups(tx, accountId, id);
  await tx.run("delete from scim_user where account_id = ? and id = ?", [accountId, id]);
  const detail = { email: user.email };
  await recordAuditEntry(tx, { ...act, action: "scim.user_deleted", target: id, detail });
}

/** Returns false if nothing changed. */
async function writeFields(
  tx: Tx,
  { accountId, now }: Act,
  id: string,
  fields: UserFields,
): Promise<boolean> {
  const before = await getUser(tx, accountId, id);
  const names = [
    "userName",
    "email",
    "externalId",
    "active",
    "displayName",
    "givenName",
    "familyName",
  ] as const;
  if (names.every((name) => before[name] === fields[name])) return false;
  const { userName, email, externalId, active, displayName, givenName, familyName } = fields;
  await tx.run(
    `update scim_user set user_name = ?, user_name_folded = ?, email = ?, email_folded = ?, external_id = ?, active = ?,
       display_name = ?, given_name = ?, family_name = ?, changed_at = ? where account_id = ? and id = ?`,
    [
      userName,
      userName.toLowerCase(),
      email,
      foldEmail(email),
      externalId,
      active ? 1 : 0,
      displayName,
      givenName,
      familyName,
      now,
      accountId,
      id,
    ],
  );
  return true;
}

async function requireFreeName(
  tx: Tx,
  accountId: string,
  userName: string,
  id: string | undefined,
): Promise<void> {
  const row = await tx.get(
    "select id from scim_user where account_id = ? and user_name_folded = ?",
    [accountId, userName.toLowerCase()],
  );
  if (row === undefined || text(row, "id") === id) return;
  throw new Fault("conflict", "the userName is taken", {
    message: `Another user has the userName ${userName}.`,
  });
}

export interface ResourcePage {
  readonly filter?: EqualsFilter | undefined;
  /** From 0. */
  readonly offset: number;
  readonly limit: number;
}

const USER_COLUMNS: Readonly<Record<string, string>> = {
  id: "id",
  username: "user_name_folded",
  externalid: "external_id",
  emails: "email_folded",
  "emails.value": "email_folded",
};

export async function listUsers(
  reader: Reader,
  accountId: string,
  { filter, offset, limit }: ResourcePage,
): Promise<{ readonly total: number; readonly items: readonly ScimUser[] }> {
  const { total, rows } = await readResources(reader, "from scim_user", accountId, {
    condition: userCondition(filter),
    offset,
    limit,
  });
  return { total, items: rows.map(toUser) };
}

interface Condition {
  readonly sql: string;
  readonly values: readonly (string | number)[];
}

/** A page of the users or groups of an account, and how many there are. */
export async function readResources(
  reader: Reader,
  from: "from scim_user" | "from scim_group",
  accountId: string,
  {
    condition: { sql, values },
    offset,
    limit,
  }: Omit<ResourcePage, "filter"> & { readonly condition: Condition },
): Promise<{ readonly total: number; readonly rows: readonly Row[] }> {
  const where = `${from} where account_id = ?${sql}`;
  const [counted, rows] = await Promise.all([
    reader.get(`select count(*) as count ${where}`, [accountId, ...values]),
    reader.all(`select * ${where} order by id limit ? offset ?`, [
      accountId,
      ...values,
      limit,
      offset,
    ]),
  ]);
  return { total: counted === undefined ? 0 : integer(counted, "count"), rows };
}

function userCondition(filter: EqualsFilter | undefined): Condition {
  if (filter === undefined) return { sql: "", values: [] };
  const { attribute, value } = filter;
  if (attribute === "active")
    return { sql: " and active = ?", values: [parseActive(value) ? 1 : 0] };
  const column = Object.hasOwn(USER_COLUMNS, attribute) ? USER_COLUMNS[attribute] : undefined;
  if (column === undefined)
    throw invalidFilter("Users can be filtered by userName, externalId, emails, active and id.");
  const folded = column === "email_folded" ? foldEmail(value) : value.toLowerCase();
  const compared = column === "id" || column === "external_id" ? value : folded;
  return { sql: ` and ${column} = ?`, values: [compared] };
}
