// Caches each account's newest key per provider for a few seconds, including its absence, so that calls without an own key
// cost no read.

import type { Secret } from "../base/secret.ts";

export interface DecryptedKey {
  readonly id: string;
  readonly apiKey: Secret;
}

const CACHE_TTL_MS = 5_000;
/** Longer than the key check and the commit of the write. */
const WRITE_BLOCK_MS = 20_000;
const ENTRIES_MAX = 50_000;

type Entry =
  | { readonly kind: "cached"; readonly until: number; readonly key: DecryptedKey | undefined }
  | { readonly kind: "blocked"; readonly until: number };

export interface ProviderKeyCache {
  readonly get: (
    cacheKey: string,
    now: number,
  ) => { readonly key: DecryptedKey | undefined } | undefined;
  /** `now` is the time before the read. */
  readonly set: (cacheKey: string, key: DecryptedKey | undefined, now: number) => void;
  /**
   * Called in the transaction that changes a key. Blocks caching for a while, because a read that began before the commit may
   * end after it.
   */
  readonly block: (cacheKey: string, now: number) => void;
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
      return entry?.kind === "cached" ? entry : undefined;
    },
    set: (cacheKey, key, now) => {
      if (current(cacheKey, now)?.kind === "blocked") return;
      put(cacheKey, { kind: "cached", until: now + CACHE_TTL_MS, key });
    },
    block: (cacheKey, now) => put(cacheKey, { kind: "blocked", until: now + WRITE_BLOCK_MS }),
    size: () => entries.size,
  };
}
