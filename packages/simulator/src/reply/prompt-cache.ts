// Simulates a provider's prompt cache. Entries are hashes of prompt prefixes that end with a segment.

import { hashText } from "./hash.ts";
import type { NormalizedRequest, CacheTtl } from "./normalized-request.ts";

export interface CacheTokens {
  readonly cacheRead: number;
  readonly cacheWrite5m: number;
  readonly cacheWrite1h: number;
}

export interface PromptCache {
  /** Looks up a prompt and stores it. `isImplicit` caches without markers, as OpenAI and Google do. */
  readonly lookUp: (request: NormalizedRequest, now: number, isImplicit: boolean) => CacheTokens;
  readonly clear: () => void;
}

const TTL_MS: Readonly<Record<CacheTtl, number>> = { "5m": 300_000, "1h": 3_600_000 };
const IMPLICIT_MIN_TOKENS = 1_024;
const IMPLICIT_STEP_TOKENS = 128;
const NO_CACHE_TOKENS: CacheTokens = { cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0 };

interface CacheEntry {
  expiresAt: number;
  readonly ttlMs: number;
}

interface Boundary {
  readonly hash: number;
  readonly tokens: number;
  readonly cacheTtl: CacheTtl | undefined;
}

export function createPromptCache(limit: number): PromptCache {
  // A Map keeps insertion order, so the first entry is the least recently used.
  const entries = new Map<number, CacheEntry>();

  function touch(hash: number, now: number): boolean {
    const entry = entries.get(hash);
    if (entry === undefined) return false;
    entries.delete(hash);
    if (entry.expiresAt <= now) return false;
    entry.expiresAt = now + entry.ttlMs;
    entries.set(hash, entry);
    return true;
  }

  function store(hash: number, ttlMs: number, now: number): void {
    entries.delete(hash);
    entries.set(hash, { expiresAt: now + ttlMs, ttlMs });
    for (const oldest of entries.keys()) {
      if (entries.size <= limit) break;
      entries.delete(oldest);
    }
  }

  function longestHit(boundaries: readonly Boundary[], now: number): number {
    return boundaries.findLast((boundary) => touch(boundary.hash, now))?.tokens ?? 0;
  }

  function lookUpMarked(boundaries: readonly Boundary[], now: number): CacheTokens {
    const cacheRead = longestHit(boundaries, now);
    const written = { "5m": 0, "1h": 0 };
    let coveredTokens = cacheRead;
    for (const boundary of boundaries) {
      if (boundary.cacheTtl === undefined || boundary.tokens <= coveredTokens) continue;
      written[boundary.cacheTtl] += boundary.tokens - coveredTokens;
      coveredTokens = boundary.tokens;
      store(boundary.hash, TTL_MS[boundary.cacheTtl], now);
    }
    return { cacheRead, cacheWrite5m: written["5m"], cacheWrite1h: written["1h"] };
  }

  function lookUpImplicit(boundaries: readonly Boundary[], now: number): CacheTokens {
    const known = longestHit(boundaries, now);
    for (const boundary of boundaries)
      if (boundary.tokens >= IMPLICIT_MIN_TOKENS) store(boundary.hash, TTL_MS["5m"], now);
    return known === 0
      ? NO_CACHE_TOKENS
      : { ...NO_CACHE_TOKENS, cacheRead: known - (known % IMPLICIT_STEP_TOKENS) };
  }

  return {
    lookUp(request, now, implicit) {
      if (request.segments.some((segment) => segment.cacheTtl !== undefined))
        return lookUpMarked(boundariesOf(request), now);
      let tokens = 0;
      for (const segment of request.segments) tokens += segment.tokens;
      return implicit && tokens >= IMPLICIT_MIN_TOKENS
        ? lookUpImplicit(boundariesOf(request), now)
        : NO_CACHE_TOKENS;
    },
    clear: () => entries.clear(),
  };
}

function boundariesOf(request: NormalizedRequest): Boundary[] {
  let hash = hashText(request.model);
  let tokens = 0;
  return request.segments.map((segment) => {
    hash = hashText(segment.text, hash | 0);
    tokens += segment.tokens;
    return { hash, tokens, cacheTtl: segment.cacheTtl };
  });
}
