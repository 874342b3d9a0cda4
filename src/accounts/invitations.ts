// Invitations to a workspace. It owns the table invitation. An invitation is bound to an email address, which the
// invited person must have verified. It is shown after sign-in, and sent by email where an SMTP server is set.

import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { countEvents, emitEvent } from "../activity/events.ts";
import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { emailError, foldEmail } from "../base/text/email.ts";
import { DAY_MS } from "../base/time.ts";
import {
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  integer,
} from "../store/db.ts";
import {
  type Allowance,
  addMember,
  assertManagesAdmins,
  authorize,
  byActor,
  lockWorkspace,
  MEMBER_ROLES,
  type MemberRole,
  type Role,
  toAllowance,
} from "./members.ts";
import { requireOwnIdentity } from "./sso-identity.ts";

const LIFETIME_MS = 14 * DAY_MS;
const OPEN_MAX = 50;
/** Each is an email to an address that the workspace names. */
const SENT_PER_DAY_MAX = 100;

export interface Invitation {
  readonly id: string;
  readonly accountId: string;
  /** null if the workspace has no name. */
  readonly workspaceName: string | null;
  readonly email: string;
  readonly role: MemberRole;
  /** Only developers have one. */
  readonly allowance: Allowance | undefined;
  readonly invitedBy: string;
  readonly createdAt: number;
  readonly expiresAt: number;
}

