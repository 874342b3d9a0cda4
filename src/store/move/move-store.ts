// Copies a store into an empty one of the other kind. Each page is written in one transaction with the position behind
// it, so a copy that was interrupted continues where it stopped. Then both stores are read again and compared.

import { createHash } from "node:crypto";
import { type Db, integer, type Reader, text } from "../db.ts";
import { migrate, UNFINISHED_MOVE } from "../migrate.ts";
import {
  countRows,
  readPage,
  readTables,
  rowValues,
  type Table,
  type TextRow,
} from "./store-tables.ts";

/** The first page of a table is small, because its rows may be large; the next ones are about this long. */
const PAGE_CHARACTERS = 2_000_000;
const PAGE_ROWS_FIRST = 16;
const PAGE_ROWS_MAX = 2_000;
/** The entry of `move_progress` that names the source. */
const SOURCE_ENTRY = "(source)";

type RowProgress = (done: number, total: number, table: string) => void;

export interface Move {
  readonly source: Db;
  readonly target: Db;
  /** Recorded in the target, so that a copy is not continued from another store. */
  readonly sourceName: string;
  readonly now: number;
  /** Called with the rows of all tables so far. What it throws ends the move, which can be continued. */
  readonly onCopied: RowProgress;
  readonly onCompared: RowProgress;
}

export interface MovedTable {
  readonly name: string;
  readonly rows: number;
}

/** Copies what is not copied yet and compares all rows. Throws if they differ. */
export async function moveStore(move: Move): Promise<readonly MovedTable[]> {
  const { source, target } = move;
  const sqlite = [source, target].find(({ kind }) => kind === "sqlite");
  if (sqlite === undefined || source.kind === target.kind)
    throw new Error("a store is moved between SQLite and PostgreSQL");
  await prepareTarget(move);
  const tables = await readTables(sqlite);
  let total = 0;
  for (const table of tables) total += await countRows(source, table);
  let done = 0;
  for (const table of tables)
    done += await copyTable(move, table, (copied) =>
      move.onCopied(done + copied, total, table.name),
    );
  return await compareTables(move, tables, total);
}

/** Removes the marks of the move, so that a gateway can use the target. */
export async function finishMove(target: Db): Promise<void> {
  await target.write((tx) => tx.run("delete from migration where name = ?", [UNFINISHED_MOVE]));
  await target.write((tx) => tx.run("drop table move_progress"));
}

/** Deletes an unfinished copy. */
export async function discardMove(target: Db): Promise<void> {
  if (!(await isUnfinished(target)))
    throw new Error("the target has no unfinished move, so nothing was deleted");
  for (const table of await tableNames(target))
    if (table !== "migration") await target.write((tx) => tx.run(`delete from ${table}`));
  await finishMove(target);
}

async function prepareTarget({ target, sourceName, now }: Move): Promise<void> {
  if (await isUnfinished(target)) {
    const row = await target.get("select last_key from move_progress where table_name = ?", [
      SOURCE_ENTRY,
    ]);
    const recorded = row === undefined ? sourceName : text(row, "last_key");
    if (recorded === sourceName) return;
    throw new Error(
      `the target has an unfinished move from ${recorded}: continue that one, or add --start-over to delete it`,
    );
  }
  for (const table of await tableNames(target)) {
    if (table === "migration" || table === "move_progress") continue;
    if ((await target.get(`select 1 as one from ${table} limit 1`)) === undefined) continue;
    throw new Error(
      `the target is not empty: its table ${table} has rows. Name an empty database or a new folder`,
    );
  }
  await migrate(target, now);
  await target.write((tx) =>
    tx.run(
      "create table if not exists move_progress (table_name text primary key, last_key text not null, copied bigint not null)",
    ),
  );
  await target.write(async (tx) => {
    await tx.run("delete from move_progress");
    await tx.run("insert into move_progress (table_name, last_key, copied) values (?, ?, 0)", [
      SOURCE_ENTRY,
      sourceName,
    ]);
    await tx.run("insert into migration (name, applied_at) values (?, ?)", [UNFINISHED_MOVE, now]);
  });
}

