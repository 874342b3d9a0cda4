// Gateway API keys: minted, listed, changed and revoked. It owns the table api_key. A raw key leaves this room once, in
// the answer that makes it; what is kept is an HMAC under a pepper. Where a key's money stands is the ledger's to say,
// and is read here only to be shown.

import { invalid, Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { MAX_NANO, type Nano, toNano } from "../base/money.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import { deriveKey, fingerprint } from "../base/encryption.ts";
import type { Secret } from "../base/secret.ts";
import { UNSAFE_TEXT_MESSAGE, isSafeText } from "../base/safe-text.ts";
import { type LimitWindow, rollWindows, toLimitWindow } from "../base/spend-window.ts";
import {
  type Db,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  type Value,
  integer,
  integerOrNull,
} from "../store/db.ts";
import { isRawKey, newRawKey } from "./raw-key.ts";

const PREFIX_SHOWN_CHARACTERS = 12;
const KEYS_PER_ACCOUNT_MAX = 1_000;
export const NAME_MAX = 100;
const CACHE_MS = 5_000;
const CACHE_MAX = 50_000;

export interface Key {
  readonly id: string;
  readonly accountId: string;
  readonly name: string | null;
  readonly prefix: string;
  readonly last4: string;
  readonly createdAt: number;
  readonly lastUsedAt: number | null;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
  readonly limit: Nano | null;
  readonly limitWindow: LimitWindow | null;
  /** What counts against the limit: spent in its window, or ever where it has none. */
  readonly spent: Nano;
}

export interface KeySettings {
  readonly name?: string | null | undefined;
  readonly expiresAt?: number | null | undefined;
  readonly limit?: Nano | null | undefined;
  readonly limitWindow?: LimitWindow | null | undefined;
}

export interface Keys {
  readonly create: (
    tx: Tx,
    accountId: string,
    settings: KeySettings,
    now: number,
  ) => Promise<{ readonly key: Key; readonly raw: string }>;
  /** Who a raw key belongs to, if it is live. `cached` may be some seconds old, and is then there at once. */
  readonly find: (
    raw: string,
    now: number,
    allowCached: boolean,
  ) => KeyOwner | undefined | Promise<KeyOwner | undefined>;
  /** Writes down when keys were last used; kept in memory between calls. */
  readonly flushLastUsed: () => Promise<void>;
}

export interface KeysDeps {
  readonly db: Db;
  readonly master: Secret;
  readonly prefix: string;
  /** Makes the ledger's side of a key, in the same transaction. */
  readonly createKeySpend: (tx: Tx, keyId: string, accountId: string, now: number) => Promise<void>;
}

interface KeyOwner {
  readonly accountId: string;
  readonly keyId: string;
}

interface CachedKey extends KeyOwner {
  readonly expiresAt: number | null;
  readonly staleAt: number;
}

function isExpired({ expiresAt }: CachedKey, now: number): boolean {
  return expiresAt !== null && expiresAt <= now;
}

export function createKeys({ db, master, prefix, createKeySpend }: KeysDeps): Keys {
  const pepper = deriveKey(master, "api-key/v1");
  // By the raw key, as the calls bring it: a key that calls all the time is not hashed every time. It is emptied whenever
  // the uses are written down, so that no key stays in memory for long after its last call.
  const cache = new Map<string, CachedKey>();
  const lastUsed = new Map<string, number>();

  const find: Keys["find"] = (raw, now, allowCached) => {
    const known = allowCached ? cache.get(raw) : undefined;
    if (known === undefined || known.staleAt <= now || isExpired(known, now))
      return lookUp(raw, now);
    lastUsed.set(known.keyId, now);
    return known;
  };
  const lookUp = async (raw: string, now: number): Promise<CachedKey | undefined> => {
    if (!isRawKey(prefix, raw)) return undefined;
    const liveKey = await readLiveKey(db, fingerprint(pepper, raw), now);
    if (liveKey === undefined || isExpired(liveKey, now)) {
      cache.delete(raw);
      return undefined;
    }
    if (cache.size >= CACHE_MAX) cache.clear();
    cache.set(raw, liveKey);
    lastUsed.set(liveKey.keyId, now);
    return liveKey;
  };
  const create: Keys["create"] = async (tx, accountId, settings, now) => {
    // Two that mint at once are counted one after the other.
    await tx.lockMany("account", "id", [accountId]);
    const count = await tx.get(
      "select count(*) as count from api_key where account_id = ? and revoked_at is null",
      [accountId],
    );
    if (count !== undefined && integer(count, "count") >= KEYS_PER_ACCOUNT_MAX) {
      throw new Fault("conflict", "too many keys", {
        message: `An account may have ${KEYS_PER_ACCOUNT_MAX} live keys. Revoke one first.`,
      });
    }
    validateSettings(settings, now);
    const raw = newRawKey(prefix);
    const id = newId("key", now);
    await tx.run(
      `insert into api_key (id, account_id, hash, name, prefix, last4, created_at, expires_at, limit_nano, limit_window)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      [
        id,
        accountId,
        fingerprint(pepper, raw),
        settings.name ?? null,
        raw.slice(0, PREFIX_SHOWN_CHARACTERS),
        raw.slice(-4),
        now,
        settings.expiresAt ?? null,
        settings.limit ?? null,
        settings.limitWindow ?? null,
      ],
    );
    await createKeySpend(tx, id, accountId, now);
    return { key: await getKey(tx, accountId, id, now), raw };
  };
  const flushLastUsed = async (): Promise<void> => {
    const used = [...lastUsed];
    lastUsed.clear();
    cache.clear();
    if (used.length === 0) return;
    try {
      await db.write((tx) => tx.updateMany("api_key", ["id:text", "last_used_at:bigint"], used));
    } catch (error) {
      // Kept for the next time, but for what was used again meanwhile.
      for (const [id, at] of used) if (!lastUsed.has(id)) lastUsed.set(id, at);
      throw error;
    }
  };
  return { create, find, flushLastUsed };
}

export async function getKey(
  reader: Reader,
  accountId: string,
  id: string,
  now: number,
): Promise<Key> {
  const row = await reader.get(`${SELECT_KEY} where api_key.account_id = ? and api_key.id = ?`, [
    accountId,
    id,
  ]);
  if (row === undefined)
    throw new Fault("not_found", "no such key", {
      message: "There is no key with that id. List them with GET /v1/keys.",
      param: "id",
      next: [{ method: "GET", url: "/v1/keys", why: "List the keys that there are." }],
    });
  return toKey(row, now);
}

export async function listKeys(
  reader: Reader,
  accountId: string,
  page: PageRequest,
  now: number,
): Promise<Page<Key>> {
  const rows = await reader.all(
    `${SELECT_KEY} where api_key.account_id = ? and api_key.id < ? order by api_key.id desc limit ?`,
    [accountId, page.cursor ?? maxId("key"), page.limit + 1],
  );
  return toPage(
    rows.map((row) => toKey(row, now)),
    page.limit,
  );
}

/** A part of the keys that are revoked, of which there is no end, or of all others; newest first, from `from` on. */
export async function listKeysFrom(
  reader: Reader,
  accountId: string,
  part: { revoked: boolean; from?: string | undefined; limit?: number; now: number },
): Promise<readonly Key[]> {
  const { revoked, from = maxId("key"), limit = KEYS_PER_ACCOUNT_MAX, now } = part;
  const rows = await reader.all(
    `${SELECT_KEY} where api_key.account_id = ? and api_key.revoked_at is ${revoked ? "not null" : "null"}
     and api_key.id <= ? order by api_key.id desc limit ?`,
    [accountId, from, limit],
  );
  return rows.map((row) => toKey(row, now));
}

/** What tells keys apart for a human; the ids are those of one page. */
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

/** Changes only what is named; null takes a setting away. */
export async function changeKey(
  tx: Tx,
  accountId: string,
  id: string,
  change: KeySettings & { readonly now: number },
): Promise<Key> {
  const [row] = await tx.lockMany("api_key", "id", [id]);
  const before = await getKey(tx, accountId, id, change.now);
  if (row === undefined || before.revokedAt !== null)
    throw new Fault("conflict", "key is revoked", {
      message: "A revoked key cannot be changed. Mint a new one with POST /v1/keys.",
    });
  const after = {
    name: change.name === undefined ? before.name : change.name,
    expiresAt: change.expiresAt === undefined ? before.expiresAt : change.expiresAt,
    limit: change.limit === undefined ? before.limit : change.limit,
    limitWindow: change.limitWindow === undefined ? before.limitWindow : change.limitWindow,
  };
  // A limit that is taken away takes its window along.
  const normalized =
    after.limit === null && change.limitWindow === undefined
      ? { ...after, limitWindow: null }
      : after;
  // What is not changed is not judged: a name that is refused today must not keep anybody from limiting its key.
  validateSettings({ ...normalized, name: change.name, expiresAt: change.expiresAt }, change.now);
  const values: Value[] = [
    normalized.name,
    normalized.expiresAt,
    normalized.limit,
    normalized.limitWindow,
    id,
  ];
  await tx.run(
    "update api_key set name = ?, expires_at = ?, limit_nano = ?, limit_window = ? where id = ?",
    values,
  );
  return getKey(tx, accountId, id, change.now);
}

/** The key as it is, and stays until the transaction ends. */
export async function lockKey(tx: Tx, accountId: string, id: string, now: number): Promise<Key> {
  await tx.lockMany("api_key", "id", [id]);
  return getKey(tx, accountId, id, now);
}

/** Final, and the same when repeated. */
export async function revokeKey(tx: Tx, accountId: string, id: string, now: number): Promise<Key> {
  await tx.run(
    "update api_key set revoked_at = ? where id = ? and account_id = ? and revoked_at is null",
    [now, id, accountId],
  );
  return getKey(tx, accountId, id, now);
}

/** Whether a key still works: asked inside the transaction of what it does, because a body may come long after its key. */
export async function isLiveKey(reader: Reader, id: string, now: number): Promise<boolean> {
  const row = await reader.get(
    "select id from api_key where id = ? and revoked_at is null and (expires_at is null or expires_at > ?)",
    [id, now],
  );
  return row !== undefined;
}

/** How many keys of the account still work. */
export async function countLiveKeys(
  reader: Reader,
  accountId: string,
  now: number,
): Promise<number> {
  const row = await reader.get(
    "select count(*) as count from api_key where account_id = ? and revoked_at is null and (expires_at is null or expires_at > ?)",
    [accountId, now],
  );
  return row === undefined ? 0 : integer(row, "count");
}

const SELECT_KEY = `select api_key.*, spender.total_spent, spender.day_start, spender.day_spent, spender.week_start,
  spender.week_spent, spender.month_start, spender.month_spent from api_key join spender on spender.key_id = api_key.id`;

function toKey(row: Row, now: number): Key {
  const limitWindow = toLimitWindow(textOrNull(row, "limit_window"));
  const spent = rollWindows(
    {
      total: toNano(row["total_spent"]),
      day: toNano(row["day_spent"]),
      week: toNano(row["week_spent"]),
      month: toNano(row["month_spent"]),
      dayStart: integer(row, "day_start"),
      weekStart: integer(row, "week_start"),
      monthStart: integer(row, "month_start"),
    },
    now,
  );
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    name: textOrNull(row, "name"),
    prefix: text(row, "prefix"),
    last4: text(row, "last4"),
    createdAt: integer(row, "created_at"),
    lastUsedAt: integerOrNull(row, "last_used_at"),
    expiresAt: integerOrNull(row, "expires_at"),
    revokedAt: integerOrNull(row, "revoked_at"),
    limit: row["limit_nano"] === null ? null : toNano(row["limit_nano"]),
    limitWindow,
    spent: limitWindow === null ? spent.total : spent[limitWindow],
  };
}

function validateSettings(settings: KeySettings, now: number): void {
  if (typeof settings.name === "string" && settings.name.length > NAME_MAX)
    throw invalid("name", `name must have ${NAME_MAX} characters or fewer.`);
  if (typeof settings.name === "string" && !isSafeText(settings.name))
    throw invalid("name", `name ${UNSAFE_TEXT_MESSAGE}.`);
  if (
    settings.expiresAt !== undefined &&
    settings.expiresAt !== null &&
    settings.expiresAt <= now
  ) {
    throw invalid("expires_at", "expires_at must lie in the future.");
  }
  if (
    settings.limit !== undefined &&
    settings.limit !== null &&
    (settings.limit < 0n || settings.limit > MAX_NANO)
  ) {
    throw invalid("limit_usd", "limit_usd must be zero or more, and at most 9000000.");
  }
  if (
    settings.limitWindow !== undefined &&
    settings.limitWindow !== null &&
    (settings.limit ?? null) === null
  ) {
    throw invalid("limit_window", "limit_window needs a limit_usd.");
  }
}

async function readLiveKey(db: Db, hash: string, now: number): Promise<CachedKey | undefined> {
  const row = await db.get(
    "select id, account_id, expires_at, revoked_at from api_key where hash = ?",
    [hash],
  );
  if (row === undefined || row["revoked_at"] !== null) return undefined;
  return {
    accountId: text(row, "account_id"),
    keyId: text(row, "id"),
    expiresAt: integerOrNull(row, "expires_at"),
    staleAt: now + CACHE_MS,
  };
}
