// Callers' own API keys at model providers (BYOK). Owns the table provider_key. A raw key is received once and sent only to
// its provider.

import type { MasterSecret, DerivedKey } from "../base/encryption.ts";
import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { lazy } from "../base/lazy.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import type { Secret } from "../base/secret.ts";
import {
  type Db,
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  integer,
  integerOrNull,
} from "../store/db.ts";
import { type CheckKey, type KeyCheckResult, UNCHECKED } from "./key-check.ts";
import { deriveKek, KEK_VERSION, decryptKey, encryptKey } from "./encryption.ts";
import {
  createProviderKeyCache,
  type DecryptedKey,
  type ProviderKeyCache,
  type StoredKey,
} from "./provider-key-cache.ts";

const KEYS_PER_ACCOUNT_MAX = 50;

export const PROVIDER_KEY_STATUSES = ["active", "unchecked", "deleted"] as const;
export type ProviderKeyStatus = (typeof PROVIDER_KEY_STATUSES)[number];

export interface ProviderKey {
  readonly id: string;
  readonly accountId: string;
  readonly provider: string;
  readonly name: string | null;
  /** The only API key whose calls use it; null for all of the account. */
  readonly keyId: string | null;
  readonly last4: string;
  readonly status: ProviderKeyStatus;
  readonly createdAt: number;
  readonly lastUsedAt: number | null;
}

export interface NewProviderKey {
  readonly provider: string;
  readonly apiKey: Secret;
  readonly name: string | null;
  readonly keyId?: string | null;
  readonly checkResult: KeyCheckResult;
}

/** The API key of a call. */
export interface KeyUser {
  readonly accountId: string;
  readonly keyId: string;
}

export interface ProviderKeys {
  /** The providers that keys can be added for. */
  readonly providers: () => readonly string[];
  /** Checks a key at the provider; called before the transaction that adds it. */
  readonly check: CheckKey;
  readonly add: (
    tx: Tx,
    accountId: string,
    newKey: NewProviderKey,
    now: number,
  ) => Promise<ProviderKey>;
  /** Destroys the encrypted key and keeps the record. Idempotent. */
  readonly remove: (tx: Tx, accountId: string, id: string, now: number) => Promise<ProviderKey>;
  /**
   * The newest key at the provider that the API key added for itself, otherwise the newest one for the whole account; cached
   * for up to five seconds.
   */
  readonly findNewestKey: (
    user: KeyUser,
    provider: string,
    now: number,
  ) => DecryptedKey | undefined | Promise<DecryptedKey | undefined>;
  /** Writes the last-used times, which are buffered in memory. */
  readonly flushLastUsed: () => Promise<void>;
}

export interface ProviderKeysDeps {
  readonly db: Db;
  readonly master: MasterSecret;
  readonly providers: ProviderKeys["providers"];
  readonly check: CheckKey;
}

