// What a key may do to keys. In an unclaimed account, everything. In a claimed account, a key can only lower limits and
// expiries: it cannot raise them on itself or on other keys, nor create a key with more. The limit of a key that it
// creates is subtracted from its own, so that together they cannot spend more.

import { Fault } from "../base/fault.ts";
import { type Nano, maxNano, toNano, usdText } from "../base/money.ts";
import type { Tx } from "../store/db.ts";
import { changeKey, getKey, type Key, type Keys, type KeySettings, lockKey } from "./keys.ts";

export interface CallerKey {
  readonly accountId: string;
  readonly keyId: string;
}

export interface CreatedKey {
  readonly key: Key;
  readonly raw: string;
  /** The calling key, if its limit was lowered. */
  readonly loweredCaller: Key | undefined;
}

export async function createKeyForCaller(
  tx: Tx,
  keys: Keys,
  caller: CallerKey,
  { settings, now }: { readonly settings: KeySettings; readonly now: number },
): Promise<CreatedKey> {
  const { accountId, keyId } = caller;
  const limits = (await isClaimed(tx, accountId))
    ? await lockDelegationLimits(tx, caller, now)
    : undefined;
  if (limits !== undefined) assertWithinLimits(limits, settings, accountId);
  const created = await keys.create(tx, accountId, settings, now);
  if (limits === undefined || limits.key.limit === null || created.key.limit === null)
    return { ...created, loweredCaller: undefined };
  const limit = limits.key.limit - created.key.limit;
  const loweredCaller = await changeKey(tx, accountId, keyId, { limit, now });
  return { ...created, loweredCaller };
}

export async function changeKeyForCaller(
  tx: Tx,
  accountId: string,
  id: string,
  change: KeySettings & { readonly now: number },
): Promise<Key> {
  if (await isClaimed(tx, accountId))
    assertNotRaised(await lockKey(tx, accountId, id, change.now), change);
  return await changeKey(tx, accountId, id, change);
}

/** Locks the account, so that a concurrent claim comes before or after. */
async function isClaimed(tx: Tx, accountId: string): Promise<boolean> {
  const [row] = await tx.lockMany("account", "id", [accountId]);
  return (row?.["claimed_at"] ?? null) !== null;
}

interface DelegationLimits {
  readonly key: Key;
  /** The part of its limit that is neither spent nor held. */
  readonly remaining: Nano;
}

/** Locks the key and its spend, so that no hold is decided with the limit before the change. */
async function lockDelegationLimits(
  tx: Tx,
  { accountId, keyId }: CallerKey,
  now: number,
): Promise<DelegationLimits> {
  const [keySpend] = await tx.lockMany("spender", "key_id", [keyId]);
  await tx.lockMany("api_key", "id", [keyId]);
  const key = await getKey(tx, accountId, keyId, now);
  const remaining = (key.limit ?? 0n) - key.spent - toNano(keySpend?.["held"] ?? 0);
  return { key, remaining: maxNano(remaining, 0n) };
}

function assertWithinLimits(
  { key, remaining }: DelegationLimits,
  settings: KeySettings,
  accountId: string,
): void {
  const { expiresAt, limit } = settings;
  if (key.expiresAt !== null && (expiresAt ?? Infinity) > key.expiresAt) {
    const until = new Date(key.expiresAt).toISOString();
    throw ownerOnlyFault(
      accountId,
      "expires_at",
      `This key expires at ${until}, and keys that it creates must not expire later. Set \`expires_at\` to that time or earlier.`,
    );
  }
  if (key.limit === null) return;
  if (limit === undefined || limit === null || limit > remaining)
    throw ownerOnlyFault(
      accountId,
      "limit_usd",
      `This key has ${usdText(remaining)} USD left of its own limit. Set \`limit_usd\` to at most that; it is subtracted from this key's limit.`,
    );
  const window = settings.limitWindow ?? null;
  if (window !== null && window !== key.limitWindow)
    throw ownerOnlyFault(
      accountId,
      "limit_window",
      `The limit of this key resets ${resetText(key)}. Set \`limit_window\` to ${key.limitWindow === null ? "null" : `"${key.limitWindow}" or null`}.`,
    );
}

function assertNotRaised(key: Key, change: KeySettings): void {
  const { accountId } = key;
  const isLater = (change.expiresAt ?? Infinity) > (key.expiresAt ?? Infinity);
  if (change.expiresAt !== undefined && key.expiresAt !== null && isLater)
    throw ownerOnlyFault(
      accountId,
      "expires_at",
      "A key cannot extend or remove an expiry; it can only bring it forward.",
    );
  if (key.limit === null) return;
  if (change.limit === null || (change.limit !== undefined && change.limit > key.limit))
    throw ownerOnlyFault(
      accountId,
      "limit_usd",
      "A key cannot raise or remove a limit; it can only lower it.",
    );
  if (change.limitWindow !== undefined && change.limitWindow !== key.limitWindow)
    throw ownerOnlyFault(
      accountId,
      "limit_window",
      `A key cannot change when a limit resets; this one resets ${resetText(key)}.`,
    );
}

function resetText({ limitWindow }: Key): string {
  return limitWindow === null ? "never" : `every ${limitWindow}`;
}

function ownerOnlyFault(accountId: string, param: string, message: string): Fault {
  return new Fault("forbidden", `a key cannot raise ${param}`, {
    message: `${message} The account is claimed: only people can raise limits, on the Keys page of the console.`,
    param,
    next: [
      {
        method: "GET",
        url: `/console/${accountId}/keys`,
        why: "A page for people: create keys and change limits and expiries there.",
      },
    ],
  });
}
