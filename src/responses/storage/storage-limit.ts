// Keeps the responses that an account stores within limits, by deleting the oldest. Counting all responses of an account after
// each call would be slow, so an account is counted when this process first sees it, and then after enough additions.

import type { Db } from "../../store/db.ts";
import { accountStorageUsage, deleteOldest } from "./response-rows.ts";

const RESPONSES_MAX = 20_000;
const BYTES_MAX = 1_073_741_824;
/** Additions of an account, in this process, after which it is counted again. */
const UNCHECKED_RESPONSES_MAX = 1_000;
const UNCHECKED_BYTES_MAX = 67_108_864;
const ACCOUNTS_MAX = 10_000;
const DELETE_BATCH = 200;

export interface StorageLimit {
  /** Notes an addition. */
  readonly count: (accountId: string, bytes: number) => void;
  /** Deletes the oldest responses of accounts over a limit. */
  readonly enforce: () => Promise<void>;
}

interface Added {
  responses: number;
  bytes: number;
}

export interface StorageLimits {
  readonly responses: number;
  readonly bytes: number;
}

export function createStorageLimit(
  db: Db,
  limits: StorageLimits = { responses: RESPONSES_MAX, bytes: BYTES_MAX },
): StorageLimit {
  /** Additions since the last check, by account. */
  const addedSinceCheck = new Map<string, Added>();
  /** Accounts that `enforce` must check. */
  const due = new Set<string>();
  return {
    count: (accountId, bytes) => {
      const added = addedSinceCheck.get(accountId);
      if (added === undefined) return void due.add(accountId);
      added.responses += 1;
      added.bytes += bytes;
      if (added.responses >= UNCHECKED_RESPONSES_MAX || added.bytes >= UNCHECKED_BYTES_MAX)
        due.add(accountId);
    },
    enforce: async () => {
      for (const accountId of due) {
        due.delete(accountId);
        if (addedSinceCheck.size >= ACCOUNTS_MAX) addedSinceCheck.clear();
        addedSinceCheck.set(accountId, { responses: 0, bytes: 0 });
        await deleteBeyond(db, accountId, limits);
      }
    },
  };
}

async function deleteBeyond(db: Db, accountId: string, limits: StorageLimits): Promise<void> {
  let { responses, bytes } = await accountStorageUsage(db, accountId);
  while (responses > limits.responses || bytes > limits.bytes) {
    // Responses differ in size, so the number to delete for the bytes is estimated with the average size, and checked again.
    const surplus = Math.max(
      1,
      responses - limits.responses,
      Math.ceil(((bytes - limits.bytes) / Math.max(1, bytes)) * responses),
    );
    const limit = Math.min(surplus, DELETE_BATCH);
    const deleted = await db.write((tx) => deleteOldest(tx, accountId, limit));
    if (deleted.responses === 0) return;
    responses -= deleted.responses;
    bytes -= deleted.bytes;
  }
}
