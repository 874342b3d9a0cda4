// What a key may do to keys. An account that nobody has claimed is its keys', and they may do everything. Once a human
// owns it, a limit is the owner's word to a program: no key widens it, neither on itself, nor on another, nor by minting
// one that has more. What a limited key gives to a new one is taken off its own limit, so that all that come from it
// together spend no more than it might have.

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
  /** The minting key as it is now, where its limit became less. */
  readonly loweredCaller: Key | undefined;
}

/** Mints a key for a key. */
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
  const minted = await keys.create(tx, accountId, settings, now);
  if (limits === undefined || limits.key.limit === null || minted.key.limit === null)
    return { ...minted, loweredCaller: undefined };
  const limit = limits.key.limit - minted.key.limit;
  const loweredCaller = await changeKey(tx, accountId, keyId, { limit, now });
  return { ...minted, loweredCaller };
}

/** Changes a key for a key. */
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

/** Locks the account, so that a claim at the same moment comes before or after. */
async function isClaimed(tx: Tx, accountId: string): Promise<boolean> {
  const [row] = await tx.lockMany("account", "id", [accountId]);
  return (row?.["claimed_at"] ?? null) !== null;
}

interface DelegationLimits {
  readonly key: Key;
  /** What no call has spent of its limit, or holds. */
  readonly remaining: Nano;
}

/** Locks what the key's calls count on: none of them is let in by the limit of before. */
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
      `This key expires at ${until}, and what it mints may not outlive it. Send an expires_at that is no later.`,
    );
  }
  if (key.limit === null) return;
  if (limit === undefined || limit === null || limit > remaining)
    throw ownerOnlyFault(
      accountId,
      "limit_usd",
      `This key has ${usdText(remaining)} USD left of its own limit, and hands on no more. Send a limit_usd up to that; it is taken off this key's limit.`,
    );
  const window = settings.limitWindow ?? null;
  if (window !== null && window !== key.limitWindow)
    throw ownerOnlyFault(
      accountId,
      "limit_window",
      `The limit of this key opens again ${resetText(key)}. What it mints has a limit_window of ${key.limitWindow === null ? "null" : `"${key.limitWindow}" or null`}.`,
    );
}

function assertNotRaised(key: Key, change: KeySettings): void {
  const { accountId } = key;
  const isLater = (change.expiresAt ?? Infinity) > (key.expiresAt ?? Infinity);
  if (change.expiresAt !== undefined && key.expiresAt !== null && isLater)
    throw ownerOnlyFault(
      accountId,
      "expires_at",
      "A key may bring an expiry forward, and not put it off or take it away.",
    );
  if (key.limit === null) return;
  if (change.limit === null || (change.limit !== undefined && change.limit > key.limit))
    throw ownerOnlyFault(
      accountId,
      "limit_usd",
      "A key may lower a limit, and not raise it or take it away.",
    );
  if (change.limitWindow !== undefined && change.limitWindow !== key.limitWindow)
    throw ownerOnlyFault(
      accountId,
      "limit_window",
      `A key may not change when a limit opens again; this one does ${resetText(key)}.`,
    );
}

function resetText({ limitWindow }: Key): string {
  return limitWindow === null ? "never" : `every ${limitWindow}`;
}

function ownerOnlyFault(accountId: string, param: string, message: string): Fault {
  return new Fault("forbidden", `a key may not widen ${param}`, {
    message: `${message} This account belongs to a human, so beyond that its owner decides, in the console.`,
    param,
    next: [
      {
        method: "GET",
        url: `/console/${accountId}/keys`,
        why: "A page for humans: there the workspace's owner makes keys, and changes limits and expiries.",
      },
    ],
  });
}
