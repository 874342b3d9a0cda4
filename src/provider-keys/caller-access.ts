// What an API key may do with provider keys. A provider key receives the prompts of the API keys that use it, so a key gives it
// only its own, unless the key acts as the owner of an account that has none.

import { endedKeyFault, Fault } from "../base/fault.ts";
import type { Caller } from "../http/route.ts";
import { SCOPE_NAMES } from "../http/scopes.ts";
import { findLiveKey } from "../keys/live-keys.ts";
import type { Tx } from "../store/db.ts";
import type { ProviderKey, ProviderKeySettings, ProviderKeyUse } from "./provider-keys.ts";

export interface ProviderKeyAccess {
  readonly accountId: string;
  readonly keyId: string;
  readonly isClaimed: boolean;
  /** True if the key acts as the owner. */
  readonly isOwner: boolean;
  /** False for a key with a limit, a policy or a list of scopes. */
  readonly reachesOthers: boolean;
}

/** Locks the account, so that a concurrent claim comes before or after. */
export async function lockProviderKeyAccess(
  tx: Tx,
  { accountId, keyId }: Caller,
  now: number,
): Promise<ProviderKeyAccess> {
  const [account] = await tx.lockMany("account", "id", [accountId]);
  const isClaimed = (account?.["claimed_at"] ?? null) !== null;
  const key = await findLiveKey(tx, keyId, now);
  if (key === undefined) throw endedKeyFault("key revoked or expired");
  const isOwner = !isClaimed && key.granted.size === SCOPE_NAMES.length;
  const reachesOthers = key.granted.has("keys:manage");
  return { accountId, keyId, isClaimed, isOwner, reachesOthers };
}

/** The use of a new provider key. Without a list, it serves the key that adds it. */
export function newProviderKeyUse(
  access: ProviderKeyAccess,
  { apiKeyIds = [access.keyId], allowStore = false }: ProviderKeySettings,
): ProviderKeyUse {
  if (!access.isOwner) assertOwnUse(access, { apiKeyIds, allowStore });
  return { apiKeyIds, allowStore };
}

export function assertMayChange(
  access: ProviderKeyAccess,
  before: ProviderKey,
  { apiKeyIds = before.apiKeyIds, allowStore = false }: ProviderKeySettings,
): void {
  if (access.isOwner) return;
  assertOwn(access, before, "A key can only change the provider keys that it added for itself.");
  assertOwnUse(access, { apiKeyIds, allowStore });
}

export function assertMayDelete(access: ProviderKeyAccess, before: ProviderKey): void {
  if (access.reachesOthers) return;
  assertOwn(
    access,
    before,
    "A key with a limit, a policy or a list of scopes only deletes the provider keys that it added for itself.",
  );
}

function assertOwnUse(access: ProviderKeyAccess, { apiKeyIds, allowStore }: ProviderKeyUse): void {
  if (!servesOnly(apiKeyIds, access.keyId))
    throw ownerOnlyFault(
      access,
      "api_key_ids",
      `A key can only add provider keys for its own calls. Leave \`api_key_ids\` out, or set it to ["${access.keyId}"].`,
    );
  if (allowStore)
    throw ownerOnlyFault(access, "allow_store", "A key cannot allow the provider to store calls.");
}

function assertOwn(access: ProviderKeyAccess, key: ProviderKey, message: string): void {
  if (key.addedBy !== access.keyId || !servesOnly(key.apiKeyIds, access.keyId))
    throw ownerOnlyFault(access, "id", message);
}

function servesOnly(apiKeyIds: ProviderKey["apiKeyIds"], keyId: string): boolean {
  return apiKeyIds !== null && apiKeyIds.every((id) => id === keyId);
}

function ownerOnlyFault(access: ProviderKeyAccess, param: string, message: string): Fault {
  const { accountId, isClaimed } = access;
  return new Fault("forbidden", `a key cannot set ${param} of a provider key`, {
    message: isClaimed
      ? `${message} Owners and admins of the account can do it in the console.`
      : `${message} The first key of the account can do it.`,
    param,
    next: isClaimed
      ? [
          {
            method: "GET",
            url: `/console/${accountId}/provider-keys`,
            why: "The provider keys page of the console.",
          },
        ]
      : [{ method: "GET", url: "/v1/provider-keys", why: "List the provider keys." }],
  });
}
