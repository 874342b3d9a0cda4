// Finds keys that expire soon, so that their owners can be notified in time.

import { emitEvent } from "../activity/events.ts";
import { DAY_MS } from "../base/time.ts";
import { integer, text, textOrNull, type Tx } from "../store/db.ts";
import type { Key } from "./key.ts";

/** A key that was created for a shorter time is not reported. */
export const EXPIRY_NOTICE_DAYS = 7;
const NOTICE_MS = EXPIRY_NOTICE_DAYS * DAY_MS;

/** Whether people should be told that the key expires. */
export function isExpiringSoon(
  { createdAt, expiresAt }: Pick<Key, "createdAt" | "expiresAt">,
  now: number,
): boolean {
  return (
    expiresAt !== null &&
    expiresAt > now &&
    expiresAt <= now + NOTICE_MS &&
    expiresAt - createdAt > NOTICE_MS
  );
}

const BATCH_MAX = 100;

/** Emits an event for each key that expires soon, once per expiry, also if it is called concurrently. */
export async function emitExpiringKeys(tx: Tx, now: number): Promise<void> {
  const isDue = `expires_at > ? and expires_at <= ? and expires_at - created_at > ?
    and revoked_at is null and coalesce(expiry_event_for, 0) <> expires_at`;
  const window = [now, now + NOTICE_MS, NOTICE_MS];
  const rows = await tx.all(
    `update api_key set expiry_event_for = expires_at where ${isDue}
     and id in (select id from api_key where ${isDue} order by id limit ?) returning *`,
    [...window, ...window, BATCH_MAX],
  );
  for (const row of rows) {
    const data = {
      key_id: text(row, "id"),
      name: textOrNull(row, "name"),
      last4: text(row, "last4"),
      expires_at: new Date(integer(row, "expires_at")).toISOString(),
    };
    await emitEvent(tx, { type: "key.expiring", accountId: text(row, "account_id"), data, now });
  }
}
