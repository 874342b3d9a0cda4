// The usage that this process queued, merged by key in memory, so that the sums of a busy key are written once for many calls. The
// rows of usage_pending are its copy: they are deleted in the transaction that adds their sums, and a row that is in no memory is
// rolled up from the store. So each record counts once, whatever is lost here.

import { newId } from "../../base/id.ts";
import type { AccountKey, Db, Tx } from "../../store/db.ts";
import {
  insertPending,
  joinPending,
  pendingKey,
  type PendingRow,
  type PendingUsage,
} from "./pending.ts";
import { rollUp } from "./roll-up.ts";
import { mergeDelta, type MergedDeltas } from "./rollup-delta.ts";

/** A transaction delays settlements on SQLite. */
const KEYS_PER_TRANSACTION = 150;
/** About 10 MB. What comes after it is rolled up from the store. */
const KEYS_MAX = 15_000;
/** The sums are written after so many rows, which readers add to the sums, or so much time. */
const ROWS_MAX = 400;
const FLUSH_AFTER_MS = 30_000;

export interface RollupQueue {
  /** Call after the commit of the row. */
  readonly add: (row: PendingRow) => void;
  /** Writes the sums. If it fails, the rows stay in the store. */
  readonly flush: (db: Db, now: number) => Promise<void>;
  readonly flushIfDue: (db: Db, now: number) => Promise<void>;
}

interface Merged {
  readonly keys: AccountKey[];
  readonly deltas: MergedDeltas;
  /** What the rows contain besides. */
  readonly others: PendingUsage[];
}

export function createRollupQueue(): RollupQueue {
  const empty = (): Merged => ({ keys: [], deltas: new Map(), others: [] });
  let merged = empty();
  let flushedAt = 0;
  const flush: RollupQueue["flush"] = async (db, now) => {
    const { keys, deltas, others } = merged;
    merged = empty();
    flushedAt = now;
    if (keys.length > 0)
      await write(db, keys, { ...joinPending(others), deltas: [...deltas.values()] }, now);
  };
  return {
    add: ({ accountId, id, deltas, ...others }) => {
      if (merged.deltas.size >= KEYS_MAX) return;
      merged.keys.push([accountId, id]);
      for (const delta of deltas) mergeDelta(merged.deltas, delta);
      merged.others.push({ ...others, deltas: [] });
    },
    flush,
    flushIfDue: async (db, now) => {
      const isDue = merged.keys.length >= ROWS_MAX || Math.abs(now - flushedAt) >= FLUSH_AFTER_MS;
      if (isDue) await flush(db, now);
    },
  };
}

/** Many sums first replace their rows by fewer ones, each of which is then rolled up in a short transaction. */
async function write(
  db: Db,
  keys: readonly AccountKey[],
  usage: PendingUsage,
  now: number,
): Promise<void> {
  const { deltas } = usage;
  if (deltas.length <= KEYS_PER_TRANSACTION) {
    await takeRows(db, keys, (tx) => rollUp(tx, keys, usage));
    return;
  }
  const parts: PendingRow[] = [];
  for (let from = 0; from < deltas.length; from += KEYS_PER_TRANSACTION) {
    const others = from === 0 ? usage : joinPending([]);
    const part = deltas.slice(from, from + KEYS_PER_TRANSACTION);
    parts.push({ ...others, accountId: "", id: newId("req", now), deltas: part });
  }
  const areReplaced = await takeRows(db, keys, async (tx) => {
    await tx.deleteMany("usage_pending", "account_id, id", keys);
    await insertPending(tx, parts);
  });
  if (!areReplaced) return;
  for (const part of parts) {
    await new Promise((resolve) => setImmediate(resolve));
    await takeRows(db, [pendingKey(part)], (tx) => rollUp(tx, [pendingKey(part)], part));
  }
}

/** False, and without effect, if one of the rows was rolled up from the store: the others then are, too. */
function takeRows(
  db: Db,
  keys: readonly AccountKey[],
  work: (tx: Tx) => Promise<void>,
): Promise<boolean> {
  // A power failure undoes the whole transaction, so it needs no sync of its own.
  return db.write(async (tx) => {
    const rows = await tx.lockMany("usage_pending", "account_id, id", keys, "id");
    if (rows.length < keys.length) return false;
    await work(tx);
    return true;
  }, "os_cache");
}
