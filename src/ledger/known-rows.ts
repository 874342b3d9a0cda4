// Rows that the ledger need not read again: what a store that only this process serves from is known to say, as long as nothing
// else is written to it.

import type { KeyRules } from "./decide.ts";
import type { KeptSpender, KeptWallet } from "./rows.ts";

export interface KnownRows {
  readonly wallets: Map<string, KeptWallet>;
  readonly spenders: Map<string, KeptSpender>;
  readonly keys: Map<string, KeyRules>;
  readonly clear: () => void;
  /** Forgets everything where another process has written: asked before anything is decided on what is known. */
  readonly look: () => void;
  /** The same, once a turn of the event loop: whatever is served in one turn had arrived before it began. */
  readonly lookThisTurn: () => void;
}

const ROWS_MAX = 20_000;

/** `version` changes with what others write; without it, nothing is known from one look to the next. */
export function createKnownRows(version: (() => number) | undefined): KnownRows {
  const wallets = new Map<string, KeptWallet>();
  const spenders = new Map<string, KeptSpender>();
  const keys = new Map<string, KeyRules>();
  let knownAt: number | undefined;
  let hasLooked = false;
  const clear = (): void => {
    wallets.clear();
    spenders.clear();
    keys.clear();
  };
  // A store that cannot say is asked by the batch that must read it, and fails there as any store does.
  const versionNow = (): number | undefined => {
    try {
      return version?.();
    } catch {
      return undefined;
    }
  };
  const look = (): void => {
    const now = versionNow();
    if (now === undefined || now !== knownAt || keys.size + wallets.size > ROWS_MAX) clear();
    knownAt = now;
  };
  return {
    wallets,
    spenders,
    keys,
    clear,
    look,
    lookThisTurn: () => {
      if (hasLooked) return;
      look();
      hasLooked = true;
      setImmediate(() => {
        hasLooked = false;
      });
    },
  };
}
