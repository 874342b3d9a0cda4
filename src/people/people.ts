// People: humans whom an identity provider has vouched for. It owns the table person. A person is an issuer's subject;
// the email is what that issuer last said to be verified, and may change.

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

/** Whom an identity provider has signed in. */
export interface Identity {
  readonly issuer: string;
  readonly subject: string;
  /** Verified; sign-in refuses every other. */
  readonly email: string;
  readonly name: string | null;
}

/** Finds or makes the person, and keeps the email that was verified last. */
export async function recordPerson(tx: Tx, identity: Identity, now: number): Promise<Person> {
  const { issuer, subject, email, name } = identity;
  const row = await tx.get(
    `insert into person (id, issuer, subject, email, name, created_at, signed_in_at) values (?, ?, ?, ?, ?, ?, ?)
     on conflict (issuer, subject) do update set email = excluded.email, name = excluded.name,
       signed_in_at = excluded.signed_in_at returning *`,
    [newId("usr", now), issuer, subject, email, name, now, now],
  );
  if (row === undefined) throw new Error("a person was not recorded");
  return toPerson(row);
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
