// The rows of a directory's users.

import { Fault } from "../base/fault.ts";
import { foldEmail } from "../base/text/email.ts";
import { integer, type Reader, type Row, text, textOrNull, type Tx } from "../store/db.ts";

export interface ScimUser {
  readonly id: string;
  readonly accountId: string;
  readonly userName: string;
  readonly email: string;
  readonly externalId: string | null;
  readonly active: boolean;
  readonly displayName: string | null;
  readonly givenName: string | null;
  readonly familyName: string | null;
  /** The member that the user is; null until a sign-in. */
  readonly personId: string | null;
  readonly createdAt: number;
  readonly changedAt: number;
}

export async function getUser(reader: Reader, accountId: string, id: string): Promise<ScimUser> {
  const row = await reader.get("select * from scim_user where account_id = ? and id = ?", [
    accountId,
    id,
  ]);
  if (row !== undefined) return toUser(row);
  throw new Fault("not_found", "no such SCIM user", { message: `There is no user ${id}.` });
}

/** A directory sends groups of thousands of users. */
export const IDS_PER_STATEMENT = 500;

/** Those of the users that exist, by their ids. */
export async function findUsers(
  reader: Reader,
  accountId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, ScimUser>> {
  const users = new Map<string, ScimUser>();
  for (let from = 0; from < ids.length; from += IDS_PER_STATEMENT) {
    const some = ids.slice(from, from + IDS_PER_STATEMENT);
    const rows = await reader.all(
      `select * from scim_user where account_id = ? and id in (${some.map(() => "?").join(", ")}) order by id`,
      [accountId, ...some],
    );
    for (const user of rows.map(toUser)) users.set(user.id, user);
  }
  return users;
}

/** The user of a person who signs in: by a former sign-in, else by the address. */
export async function findUserOfPerson(
  reader: Reader,
  accountId: string,
  { personId, email }: { readonly personId: string; readonly email: string },
): Promise<ScimUser | undefined> {
  const rows = await reader.all(
    `select * from scim_user where account_id = ? and (person_id = ? or email_folded = ?)
     order by case when person_id = ? then 0 else 1 end, active, id limit 1`,
    [accountId, personId, foldEmail(email), personId],
  );
  return rows.map(toUser)[0];
}

export async function linkUser(
  tx: Tx,
  { accountId, id }: Pick<ScimUser, "accountId" | "id">,
  personId: string,
): Promise<void> {
  await tx.run("update scim_user set person_id = ? where account_id = ? and id = ?", [
    personId,
    accountId,
    id,
  ]);
}

export function toUser(row: Row): ScimUser {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    userName: text(row, "user_name"),
    email: text(row, "email"),
    externalId: textOrNull(row, "external_id"),
    active: integer(row, "active") === 1,
    displayName: textOrNull(row, "display_name"),
    givenName: textOrNull(row, "given_name"),
    familyName: textOrNull(row, "family_name"),
    personId: textOrNull(row, "person_id"),
    createdAt: integer(row, "created_at"),
    changedAt: integer(row, "changed_at"),
  };
}
