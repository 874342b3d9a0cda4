// Adds usage records to `usage_by_account`, on SQLite only. With one entry per call, each call would change another page of
// the index; a segment of thousands of entries is sorted by account and appended.
// Every record up to the last id of the last segment has an entry, in the first segment that ends at or after its id.

import { type Db, integer, type Reader, text, type Tx } from "../store/db.ts";

const SEGMENT_RECORDS = 4_096;
/** The newest records stay without entries: calls that began before them may still end, and each adds its own entry. */
const TAIL_KEPT = 1_024;
/** The tail is counted after this many records, so it exceeds its limit by at most this number and one batch. */
const CHECK_RECORDS = 512;

interface SegmentSize {
  readonly records: number;
  readonly tailKept: number;
}

const SIZE: SegmentSize = { records: SEGMENT_RECORDS, tailKept: TAIL_KEPT };

interface LastSegment {
  readonly number: number;
  readonly lastId: string;
}

/** Adds entries for records that belong to a segment by their ids. Call in the transaction of their insertion. */
export async function addLateEntries(
  tx: Tx,
  records: readonly { readonly id: string; readonly accountId: string }[],
): Promise<void> {
  if (tx.kind === "postgres") return;
  const { lastId } = await readLast(tx);
  for (const { id, accountId } of records)
    if (id <= lastId)
      await tx.run(
        `insert into usage_by_account (segment, account_id, id)
         select number, ?, ? from usage_segment where last_id >= ? order by last_id limit 1`,
        [accountId, id, id],
      );
}

/** Called after `records` usage records were inserted, in the same transaction. */
export type AddSegment = (tx: Tx, records: number) => Promise<void>;

export function createAddSegment(size = SIZE, checkRecords = CHECK_RECORDS): AddSegment {
  let unchecked = Number.POSITIVE_INFINITY;
  return async (tx, records) => {
    unchecked += records;
    if (tx.kind === "postgres" || unchecked < checkRecords) return;
    unchecked = 0;
    await addSegment(tx, size);
  };
}

/** Adds the segments that a migration or a move left out. */
export async function completeSegments(db: Db, size = SIZE): Promise<void> {
  if (db.kind === "postgres") return;
  while (await isSegmentDue(db, await readLast(db), size)) {
    await db.write((tx) => addSegment(tx, size), "os_cache");
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function addSegment(tx: Tx, size: SegmentSize): Promise<void> {
  const last = await readLast(tx);
  if (!(await isSegmentDue(tx, last, size))) return;
  const lastId = await tailId(tx, last, size.records - 1);
  const number = last.number + 1;
  await tx.run(
    `insert into usage_by_account (segment, account_id, id)
     select ?, account_id, id from usage_record where id > ? and id <= ? order by account_id, id`,
    [number, last.lastId, lastId ?? ""],
  );
  await tx.run("insert into usage_segment (number, last_id) values (?, ?)", [number, lastId ?? ""]);
}

async function isSegmentDue(
  reader: Reader,
  last: LastSegment,
  { records, tailKept }: SegmentSize,
): Promise<boolean> {
  return (await tailId(reader, last, records + tailKept)) !== undefined;
}

async function tailId(
  reader: Reader,
  { lastId }: LastSegment,
  offset: number,
): Promise<string | undefined> {
  const row = await reader.get(
    "select id from usage_record where id > ? order by id limit 1 offset ?",
    [lastId, offset],
  );
  return row && text(row, "id");
}

async function readLast(reader: Reader): Promise<LastSegment> {
  const row = await reader.get(
    "select number, last_id from usage_segment order by last_id desc limit 1",
  );
  if (row === undefined) return { number: 0, lastId: "" };
  return { number: integer(row, "number"), lastId: text(row, "last_id") };
}

/** Call after the deletion of these records, in its transaction. */
export async function removeFromSegments(
  tx: Tx,
  accountId: string,
  { first, last }: { readonly first: string; readonly last: string },
): Promise<void> {
  if (tx.kind === "postgres") return;
  await tx.run(
    "delete from usage_by_account where segment in (select number from usage_segment) and account_id = ? and id >= ? and id <= ?",
    [accountId, first, last],
  );
}

/** The last segment stays, because its last id begins the tail. */
export async function deleteEmptySegments(tx: Tx): Promise<void> {
  if (tx.kind === "postgres") return;
  await tx.run(
    `delete from usage_segment where last_id < (select max(last_id) from usage_segment)
       and not exists (select 1 from usage_by_account where segment = number)`,
  );
}
