// The default store: one SQLite file, written by one connection and read by another. `synchronous=FULL` in WAL mode
// means that a commit is on the disk when it returns. SQLite answers at once, so promises here are only a form.

import { Database, type SQLQueryBindings } from "bun:sqlite";
import { closeSync, fsyncSync, mkdirSync, openSync } from "node:fs";
import path from "node:path";
import {
  type Column,
  columnName,
  type Db,
  DUPLICATE,
  type Reader,
  type Row,
  type Tx,
  type Value,
  type Values,
} from "./db.ts";

const BUSY_TIMEOUT_MS = 5_000;

export interface SqliteOptions {
  readonly folder: string;
  /** Refuses to open a folder that another process serves from. */
  readonly lock: boolean;
}

export function openSqlite(options: SqliteOptions): Db {
  mkdirSync(options.folder, { recursive: true, mode: 0o700 });
  const unlock = options.lock ? lockFolder(options.folder) : () => {};
  const file = path.join(options.folder, "postern.db");
  const writer = openFile(file);
  const reader = openFile(file);
  reader.run("pragma query_only = on");
  syncFolder(options.folder);
  const tx = transactionOn(writer);
  let last: Promise<unknown> = Promise.resolve();

  const write = <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
    const turn = last.then(() => inTransaction(writer, () => work(tx)));
    last = turn.catch(() => {});
    return turn;
  };
  const snapshot = async <T>(work: (reader: Reader) => Promise<T>): Promise<T> => {
    const own = openFile(file);
    try {
      own.run("pragma query_only = on");
      own.run("begin");
      return await work(readerOn(own));
    } finally {
      own.close();
    }
  };
  return {
    ...readerOn(reader),
    write,
    snapshot,
    backup: async (target) => void reader.query("vacuum into ?").run(target),
    close: async () => {
      await last;
      reader.close();
      writer.run("pragma wal_checkpoint(truncate)");
      writer.close();
      unlock();
    },
  };
}

function openFile(file: string): Database {
  const database = new Database(file, { create: true });
  database.run(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
  database.run("pragma journal_mode = wal");
  database.run("pragma synchronous = full");
  database.run("pragma cache_size = -16000");
  return database;
}

// The kernel drops this lock when the process ends, however it ends; a file with a process id in it would go stale.
function lockFolder(folder: string): () => void {
  const lock = new Database(path.join(folder, "postern.lock"), { create: true });
  try {
    lock.run("pragma locking_mode = exclusive");
    lock.run("begin exclusive");
  } catch (cause) {
    lock.close();
    throw new Error(
      `the data folder ${folder} is in use by another Postern: stop it, or set POSTERN_DATA_DIR to another folder`,
      { cause },
    );
  }
  return () => lock.close();
}

// A new file's name is durable only when its folder has been written out too.
function syncFolder(folder: string): void {
  const handle = openSync(folder, "r");
  fsyncSync(handle);
  closeSync(handle);
}

async function inTransaction<T>(database: Database, work: () => Promise<T>): Promise<T> {
  database.run("begin immediate");
  try {
    const result = await work();
    database.run("commit");
    return result;
  } catch (error) {
    if (database.inTransaction) database.run("rollback");
    throw marked(error);
  }
}

function marked(error: unknown): unknown {
  if (
    error instanceof Error &&
    "code" in error &&
    /^SQLITE_CONSTRAINT_(UNIQUE|PRIMARYKEY)$/.test(String(error.code))
  ) {
    Object.assign(error, { [DUPLICATE]: true });
  }
  return error;
}

function readerOn(database: Database): Reader {
  const all = (sql: string, params: Values = []): readonly Row[] =>
    database.query<Row, SQLQueryBindings[]>(sql).all(...params);
  return {
    kind: "sqlite",
    all: async (sql, params) => all(sql, params),
    get: async (sql, params) => all(sql, params)[0],
  };
}

function transactionOn(database: Database): Tx {
  const each = (sql: string, rows: readonly Values[]): void => {
    const statement = database.query<Row, SQLQueryBindings[]>(sql);
    for (const row of rows) statement.run(...row);
  };
  const find = (table: string, key: string, keys: readonly string[]): readonly Row[] => {
    const statement = database.query<Row, SQLQueryBindings[]>(
      `select * from ${table} where ${key} = ?`,
    );
    return keys.flatMap((value) => statement.all(value));
  };
  return {
    ...readerOn(database),
    run: async (sql, params: readonly Value[] = []) => {
      try {
        return database.query<Row, SQLQueryBindings[]>(sql).run(...params).changes;
      } catch (error) {
        throw marked(error);
      }
    },
    insertMany: async (table, columns, rows) => each(insertStatement(table, columns), rows),
    updateMany: async (table, columns, rows) =>
      each(updateStatement(table, columns), rows.map(keyLast)),
    deleteMany: async (table, key, keys) =>
      each(
        `delete from ${table} where ${key} = ?`,
        keys.map((value) => [value]),
      ),
    lockMany: async (table, key, keys) => find(table, key, keys),
    readMany: async (table, key, keys) => find(table, key, keys),
  };
}

function insertStatement(table: string, columns: readonly Column[]): string {
  return `insert into ${table} (${columns.map(columnName).join(", ")}) values (${columns.map(() => "?").join(", ")})`;
}

function updateStatement(table: string, columns: readonly Column[]): string {
  const [key = "", ...others] = columns.map(columnName);
  return `update ${table} set ${others.map((name) => `${name} = ?`).join(", ")} where ${key} = ?`;
}

function keyLast(row: Values): Values {
  const [key = null, ...others] = row;
  return [...others, key];
}
