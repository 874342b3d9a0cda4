// Rows that the ledger need not read again: what a store that only this process serves from is known to say, as long as nothing
// else is written to it.

import type { KeyRules } from "../decide.ts";
import type { BufferedKeySpend, BufferedWallet } from "../rows.ts";

export interface RowCache {
  readonly wallets: Map<string, BufferedWallet>;
  readonly keySpends: Map<string, BufferedKeySpend>;
  readonly keys: Map<string, KeyRules>;
  readonly clear: () => void;
  /** Forgets everything where another process has written: asked before anything is decided on what is known. */
  readonly revalidate: () => void;
  /** The same, once a turn of the event loop: whatever is served in one turn had arrived before it began. */
  readonly revalidateOncePerTick: () => void;
}

const ROWS_MAX = 20_000;

/** `version` changes with what others write; without it, nothing is known from one look to the next. */
export function createRowCache(dataVersion: (() => number) | undefined): RowCache {
  const wallets = new Map<string, BufferedWallet>();
  const keySpends = new Map<string, BufferedKeySpend>();
  const keys = new Map<string, KeyRules>();
  let cachedVersion: number | undefined;
  let isRevalidated = false;
  const clear = (): void => {
    wallets.clear();
    keySpends.clear();
    keys.clear();
  };
  // A store that cannot say is asked by the batch that must read it, and fails there as any store does.
  const readVersion = (): number | undefined => {
    try {
      return dataVersion?.();
    } catch {
      return undefined;
    }
  };
  const revalidate = (): void => {
    const now = readVersion();
    if (now === undefined || now !== cachedVersion || keys.size + wallets.size > ROWS_MAX) clear();
    cachedVersion = now;
  };
  return {
    wallets,
    keySpends,
    keys,
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
