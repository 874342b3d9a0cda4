// Data of the keys page.

import type { Key } from "../../keys/key.ts";
import { listKeysFrom } from "../../keys/keys.ts";
import type { ConsoleReadDeps } from "../require-access.ts";

const KEYS_PER_PAGE = 100;

/** The first key of each list; absent for the newest. */
export interface KeyCursors {
  readonly from?: string | undefined;
  readonly revoked?: string | undefined;
}

export interface KeyLists {
  readonly live: readonly Key[];
  readonly revoked: readonly Key[];
  readonly cursors: KeyCursors;
  /** The first keys of the next pages. */
  readonly next: KeyCursors;
}

export async function readKeys(
  { db }: ConsoleReadDeps,
  accountId: string,
  now: number,
  cursors: KeyCursors,
): Promise<KeyLists> {
  const limit = KEYS_PER_PAGE + 1;
  const { from } = cursors;
  const [live, revoked] = await Promise.all([
    listKeysFrom(db, accountId, { revoked: false, from, limit, now }),
    listKeysFrom(db, accountId, { revoked: true, from: cursors.revoked, limit, now }),
  ]);
  return {
    live: live.slice(0, KEYS_PER_PAGE),
    revoked: revoked.slice(0, KEYS_PER_PAGE),
    cursors,
    next: { from: live[KEYS_PER_PAGE]?.id, revoked: revoked[KEYS_PER_PAGE]?.id },
  };
}
