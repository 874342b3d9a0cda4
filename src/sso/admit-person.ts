// Who becomes a member by a sign-in with the workspace's identity provider. The person is new to the gateway's own sign-in:
// they are a member of this workspace only, whatever other accounts have the same email address.

import { findOpenInvitation, respondToInvitation } from "../accounts/invitations.ts";
import { listMembersWithEmail, moveMembership } from "../accounts/member-identities.ts";
import { addMember, findMembership, lockWorkspace } from "../accounts/members.ts";
import { personAct, recordAuditEntry } from "../activity/audit.ts";
import { Fault } from "../base/fault.ts";
import { foldEmail } from "../base/text/email.ts";
import { reassignKeys } from "../keys/keys.ts";
import type { Person } from "../people/people.ts";
import { directoryRoleOf, syncRole } from "../scim/apply-directory.ts";
import type { Tx } from "../store/db.ts";
import type { SsoConnection } from "./connections.ts";

export interface Admission {
  readonly connection: SsoConnection;
  readonly person: Person;
  readonly clientIp: string;
  readonly now: number;
}

/** Throws `forbidden` for people whom the workspace does not admit. */
export async function admitPerson(tx: Tx, admission: Admission): Promise<void> {
  const { connection, person, clientIp, now } = admission;
  const { accountId, defaultRole } = connection;
  await lockWorkspace(tx, accountId);
  const act = personAct(accountId, person.id, { clientIp, now });
  const { network } = act;
  const directoryRole = await directoryRoleOf(tx, accountId, person);
  const isMember = (await findMembership(tx, accountId, person.id)) !== undefined;
  if (!isMember && !(await takeOverMembership(tx, admission))) {
    const { email, id: personId } = person;
    const role = directoryRole ?? defaultRole;
    const invitation = await findOpenInvitation(tx, { accountId, email, now });
    if (invitation !== undefined) {
      const response = { id: invitation.id, accept: true, personId, email, network, now };
      await respondToInvitation(tx, response);
    } else if (role === null)
      throw new Fault("forbidden", "not a member of the workspace", {
        message: `${email} is not a member of this workspace. Ask its owner to invite you.`,
      });
    else
      await addMember(tx, {
        accountId,
        personId,
        role,
        via: connection.id,
        network,
        now,
      });
  }
  await syncRole(tx, act, person);
  const detail = { email: person.email, issuer: connection.issuer };
  await recordAuditEntry(tx, { ...act, action: "sso.signed_in", target: person.id, detail });
}

/**
 * A member who joined with the gateway's sign-in, or with a former identity provider, becomes the person who signs in now:
 * role, allowance and keys of this workspace move. The owner keeps their own sign-in, which works without the provider.
 */
async function takeOverMembership(
  tx: Tx,
  { connection, person, clientIp, now }: Admission,
): Promise<boolean> {
  const { accountId } = connection;
  const members = await listMembersWithEmail(tx, accountId, foldEmail(person.email));
  const former = members.find(({ role }) => role !== "owner");
  if (former === undefined) return false;
  // Another subject of the same issuer can be another human who was given the address.
  if (former.ssoAccountId === accountId && former.issuer === person.issuer)
    throw new Fault("forbidden", "another subject with the email of a member", {
      message: `Another account of your identity provider is the member ${person.email}. Ask the owner of the workspace to remove that member, then sign in again.`,
    });
  const act = personAct(accountId, person.id, { clientIp, now });
  await moveMembership(tx, act, { from: former.personId, to: person.id });
  await reassignKeys(tx, accountId, { from: former.personId, to: person.id });
  return true;
}