export async function isUnfinished(target: Db): Promise<boolean> {
  if (!(await tableNames(target)).includes("migration")) return false;
  const row = await target.get("select 1 as one from migration where name = ?", [UNFINISHED_MOVE]);
  return row !== undefined;
}

async function tableNames(db: Reader): Promise<readonly string[]> {
  const rows = await db.all(
    db.kind === "sqlite"
      ? "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
      : "select cast(table_name as text) as name from information_schema.tables where table_schema = current_schema()",
  );
  return rows.map((row) => text(row, "name"));
}

/** Returns the number of copied rows. */
async function copyTable(
  { source, target }: Move,
  table: Table,
  onProgress: (copied: number) => void,
): Promise<number> {
  let { after, copied } = await readProgress(target, table);
  let limit = PAGE_ROWS_FIRST;
  for (;;) {
    const { rows, last } = await readPage(source, table, after, limit);
    if (last === undefined) return copied;
    copied += rows.length;
    after = last;
    const position = [table.name, JSON.stringify(last), copied];
    await target.write(async (tx) => {
      const values = rows.map((row) => rowValues(table, row));
      await tx.insertMany(table.name, table.columns, values);
      await tx.run(
        "insert into move_progress (table_name, last_key, copied) values (?, ?, ?) on conflict (table_name) do update set last_key = excluded.last_key, copied = excluded.copied",
        position,
      );
    });
    onProgress(copied);
    limit = nextLimit(limit, rows);
  }
}

async function readProgress(
  target: Reader,
  table: Table,
): Promise<{ readonly after: TextRow | undefined; readonly copied: number }> {
  const row = await target.get("select last_key, copied from move_progress where table_name = ?", [
    table.name,
  ]);
  if (row === undefined) return { after: undefined, copied: 0 };
  const key: unknown = JSON.parse(text(row, "last_key"));
  return {
    after: Array.isArray(key) ? key.map(String) : undefined,
    copied: integer(row, "copied"),
  };
}

function nextLimit(limit: number, rows: readonly TextRow[]): number {
  let characters = 0;
  for (const row of rows) for (const cell of row) characters += cell?.length ?? 0;
  const fitting = Math.floor((limit * PAGE_CHARACTERS) / Math.max(1, characters));
  return Math.max(1, Math.min(PAGE_ROWS_MAX, fitting, limit * 4));
}

async function compareTables(
  { source, target, onCompared }: Move,
  tables: readonly Table[],
  total: number,
): Promise<readonly MovedTable[]> {
  const moved: MovedTable[] = [];
  let done = 0;
  for (const table of tables) {
    const onRead = (rows: number): void => onCompared(done + rows, total, table.name);
    const before = await digestOf(source, table, onRead);
    const after = await digestOf(target, table, () => onRead(before.rows));
    done += before.rows;
    if (before.rows !== after.rows || before.digest !== after.digest)
      throw new Error(
        `the table ${table.name} differs: ${before.rows} rows in the source, ${after.rows} in the target. The source was used since the copy began; stop what uses it and run the command again with --start-over`,
      );
    moved.push({ name: table.name, rows: before.rows });
  }
  return moved;
}

const DIGEST_MODULUS = 2n ** 128n;

// The sum of the rows' hashes does not depend on their order, which the stores' collations decide.
async function digestOf(
  reader: Reader,
  table: Table,
  onRead: (rows: number) => void,
): Promise<{ readonly rows: number; readonly digest: bigint }> {
  let [rows, digest, limit] = [0, 0n, PAGE_ROWS_FIRST];
  for (let after: TextRow | undefined; ;) {
    const page = await readPage(reader, table, after, limit);
    if (page.last === undefined) return { rows, digest };
    for (const row of page.rows) {
      const hash = createHash("sha256").update(JSON.stringify(row)).digest("hex").slice(0, 32);
      digest = (digest + BigInt(`0x${hash}`)) % DIGEST_MODULUS;
    }
    rows += page.rows.length;
    onRead(rows);
    after = page.last;
    limit = nextLimit(limit, page.rows);
  }
}
