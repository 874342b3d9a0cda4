// Moves queued usage into the roll-ups. Each row of usage_pending is added and deleted in one transaction.

import { minIdAt } from "../../base/id.ts";
import { DAY_MS } from "../../base/time.ts";
import { allowLongStatements, type Db, text, type Tx } from "../../store/db.ts";
import { labelDimensionOf } from "../usage-filter.ts";
import { addToChargeHours } from "./charge-hours.ts";
import { addToCredentialHours } from "./credential-hours.ts";
import { joinPending, type PendingRow, type PendingUsage, toPendingRow } from "./pending.ts";
import { addToProviderHours } from "./provider-hours.ts";
import type { RollupDelta } from "./rollup-delta.ts";
import { addToRollups } from "./rollup-rows.ts";

/** Short transactions, because they delay settlements on SQLite. */
const PENDING_PER_TRANSACTION = 50;
const DELTAS_PER_TRANSACTION = 300;
/** Sorts after every id. */
const ALL = "~";
/** Of each kind. Further labels of an account and day are counted together, so that a caller cannot create rows without limit. */
export const LABELS_PER_DAY_MAX = 200;
export const OTHER_LABELS = "(other)";

/** The label under which further labels of this kind are counted. */
export function otherLabelOf(label: string): string {
  const dimension = labelDimensionOf(label);
  return dimension === "label" ? OTHER_LABELS : `${dimension}=${OTHER_LABELS}`;
}

/**
 * Reads what is queued, or what was queued before a time, and rolls it up. A process rolls up what it queued itself from its
 * memory (`rollup-queue.ts`). Returns the number of rows.
 */
export async function rollUpUsage(db: Db, before?: number): Promise<number> {
  const end = before === undefined ? ALL : minIdAt("req", before);
  for (let total = 0; ;) {
    // A power failure undoes the whole transaction, so it needs no sync of its own.
    const { found, done } = await db.write((tx) => rollUpSome(tx, end), "os_cache");
    total += done;
    if (found < PENDING_PER_TRANSACTION && done === found) return total;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Empties the queue. Batches add to it, so none can commit before this transaction does. */
export async function emptyQueue(tx: Tx): Promise<void> {
  if (tx.kind === "postgres") await tx.run("lock table usage_pending in share row exclusive mode");
  await allowLongStatements(tx);
  while ((await rollUpSome(tx, ALL)).found > 0);
}

async function rollUpSome(
  tx: Tx,
  end: string,
): Promise<{ readonly found: number; readonly done: number }> {
  const ids = await tx.all("select id from usage_pending where id < ? order by id limit ?", [
    end,
    PENDING_PER_TRANSACTION,
  ]);
  // Another process may have taken some of them meanwhile.
  const rows = await tx.lockMany(
    "usage_pending",
    "id",
    ids.map((row) => text(row, "id")),
  );
  const taken: PendingRow[] = [];
  let deltas = 0;
  for (const row of rows) {
    if (deltas >= DELTAS_PER_TRANSACTION) break;
    const pending = toPendingRow(row);
    deltas += pending.deltas.length;
    taken.push(pending);
  }
  const takenIds = taken.map(({ id }) => id);
  await rollUp(tx, takenIds, joinPending(taken));
  return { found: rows.length, done: taken.length };
}

/** Adds what these rows of usage_pending contain, and deletes them. They must be locked. */
export async function rollUp(
  tx: Tx,
  ids: readonly string[],
  { deltas, failures, charges, credentialHours }: PendingUsage,
): Promise<void> {
  await addToRollups(tx, await limitLabels(tx, deltas));
  // Last, because all processes add to the same few rows.
  await addToProviderHours(tx, deltas, failures);
  await addToChargeHours(tx, charges);
  await addToCredentialHours(tx, credentialHours);
  await tx.deleteMany("usage_pending", "id", ids);
}

export async function limitLabels(
  tx: Tx,
  deltas: readonly RollupDelta[],
): Promise<readonly RollupDelta[]> {
  const labelsByDay = new Map<string, Set<string>>();
  const limited: RollupDelta[] = [];
  for (const delta of deltas) {
    const { accountId, at, label } = delta.key;
    if (label === "") {
      limited.push(delta);
      continue;
    }
    const day = at - (at % DAY_MS);
    const other = otherLabelOf(label);
    const id = `${accountId} ${day} ${other}`;
    const labels = labelsByDay.get(id) ?? (await readLabels(tx, accountId, day, other));
    labelsByDay.set(id, labels);
    if (labels.size < LABELS_PER_DAY_MAX) labels.add(label);
    limited.push(labels.has(label) ? delta : { ...delta, key: { ...delta.key, label: other } });
  }
  return limited;
}

/** The labels that are counted together with `other` beyond the limit. */
async function readLabels(
  tx: Tx,
  accountId: string,
  day: number,
  other: string,
): Promise<Set<string>> {
  const rows = await tx.all(
    "select distinct label from usage_rollup where account_id = ? and unit = 'day' and at = ? and label <> ''",
    [accountId, day],
  );
  const labels = rows.map((row) => text(row, "label"));
  return new Set(labels.filter((label) => otherLabelOf(label) === other));
}
