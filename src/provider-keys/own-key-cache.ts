// What was last read of each account's keys, for seconds: also that there is none, so that a call without an own key
// costs no read.

import type { Secret } from "../base/secret.ts";

export interface OwnKey {
  readonly id: string;
  readonly apiKey: Secret;
}

const KEPT_MS = 5_000;
/** Outlives the check and the commit of the write that it announces. */
const BARRED_MS = 20_000;
const ENTRIES_MAX = 50_000;

type Entry =
  | { readonly kind: "kept"; readonly until: number; readonly ownKey: OwnKey | undefined }
  | { readonly kind: "barred"; readonly until: number };

export interface OwnKeyCache {
  readonly get: (slot: string, now: number) => { readonly ownKey: OwnKey | undefined } | undefined;
  /** `now` is the time before the read that found it. */
  readonly keep: (slot: string, ownKey: OwnKey | undefined, now: number) => void;
  /**
   * Called inside the transaction that changes a slot. Nothing is kept for a while, because a read that began before the
   * commit may end after it.
   */
  readonly bar: (slot: string, now: number) => void;
  readonly size: () => number;
}

export function createOwnKeyCache(entriesMax = ENTRIES_MAX): OwnKeyCache {
  const entries = new Map<string, Entry>();
  // A slot that is set anew becomes the youngest, so the first one is the oldest.
  const put = (slot: string, entry: Entry): void => {
    entries.delete(slot);
    const [oldest] = entries.keys();
    if (entries.size >= entriesMax && oldest !== undefined) entries.delete(oldest);
    entries.set(slot, entry);
  };
  const current = (slot: string, now: number): Entry | undefined => {
    const entry = entries.get(slot);
    return entry !== undefined && entry.until > now ? entry : undefined;
  };
  return {
    get: (slot, now) => {
      const entry = current(slot, now);
      return entry?.kind === "kept" ? entry : undefined;
    },
    keep: (slot, ownKey, now) => {
      if (current(slot, now)?.kind === "barred") return;
      put(slot, { kind: "kept", until: now + KEPT_MS, ownKey });
    },
    bar: (slot, now) => put(slot, { kind: "barred", until: now + BARRED_MS }),
    size: () => entries.size,
  };
}
