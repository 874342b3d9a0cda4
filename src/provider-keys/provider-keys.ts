// Callers' own API keys at model providers (BYOK). Owns the table provider_key. A raw key is received once and sent only to
// its provider.

import { authorize } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import type { MasterSecret } from "../base/crypto/encryption.ts";
import type { Secret } from "../base/crypto/secret.ts";
import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
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
import {
  cacheKeyOf,
  createKeyFinder,
  refreshCache,
  type KeyUser,
  readStoredKeys,
  toApiKeyIds,
} from "./key-finder.ts";
import { createProviderKeyCache, type DecryptedKey } from "./provider-key-cache.ts";
import { deriveKek, encryptKey } from "./provider-key-encryption.ts";

const KEYS_PER_ACCOUNT_MAX = 50;

export const PROVIDER_KEY_STATUSES = ["active", "unchecked", "deleted"] as const;
type ProviderKeyStatus = (typeof PROVIDER_KEY_STATUSES)[number];

export interface ProviderKey {
  readonly id: string;
  readonly accountId: string;
  readonly provider: string;
  readonly name: string | null;
  /** The API key that added it; null if a person did. */
  readonly addedBy: string | null;
  /** The API keys whose calls use it; null for all of the account. */
  readonly apiKeyIds: readonly string[] | null;
  /** Whether the provider may store requests and replies. */
  readonly allowStore: boolean;
  readonly last4: string;
  readonly status: ProviderKeyStatus;
  readonly createdAt: number;
  readonly lastUsedAt: number | null;
}

export interface NewProviderKey extends ProviderKeyUse {
  readonly provider: string;
  readonly apiKey: Secret;
  readonly name: string | null;
  readonly addedBy: string | null;
  readonly checkResult: KeyCheckResult;
}

/** Which calls use the key, and how. */
export type ProviderKeyUse = Pick<ProviderKey, "apiKeyIds" | "allowStore">;

/** Only the given fields are changed. */
export type ProviderKeySettings = Partial<Pick<ProviderKey, "name"> & ProviderKeyUse>;

export interface ProviderKeys {
  /** The providers that keys can be added for. */
  readonly providers: () => readonly string[];
  /** Checks a key at the provider; called before the transaction that adds it. */
  readonly check: CheckKey;
  readonly add: (tx: Tx, act: Act, newKey: NewProviderKey) => Promise<ProviderKey>;
  /** Changes a key that is not deleted. */
  readonly change: (
    tx: Tx,
    act: Act,
    id: string,
    settings: ProviderKeySettings,
  ) => Promise<ProviderKey>;
  /** Destroys the encrypted key and keeps the record. Idempotent. */
  readonly remove: (tx: Tx, act: Act, id: string) => Promise<ProviderKey>;
  /**
   * The newest key at the provider that names the API key, otherwise the newest one for the whole account; cached for up to
   * five seconds.
   */
  readonly findNewestKey: (
    user: KeyUser,
    provider: string,
    now: number,
  ) => DecryptedKey | undefined | Promise<DecryptedKey | undefined>;
  /** Reads the cached keys that are used again, so that calls read nothing. */
  readonly refresh: (now: number) => Promise<void>;
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

  const add: ProviderKeys["add"] = async (tx, act, newKey) => {
    const { accountId, now } = act;
    await authorize(tx, act, "provider_keys.change");
    rejectInvalid(newKey, providers());
    await rejectOverLimit(tx, accountId);
    await rejectUnknownApiKeys(tx, accountId, newKey.apiKeyIds);
    const id = newId("pk", now);
    cache.block(cacheKeyOf(accountId, newKey.provider), now);
    await insertProviderKey(tx, kek, { id, accountId, now }, newKey);
    const key = await getProviderKey(tx, accountId, id);
    await recordChange(tx, act, "provider_key.added", key);
    return key;
  };
  const change: ProviderKeys["change"] = async (tx, act, id, settings) => {
    await authorize(tx, act, "provider_keys.change");
    const before = await lockProviderKey(tx, act.accountId, id);
    cache.block(cacheKeyOf(act.accountId, before.provider), act.now);
    await updateSettings(tx, before, settings);
    const key = await getProviderKey(tx, act.accountId, id);
    await recordChange(tx, act, "provider_key.changed", key);
    return key;
  };
  const remove: ProviderKeys["remove"] = async (tx, act, id) => {
    const { accountId, now } = act;
    await authorize(tx, act, "provider_keys.change");
    const { provider } = await lockProviderKey(tx, accountId, id);
    cache.block(cacheKeyOf(accountId, provider), now);
    const isDeleted = await destroyKey(tx, accountId, id, now);
    const key = await getProviderKey(tx, accountId, id);
    if (isDeleted) await recordChange(tx, act, "provider_key.deleted", key);
    return key;
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
    change,
    remove,
    findNewestKey: createKeyFinder(cache, lastUsed, (accountId, provider) =>
      readStoredKeys(db, kek, accountId, provider),
    ),
    refresh: (now) => refreshCache(cache, db, kek, now),
    flushLastUsed,
  };
}

