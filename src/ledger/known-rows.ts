// Rows that the ledger need not read again: what a store that only this process serves from is known to say, as long as nothing
// else is written to it.

import type { KeyRules } from "./decide.ts";
import type { KeptSpender, KeptWallet } from "./rows.ts";

export interface KnownRows {
  readonly wallets: Map<string, KeptWallet>;
  readonly spenders: Map<string, KeptSpender>;
  readonly keys: Map<string, KeyRules>;
  readonly clear: () => void;
  /** Forgets everything where another process has written. */
  readonly look: () => void;
  /** The same, unless one has looked a moment ago. */
  readonly lookNowAndThen: () => void;
}

/** How long another process' writing may go unseen by a hold. A batch looks within its transaction. */
const LOOK_MS = 1;
const ROWS_MAX = 20_000;

/** `version` changes with what others write; without it, nothing is known from one look to the next. */
export function createKnownRows(version: (() => number) | undefined): KnownRows {
  const wallets = new Map<string, KeptWallet>();
  const spenders = new Map<string, KeptSpender>();
  const keys = new Map<string, KeyRules>();
  let knownAt: number | undefined;
  let lookedMs = -Infinity;
  const clear = (): void => {
    wallets.clear();
    spenders.clear();
    keys.clear();
  };
  const look = (): void => {
    lookedMs = performance.now();
    const now = version?.();
    if (now === undefined || now !== knownAt || keys.size + wallets.size > ROWS_MAX) clear();
    knownAt = now;
  };
  return {
    wallets,
    spenders,
    keys,
    clear,
    look,
    lookNowAndThen: () => {
      if (performance.now() - lookedMs > LOOK_MS) look();
    },
  };
}
