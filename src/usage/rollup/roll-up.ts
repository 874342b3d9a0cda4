// The job that moves queued usage into the roll-ups. Each row of usage_pending is added and deleted in one transaction.

import { DAY_MS } from "../../base/time.ts";
import { type Db, text, type Tx } from "../../store/db.ts";
import type { FailureCount } from "../provider-failures.ts";
import { labelDimensionOf } from "../usage-filter.ts";
import { addToChargeHours, type ChargesAt, pendingCharges } from "./charge-hours.ts";
import {
  addToCredentialHours,
  type CredentialHour,
  pendingCredentialHours,
} from "./credential-hours.ts";
import { pendingDeltas, pendingFailures } from "./pending.ts";
import { addToProviderHours } from "./provider-hours.ts";
import type { RollupDelta } from "./rollup-delta.ts";
import { addToRollups } from "./rollup-rows.ts";

/** Short transactions, because they delay settlements on SQLite. */
const PENDING_PER_TRANSACTION = 50;
const DELTAS_PER_TRANSACTION = 300;
/** Of each kind. Further labels of an account and day are counted together, so that a caller cannot create rows without limit. */
export const LABELS_PER_DAY_MAX = 200;
export const OTHER_LABELS = "(other)";

/** The label under which further labels of this kind are counted. */
export function otherLabelOf(label: string): string {
  const dimension = labelDimensionOf(label);
  return dimension === "label" ? OTHER_LABELS : `${dimension}=${OTHER_LABELS}`;
}

/** Returns the number of batches that were rolled up. */
export async function rollUpUsage(db: Db): Promise<number> {
  for (let total = 0; ;) {
    // A power failure undoes the whole transaction, so it needs no sync of its own.
    const { found, done } = await db.write(rollUpSome, "os_cache");
    total += done;
    if (found < PENDING_PER_TRANSACTION && done === found) return total;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Empties the queue in one transaction. */
export async function addAllPending(tx: Tx): Promise<void> {
  while ((await rollUpSome(tx)).found > 0);
}

async function rollUpSome(tx: Tx): Promise<{ readonly found: number; readonly done: number }> {
  const ids = await tx.all("select id from usage_pending order by id limit ?", [
    PENDING_PER_TRANSACTION,
  ]);
  // Another process may have taken some of them meanwhile.
  const rows = await tx.lockMany(
    "usage_pending",
    "id",
    ids.map((row) => text(row, "id")),
  );
  const deltas: RollupDelta[] = [];
  const failures: FailureCount[] = [];
  const charges: ChargesAt[] = [];
  const credentialHours: CredentialHour[] = [];
  const taken: string[] = [];
  for (const row of rows) {
    if (deltas.length >= DELTAS_PER_TRANSACTION) break;
    deltas.push(...pendingDeltas(row));
    failures.push(...pendingFailures(row));
    charges.push(...pendingCharges(row));
    credentialHours.push(...pendingCredentialHours(row));
    taken.push(text(row, "id"));
  }
  await addToRollups(tx, await limitLabels(tx, deltas));
  // Last, because all processes add to the same few rows.
  await addToProviderHours(tx, deltas, failures);
  await addToChargeHours(tx, charges);
  await addToCredentialHours(tx, credentialHours);
  await tx.deleteMany("usage_pending", "id", taken);
  return { found: rows.length, done: taken.length };
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
