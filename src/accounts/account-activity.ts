// What changes of accounts and members leave behind: audit entries, events and emails, in the transaction of the change.

import type { AccountCreated, AccountRenamed } from "../accounts/accounts.ts";
import type { MemberChange, Role } from "../accounts/members.ts";
import { type Act, type Actor, recordAuditEntry } from "../activity/audit.ts";
import { emitEvent } from "../activity/events.ts";
import { usdText } from "../base/money/money.ts";
import { networksOf } from "../http/request/client-ip.ts";
import type { Tx } from "../store/db.ts";

/** A new account. It cannot have a webhook yet, so no event is emitted. */
export async function recordAccountCreated(tx: Tx, created: AccountCreated): Promise<void> {
  const { account, keyId, clientIp, now } = created;
  const { id: accountId, name, email, createdBy } = account;
  const actor: Actor =
    createdBy === null ? { type: "key", id: keyId ?? "" } : { type: "person", id: createdBy };
  const common = { accountId, actor, now };
  const network = coarseNetwork(clientIp);
  await recordAuditEntry(tx, {
    ...common,
    action: "account.created",
    target: accountId,
    detail: { ...(email !== null && { email }), ...(name !== null && { name }) },
    network,
  });
}

export async function recordAccountRenamed(tx: Tx, renamed: AccountRenamed): Promise<void> {
  const { accountId, name, actor, clientIp, now } = renamed;
  await recordAuditEntry(tx, {
    accountId,
    actor,
    action: "account.renamed",
    target: accountId,
    detail: { name },
    network: coarseNetwork(clientIp),
    now,
  });
}

/** A change of the members, made by a person in the console. */
export async function recordMemberChange(tx: Tx, change: MemberChange): Promise<void> {
  const { kind, accountId, actor, target, email, role, allowance, clientIp, now } = change;
  await recordAuditEntry(tx, {
    accountId,
    actor: { type: "person", id: actor.personId },
    action: kind,
    target,
    detail: {
      by: actor.email,
      ...(email === undefined ? {} : { email }),
      ...(kind === "member.changed"
        ? {
            role,
            allowance_usd: allowance === undefined ? null : usdText(allowance.limit),
            allowance_window: allowance?.window ?? null,
          }
        : {}),
    },
    network: coarseNetwork(clientIp),
    now,
  });
  if (kind !== "member.invited" || email === undefined || role === undefined) return;
  const data = { invitation_id: target, email, role, by: actor.email };
  await emitEvent(tx, { type: kind, accountId, data, now });
}

interface NewMember {
  readonly email: string;
  readonly role: Role;
  /** null for an invitation from the console. */
  readonly claimAttemptId: string | null;
}

/** A person who joined: the actor of the act. */
export async function recordMemberAdded(
  tx: Tx,
  act: Act,
  { email, role, claimAttemptId }: NewMember,
): Promise<void> {
  const action = "member.added";
  const target = claimAttemptId ?? act.actor.id;
  await recordAuditEntry(tx, { ...act, action, target, detail: { email, role } });
  const { accountId, now } = act;
  const data = { claim_attempt_id: claimAttemptId, email, role };
  await emitEvent(tx, { type: action, accountId, data, now });
}

function coarseNetwork(address: string): string {
  return networksOf(address)[1];
}
