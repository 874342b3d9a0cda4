// Caches live keys for some seconds. Keys that are in use are read again by a job, many with one statement, so that their calls read
// nothing; the others are removed, so that no raw key stays in memory for long after its last call.

import type { Db } from "../store/db.ts";
import type { KeyHashes } from "./key-hashes.ts";
import { type LiveKey, readLiveKeysByHash } from "./live-keys.ts";

const CACHE_MS = 5_000;
/** A key is read again until this long after its last call, so twice. More often, the reads of many keys would cost more than look-ups. */
const KEPT_MS = 8_000;
const CACHE_MAX = 50_000;

/** `store` always reads the store, `cache` only what is not cached. */
export type KeySource = "cache" | "store";

export interface KeyCache {
  readonly find: (
    raw: string,
    now: number,
    source: KeySource,
  ) => LiveKey | undefined | Promise<LiveKey | undefined>;
  readonly refresh: (now: number) => Promise<void>;
  readonly clear: () => void;
}

interface KeyCacheDeps {
  readonly db: Db;
  readonly hashes: KeyHashes;
  /** Whether a text can be a key, so that others cost no look-up. A key in the cache is not asked. */
  readonly isKey: (raw: string) => boolean;
  readonly noteUse: (key: LiveKey, now: number) => void;
}

interface CachedKey extends LiveKey {
  /** The hash of the raw key. */
  readonly hash: string;
  readonly staleAt: number;
  usedAt: number;
}

function isExpired({ expiresAt }: CachedKey, now: number): boolean {
  return expiresAt !== null && expiresAt <= now;
}

export function createKeyCache({ db, hashes, isKey, noteUse }: KeyCacheDeps): KeyCache {
  // Keyed by the raw key, so that cached keys need no HMAC.
  const cache = new Map<string, CachedKey>();
  const lookUp = async (raw: string, now: number): Promise<CachedKey | undefined> => {
    const found = await hashes.findLiveKey(db, raw, now);
    if (found === undefined) {
      cache.delete(raw);
      return undefined;
    }
    const staleAt = Math.min(now + CACHE_MS, found.formerUntil ?? Infinity);
    const liveKey = { ...found, hash: hashes.hashOf(raw), staleAt, usedAt: now };
    if (cache.size >= CACHE_MAX) cache.clear();
    cache.set(raw, liveKey);
    noteUse(liveKey, now);
    return liveKey;
  };
  return {
    find: (raw, now, source) => {
      const cached = source === "cache" ? cache.get(raw) : undefined;
      if (cached === undefined || cached.staleAt <= now || isExpired(cached, now))
        return isKey(raw) ? lookUp(raw, now) : undefined;
      cached.usedAt = now;
      noteUse(cached, now);
      return cached;
    },
    refresh: (now) => refreshCache(db, cache, now),
    clear: () => cache.clear(),
  };
}

/** By the hash of the raw key, so that a secret that was replaced is not accepted for longer. */
async function refreshCache(db: Db, cache: Map<string, CachedKey>, now: number): Promise<void> {
  const used: (readonly [raw: string, cached: CachedKey])[] = [];
  for (const [raw, cached] of cache)
    if (cached.usedAt < now - KEPT_MS) cache.delete(raw);
    // One that was replaced is looked up by another column.
    else if (cached.formerUntil === undefined) used.push([raw, cached]);
  const hashes = used.map(([, { hash }]) => hash);
  const live = await readLiveKeysByHash(db, hashes, now);
  for (const [raw, cached] of used) {
    // It was changed, or looked up again, in the meantime.
    if (cache.get(raw) !== cached) continue;
    const key = live.get(cached.hash);
    const { hash, usedAt } = cached;
    if (key === undefined) cache.delete(raw);
    else cache.set(raw, { ...key, hash, staleAt: now + CACHE_MS, usedAt });
  }
}
