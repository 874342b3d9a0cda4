// What billing does in the transaction of a change of members.

import { recordMemberChange } from "../accounts/account-activity.ts";
import type { MemberChange } from "../accounts/members.ts";
import { personAct } from "../activity/audit.ts";
import type { Tx } from "../store/db.ts";
import { revokeCharging } from "./top-up/auto-top-up.ts";

/** A new owner must not spend from the previous owner's payment method, so charging is revoked. */
export async function handleMemberChange(tx: Tx, change: MemberChange): Promise<void> {
  await recordMemberChange(tx, change);
  if (change.kind !== "owner.changed") return;
  const { accountId, actor, clientIp, now } = change;
  const act = personAct(accountId, actor.personId, { clientIp, now });
  await revokeCharging(tx, { ...act, detail: { by: actor.email } });
}
