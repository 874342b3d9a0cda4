// An API key as it is read: its settings, and what it spent.

import type { Nano } from "../base/money/money.ts";
import type { LimitWindow } from "../base/money/spend-window.ts";
import type { KeyPolicy } from "../http/key-policy.ts";
import type { ListableScope } from "../http/scopes.ts";
import type { KeyCredential } from "./key-credential.ts";

/** The secret before the rotation of a key, while it is still accepted. */
export interface FormerSecret {
  readonly last4: string;
  readonly until: number;
  readonly lastUsedAt: number | null;
}

export interface Key {
  readonly id: string;
  readonly accountId: string;
  readonly name: string | null;
  readonly prefix: string;
  readonly last4: string;
  readonly createdAt: number;
  readonly lastUsedAt: number | null;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
  readonly limit: Nano | null;
  readonly limitWindow: LimitWindow | null;
  /** Spend that counts against the limit: in its window, or in total. */
  readonly spent: Nano;
  /** null for all scopes that a key with or without a limit can have. */
  readonly scopes: readonly ListableScope[] | null;
  readonly policy: KeyPolicy;
  /** The percentages of the limit at which an event fires. */
  readonly alertPercents: readonly number[] | null;
  /** The key or the person that created it; null for first keys and those from before this was recorded. */
  readonly createdBy: string | null;
  readonly formerSecret: FormerSecret | null;
  /** The ids of the keys that it was derived from, the first one first; null for a key that was not derived. */
  readonly derivedFrom: readonly string[] | null;
  /** The app that got it by a person's consent; null for any other key. */
  readonly app: string | null;
  /** What authenticates it instead of a secret. */
  readonly credential: KeyCredential | null;
}
