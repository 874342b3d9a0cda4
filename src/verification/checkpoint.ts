// Checkpoints of the verification: sums of the usage transfers that were verified, so that the next verification reads only
// later ones. A row says what the calls of a key with ids below `through_id` moved, and stays true for good. The row without
// an account is the position: all keys are verified up to there.

import { minIdAt } from "../base/id.ts";
import { type Nano, toNano } from "../base/money/money.ts";
import { maxId } from "../base/pagination.ts";
import { HOUR_MS } from "../base/time.ts";
import { SYSTEM_ACCOUNTS } from "../ledger/ledger-rows.ts";
import { type Column, type Db, type Reader, text, type Tx } from "../store/db.ts";
import { type AccountRange, rangeCondition, type SqlPart } from "./account-range.ts";

/** Holds expire sooner, so a later settlement of an older call is rare. The accounts where one is found are read in full. */
export const SETTLED_AFTER_MS = 2 * HOUR_MS;
const ROWS_PER_TRANSACTION = 2_000;
/** The ids of all calls are between these. */
export const FIRST_CALL_ID = "req_";
export const LAST_CALL_ID = maxId("req");
const NO_ACCOUNT = "";

const CHECKPOINT_COLUMNS: readonly Column[] = [
  "account_id:text",
  "key_id:text",
  "through_id:text",
  "promo_nano:bigint",
  "paid_nano:bigint",
  "overrun_nano:bigint",
];

export interface CheckpointRow {
  readonly accountId: string;
  /** Empty for calls whose records were archived. */
  readonly keyId: string;
  readonly promo: Nano;
  readonly paid: Nano;
  readonly overrun: Nano;
}

/** The id of the first call that is not verified; undefined before the first verification. */
export async function readPosition(reader: Reader): Promise<string | undefined> {
  const row = await reader.get(
    "select max(through_id) as through_id from ledger_checkpoint where account_id = ?",
    [NO_ACCOUNT],
  );
  return typeof row?.["through_id"] === "string" ? row["through_id"] : undefined;
}

/** The lowest id of a call that may still be open: calls below it are settled. */
export function positionAt(now: number): string {
  return minIdAt("req", now - SETTLED_AFTER_MS);
}

/** The newest row of each key up to a position, as a table expression. */
export function checkpointsOf(
  range: AccountRange,
  position: string,
): { readonly sql: string; readonly params: readonly string[] } {
  const accounts = rangeCondition("account_id", range);
  // A window and not an anti-join, for which PostgreSQL reads the whole table once for each range.
  return {
    sql: `(select * from (
        select checkpoint.*, row_number() over (partition by account_id, key_id order by through_id desc) as age
        from ledger_checkpoint checkpoint where account_id > '${NO_ACCOUNT}' and ${accounts.sql} and through_id <= ?
      ) as dated where age = 1)`,
    params: [...accounts.params, position],
  };
}

/** Sums by key what calls were charged: by transfers that are rows, and by usage records with columns for them. */
export async function sumUsage(
  reader: Reader,
  { transfers, records }: { readonly transfers: SqlPart; readonly records: SqlPart },
): Promise<readonly CheckpointRow[]> {
  const part = (condition: string): string => `case when ${condition} then moved.amount else 0 end`;
  const rows = await reader.all(
    `select account_id, key_id, cast(sum(promo) as text) as promo, cast(sum(paid) as text) as paid,
       cast(sum(overrun) as text) as overrun
     from (
       select account_id, key_id, promo_nano as promo, paid_nano as paid, overrun_nano as overrun
       from ${records.sql} as charged where charged_at is not null
       union all
       select moved.account_id, coalesce(usage_record.key_id, ''), ${part("moved.from_account = moved.account_id || ':promo'")},
         ${part("moved.from_account = moved.account_id || ':paid'")}, ${part(`moved.from_account = '${SYSTEM_ACCOUNTS.receivable}'`)}
       from ${transfers.sql} as moved
       left join usage_record on usage_record.account_id = moved.account_id and usage_record.id = moved.ref
       where moved.kind = 'usage'
     ) as charge group by account_id, key_id`,
    [...records.params, ...transfers.params],
  );
  return rows.map(toCheckpointRow);
}

