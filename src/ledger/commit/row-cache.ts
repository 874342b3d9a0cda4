// Cache of wallet, spender and key rows, only with SQLite: valid while the store's data version is unchanged, that is
// while no other connection has written.

import type { KeyRules } from "../decide.ts";
import type { BufferedKeySpend, BufferedWallet } from "../ledger-rows.ts";
import type { BufferedSession } from "../session-rows.ts";

export interface RowCache {
  readonly wallets: Map<string, BufferedWallet>;
  readonly keySpends: Map<string, BufferedKeySpend>;
  readonly keys: Map<string, KeyRules>;
  /** By `sessionKey`. */
  readonly sessions: Map<string, BufferedSession>;
  readonly clear: () => void;
  /** Clears the cache if another connection has written. Must be called before a decision on cached rows. */
  readonly revalidate: () => void;
  /** At most one check per tick: everything handled in one tick had arrived before it started. */
  readonly revalidateOncePerTick: () => void;
}

const ROWS_MAX = 20_000;

/** Without `dataVersion`, every revalidation clears the cache. */
export function createRowCache(dataVersion: (() => number) | undefined): RowCache {
  const wallets = new Map<string, BufferedWallet>();
  const keySpends = new Map<string, BufferedKeySpend>();
  const keys = new Map<string, KeyRules>();
  const sessions = new Map<string, BufferedSession>();
  let cachedVersion: number | undefined;
  let isRevalidated = false;
  const clear = (): void => {
    wallets.clear();
    keySpends.clear();
    keys.clear();
    sessions.clear();
  };
  // An error is not thrown here: the batch that then has to read the rows gets it.
  const readVersion = (): number | undefined => {
    try {
      return dataVersion?.();
    } catch {
      return undefined;
    }
  };
  const revalidate = (): void => {
    const version = readVersion();
    const size = keys.size + wallets.size + sessions.size;
    if (version === undefined || version !== cachedVersion || size > ROWS_MAX) clear();
    cachedVersion = version;
  };
  return {
    wallets,
    keySpends,
    keys,
    sessions,
    clear,
    revalidate,
    revalidateOncePerTick: () => {
      if (isRevalidated) return;
      revalidate();
      isRevalidated = true;
      setImmediate(() => {
        isRevalidated = false;
      });
    },
  };
}
