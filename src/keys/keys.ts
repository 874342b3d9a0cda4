// Gateway API keys. It owns the table api_key. A raw key is only returned when it is created; the store has its HMAC. A
// key's spend belongs to the ledger and is only read here.

import type { Act, Actor } from "../activity/audit.ts";
import type { MasterSecret } from "../base/crypto/encryption.ts";
import { Fault, reopenStep } from "../base/fault.ts";
import { newIdAfter } from "../base/id.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import { policyText } from "../http/key-policy.ts";
import { findFreeze } from "../ledger/freezes.ts";
import { insertKeySpend } from "../ledger/ledger-rows.ts";
import { recallLeases } from "../ledger/recall-leases.ts";
import {
  type Column,
  type Db,
  integer,
  type Reader,
  text,
  textOrNull,
  type Tx,
  type Value,
} from "../store/db.ts";
import { isDerivedKey } from "./derived-key.ts";
import {
  recordKeyChanged,
  recordKeyCreated,
  recordKeyRevoked,
  recordKeyRotated,
} from "./key-activity.ts";
import { createKeyCache, type KeySource } from "./key-cache.ts";
import {
  assertScopesOfCredential,
  credentialName,
  type CredentialSettings,
  isCredentialName,
  type KeyCredential,
} from "./key-credential.ts";
import { createKeyHashes, type KeyHash, type KeyHashes } from "./key-hashes.ts";
import { insertKey, type NewKey, readKeys, scopesText, shownParts } from "./key-rows.ts";
import { type KeySettings, mergePolicy, validateSettings } from "./key-settings.ts";
import type { Key } from "./key.ts";
import type { LiveKey } from "./live-keys.ts";
import { isRawKey, newRawKey } from "./raw-key.ts";

const KEYS_PER_ACCOUNT_MAX = 1_000;
const KEY_ID_CHARACTERS = 30;
/** The keys below one that was derived from the raw key. */
const KEYS_BELOW_DERIVED_MAX = 100;

export interface Keys {
  /** Without an actor, the key itself is its creator. `raw` of a key with a credential is its name, and is not shown. */
  readonly create: (
    tx: Tx,
    act: Omit<Act, "actor"> & { readonly actor: Actor | undefined },
    settings: NewKey,
  ) => Promise<{ readonly key: Key; readonly raw: string }>;
  /**
   * Replaces the secret. The former one is accepted for `overlapMs` more; processes that know it from their cache accept it
   * for up to five seconds longer. Everything else of the key stays.
   */
  readonly rotate: (
    tx: Tx,
    act: Act,
    rotation: { readonly id: string; readonly overlapMs: number },
  ) => Promise<{ readonly key: Key; readonly raw: string }>;
  /** Finds a live key. From the cache it may be five seconds old, and is returned synchronously. */
  readonly find: (
    raw: string,
    now: number,
    source: KeySource,
  ) => LiveKey | undefined | Promise<LiveKey | undefined>;
  /** Finds a live key without a secret by the name of its credential. */
  readonly findByCredential: (
    name: string,
    now: number,
    source: KeySource,
  ) => LiveKey | undefined | Promise<LiveKey | undefined>;
  readonly forgetLookUps: () => void;
  /** Reads the cached keys that are in use again, so that calls read nothing. */
  readonly refresh: (now: number) => Promise<void>;
  /** Writes the last uses, which are collected in memory. */
  readonly flushLastUsed: () => Promise<void>;
}

export interface KeysDeps {
  readonly db: Db;
  readonly master: MasterSecret;
  readonly prefix: string;
  /** The gateway's public URL, for the audience of a key's tokens. */
  readonly baseUrl?: string;
}

