// People who have signed in. Owns the table person. A person is identified by issuer and subject; the email is the last
// one that the issuer verified, and may change. A person of a workspace's own identity provider is another person than one
// of the gateway's with the same issuer, subject or email, so no workspace can sign in to the people of another.

import { newId } from "../base/id.ts";
import { type Row, text, textOrNull, type Tx, integer } from "../store/db.ts";

export interface Person {
  readonly id: string;
  readonly issuer: string;
  readonly subject: string;
  readonly email: string;
  readonly name: string | null;
  readonly createdAt: number;
}

/** The result of a sign-in. */
export interface Identity {
  readonly issuer: string;
  readonly subject: string;
  /** Verified by the issuer. */
  readonly email: string;
  readonly name: string | null;
  /** The workspace whose identity provider signs the person in; absent for that of the gateway. */
  readonly ssoAccountId?: string | undefined;
}

/** Inserts the person, or updates email and name. */
export async function recordPerson(tx: Tx, identity: Identity, now: number): Promise<Person> {
  const { issuer, subject, email, name, ssoAccountId = "" } = identity;
  const row = await tx.get(
    `insert into person (id, issuer, subject, email, name, created_at, signed_in_at, sso_account_id)
     values (?, ?, ?, ?, ?, ?, ?, ?)
     on conflict (issuer, subject, sso_account_id) do update set email = excluded.email, name = excluded.name,
       signed_in_at = excluded.signed_in_at returning *`,
    [newId("usr", now), issuer, subject, email, name, now, now, ssoAccountId],
  );
  if (row === undefined) throw new Error("person upsert returned no row");
  return toPerson(row);
}

export async function setTimeZone(tx: Tx, personId: string, timeZone: string): Promise<void> {
  await tx.run("update person set time_zone = ? where id = ?", [timeZone, personId]);
}

function toPerson(row: Row): Person {
  return {
    id: text(row, "id"),
    issuer: text(row, "issuer"),
    subject: text(row, "subject"),
    email: text(row, "email"),
    name: textOrNull(row, "name"),
    createdAt: integer(row, "created_at"),
  };
}
