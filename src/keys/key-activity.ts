// What a change of a key leaves behind: an audit entry, and an event if a key is created or revoked.

import { type Act, type AuditDetail, recordAuditEntry } from "../activity/audit.ts";
import { emitEvent } from "../activity/events.ts";
import { usdText } from "../base/money/money.ts";
import { policyText } from "../http/key-policy.ts";
import type { Tx } from "../store/db.ts";
import { credentialText } from "./key-credential.ts";
import type { Key } from "./key.ts";

/** An account cannot have a webhook before its first key, so that key emits no event. */
export async function recordKeyCreated(
  tx: Tx,
  act: Act,
  key: Key,
  isFirst: boolean,
): Promise<void> {
  const entry = { ...act, action: "key.created", target: key.id, detail: detailOf(key) } as const;
  await recordAuditEntry(tx, entry);
  if (isFirst) return;
  await emitEvent(tx, { type: "key.created", ...eventOf(act, key) });
}

/** The entry has the settings as they are now and, as `…_before`, the former values of those that changed. */
export async function recordKeyChanged(
  tx: Tx,
  act: Act,
  { before, after }: { readonly before: Key; readonly after: Key },
): Promise<void> {
  const [former, current] = [detailOf(before), detailOf(after)];
  const changed = Object.keys({ ...former, ...current }).filter(
    (field) => String(former[field]) !== String(current[field]),
  );
  const detail = {
    ...current,
    ...Object.fromEntries(changed.map((field) => [`${field}_before`, former[field] ?? null])),
  };
  await recordAuditEntry(tx, { ...act, action: "key.changed", target: after.id, detail });
}

/** The entry and the event name both secrets by their last characters. */
export async function recordKeyRotated(
  tx: Tx,
  act: Act,
  { before, after }: { readonly before: Key; readonly after: Key },
): Promise<void> {
  const detail = { ...detailOf(after), last4_before: before.last4 };
  await recordAuditEntry(tx, { ...act, action: "key.rotated", target: after.id, detail });
  const { accountId, data, now } = eventOf(act, after);
  const until = after.formerSecret?.until ?? now;
  await emitEvent(tx, {
    type: "key.rotated",
    accountId,
    data: {
      ...data,
      former_last4: before.last4,
      former_secret_until: new Date(until).toISOString(),
    },
    now,
  });
}

export async function recordKeyRevoked(tx: Tx, act: Act, key: Key): Promise<void> {
  const entry = { ...act, action: "key.revoked", target: key.id, detail: detailOf(key) } as const;
  await recordAuditEntry(tx, entry);
  await emitEvent(tx, { type: "key.revoked", ...eventOf(act, key) });
}

function detailOf(key: Key): AuditDetail {
  const { name, last4, limit, limitWindow, expiresAt, scopes, policy, alertPercents } = key;
  const { formerSecret } = key;
  return {
    name,
    last4,
    ...(key.credential && { credential: credentialText(key.credential) }),
    limit_usd: limit === null ? null : usdText(limit),
    limit_window: limitWindow,
    expires_at: expiresAt === null ? null : new Date(expiresAt).toISOString(),
    scopes,
    policy: policyText(policy),
    alert_percents: alertPercents === null ? null : alertPercents.map(String),
    ...(formerSecret && { former_secret_until: new Date(formerSecret.until).toISOString() }),
  };
}

function eventOf({ actor, now }: Act, { id, accountId, name, prefix, last4 }: Key) {
  return { accountId, data: { key_id: id, name, prefix, last4, by: actor.id }, now };
}