/** A second invitation of the same address replaces the first. Returns the id. A member cannot be invited. */
export async function invite(
  tx: Tx,
  act: Act,
  request: {
    readonly email: string;
    readonly role: MemberRole;
    readonly allowance?: Allowance | undefined;
  },
): Promise<string> {
  const { accountId, now } = act;
  const { role } = request;
  const { limit = null, window = null } = (role === "developer" ? request.allowance : null) ?? {};
  await authorize(tx, act, "members.invite");
  if (role === "admin") await assertManagesAdmins(tx, act, "Only the owner can invite an admin.");
  const { by: invitedBy } = await byActor(tx, act);
  if (invitedBy === undefined) throw new Error("only a person can invite another");
  const trimmed = request.email.trim();
  const error = emailError(trimmed);
  if (error !== undefined) throw invalid("email", `\`email\` ${error}.`);
  const email = foldEmail(trimmed);
  if (email === foldEmail(invitedBy))
    throw invalid("email", "This is your own email address. You are already a member.");
  const member = await tx.get(
    "select role from membership join person on person.id = membership.person_id where account_id = ? and lower(person.email) = ?",
    [accountId, email],
  );
  if (member !== undefined)
    throw invalid(
      "email",
      `This address belongs to a member already, with the role ${text(member, "role")}.`,
    );
  await tx.run("delete from invitation where account_id = ? and email = ?", [accountId, email]);
  const open = await listInvitations(tx, accountId, now);
  if (open.length >= OPEN_MAX)
    throw new Fault("conflict", "too many invitations", {
      message: `A workspace can have ${OPEN_MAX} open invitations. Withdraw one first.`,
    });
  const id = newId("inst", now);
  await tx.run(
    `insert into invitation (id, account_id, email, role, invited_by, created_at, expires_at, allowance_nano, allowance_window)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [id, accountId, email, role, invitedBy, now, now + LIFETIME_MS, limit, window],
  );
  await announceInvitation(tx, act, { id, email, role, invitedBy });
  return id;
}

async function announceInvitation(
  tx: Tx,
  act: Act,
  { id, email, role, invitedBy }: Pick<Invitation, "id" | "email" | "role" | "invitedBy">,
): Promise<void> {
  const { accountId, now } = act;
  if ((await countEvents(tx, accountId, "member.invited", now - DAY_MS)) >= SENT_PER_DAY_MAX)
    throw new Fault("conflict", "too many invitations of a day", {
      message: `A workspace can send ${SENT_PER_DAY_MAX} invitations a day. Send more tomorrow, or let people join with single sign-on.`,
    });
  const detail = { by: invitedBy, email };
  await recordAuditEntry(tx, { ...act, action: "member.invited", target: id, detail });
  const data = { invitation_id: id, email, role, by: invitedBy };
  await emitEvent(tx, { type: "member.invited", accountId, data, now });
}

/** The link stays the same and is valid for another 14 days. It is sent by email if the gateway sends emails. */
export async function resendInvitation(tx: Tx, act: Act, id: string): Promise<void> {
  await authorize(tx, act, "members.invite");
  const row = await tx.get(`${SELECT_INVITATION} where invitation.id = ? and account_id = ?`, [
    id,
    act.accountId,
  ]);
  if (row === undefined) throw invitationNotFound();
  const invitation = toInvitation(row);
  if (invitation.role === "admin")
    await assertManagesAdmins(tx, act, "Only the owner can invite an admin.");
  const { now } = act;
  await tx.run("update invitation set created_at = ?, expires_at = ? where id = ?", [
    now,
    now + LIFETIME_MS,
    id,
  ]);
  await announceInvitation(tx, act, invitation);
}

/** Does nothing if the invitation does not exist. */
export async function withdrawInvitation(tx: Tx, act: Act, id: string): Promise<void> {
  await authorize(tx, act, "members.invite");
  const row = await tx.get(
    "delete from invitation where id = ? and account_id = ? returning email",
    [id, act.accountId],
  );
  if (row === undefined) return;
  const detail = { ...(await byActor(tx, act)), email: text(row, "email") };
  await recordAuditEntry(tx, { ...act, action: "invitation.withdrawn", target: id, detail });
}

export async function listInvitations(
  reader: Reader,
  accountId: string,
  now: number,
): Promise<readonly Invitation[]> {
  const rows = await reader.all(
    `${SELECT_INVITATION} where account_id = ? and expires_at > ? order by invitation.id desc`,
    [accountId, now],
  );
  return rows.map(toInvitation);
}

/** The invitation of a verified address to one workspace. */
export async function findOpenInvitation(
  reader: Reader,
  {
    accountId,
    email,
    now,
  }: { readonly accountId: string; readonly email: string; readonly now: number },
): Promise<Invitation | undefined> {
  const row = await reader.get(
    `${SELECT_INVITATION} where account_id = ? and invitation.email = ? and expires_at > ?`,
    [accountId, foldEmail(email), now],
  );
  return row && toInvitation(row);
}

/** `email` must be a verified address. */
export async function listInvitationsForEmail(
  reader: Reader,
  email: string,
  now: number,
): Promise<readonly Invitation[]> {
  const rows = await reader.all(
    `${SELECT_INVITATION} where invitation.email = ? and expires_at > ? order by invitation.id desc`,
    [foldEmail(email), now],
  );
  return rows.map(toInvitation);
}

export interface InvitationResult {
  readonly accountId: string;
  /** Undefined if declined. */
  readonly role: Role | undefined;
}

/** Ends an invitation; on acceptance, the person becomes a member with its role. */
export async function respondToInvitation(
  tx: Tx,
  response: {
    readonly id: string;
    readonly accept: boolean;
    readonly personId: string;
    readonly email: string;
    readonly network: string | null;
    readonly now: number;
  },
): Promise<InvitationResult> {
  const { id, accept, personId, email, network, now } = response;
  const row = await tx.get(
    `${SELECT_INVITATION} where invitation.id = ? and invitation.email = ? and expires_at > ?`,
    [id, foldEmail(email), now],
  );
  if (row === undefined) throw invitationNotFound();
  await requireOwnIdentity(tx, text(row, "account_id"), personId);
  const { accountId, role, allowance } = toInvitation(row);
  // A concurrent withdrawal or response may have been first.
  if ((await tx.run("delete from invitation where id = ?", [id])) !== 1) throw invitationNotFound();
  if (!accept) {
    const actor = { type: "person", id: personId } as const;
    const entry = {
      accountId,
      actor,
      action: "invitation.declined",
      target: id,
      network,
      now,
    } as const;
    await recordAuditEntry(tx, { ...entry, detail: { email: foldEmail(email) } });
    return { accountId, role: undefined };
  }
  await lockWorkspace(tx, accountId);
  const member = { accountId, personId, role, allowance, via: id, network, now };
  return { accountId, role: await addMember(tx, member) };
}

/** Undefined if the person is no longer a member. */
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

function invitationNotFound(): Fault {
  return new Fault("not_found", "no such invitation", {
    message: "The invitation was withdrawn or has expired.",
  });
}

const SELECT_INVITATION =
  "select invitation.*, account.name as workspace_name from invitation join account on account.id = invitation.account_id";

function toInvitation(row: Row): Invitation {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    workspaceName: textOrNull(row, "workspace_name"),
    email: text(row, "email"),
    role: enumValue(row, "role", MEMBER_ROLES),
    allowance: toAllowance(row),
    invitedBy: text(row, "invited_by"),
    createdAt: integer(row, "created_at"),
    expiresAt: integer(row, "expires_at"),
  };
}
