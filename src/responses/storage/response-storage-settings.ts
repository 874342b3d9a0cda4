// An account's own setting of which responses are stored, and for how long. It can only be stricter than the operator's.

import { authorize, lockWorkspace } from "../../accounts/members.ts";
import { findOwnStorage, setOwnStorage } from "../../accounts/own-response-storage.ts";
import { type Act, recordAuditEntry } from "../../activity/audit.ts";
import { Fault } from "../../base/fault.ts";
import { type ResponseStorage, strictestStorage } from "../../base/response-storage.ts";
import { DAY_MS } from "../../base/time.ts";
import type { Reader, Tx } from "../../store/db.ts";
import { accountStorageUsage } from "./response-rows.ts";

export interface StorageState {
  /** What applies: the stricter of the operator's and the account's setting. */
  readonly storage: ResponseStorage;
  readonly operator: ResponseStorage;
  readonly responses: number;
  readonly bytes: number;
}

export async function readStorage(
  reader: Reader,
  operator: ResponseStorage,
  accountId: string,
): Promise<StorageState> {
  const own = await findOwnStorage(reader, accountId);
  const usage = await accountStorageUsage(reader, accountId);
  return { storage: strictestStorage(operator, own), operator, ...usage };
}

/** Changes only the given fields. Applies to stored responses at once: what is older than the new time, or may no longer be stored, can no longer be read. */
export async function changeStorage(
  tx: Tx,
  act: Act,
  operator: ResponseStorage,
  change: Partial<ResponseStorage>,
): Promise<StorageState> {
  const { accountId, actor, now } = act;
  const { isClaimed } = await lockWorkspace(tx, accountId);
  await authorize(tx, act, "responses.change");
  if (isClaimed && actor.type === "key") throw ownerOnlyFault();
  const before = await readStorage(tx, operator, accountId);
  const storage = strictestStorage(operator, { ...before.storage, ...change });
  await setOwnStorage(tx, accountId, storage);
  await expireBeyond(tx, accountId, storage, now);
  const detail = { store: storage.mode, retention_days: storage.retentionDays };
  await recordAuditEntry(tx, { ...act, action: "response_storage.changed", target: null, detail });
  return await readStorage(tx, operator, accountId);
}

async function expireBeyond(
  tx: Tx,
  accountId: string,
  { mode, retentionDays }: ResponseStorage,
  now: number,
): Promise<void> {
  if (mode === "never") {
    // Expired rows cannot be read; the sweep deletes them.
    await tx.run(
      "update stored_response set expires_at = ? where account_id = ? and expires_at > ?",
      [now, accountId, now],
    );
    return;
  }
  const ms = retentionDays * DAY_MS;
  await tx.run(
    "update stored_response set expires_at = created_at + ? where account_id = ? and expires_at > created_at + ?",
    [ms, accountId, ms],
  );
}

function ownerOnlyFault(): Fault {
  return new Fault("forbidden", "a key cannot change what a workspace stores", {
    message:
      "The account is claimed: only its owner and admins can change what is stored, in the console. Keys can read the setting.",
    next: [
      {
        method: "GET",
        url: "/v1/account/response-storage",
        why: "Get the setting and what is stored.",
      },
    ],
  });
}