export function createKeys({ db, master, prefix, baseUrl = "" }: KeysDeps): Keys {
  const hashes = createKeyHashes(master);
  const lastUsed = new Map<string, number>();
  const formerLastUsed = new Map<string, number>();
  const noteUse = ({ keyId, formerUntil }: LiveKey, now: number): void => {
    lastUsed.set(keyId, now);
    if (formerUntil !== undefined) formerLastUsed.set(keyId, now);
  };
  const isKey = (raw: string): boolean => isRawKey(prefix, raw) || isDerivedKey(prefix, raw);
  const cache = createKeyCache({ db, hashes, isKey, noteUse });
  // Of its own: the name of a credential, which is public, is no key.
  const credentials = createKeyCache({ db, hashes, isKey: isCredentialName, noteUse });
  const clear = (): void => {
    cache.clear();
    credentials.clear();
  };

  const create: Keys["create"] = (tx, act, settings) =>
    insertNewKey(tx, act, settings, { hashes, prefix, baseUrl });
  const rotate: Keys["rotate"] = async (tx, act, { id, overlapMs }) => {
    const raw = newRawKey(prefix);
    const newSecret = { id, raw, formerUntil: act.now + overlapMs, ...hashes.of(raw) };
    const key = await replaceSecret(tx, act, newSecret);
    // The cache would accept the secrets that this rotation replaces.
    clear();
    formerLastUsed.delete(id);
    return { key, raw };
  };
  const flushLastUsed = async (): Promise<void> => {
    await flushTimes(db, lastUsed, "last_used_at:bigint");
    await flushTimes(db, formerLastUsed, "former_last_used_at:bigint");
  };
  return {
    forgetLookUps: clear,
    refresh: async (now) => {
      await cache.refresh(now);
      await credentials.refresh(now);
    },
    create,
    rotate,
    find: cache.find,
    findByCredential: credentials.find,
    flushLastUsed,
  };
}

interface NewKeyContext {
  readonly hashes: KeyHashes;
  readonly prefix: string;
  readonly baseUrl: string;
}

async function insertNewKey(
  tx: Tx,
  act: Parameters<Keys["create"]>[1],
  settings: NewKey,
  { hashes, prefix, baseUrl }: NewKeyContext,
): ReturnType<Keys["create"]> {
  const { accountId, now } = act;
  // Serializes concurrent creations, so that the count is exact.
  const [account] = await tx.lockMany("account", "id", [accountId]);
  await assertNotClosing(tx, accountId, account?.["claimed_at"] != null);
  const lastId = await assertBelowLimits(tx, act, settings.derived?.ancestors.split(" "));
  validateSettings(settings, now);
  assertScopesOfCredential(settings.scopes, settings.credential);
  // The first key of an account is the one with the lowest id: a later key must not sort before it.
  const id = newIdAfter("key", now, lastId);
  const credential = settings.credential && withAudience(settings.credential, baseUrl, id);
  const raw =
    settings.derived?.raw ??
    (credential === undefined ? newRawKey(prefix) : credentialName(credential));
  await insertKey(tx, { id, accountId, raw, credential, ...hashes.of(raw) }, settings, now);
  await insertKeySpend(tx, id, accountId, now);
  const key = await getKey(tx, accountId, id, now);
  const actor = act.actor ?? { type: "key", id };
  await recordKeyCreated(tx, { ...act, actor }, key, lastId === "");
  return { key, raw };
}

/** Counts live keys, derived ones apart. Returns the highest id of the account's keys, an empty one if it has none. */
async function assertBelowLimits(
  tx: Tx,
  { accountId, now }: Pick<Act, "accountId" | "now">,
  ancestors: readonly string[] | undefined,
): Promise<string> {
  // The key that was derived from the raw key: its holder can derive further ones, which must not use up those of others.
  const [, first] = ancestors ?? [];
  const row = await tx.get(
    `select coalesce(max(id), '') as last_id,
     count(case when ${IS_LIVE} and ancestors is null then 1 end) as made,
     count(case when ${IS_LIVE} and ancestors is not null then 1 end) as derived,
     count(case when ${IS_LIVE} and ${BELOW_KEY} then 1 end) as below
     from api_key where account_id = ?`,
    [now, now, now, belowKey(first ?? ""), accountId],
  );
  if (row === undefined) return "";
  const isFull = integer(row, ancestors === undefined ? "made" : "derived") >= KEYS_PER_ACCOUNT_MAX;
  if (isFull)
    throw new Fault("conflict", "too many keys", {
      message: `An account can have ${KEYS_PER_ACCOUNT_MAX} live keys, and as many derived ones. Revoke one first.`,
    });
  if (first !== undefined && integer(row, "below") >= KEYS_BELOW_DERIVED_MAX)
    throw new Fault("conflict", "too many keys below a derived key", {
      message: `A derived key can have ${KEYS_BELOW_DERIVED_MAX} live keys below it. Let some expire with \`exp\`, or revoke one.`,
    });
  return text(row, "last_id");
}

