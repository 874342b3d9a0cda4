// What changes of accounts and members leave behind: audit entries, events and emails, in the transaction of the change.

import type { AccountCreated, AccountRenamed } from "../accounts/accounts.ts";
import type { MemberChange } from "../accounts/members.ts";
import { type Actor, recordAuditEntry } from "../audit/audit.ts";
import { usdText } from "../base/money/money.ts";
import { networksOf } from "../http/request/client-ip.ts";
import type { Tx } from "../store/db.ts";
import { queueAddressEmail } from "./emails.ts";
import { emitEvent } from "./events.ts";

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
  if (kind === "member.invited" && email !== undefined) {
    const data = { by: actor.email, role };
    await queueAddressEmail(tx, { type: kind, accountId, address: email, data, now });
  }
  if (kind !== "member.added" || email === undefined || role === undefined) return;
  const data = { claim_attempt_id: null, email, role };
  await emitEvent(tx, { type: kind, accountId, data, now });
}

function coarseNetwork(address: string): string {
  return networksOf(address)[1];
}
