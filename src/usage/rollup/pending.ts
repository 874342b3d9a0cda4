// What is queued for the roll-ups. It owns the table usage_pending: one row per batch, written in the transaction of its records, so
// that the roll-ups count each record exactly once and a settlement writes one more row whatever the number of accounts.

import { newId } from "../../base/id.ts";
import {
  type AccountKey,
  type Column,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
} from "../../store/db.ts";
import { countFailures, type FailureCount } from "../provider-failures.ts";
import type { UsageRecord } from "../usage.ts";
import { type ChargesAt, encodeCharges, pendingCharges } from "./charge-hours.ts";
import {
  type CredentialHour,
  credentialHoursOf,
  encodeCredentialHours,
  pendingCredentialHours,
} from "./credential-hours.ts";
import { decodeDeltas, encodeDeltas, type RollupDelta, rollupDeltas } from "./rollup-delta.ts";

const ROWS_PER_STATEMENT = 200;

/** What a row adds to the roll-ups. */
export interface PendingUsage {
  readonly deltas: readonly RollupDelta[];
  readonly failures: readonly FailureCount[];
  readonly charges: readonly ChargesAt[];
  readonly credentialHours: readonly CredentialHour[];
}

export interface PendingRow extends PendingUsage {
  /** The account of all that it contains; empty if that is of several. */
  readonly accountId: string;
  /** Has the time of the write. */
  readonly id: string;
}

export function pendingRowOf(
  records: readonly UsageRecord[],
  charges: readonly ChargesAt[],
  now: number,
): PendingRow {
  return {
    accountId: "",
    id: newId("req", now),
    deltas: rollupDeltas(records),
    failures: countFailures(records),
    charges,
    credentialHours: credentialHoursOf(records),
  };
}

const COLUMNS: readonly Column[] = [
  "account_id:text",
  "id:text",
  "deltas:text",
  "failures:text",
  "charges:text",
  "credentials:text",
];

export function insertPending(tx: Tx, rows: readonly PendingRow[]): Promise<void> {
  const values = rows.map(({ accountId, id, deltas, failures, charges, credentialHours }) => [
    accountId,
    id,
    encodeDeltas(deltas),
    failures.length === 0 ? null : JSON.stringify(failures),
    encodeCharges(charges),
    encodeCredentialHours(credentialHours),
  ]);
  return tx.insertMany("usage_pending", COLUMNS, values);
}

export function toPendingRow(row: Row): PendingRow {
  return {
    accountId: text(row, "account_id"),
    id: text(row, "id"),
    deltas: pendingDeltas(row),
    failures: pendingFailures(row),
    charges: pendingCharges(row),
    credentialHours: pendingCredentialHours(row),
  };
}

export function pendingKey({ accountId, id }: Pick<PendingRow, "accountId" | "id">): AccountKey {
  return [accountId, id];
}

/** The sum of rows; the deltas of a key stay apart. */
export function joinPending(rows: readonly PendingUsage[]): PendingUsage {
  return {
    deltas: rows.flatMap(({ deltas }) => deltas),
    failures: rows.flatMap(({ failures }) => failures),
    charges: rows.flatMap(({ charges }) => charges),
    credentialHours: rows.flatMap(({ credentialHours }) => credentialHours),
  };
}

/** The queued deltas of one account, or of all, in parts. */
export async function* readPending(
  reader: Reader,
  accountId?: string,
): AsyncGenerator<readonly RollupDelta[]> {
  const [ofAccount, params] = conditionOf(reader, accountId);
  for (let after = ""; ;) {
    const rows = await reader.all(
      `select * from usage_pending where id > ? ${ofAccount} order by id limit ?`,
      [after, ...params, ROWS_PER_STATEMENT],
    );
    for (const row of rows)
      yield pendingDeltas(row).filter(
        ({ key }) => accountId === undefined || key.accountId === accountId,
      );
    const last = rows.at(-1);
    if (last === undefined || rows.length < ROWS_PER_STATEMENT) return;
    after = text(last, "id");
    if (reader.kind === "sqlite") await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Rows without an account have deltas of several accounts. A distributed store has none. */
function conditionOf(
  { isDistributed }: Reader,
  accountId: string | undefined,
): readonly [sql: string, params: readonly string[]] {
  if (accountId === undefined) return ["", []];
  return isDistributed === true
    ? ["and account_id = ?", [accountId]]
    : [
        "and account_id in ('', ?) and (account_id <> '' or deltas like ?)",
        [accountId, `%"${accountId}"%`],
      ];
}

/** Before this hour, the roll-ups have all calls of the account. */
export async function oldestPendingHour(reader: Reader, accountId: string): Promise<number> {
  let oldest = Number.MAX_SAFE_INTEGER;
  for await (const deltas of readPending(reader, accountId))
    for (const { key } of deltas) oldest = Math.min(oldest, key.at);
  return oldest;
}

function pendingFailures(row: Row): readonly FailureCount[] {
  const failures = textOrNull(row, "failures");
  // Safe because only `insertPending` writes this column.
  return failures === null ? [] : (JSON.parse(failures) as readonly FailureCount[]);
}

function pendingDeltas(row: Row): readonly RollupDelta[] {
  return decodeDeltas(text(row, "deltas"));
}