/** A token for another key, or for another gateway, has another audience. */
function withAudience(credential: CredentialSettings, baseUrl: string, id: string): KeyCredential {
  return credential.type === "oidc"
    ? { ...credential, audience: `${baseUrl}/v1/keys/${id}` }
    : credential;
}

interface NewSecret extends KeyHash {
  readonly id: string;
  readonly raw: string;
  readonly formerUntil: number;
}

async function replaceSecret(
  tx: Tx,
  act: Act,
  { id, raw, formerUntil, hash, secretId, chainReference, chainSecret }: NewSecret,
): Promise<Key> {
  const { accountId, now } = act;
  const before = await lockKey(tx, accountId, id, now);
  assertNotRevoked(before);
  // Its text would make the key again, with a limit of its own.
  if (before.derivedFrom !== null)
    throw new Fault("conflict", "derived key", {
      message:
        "A derived key cannot be rotated. Revoke it, and derive another one from the key above it.",
    });
  if (before.credential !== null)
    throw new Fault("conflict", "key without a secret", {
      message:
        "This key has no secret that could be rotated. Create another key with POST /v1/keys and its own `credential`, then revoke this one.",
    });
  await tx.run(
    `update api_key set former_hash = hash, former_last4 = last4, former_until = ?, former_last_used_at = null,
     hash = ?, secret_id = ?, prefix = ?, last4 = ?, chain_reference = ?, chain_secret = ? where id = ?`,
    [formerUntil, hash, secretId, ...shownParts(raw), chainReference, chainSecret, id],
  );
  // Keys derived from the former secret end with it.
  await tx.run(
    `update api_key set expires_at = ? where account_id = ? and (expires_at is null or expires_at > ?)
     and ${BELOW_KEY}`,
    [formerUntil, accountId, formerUntil, belowKey(id)],
  );
  const after = await getKey(tx, accountId, id, now);
  await recordKeyRotated(tx, act, { before, after });
  return after;
}

export async function getKey(
  reader: Reader,
  accountId: string,
  id: string,
  now: number,
): Promise<Key> {
  const [key] = await readKeys(reader, { accountId, now }, "id = ?", [id]);
  if (key === undefined)
    throw new Fault("not_found", "no such key", {
      message: "No key has this id. List the keys with GET /v1/keys.",
      param: "id",
      next: [{ method: "GET", url: "/v1/keys", why: "List the keys." }],
    });
  return key;
}

/** With `derivedFrom`, only the keys that were derived from that key, at any depth. */
export async function listKeys(
  reader: Reader,
  accountId: string,
  page: PageRequest & { readonly derivedFrom?: string | undefined },
  now: number,
): Promise<Page<Key>> {
  const { derivedFrom, cursor = maxId("key"), limit } = page;
  const keys = await readKeys(
    reader,
    { accountId, now },
    `id < ?${derivedFrom === undefined ? "" : ` and ${BELOW_KEY}`} order by id desc limit ?`,
    [cursor, ...(derivedFrom === undefined ? [] : [belowKey(derivedFrom)]), limit + 1],
  );
  return toPage(keys, limit);
}

const IS_LIVE = "revoked_at is null and (expires_at is null or expires_at > ?)";

/** The keys that were derived from one, at any depth, by the list of their ancestors. */
const BELOW_KEY = "' ' || ancestors || ' ' like ?";

