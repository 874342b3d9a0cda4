// The identities of members: a person of the gateway's own sign-in, or one of the workspace's identity provider.

import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { type Reader, text, type Tx } from "../store/db.ts";
import { emailOf, type Role, toRole } from "./members.ts";

export interface MemberIdentity {
  readonly personId: string;
  readonly role: Role;
  readonly issuer: string;
  /** The workspace whose identity provider signs the person in; empty for that of the gateway. */
  readonly ssoAccountId: string;
}

/** The members with an address, in its folded form; those who joined first at the top. */
export async function listMembersWithEmail(
  reader: Reader,
  accountId: string,
  email: string,
): Promise<readonly MemberIdentity[]> {
  const rows = await reader.all(
    `select membership.person_id, role, issuer, sso_account_id from membership
     join person on person.id = membership.person_id
     where account_id = ? and lower(person.email) = ? order by added_at, person_id`,
    [accountId, email],
  );
  return rows.map((row) => ({
    personId: text(row, "person_id"),
    role: toRole(row),
    issuer: text(row, "issuer"),
    ssoAccountId: text(row, "sso_account_id"),
  }));
}

/** The comparable forms of the members' email addresses. */
export async function listMemberEmails(
  reader: Reader,
  accountId: string,
): Promise<ReadonlySet<string>> {
  const rows = await reader.all(
    `select lower(person.email) as email from membership join person on person.id = membership.person_id
     where account_id = ?`,
    [accountId],
  );
  return new Set(rows.map((row) => text(row, "email")));
}

/** Gives the membership of a person, with its role and allowance, to another identity of the same person. */
export async function moveMembership(
  tx: Tx,
  act: Act,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<void> {
  await tx.run("update membership set person_id = ? where account_id = ? and person_id = ?", [
    to,
    act.accountId,
    from,
  ]);
  const detail = { email: await emailOf(tx, to), person_before: from };
  await recordAuditEntry(tx, { ...act, action: "member.moved_to_sso", target: to, detail });
}
