// What was last read of each account's keys, for seconds: also that there is none, so that a call without an own key
// costs no read.

import type { Secret } from "../base/secret.ts";

export interface DecryptedKey {
  readonly id: string;
  readonly apiKey: Secret;
}

const CACHE_TTL_MS = 5_000;
/** Outlives the check and the commit of the write that it announces. */
const WRITE_BLOCK_MS = 20_000;
const ENTRIES_MAX = 50_000;

type Entry =
  | { readonly kind: "kept"; readonly until: number; readonly key: DecryptedKey | undefined }
  | { readonly kind: "barred"; readonly until: number };

export interface ProviderKeyCache {
  readonly get: (
    cacheKey: string,
    now: number,
  ) => { readonly key: DecryptedKey | undefined } | undefined;
  /** `now` is the time before the read that found it. */
  readonly set: (cacheKey: string, key: DecryptedKey | undefined, now: number) => void;
  /**
   * Called inside the transaction that changes a slot. Nothing is kept for a while, because a read that began before the
   * commit may end after it.
   */
  readonly block: (cacheKey: string, now: number) => void;
  readonly size: () => number;
}

export function createProviderKeyCache(entriesMax = ENTRIES_MAX): ProviderKeyCache {
  const entries = new Map<string, Entry>();
  // A slot that is set anew becomes the youngest, so the first one is the oldest.
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
      return entry?.kind === "kept" ? entry : undefined;
    },
    set: (cacheKey, key, now) => {
      if (current(cacheKey, now)?.kind === "barred") return;
      put(cacheKey, { kind: "kept", until: now + CACHE_TTL_MS, key });
    },
    block: (cacheKey, now) => put(cacheKey, { kind: "barred", until: now + WRITE_BLOCK_MS }),
    size: () => entries.size,
  };
}
