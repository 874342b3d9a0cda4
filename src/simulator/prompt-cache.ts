// What a provider's prompt cache would have kept. A prompt is known by the hash of its beginning up to a part's end.

import type { Ask, CacheLife } from "./ask.ts";
import { hashText } from "./hash.ts";

export interface CacheCounts {
  readonly read: number;
  readonly write5m: number;
  readonly write1h: number;
}

export interface PromptCache {
  /** Looks a prompt up and keeps it. `implicit` caches without markers, as OpenAI and Google do. */
  readonly look: (ask: Ask, now: number, implicit: boolean) => CacheCounts;
  readonly clear: () => void;
}

const LIFE_MS: Readonly<Record<CacheLife, number>> = { "5m": 300_000, "1h": 3_600_000 };
const IMPLICIT_LEAST_TOKENS = 1_024;
const IMPLICIT_STEP_TOKENS = 128;
const NOTHING: CacheCounts = { read: 0, write5m: 0, write1h: 0 };

interface Kept {
  until: number;
  readonly life: number;
}

interface Boundary {
  readonly hash: number;
  readonly tokens: number;
  readonly mark: CacheLife | undefined;
}

export function createPromptCache(limit: number): PromptCache {
  // A Map keeps the order of insertion: the first entry is the one that was used longest ago.
  const kept = new Map<number, Kept>();

  function touch(hash: number, now: number): boolean {
    const entry = kept.get(hash);
    if (entry === undefined) return false;
    kept.delete(hash);
    if (entry.until <= now) return false;
    entry.until = now + entry.life;
    kept.set(hash, entry);
    return true;
  }

  function keep(hash: number, life: number, now: number): void {
    kept.delete(hash);
    kept.set(hash, { until: now + life, life });
    for (const oldest of kept.keys()) {
      if (kept.size <= limit) break;
      kept.delete(oldest);
    }
  }

  function longestKnown(boundaries: readonly Boundary[], now: number): number {
    return boundaries.findLast((boundary) => touch(boundary.hash, now))?.tokens ?? 0;
  }

  function lookMarked(boundaries: readonly Boundary[], now: number): CacheCounts {
    const read = longestKnown(boundaries, now);
    const written = { "5m": 0, "1h": 0 };
    let done = read;
    for (const boundary of boundaries) {
      if (boundary.mark === undefined || boundary.tokens <= done) continue;
      written[boundary.mark] += boundary.tokens - done;
      done = boundary.tokens;
      keep(boundary.hash, LIFE_MS[boundary.mark], now);
    }
    return { read, write5m: written["5m"], write1h: written["1h"] };
  }

  function lookImplicit(boundaries: readonly Boundary[], now: number): CacheCounts {
    const known = longestKnown(boundaries, now);
    for (const boundary of boundaries)
      if (boundary.tokens >= IMPLICIT_LEAST_TOKENS) keep(boundary.hash, LIFE_MS["5m"], now);
    return known === 0 ? NOTHING : { ...NOTHING, read: known - (known % IMPLICIT_STEP_TOKENS) };
  }

  return {
    look(ask, now, implicit) {
      if (ask.segments.some((segment) => segment.mark !== undefined))
        return lookMarked(boundariesOf(ask), now);
      let tokens = 0;
      for (const segment of ask.segments) tokens += segment.tokens;
      return implicit && tokens >= IMPLICIT_LEAST_TOKENS
        ? lookImplicit(boundariesOf(ask), now)
        : NOTHING;
    },
    clear: () => kept.clear(),
  };
}

function boundariesOf(ask: Ask): Boundary[] {
  let hash = hashText(ask.model);
  let tokens = 0;
  return ask.segments.map((segment) => {
    hash = hashText(segment.text, hash | 0);
    tokens += segment.tokens;
    return { hash, tokens, mark: segment.mark };
  });
}
