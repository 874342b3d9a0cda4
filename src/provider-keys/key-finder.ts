// Finds the provider key of a call.

import type { DerivedKey } from "../base/crypto/encryption.ts";
import { Fault } from "../base/fault.ts";
import { lazy } from "../base/lazy.ts";
import { integer, type Reader, type Row, text, textOrNull, type Db } from "../store/db.ts";
import type { DecryptedKey, ProviderKeyCache, StoredKey } from "./provider-key-cache.ts";
import { decryptKey } from "./provider-key-encryption.ts";

/** The API key of a call. */
export interface KeyUser {
  readonly accountId: string;
  readonly keyId: string;
}

type FindNewestKey = (
  user: KeyUser,
  provider: string,
  now: number,
) => DecryptedKey | undefined | Promise<DecryptedKey | undefined>;

// Without a promise on a cache hit, as for most calls.
export function createKeyFinder(
  cache: ProviderKeyCache,
  lastUsed: Map<string, number>,
  read: (accountId: string, provider: string) => Promise<readonly StoredKey[]>,
): FindNewestKey {
  const choose = (
    keys: readonly StoredKey[],
    keyId: string,
    now: number,
  ): DecryptedKey | undefined => {
    const stored =
      keys.find(({ apiKeyIds }) => apiKeyIds?.includes(keyId)) ??
      keys.find(({ apiKeyIds }) => apiKeyIds === null);
    const key = stored?.decrypt();
    if (key !== undefined) lastUsed.set(key.id, now);
    return key;
  };
  const readThrough = async (
    { accountId, keyId }: KeyUser,
    provider: string,
    now: number,
  ): Promise<DecryptedKey | undefined> => {
    const keys = await read(accountId, provider);
    cache.set(cacheKeyOf(accountId, provider), keys, now);
    return choose(keys, keyId, now);
  };
  return (user, provider, now) => {
    const cached = cache.get(cacheKeyOf(user.accountId, provider), now);
    return cached === undefined
      ? readThrough(user, provider, now)
      : choose(cached.keys, user.keyId, now);
  };
}

const SELECT_STORED = `select id, account_id, provider, api_key_ids, allow_store, sealed, data_key from provider_key
  where status <> 'deleted'`;

/** Newest first. Each is decrypted when it is first used. */
export async function readStoredKeys(
  reader: Reader,
  kek: DerivedKey,
  accountId: string,
  provider: string,
): Promise<readonly StoredKey[]> {
  const rows = await reader.all(
    `${SELECT_STORED} and account_id = ? and provider = ? order by id desc`,
    [accountId, provider],
  );
  return rows.map((row) => toStoredKey(row, kek));
}

/** A fixed number, so that few statements are compiled. */
const ACCOUNTS_PER_STATEMENT = 50;
const SELECT_OF_ACCOUNTS = `${SELECT_STORED} and account_id in (${Array.from({ length: ACCOUNTS_PER_STATEMENT }, () => "?").join(", ")})
  order by id desc`;

/** Reads the entries that were used again, so that they do not expire. */
export async function refreshCache(
  cache: ProviderKeyCache,
  reader: Reader,
  kek: DerivedKey,
  now: number,
): Promise<void> {
  const used = cache.listUsed(now);
  const accounts = [...new Set(used.map((cacheKey) => cacheKey.slice(0, cacheKey.indexOf(" "))))];
  const found = new Map<string, StoredKey[]>(used.map((cacheKey) => [cacheKey, []]));
  for (let from = 0; from < accounts.length; from += ACCOUNTS_PER_STATEMENT) {
    const part = accounts.slice(from, from + ACCOUNTS_PER_STATEMENT);
    const missing = Array.from({ length: ACCOUNTS_PER_STATEMENT - part.length }, () => "");
    for (const row of await reader.all(SELECT_OF_ACCOUNTS, [...part, ...missing]))
      found
        .get(cacheKeyOf(text(row, "account_id"), text(row, "provider")))
        ?.push(toStoredKey(row, kek));
    // SQLite reads on the main thread.
    if (reader.kind === "sqlite") await new Promise((resolve) => setImmediate(resolve));
  }
  for (const [cacheKey, keys] of found) cache.set(cacheKey, keys, now);
}

function toStoredKey(row: Row, kek: DerivedKey): StoredKey {
  const [accountId, provider] = [text(row, "account_id"), text(row, "provider")];
  return {
    apiKeyIds: toApiKeyIds(row),
    decrypt: lazy(() => decryptRow(row, kek, accountId, provider)),
  };
}

function decryptRow(row: Row, kek: DerivedKey, accountId: string, provider: string): DecryptedKey {
  const id = text(row, "id");
  try {
    const encrypted = { sealed: text(row, "sealed"), dataKey: text(row, "data_key") };
    const apiKey = decryptKey(kek, { id, accountId, provider }, encrypted);
    return { id, apiKey, allowStore: integer(row, "allow_store") === 1 };
  } catch (cause) {
    // Not charged to the gateway's account instead: the owner chose to pay the provider.
    throw new Fault("internal", `provider key ${id} cannot be decrypted`, {
      message: `Your provider key for ${provider} cannot be decrypted. Delete it with DELETE /v1/provider-keys/${id} and add it again.`,
      next: [
        {
          method: "DELETE",
          url: `/v1/provider-keys/${id}`,
          why: "Delete the key, then add it again.",
        },
      ],
      cause,
    });
  }
}

/** The API keys that use a provider key; null for all of the account. */
export function toApiKeyIds(row: Row): readonly string[] | null {
  return textOrNull(row, "api_key_ids")?.split(" ") ?? null;
}

export function cacheKeyOf(accountId: string, provider: string): string {
  return `${accountId} ${provider}`;
}

/** The providers that an API key can call with provider keys of its account. */
export async function listCallableProviders(
  db: Db,
  { accountId, keyId }: KeyUser,
): Promise<ReadonlySet<string>> {
  const rows = await db.all(
    "select distinct provider, api_key_ids from provider_key where account_id = ? and status <> 'deleted'",
    [accountId],
  );
  const usable = rows.filter((row) => toApiKeyIds(row)?.includes(keyId) ?? true);
  return new Set(usable.map((row) => text(row, "provider")));
}