async function insertProviderKey(
  tx: Tx,
  kek: ReturnType<typeof deriveKek>,
  row: { readonly id: string; readonly accountId: string; readonly now: number },
  { provider, apiKey, name, checkResult, addedBy, apiKeyIds, allowStore }: NewProviderKey,
): Promise<void> {
  const { id, accountId, now } = row;
  const encrypted = encryptKey(kek, { id, accountId, provider }, apiKey);
  await tx.run(
    `insert into provider_key (id, account_id, provider, name, last4, status, sealed, data_key, created_at, key_id,
       api_key_ids, allow_store)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [
      id,
      accountId,
      provider,
      name,
      apiKey.reveal().slice(-4),
      checkResult.kind === "accepted" ? checkResult.status : "unchecked",
      encrypted.sealed,
      encrypted.dataKey,
      now,
      addedBy,
      apiKeyIdsText(apiKeyIds),
      allowStore ? 1 : 0,
    ],
  );
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

/** False if it was deleted before. */
async function destroyKey(tx: Tx, accountId: string, id: string, now: number): Promise<boolean> {
  const deleted = await tx.run(
    `update provider_key set status = 'deleted', sealed = null, data_key = null, deleted_at = ?
     where id = ? and account_id = ? and status <> 'deleted'`,
    [now, id, accountId],
  );
  return deleted > 0;
}

async function recordChange(
  tx: Tx,
  act: Act,
  action: "provider_key.added" | "provider_key.changed" | "provider_key.deleted",
  { id, provider, name, last4, apiKeyIds, allowStore }: ProviderKey,
): Promise<void> {
  const detail = { provider, name, last4, api_key_ids: apiKeyIds, allow_store: allowStore };
  await recordAuditEntry(tx, { ...act, action, target: id, detail });
}

async function updateSettings(
  tx: Tx,
  before: ProviderKey,
  settings: ProviderKeySettings,
): Promise<void> {
  if (before.status === "deleted")
    throw new Fault("conflict", "provider key is deleted", {
      message: "A deleted provider key cannot be changed. Add it again.",
    });
  if (settings.apiKeyIds !== undefined)
    await rejectUnknownApiKeys(tx, before.accountId, settings.apiKeyIds);
  const { id, name, apiKeyIds, allowStore } = { ...before, ...settings };
  await tx.run("update provider_key set name = ?, api_key_ids = ?, allow_store = ? where id = ?", [
    name,
    apiKeyIdsText(apiKeyIds),
    allowStore ? 1 : 0,
    id,
  ]);
}

async function rejectUnknownApiKeys(
  tx: Tx,
  accountId: string,
  ids: ProviderKey["apiKeyIds"],
): Promise<void> {
  if (ids === null) return;
  const rows = await tx.all(
    `select id from api_key where account_id = ? and id in (${ids.map(() => "?").join(", ")})`,
    [accountId, ...ids],
  );
  const known = new Set(rows.map((row) => text(row, "id")));
  const unknown = ids.findIndex((id) => !known.has(id));
  if (unknown !== -1)
    throw invalid(
      `api_key_ids[${unknown}]`,
      "This account has no API key with this id. List its keys with GET /v1/keys.",
    );
}

function apiKeyIdsText(ids: ProviderKey["apiKeyIds"]): string | null {
  return ids === null ? null : [...new Set(ids)].join(" ");
}

const SELECT_RECORD = `select id, account_id, key_id, api_key_ids, allow_store, provider, name, last4, status, created_at,
  last_used_at from provider_key`;

function toProviderKey(row: Row): ProviderKey {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    provider: text(row, "provider"),
    name: textOrNull(row, "name"),
    addedBy: textOrNull(row, "key_id"),
    apiKeyIds: toApiKeyIds(row),
    allowStore: integer(row, "allow_store") === 1,
    last4: text(row, "last4"),
    status: enumValue(row, "status", PROVIDER_KEY_STATUSES),
    createdAt: integer(row, "created_at"),
    lastUsedAt: integerOrNull(row, "last_used_at"),
  };
}