export async function readCheckpoints(
  reader: Reader,
  range: AccountRange,
  position: string,
): Promise<readonly CheckpointRow[]> {
  const { sql, params } = checkpointsOf(range, position);
  const rows = await reader.all(
    `select account_id, key_id, cast(promo_nano as text) as promo, cast(paid_nano as text) as paid,
       cast(overrun_nano as text) as overrun from ${sql} as effective`,
    params,
  );
  return rows.map(toCheckpointRow);
}

function toCheckpointRow(row: Readonly<Record<string, unknown>>): CheckpointRow {
  return {
    accountId: text(row, "account_id"),
    keyId: text(row, "key_id"),
    promo: toNano(row["promo"]),
    paid: toNano(row["paid"]),
    overrun: toNano(row["overrun"]),
  };
}

/** Adds what was verified since to the rows of the same keys. */
export function addToCheckpoints(
  before: readonly CheckpointRow[],
  added: readonly CheckpointRow[],
): readonly CheckpointRow[] {
  const rows = new Map(before.map((row) => [nameOf(row), row]));
  return added.map((row) => {
    const old = rows.get(nameOf(row));
    if (old === undefined) return row;
    const { promo, paid, overrun } = row;
    return {
      ...row,
      promo: promo + old.promo,
      paid: paid + old.paid,
      overrun: overrun + old.overrun,
    };
  });
}

/** A key whose calls are all gone, such as into the archive, gets a row of zeros. */
export function replaceCheckpoints(
  before: readonly CheckpointRow[],
  rows: readonly CheckpointRow[],
): readonly CheckpointRow[] {
  const names = new Set(rows.map(nameOf));
  const gone = before.filter((row) => !names.has(nameOf(row)));
  const zeros = { promo: 0n, paid: 0n, overrun: 0n };
  return [
    ...rows,
    ...gone.map(({ accountId, keyId }) => Object.assign({ accountId, keyId }, zeros)),
  ];
}

function nameOf({ accountId, keyId }: CheckpointRow): string {
  return `${accountId} ${keyId}`;
}

/** The position is written last, so a crash leaves rows that the next verification does not read. */
export async function writeCheckpoints(
  db: Db,
  rows: readonly CheckpointRow[],
  position: string,
): Promise<void> {
  for (let from = 0; from < rows.length; from += ROWS_PER_TRANSACTION) {
    const part = rows.slice(from, from + ROWS_PER_TRANSACTION);
    await db.write(async (tx) => {
      await deleteFrom(tx, part, position);
      await tx.insertMany(
        "ledger_checkpoint",
        CHECKPOINT_COLUMNS,
        part.map(({ accountId, keyId, promo, paid, overrun }) => [
          accountId,
          keyId,
          position,
          promo,
          paid,
          overrun,
        ]),
      );
    });
  }
  await db.write(async (tx) => {
    await tx.run(
      "insert into ledger_checkpoint values (?, '', ?, 0, 0, 0) on conflict (account_id, key_id, through_id) do nothing",
      [NO_ACCOUNT, position],
    );
    await tx.run(
      `delete from ledger_checkpoint where through_id < ? and exists (
         select 1 from ledger_checkpoint newer where newer.account_id = ledger_checkpoint.account_id
           and newer.key_id = ledger_checkpoint.key_id and newer.through_id = ?)`,
      [position, position],
    );
  });
}

/** Deletes what a run of the same position, or one that crashed, wrote for these keys. There are rarely such rows. */
async function deleteFrom(tx: Tx, rows: readonly CheckpointRow[], position: string): Promise<void> {
  const accounts = rows.map(({ accountId }) => accountId).toSorted();
  const written = await tx.get(
    "select 1 from ledger_checkpoint where account_id >= ? and account_id <= ? and through_id >= ? limit 1",
    [accounts[0] ?? "", accounts.at(-1) ?? "", position],
  );
  if (written === undefined) return;
  for (const { accountId, keyId } of rows)
    await tx.run(
      "delete from ledger_checkpoint where account_id = ? and key_id = ? and through_id >= ?",
      [accountId, keyId, position],
    );
}
