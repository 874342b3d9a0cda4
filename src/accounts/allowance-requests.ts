// Developers without an allowance, who ask the owner for one.

import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { emitEvent } from "../activity/events.ts";
import { Fault } from "../base/fault.ts";
import { type Reader, text, type Tx } from "../store/db.ts";
import { authorize, getMember, type Member, SELECT_MEMBER, toMember } from "./members.ts";

/** Notifies the owner. A second request before the first is answered does nothing. */
export async function requestAllowance(tx: Tx, act: Act): Promise<void> {
  const { accountId, actor, now } = act;
  await authorize(tx, act, "keys.create");
  const { role, email } = await getMember(tx, accountId, actor.id);
  if (role !== "developer")
    throw new Fault("conflict", "only developers have an allowance", {
      message: "Only developers need an allowance.",
    });
  const requested = await tx.run(
    `update membership set allowance_requested_at = ?
     where account_id = ? and person_id = ? and allowance_requested_at is null`,
    [now, accountId, actor.id],
  );
  if (requested === 0) return;
  const detail = { email };
  await recordAuditEntry(tx, { ...act, action: "allowance.requested", target: actor.id, detail });
  await emitEvent(tx, { type: "allowance.requested", accountId, data: { email }, now });
}

/** The developers who wait for an allowance, those who asked first at the top. */
export async function listAllowanceRequests(
  reader: Reader,
  accountId: string,
  limit: number,
): Promise<readonly Member[]> {
  const rows = await reader.all(
    `${SELECT_MEMBER} where account_id = ? and role = 'developer' and allowance_requested_at is not null
     order by allowance_requested_at, person_id limit ?`,
    [accountId, limit],
  );
  return rows.map(toMember);
}

/** Undefined for an account without an owner. */
export async function ownerEmail(reader: Reader, accountId: string): Promise<string | undefined> {
  const row = await reader.get(`${SELECT_MEMBER} where account_id = ? and role = 'owner'`, [
    accountId,
  ]);
  return row === undefined ? undefined : text(row, "email");
}
