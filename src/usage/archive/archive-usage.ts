// Moves usage records beyond their retention to files. It owns the table usage_archive: the sums of the records that
// were moved, by which verify-ledger proves the transfers that stay in the store.

import { closeSync, fsyncSync, mkdirSync, openSync, writeSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { minIdAt } from "../../base/id.ts";
import { isObject } from "../../base/json.ts";
import type { Log } from "../../base/log.ts";
import { type Nano, toNano } from "../../base/money/money.ts";
import { DAY_MS, utcDay } from "../../base/time.ts";
import { readAllAccounts } from "../../store/all-accounts.ts";
import { type Db, type Reader, type Row, type Tx, integer, text } from "../../store/db.ts";
import { selectUsageInOrder } from "../usage-of-account.ts";
import { toUsageRecord as toApiRecord } from "../usage-record.ts";
import { type UsageRecord, toUsageRecord } from "../usage.ts";

const ACCOUNTS_PER_STATEMENT = 200;
const RECORDS_PER_TRANSACTION = 500;

export interface ArchiveDeps {
  readonly db: Db;
  readonly log: Log;
  readonly files: ArchiveFiles;
  readonly retentionDays: number;
  /** Inserts the transfers that are columns of these records. */
  readonly keepTransfers: (tx: Tx, records: readonly Row[]) => Promise<void>;
}

/** What the ledger charged for a call. */
interface Charge {
  readonly total: Nano;
  readonly at: number;
}

/**
 * Returns the number of records that were archived. A file is on disk before its records are deleted, so a crash in
 * between repeats records in the files and loses none.
 */
export async function archiveUsage(deps: ArchiveDeps, now: number): Promise<number> {
  const before = minIdAt("req", now - deps.retentionDays * DAY_MS);
  // What is not in the roll-ups yet must stay.
  const pending = await deps.db.get("select id from usage_pending where id < ? limit 1", [before]);
  if (pending !== undefined) return 0;
  let archived = 0;
  for await (const accountId of accountsWithUsage(deps.db, before))
    for (;;) {
      const done = await archiveSome(deps, accountId, before);
      archived += done;
      if (done < RECORDS_PER_TRANSACTION) break;
    }
  if (archived > 0) deps.log.info("archived usage records", { records: archived });
  return archived;
}

/** PostgreSQL only. Nothing is archived until the transaction ends. */
export async function lockArchive(tx: Tx): Promise<void> {
  await tx.run("lock table usage_archive in share mode");
}

const NEXT_ACCOUNT = "select min(account_id) from usage_record where account_id > ";

/** The primary key begins with the account: the search for the next one skips the records of an account. */
async function* accountsWithUsage(reader: Reader, before: string): AsyncGenerator<string> {
  if (reader.isDistributed === true) {
    const sql = "select distinct account_id from usage_record where id < ?";
    for (const row of await readAllAccounts(reader, "usage_record", sql, [before]))
      yield text(row, "account_id");
    return;
  }
  for (let after = ""; ;) {
    const accounts = await reader.all(
      `with recursive found (account_id) as (
         ${NEXT_ACCOUNT} ?
         union all
         select (${NEXT_ACCOUNT} found.account_id) from found where account_id is not null
       )
       select account_id, (select min(id) from usage_record
         where usage_record.account_id = found.account_id and usage_record.id < ?) as oldest
       from found where account_id is not null limit ?`,
      [after, before, ACCOUNTS_PER_STATEMENT],
    );
    for (const row of accounts) if (row["oldest"] !== null) yield text(row, "account_id");
    const last = accounts.at(-1);
    if (last === undefined || accounts.length < ACCOUNTS_PER_STATEMENT) return;
    after = text(last, "account_id");
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function archiveSome(
  { db, log, files, keepTransfers }: ArchiveDeps,
  accountId: string,
  before: string,
): Promise<number> {
  const { sql, values } = selectUsageInOrder(
    "*",
    { accountId, ids: { before } },
    { order: "asc", limit: RECORDS_PER_TRANSACTION },
  );
  const rows = await db.all(sql, values);
  const records = rows.map(toUsageRecord);
  const [first, last] = [records[0], records.at(-1)];
  if (first === undefined || last === undefined) return 0;
  const charges = await readCharges(db, accountId, first.id, last.id);
  const wrong = records.find(({ id, cost }) => (charges.get(id)?.total ?? 0n) !== cost);
  if (wrong !== undefined) {
    log.error("usage record does not match its transfers; its account is not archived", {
      request_id: wrong.id,
      account_id: accountId,
    });
    return 0;
  }
  files.append(records);
  await db.write(async (tx) => {
    const deleted = await tx.run(
      "delete from usage_record where account_id = ? and id >= ? and id <= ?",
      [accountId, first.id, last.id],
    );
    if (deleted !== records.length)
      throw new Error("another process archived the same usage records");
    await keepTransfers(tx, rows);
    for (const sum of sumsByKey(records, charges))
      await tx.run(
        `insert into usage_archive (account_id, key_id, calls, cost_nano, charged_nano, last_at, through_id)
         values (?, ?, ?, ?, ?, ?, ?)
         on conflict (account_id, key_id) do update set calls = usage_archive.calls + excluded.calls,
           cost_nano = usage_archive.cost_nano + excluded.cost_nano,
           charged_nano = usage_archive.charged_nano + excluded.charged_nano,
           last_at = case when excluded.last_at > usage_archive.last_at then excluded.last_at else usage_archive.last_at end, through_id = excluded.through_id`,
        [accountId, sum.keyId, sum.calls, sum.cost, sum.charged, sum.lastAt, last.id],
      );
  });
  return records.length;
}

async function readCharges(
  reader: Reader,
  accountId: string,
  firstId: string,
  lastId: string,
): Promise<ReadonlyMap<string, Charge>> {
  const rows = await reader.all(
    `select id as ref, cast(promo_nano + paid_nano + overrun_nano as text) as total, charged_at as at from usage_record
     where account_id = ? and id >= ? and id <= ? and charged_at is not null`,
    [accountId, firstId, lastId],
  );
  return new Map(
    rows.map((row) => [text(row, "ref"), { total: toNano(row["total"]), at: integer(row, "at") }]),
  );
}

interface KeySum {
  readonly keyId: string;
  calls: number;
  cost: Nano;
  charged: Nano;
  lastAt: number;
}

function sumsByKey(
  records: readonly UsageRecord[],
  charges: ReadonlyMap<string, Charge>,
): readonly KeySum[] {
  const sums = new Map<string, KeySum>();
  for (const { id, keyId, cost } of records) {
    const sum = sums.get(keyId) ?? { keyId, calls: 0, cost: 0n, charged: 0n, lastAt: 0 };
    const charge = charges.get(id);
    sum.calls += 1;
    sum.cost += cost;
    sum.charged += charge?.total ?? 0n;
    sum.lastAt = Math.max(sum.lastAt, charge?.at ?? 0);
    sums.set(keyId, sum);
  }
  return [...sums.values()];
}

export interface ArchiveFiles {
  /** The records are on disk when it returns. */
  readonly append: (records: readonly UsageRecord[]) => void;
}

/**
 * Gzipped JSON lines in the form of the API, one file per UTC month and process. Each call appends a member to the gzip file;
 * readers such as `zcat` return the members as one stream. What follows an incomplete member cannot be read, so nothing is
 * appended to the file of another process, or after a write that failed.
 */
export function createArchiveFiles(folder: string, now: () => number): ArchiveFiles {
  /** The file of each month. */
  const names = new Map<string, string>();
  return {
    append: (records) => {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      for (const [month, ofMonth] of Map.groupBy(records, monthOf)) {
        const name = names.get(month) ?? createFile(path.join(folder, `usage-${month}`), now());
        names.delete(month);
        appendMember(name, ofMonth);
        names.set(month, name);
      }
    },
  };
}

function createFile(prefix: string, at: number): string {
  for (let time = at; ; time++) {
    const name = `${prefix}-${fileTime(time)}.jsonl.gz`;
    try {
      closeSync(openSync(name, "ax", 0o600));
      return name;
    } catch (error) {
      if (!isObject(error) || error["code"] !== "EEXIST") throw error;
    }
  }
}

/** With milliseconds, as `20261123T120000000Z`. */
function fileTime(at: number): string {
  return new Date(at).toISOString().replaceAll(/[-:.]/g, "");
}

function appendMember(name: string, records: readonly UsageRecord[]): void {
  const lines = records.map((record) =>
    JSON.stringify({ account_id: record.accountId, ...toApiRecord(record) }),
  );
  const file = openSync(name, "a", 0o600);
  try {
    writeAll(file, gzipSync(`${lines.join("\n")}\n`));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function monthOf({ createdAt }: UsageRecord): string {
  return utcDay(createdAt).slice(0, "2026-11".length);
}

function writeAll(file: number, bytes: Uint8Array): void {
  for (let offset = 0; offset < bytes.length;) offset += writeSync(file, bytes, offset);
}