export function createProviderKeys({
  db,
  master,
  providers,
  check,
}: ProviderKeysDeps): ProviderKeys {
  const kek = deriveKek(master);
  const cache = createProviderKeyCache();
  const lastUsed = new Map<string, number>();

  const add: ProviderKeys["add"] = async (tx, accountId, newKey, now) => {
    rejectInvalid(newKey, providers());
    await rejectOverLimit(tx, accountId);
    const { provider, apiKey, name, checkResult, keyId = null } = newKey;
    const id = newId("pk", now);
    const encrypted = encryptKey(kek, { id, accountId, provider }, apiKey);
    const status = checkResult.kind === "accepted" ? checkResult.status : "unchecked";
    cache.block(cacheKeyOf(accountId, provider), now);
    await tx.run(
      `insert into provider_key (id, account_id, provider, name, last4, status, sealed, data_key, kek_version, created_at, key_id)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      [
        id,
        accountId,
        provider,
        name,
        apiKey.reveal().slice(-4),
        status,
        encrypted.sealed,
        encrypted.dataKey,
        KEK_VERSION,
        now,
        keyId,
      ],
    );
    return getProviderKey(tx, accountId, id);
  };
  const remove: ProviderKeys["remove"] = async (tx, accountId, id, now) => {
    const { provider } = await getProviderKey(tx, accountId, id);
    cache.block(cacheKeyOf(accountId, provider), now);
    await tx.run(
      `update provider_key set status = 'deleted', sealed = null, data_key = null, deleted_at = ?
       where id = ? and account_id = ? and status <> 'deleted'`,
      [now, id, accountId],
    );
    return getProviderKey(tx, accountId, id);
  };
  const flushLastUsed = async (): Promise<void> => {
    const used = [...lastUsed];
    if (used.length === 0) return;
    await db.write((tx) => tx.updateMany("provider_key", ["id:text", "last_used_at:bigint"], used));
    for (const [id, at] of used) if (lastUsed.get(id) === at) lastUsed.delete(id);
  };
  return {
    providers,
    // A key is only sent to a provider that it can be added for.
    check: async (provider, apiKey) =>
      providers().includes(provider) ? check(provider, apiKey) : UNCHECKED,
    add,
    remove,
    findNewestKey: createKeyFinder(cache, lastUsed, (accountId, provider) =>
      readStoredKeys(db, kek, accountId, provider),
    ),
    flushLastUsed,
  };
}

// Without a promise on a cache hit, as for most calls.
function createKeyFinder(
  cache: ProviderKeyCache,
  lastUsed: Map<string, number>,
  read: (accountId: string, provider: string) => Promise<readonly StoredKey[]>,
): ProviderKeys["findNewestKey"] {
  const choose = (
    keys: readonly StoredKey[],
    keyId: string,
    now: number,
  ): DecryptedKey | undefined => {
    const stored =
      keys.find((key) => key.keyId === keyId) ?? keys.find((key) => key.keyId === null);
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

export async function listProviderKeys(
  reader: Reader,
  accountId: string,
  page: PageRequest,
): Promise<Page<ProviderKey>> {
  const rows = await reader.all(
    `${SELECT_RECORD} where account_id = ? and id < ? order by id desc limit ?`,
    [accountId, page.cursor ?? maxId("pk"), page.limit + 1],
  );
  return toPage(rows.map(toProviderKey), page.limit);
}

/** All keys that are not deleted, newest first. Their number is limited per account. */
export async function listLiveProviderKeys(
  reader: Reader,
  accountId: string,
): Promise<readonly ProviderKey[]> {
  const rows = await reader.all(
    `${SELECT_RECORD} where account_id = ? and status <> 'deleted' order by id desc`,
    [accountId],
  );
  return rows.map(toProviderKey);
}

/** Deleted keys from the id `from` on, newest first. Their number is unlimited. */
export async function listDeletedProviderKeys(
  reader: Reader,
  accountId: string,
  { from = maxId("pk"), limit }: { readonly from?: string | undefined; readonly limit: number },
): Promise<readonly ProviderKey[]> {
  const rows = await reader.all(
    `${SELECT_RECORD} where account_id = ? and status = 'deleted' and id <= ? order by id desc limit ?`,
    [accountId, from, limit],
  );
  return rows.map(toProviderKey);
}

/** Reads the record and locks it until the transaction ends. */
export async function lockProviderKey(tx: Tx, accountId: string, id: string): Promise<ProviderKey> {
  await tx.lockMany("provider_key", "id", [id]);
  return getProviderKey(tx, accountId, id);
}

async function getProviderKey(reader: Reader, accountId: string, id: string): Promise<ProviderKey> {
  const row = await reader.get(`${SELECT_RECORD} where account_id = ? and id = ?`, [accountId, id]);
  if (row === undefined)
    throw new Fault("not_found", "no such provider key", {
      message:
        "This account has no provider key with this id. List provider keys with GET /v1/provider-keys.",
      param: "id",
      next: [
        {
          method: "GET",
          url: "/v1/provider-keys",
          why: "List your provider keys.",
        },
      ],
    });
  return toProviderKey(row);
}

/** Newest first. Each is decrypted when it is first used. */
async function readStoredKeys(
  reader: Reader,
  kek: DerivedKey,
  accountId: string,
  provider: string,
): Promise<readonly StoredKey[]> {
  const rows = await reader.all(
    `select id, key_id, sealed, data_key from provider_key
     where account_id = ? and provider = ? and status <> 'deleted' order by id desc`,
    [accountId, provider],
  );
  return rows.map((row) => ({
    keyId: textOrNull(row, "key_id"),
    decrypt: lazy(() => decryptRow(row, kek, accountId, provider)),
  }));
}

function decryptRow(row: Row, kek: DerivedKey, accountId: string, provider: string): DecryptedKey {
  const id = text(row, "id");
  try {
    const encrypted = { sealed: text(row, "sealed"), dataKey: text(row, "data_key") };
    return { id, apiKey: decryptKey(kek, { id, accountId, provider }, encrypted) };
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

function rejectInvalid(
  { provider, checkResult }: NewProviderKey,
  supported: readonly string[],
): void {
  if (!supported.includes(provider))
    throw invalid(
      "provider",
      supported.length === 0
        ? "Provider keys cannot be added: no provider on this gateway supports them."
        : `\`provider\` must be one of ${supported.map((id) => `\`${id}\``).join(", ")}.`,
    );
  if (checkResult.kind === "rejected") {
    const { name, status, message } = checkResult;
    throw new Fault("invalid_request", `${provider} rejected a new key with ${status}`, {
      message: `${asSentence(`${name} rejected this key (status ${status})${message === "" ? "" : `: ${message}`}`)} The key was not stored.`,
      param: "api_key",
      fields: { provider, provider_status: status },
    });
  }
}

function asSentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

async function rejectOverLimit(tx: Tx, accountId: string): Promise<void> {
  const row = await tx.get(
    "select count(*) as count from provider_key where account_id = ? and status <> 'deleted'",
    [accountId],
  );
  if (row !== undefined && integer(row, "count") >= KEYS_PER_ACCOUNT_MAX)
    throw new Fault("conflict", "too many provider keys", {
      message: `An account can have at most ${KEYS_PER_ACCOUNT_MAX} provider keys. Delete one first.`,
    });
}

const SELECT_RECORD =
  "select id, account_id, key_id, provider, name, last4, status, created_at, last_used_at from provider_key";

function toProviderKey(row: Row): ProviderKey {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    provider: text(row, "provider"),
    name: textOrNull(row, "name"),
    keyId: textOrNull(row, "key_id"),
    last4: text(row, "last4"),
    status: enumValue(row, "status", PROVIDER_KEY_STATUSES),
    createdAt: integer(row, "created_at"),
    lastUsedAt: integerOrNull(row, "last_used_at"),
  };
}

function cacheKeyOf(accountId: string, provider: string): string {
  return `${accountId} ${provider}`;
}