function belowKey(id: string): string {
  return `% ${id} %`;
}

/** Keys that are revoked, or that are not, newest first, from the id `from` on. */
export async function listKeysFrom(
  reader: Reader,
  accountId: string,
  options: { revoked: boolean; from?: string | undefined; limit?: number; now: number },
): Promise<readonly Key[]> {
  const { revoked, from = maxId("key"), limit = KEYS_PER_ACCOUNT_MAX, now } = options;
  return readKeys(
    reader,
    { accountId, now },
    `revoked_at is ${revoked ? "not null" : "null"} and id <= ? order by id desc limit ?`,
    [from, limit],
  );
}

/** What people identify keys by; `ids` are those of one page. */
export async function getKeyLabels(
  reader: Reader,
  accountId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Pick<Key, "name" | "prefix" | "last4">>> {
  if (ids.length === 0) return new Map();
  const rows = await reader.all(
    `select id, name, prefix, last4 from api_key
     where account_id = ? and id in (${ids.map(() => "?").join(", ")})`,
    [accountId, ...ids],
  );
  return new Map(
    rows.map((row) => [
      text(row, "id"),
      { name: textOrNull(row, "name"), prefix: text(row, "prefix"), last4: text(row, "last4") },
    ]),
  );
}

/** The live keys that apps got by a person's consent, newest first. */
export async function listAppKeys(
  reader: Reader,
  accountId: string,
  now: number,
): Promise<readonly Key[]> {
  return readKeys(
    reader,
    { accountId, now },
    `app is not null and ${IS_LIVE} order by id desc limit ?`,
    [now, KEYS_PER_ACCOUNT_MAX],
  );
}

/** All keys that a person or a key created, and those that were derived from them; revoked ones included. */
export async function listKeysBy(
  reader: Reader,
  accountId: string,
  createdBy: string,
  now: number,
): Promise<readonly Key[]> {
  // The list of ancestors begins with the key that was created by a request.
  const isDerivedFromOwn = `substr(ancestors, 1, ${KEY_ID_CHARACTERS}) in (select id from api_key where account_id = ? and created_by = ?)`;
  const condition = `(created_by = ? or ${isDerivedFromOwn})`;
  return readKeys(reader, { accountId, now }, condition, [createdBy, accountId, createdBy]);
}

/** Changes only the given settings; null removes one. */
export async function changeKey(tx: Tx, act: Act, id: string, change: KeySettings): Promise<Key> {
  const { accountId, now } = act;
  const before = await lockKey(tx, accountId, id, now);
  assertNotRevoked(before);
  const merged = {
    name: change.name === undefined ? before.name : change.name,
    expiresAt: change.expiresAt === undefined ? before.expiresAt : change.expiresAt,
    limit: change.limit === undefined ? before.limit : change.limit,
    limitWindow: change.limitWindow === undefined ? before.limitWindow : change.limitWindow,
    scopes: change.scopes === undefined ? before.scopes : change.scopes,
    alertPercents: change.alertPercents === undefined ? before.alertPercents : change.alertPercents,
  };
  // Removing a limit also removes its window and alerts.
  const normalized =
    merged.limit === null
      ? {
          ...merged,
          limitWindow: change.limitWindow ?? null,
          alertPercents: change.alertPercents ?? null,
        }
      : merged;
  // Only changed settings are validated: a name that today's rules reject must not prevent a change of the limit.
  validateSettings({ ...normalized, name: change.name, expiresAt: change.expiresAt }, now);
  assertScopesOfCredential(change.scopes, before.credential);
  const values: Value[] = [
    normalized.name,
    normalized.expiresAt,
    normalized.limit,
    normalized.limitWindow,
    scopesText(normalized.scopes),
    policyText(mergePolicy(before.policy, change.policy)),
    normalized.alertPercents?.join(" ") ?? null,
    id,
  ];
  await tx.run(
    `update api_key set name = ?, expires_at = ?, limit_nano = ?, limit_window = ?, scopes = ?, policy = ?, alert_percents = ?
     where id = ?`,
    values,
  );
  if (change.formerSecret === null)
    await tx.run("update api_key set former_until = ? where id = ? and former_until > ?", [
      now,
      id,
      now,
    ]);
  const after = await getKey(tx, accountId, id, now);
  // They have the settings that this key had.
  if (restrictionsOf(before) !== restrictionsOf(after)) await revokeDerivedKeys(tx, act, id);
  await recordKeyChanged(tx, act, { before, after });
  return after;
}

function assertNotRevoked({ revokedAt }: Key): void {
  if (revokedAt !== null)
    throw new Fault("conflict", "key is revoked", {
      message: "A revoked key cannot be changed. Create a new one with POST /v1/keys.",
    });
}

/** The amount of a limit is not among them: what keys below a limited one may spend is set aside from it. */
function restrictionsOf({ scopes, policy, expiresAt, limit }: Key): string {
  return JSON.stringify([scopes, policyText(policy), expiresAt, limit === null]);
}

/** Reads the key and locks it until the transaction ends; recalls its leases, after the lock of the wallet. */
export async function lockKey(tx: Tx, accountId: string, id: string, now: number): Promise<Key> {
  await recallLeases(tx, accountId);
  await tx.lockMany("api_key", "id", [id]);
  return getKey(tx, accountId, id, now);
}

/** Permanent and idempotent. */
export async function revokeKey(tx: Tx, act: Act, id: string): Promise<Key> {
  const { accountId, now } = act;
  await recallLeases(tx, accountId);
  const revoked = await tx.run(
    "update api_key set revoked_at = ? where id = ? and account_id = ? and revoked_at is null",
    [now, id, accountId],
  );
  const key = await getKey(tx, accountId, id, now);
  if (revoked > 0) {
    await recordKeyRevoked(tx, act, key);
    await revokeDerivedKeys(tx, act, id);
  }
  return key;
}

/** Revokes the keys that were derived from a key, at any depth. */
async function revokeDerivedKeys(tx: Tx, act: Act, id: string): Promise<void> {
  const rows = await tx.all(
    `select id from api_key where account_id = ? and revoked_at is null and ${BELOW_KEY} order by id`,
    [act.accountId, belowKey(id)],
  );
  for (const row of rows) await revokeKey(tx, act, text(row, "id"));
}

/** Gives the keys that a person created in an account to another identity of the same person. */
export async function reassignKeys(
  tx: Tx,
  accountId: string,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<void> {
  await tx.run("update api_key set created_by = ? where account_id = ? and created_by = ?", [
    to,
    accountId,
    from,
  ]);
}

/** Revokes the keys that a person created. */
export async function revokeKeysBy(tx: Tx, act: Act, createdBy: string): Promise<void> {
  const rows = await tx.all(
    "select id from api_key where account_id = ? and created_by = ? and revoked_at is null order by id",
    [act.accountId, createdBy],
  );
  for (const row of rows) await revokeKey(tx, act, text(row, "id"));
}

// An account that is closing gets no new keys.

async function assertNotClosing(tx: Tx, accountId: string, isClaimed: boolean): Promise<void> {
  if ((await findFreeze(tx, accountId))?.by !== "closing") return;
  throw new Fault("workspace_frozen", "a key for a closing account", {
    message:
      "This workspace is closing, so no key can be created. Reopen it first; if a person owns it, only its owner can.",
    next: [reopenStep(accountId, isClaimed)],
  });
}

// The last uses of keys, which are collected in memory and written together.

async function flushTimes(db: Db, times: Map<string, number>, column: Column): Promise<void> {
  const used = [...times];
  times.clear();
  if (used.length === 0) return;
  try {
    await db.write((tx) => tx.updateMany("api_key", ["id:text", column], used));
  } catch (error) {
    // Kept for the next flush, unless the key was used again since.
    for (const [id, at] of used) if (!times.has(id)) times.set(id, at);
    throw error;
  }
}
