// Moves queued usage into the roll-ups. Each row of usage_pending is added and deleted in one transaction.

import { minIdAt } from "../../base/id.ts";
import { DAY_MS } from "../../base/time.ts";
import { readAllAccounts } from "../../store/all-accounts.ts";
import {
  type AccountKey,
  allowLongStatements,
  type Db,
  type Row,
  text,
  type Tx,
} from "../../store/db.ts";
import { labelDimensionOf } from "../usage-filter.ts";
import { selectUsageInOrder } from "../usage-of-account.ts";
import { toUsageRecord } from "../usage.ts";
import { addToChargeHours } from "./charge-hours.ts";
import { addToCredentialHours } from "./credential-hours.ts";
import {
  joinPending,
  pendingKey,
  type PendingRow,
  type PendingUsage,
  toPendingRow,
} from "./pending.ts";
import { addToProviderHours } from "./provider-hours.ts";
import { type RollupDelta, rollupDeltas } from "./rollup-delta.ts";
import { addToRollups } from "./rollup-rows.ts";

/** Short transactions, because they delay settlements on SQLite. */
const PENDING_PER_TRANSACTION = 50;
const DELTAS_PER_TRANSACTION = 300;
/** Sorts after every id. */
const ALL = "~";
/** The limit for each kind of label. Further labels of an account and day are counted together, so that a caller cannot create rows without limit. */
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
  if (db.isDistributed !== true) return rollUpBefore(db, end);
  let total = 0;
  const sql = "select distinct account_id from usage_pending where id < ?";
  // The rows of an account are on one node.
  for (const row of await readAllAccounts(db, "usage_pending", sql, [end]))
    total += await rollUpBefore(db, end, accountOf(row));
  return total;
}

function accountOf(row: Row): string {
  return text(row, "account_id");
}

async function rollUpBefore(db: Db, end: string, accountId?: string): Promise<number> {
  for (let total = 0; ;) {
    // A power failure undoes the whole transaction, so it needs no sync of its own.
    const { found, done } = await db.write((tx) => rollUpSome(tx, end, accountId), "os_cache");
    total += done;
    if (found < PENDING_PER_TRANSACTION && done === found) return total;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/**
 * Empties the queue. Nothing is settled, rolled up or archived until the transaction ends. The job locks rows of the queue before it
 * adds to charge_hour: in this order, and with a mode that waits for both, neither waits for the other.
 */
export async function emptyQueue(tx: Tx): Promise<void> {
  await allowLongStatements(tx);
  if (tx.kind === "postgres")
    await tx.run("lock table usage_pending, charge_hour, usage_archive in exclusive mode");
  const accounts =
    tx.isDistributed === true
      ? (await tx.all("select distinct account_id from usage_pending")).map(accountOf)
      : [undefined];
  for (const accountId of accounts) while ((await rollUpSome(tx, ALL, accountId)).found > 0);
}

async function rollUpSome(
  tx: Tx,
  end: string,
  accountId?: string,
): Promise<{ readonly found: number; readonly done: number }> {
  const ofAccount = accountId === undefined ? "" : "and account_id = ?";
  const keys = await tx.all(
    `select account_id, id from usage_pending where id < ? ${ofAccount} order by id limit ?`,
    [end, ...(accountId === undefined ? [] : [accountId]), PENDING_PER_TRANSACTION],
  );
  // Another process may have taken some of them meanwhile.
  const rows = await tx.lockMany(
    "usage_pending",
    "account_id, id",
    keys.map((row) => [text(row, "account_id"), text(row, "id")] as const),
  );
  const taken: PendingRow[] = [];
  let deltas = 0;
  for (const row of rows) {
    if (deltas >= DELTAS_PER_TRANSACTION) break;
    const pending = toPendingRow(row);
    deltas += pending.deltas.length;
    taken.push(pending);
  }
  await rollUp(tx, taken.map(pendingKey), joinPending(taken));
  return { found: rows.length, done: taken.length };
}

/** Adds what these rows of usage_pending contain, and deletes them. They must be locked. */
export async function rollUp(
  tx: Tx,
  keys: readonly AccountKey[],
  { deltas, failures, charges, credentialHours }: PendingUsage,
): Promise<void> {
  await addToRollups(tx, await limitLabels(tx, deltas));
  // Last, because all processes add to the same few rows.
  await addToProviderHours(tx, deltas, failures);
  await addToChargeHours(tx, charges);
  await addToCredentialHours(tx, credentialHours);
  await tx.deleteMany("usage_pending", "account_id, id", keys);
}

async function limitLabels(
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

const RECORDS_PER_STATEMENT = 500;

/** Computes the roll-ups of an account anew from its records, from the start of a UTC day on, with an empty queue. */
export async function rebuildRollups(tx: Tx, accountId: string, from: number): Promise<void> {
  await tx.run("delete from usage_rollup where account_id = ? and at >= ?", [accountId, from]);
  // A call may have begun on the day before.
  for (let after = minIdAt("req", from - DAY_MS); ;) {
    const { sql, values } = selectUsageInOrder(
      "*",
      { accountId, ids: { after } },
      { order: "asc", limit: RECORDS_PER_STATEMENT },
    );
    const rows = await tx.all(sql, values);
    const records = rows.map(toUsageRecord).filter(({ createdAt }) => createdAt >= from);
    await addToRollups(tx, await limitLabels(tx, rollupDeltas(records)));
    const last = rows.at(-1);
    if (last === undefined || rows.length < RECORDS_PER_STATEMENT) return;
    after = text(last, "id");
  }
}
