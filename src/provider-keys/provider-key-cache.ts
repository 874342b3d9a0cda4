// Caches each account's keys per provider for a few seconds, including their absence, so that calls without an own key cost
// no read. A job reads those that are used again, many with one statement.

import type { Secret } from "../base/crypto/secret.ts";

export interface DecryptedKey {
  readonly id: string;
  readonly apiKey: Secret;
  /** Whether the provider may store requests and replies. */
  readonly allowStore: boolean;
}

export interface StoredKey {
  /** The API keys that use it; null for all of the account. */
  readonly apiKeyIds: readonly string[] | null;
  /** Throws if the key cannot be decrypted. */
  readonly decrypt: () => DecryptedKey;
}

const CACHE_TTL_MS = 5_000;
/** An entry is read again for so long after its last call. */
const KEPT_MS = 8_000;
/** Longer than the key check and the commit of the write. */
const WRITE_BLOCK_MS = 20_000;
const ENTRIES_MAX = 50_000;

type Entry =
  | {
      readonly kind: "cached";
      readonly until: number;
      readonly keys: readonly StoredKey[];
      usedAt: number;
    }
  | { readonly kind: "blocked"; readonly until: number };

export interface ProviderKeyCache {
  readonly get: (
    cacheKey: string,
    now: number,
  ) => { readonly keys: readonly StoredKey[] } | undefined;
  /** `now` is the time before the read. */
  readonly set: (cacheKey: string, keys: readonly StoredKey[], now: number) => void;
  /**
   * Called in the transaction that changes a key. Blocks caching for a while, because a read that began before the commit may
   * end after it.
   */
  readonly block: (cacheKey: string, now: number) => void;
  /** The entries that were used lately, also those that are no longer valid. */
  readonly listUsed: (now: number) => readonly string[];
  readonly size: () => number;
}

export function createProviderKeyCache(entriesMax = ENTRIES_MAX): ProviderKeyCache {
  const entries = new Map<string, Entry>();
  // Reinserting moves an entry to the end, so the first one is the oldest.
  const put = (cacheKey: string, entry: Entry): void => {
    entries.delete(cacheKey);
    const [oldest] = entries.keys();
    if (entries.size >= entriesMax && oldest !== undefined) entries.delete(oldest);
    entries.set(cacheKey, entry);
  };
  const current = (cacheKey: string, now: number): Entry | undefined => {
    const entry = entries.get(cacheKey);
    return entry !== undefined && entry.until > now ? entry : undefined;
  };
  return {
    get: (cacheKey, now) => {
      const entry = current(cacheKey, now);
      if (entry?.kind !== "cached") return undefined;
      entry.usedAt = now;
      return entry;
    },
    set: (cacheKey, keys, now) => {
      if (current(cacheKey, now)?.kind === "blocked") return;
      const former = entries.get(cacheKey);
      const usedAt = former?.kind === "cached" ? former.usedAt : now;
      put(cacheKey, { kind: "cached", until: now + CACHE_TTL_MS, keys, usedAt });
    },
    block: (cacheKey, now) => put(cacheKey, { kind: "blocked", until: now + WRITE_BLOCK_MS }),
    listUsed: (now) =>
      [...entries].flatMap(([cacheKey, entry]) =>
        entry.kind === "cached" && entry.usedAt >= now - KEPT_MS ? cacheKey : [],
      ),
    size: () => entries.size,
  };
}
