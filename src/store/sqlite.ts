// The default store: one SQLite file, written by one connection and read by another. `synchronous=FULL` in WAL mode
// means that a commit is on the disk when it returns. SQLite answers at once, so promises here are only a form.

import { Database, type SQLQueryBindings, type Statement } from "bun:sqlite";
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { memoize } from "../base/memoize.ts";
import {
  assertExactValues,
  type Column,
  columnName,
  type Db,
  DUPLICATE,
  type Reader,
  type Row,
  type Tx,
  UNAVAILABLE,
  type Value,
  type Values,
} from "./db.ts";

const BUSY_TIMEOUT_MS = 5_000;
/** 16 MiB. */
const WAL_MAX_PAGES = 4_000;
/** Twice as much is no faster, with a thousand busy accounts either: what falls out of it is in the kernel's own cache. */
const CACHE_KIB = 8_000;
/** Bun keeps twenty compiled statements; a busy gateway has some hundreds, and compiling costs more than most of them. */
const STATEMENTS_MAX = 500;
const UNAVAILABLE_CODES = /^SQLITE_(BUSY|FULL|IOERR|READONLY|CANTOPEN|NOMEM|LOCKED|PROTOCOL)/;

export interface SqliteOptions {
  readonly folder: string;
  /** Refuses to open a folder that another process serves from. */
  readonly lock: boolean;
}

export function openSqlite(options: SqliteOptions): Db {
  mkdirSync(options.folder, { recursive: true, mode: 0o700 });
  const unlock = options.lock ? lockFolder(options.folder) : () => {};
  const file = path.join(options.folder, "postern.db");
  createPrivateFile(file);
  const writer = openFile(file);
  const reader = openFile(file);
  reader.run("pragma query_only = on");
  fsyncPath(options.folder);
  let lastWrite: Promise<unknown> = Promise.resolve();

  const setDurability = createSyncModeSwitch(writer);
  const write: Db["write"] = (work, durability = "on disk") => {
    const result = lastWrite.then(() => {
      setDurability(durability === "on disk");
      return inTransaction(writer, work);
    });
    lastWrite = result.catch(() => {});
    return result;
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
    backup: async (target) => backup(file, target),
    dataVersion: createDataVersion(writer),
    isFileReplaced: createFileReplacedCheck(file),
    close: async () => {
      await lastWrite;
      reader.close();
      writer.run("pragma wal_checkpoint(truncate)");
      writer.close();
      unlock();
    },
  };
}

// SQLite makes its files readable for everybody, where the folder was not made here; those beside it become like it.
function createPrivateFile(file: string): void {
  if (!existsSync(file)) closeSync(openSync(file, "a", 0o600));
}

function openFile(file: string): Database {
  Database.MAX_QUERY_CACHE_SIZE = STATEMENTS_MAX;
  const database = new Database(file, { create: true });
  database.run(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
  database.run("pragma journal_mode = wal");
  database.run("pragma synchronous = full");
  database.run(`pragma cache_size = ${-CACHE_KIB}`);
  // Moving the log into the file stops everything else for a moment: rarer is better, as long as the log stays small.
  database.run(`pragma wal_autocheckpoint = ${WAL_MAX_PAGES}`);
  return database;
}

// In WAL mode `synchronous=NORMAL` writes a commit to the log without waiting for the disk, in the same order as the
// others: the next commit that does wait flushes the whole log.
function createSyncModeSwitch(database: Database): (isSynced: boolean) => void {
  let isSyncedNow = true;
  return (isSynced) => {
    if (isSynced === isSyncedNow) return;
    database.run(`pragma synchronous = ${isSynced ? "full" : "normal"}`);
    isSyncedNow = isSynced;
  };
}

// What has a file open goes on writing to it, whatever becomes of its name.
function createFileReplacedCheck(file: string): () => boolean {
  const find = () => statSync(file, { throwIfNoEntry: false });
  const opened = find();
  return () => {
    const found = find();
    return found?.ino !== opened?.ino || found?.dev !== opened?.dev;
  };
}

// It is the same for what this connection has written itself.
function createDataVersion(database: Database): () => number {
  const statement = database.query("pragma data_version");
  return () => Number(statement.values()[0]?.[0]);
}

// The kernel drops this lock when the process ends, however it ends; a file with a process id in it would go stale.
function lockFolder(folder: string): () => void {
  const file = path.join(folder, "postern.lock");
  createPrivateFile(file);
  const lock = new Database(file, { create: true });
  try {
    lock.run("pragma locking_mode = exclusive");
    lock.run("begin exclusive");
  } catch (cause) {
    lock.close();
    if (!(cause instanceof Error && "code" in cause && cause.code === "SQLITE_BUSY")) throw cause;
    throw new Error(
      `the data folder ${folder} is in use by another Postern: stop it, or set POSTERN_DATA_DIR to another folder`,
      { cause },
    );
  }
  return () => lock.close();
}

// SQLite does not flush the copy that it makes, and makes it readable for everybody, unless an empty file is there already.
// What was not copied whole is no backup, and the name is free again for the next attempt.
function backup(file: string, target: string): void {
  closeSync(openSync(target, "wx", 0o600));
  const own = openFile(file);
  try {
    own.run("vacuum into ?", [target]);
  } catch (error) {
    rmSync(target, { force: true });
    throw error;
  } finally {
    own.close();
  }
  fsyncPath(target);
  fsyncPath(path.dirname(target));
}

// A file is durable once it has been flushed, and its name once its folder has been.
function fsyncPath(fileOrFolder: string): void {
  const handle = openSync(fileOrFolder, "r");
  fsyncSync(handle);
  closeSync(handle);
}

async function inTransaction<T>(database: Database, work: (tx: Tx) => Promise<T>): Promise<T> {
  let failure: { readonly cause: unknown } | undefined;
  const guard = <R>(step: () => R): R => {
    if (failure !== undefined) throw failure.cause;
    try {
      return step();
    } catch (error) {
      failure = { cause: tagError(error) };
      throw error;
    }
  };
  try {
    database.query("begin immediate").run();
    const result = await work(transactionOn(database, guard));
    guard(() => database.query("commit").run());
    return result;
  } catch (error) {
    if (database.inTransaction) database.run("rollback");
    throw tagError(error);
  } finally {
    failure ??= { cause: new Error("the transaction is over") };
  }
}

function tagError(error: unknown): unknown {
  if (!(error instanceof Error) || !("code" in error)) return error;
  const code = String(error.code);
  if (/^SQLITE_CONSTRAINT_(UNIQUE|PRIMARYKEY)$/.test(code))
    Object.assign(error, { [DUPLICATE]: true });
  if (UNAVAILABLE_CODES.test(code)) Object.assign(error, { [UNAVAILABLE]: true });
  return error;
}

type Guard = <R>(step: () => R) => R;

function readerOn(database: Database, guard: Guard = (step) => step()): Reader {
  const all = (sql: string, params: Values = []): readonly Row[] =>
    guard(() => prepared(database, sql).all(...assertExactValues(params)));
  return {
    kind: "sqlite",
    all: async (sql, params) => all(sql, params),
    get: async (sql, params) => all(sql, params)[0],
  };
}

// An amount fits a number, and so does a balance; what was spent of many balances, one after the other, need not, and SQLite
// rounds it without a word. What reads such sums gets every integer as a bigint, which costs no more on so few columns.
const needsBigints = memoize((sql: string) => /\b(?:spender|wallet)\b|\bsum\(/.test(sql));

function prepared(database: Database, sql: string): Statement<Row, SQLQueryBindings[]> {
  const statement = database.query<Row, SQLQueryBindings[]>(sql);
  return needsBigints(sql) ? statement.safeIntegers(true) : statement;
}

function transactionOn(database: Database, guard: Guard): Tx {
  const each = async (sql: string, rows: readonly Values[]): Promise<void> =>
    guard(() => {
      const statement = database.query<Row, SQLQueryBindings[]>(sql);
      for (const row of rows) statement.run(...assertExactValues(row));
    });
  const find = async (
    table: string,
    key: string,
    keys: readonly string[],
  ): Promise<readonly Row[]> =>
    guard(() =>
      prepared(
        database,
        `select * from ${table} where ${keyCondition(key, keys)} order by ${key}`,
      ).all(keysParameter(keys)),
    );
  return {
    ...readerOn(database, guard),
    run: async (sql, params: readonly Value[] = []) =>
      guard(
        () =>
          database.query<Row, SQLQueryBindings[]>(sql).run(...assertExactValues(params)).changes,
      ),
    insertMany: (table, columns, rows) => each(insertStatement(table, columns), rows),
    updateMany: (table, columns, rows) => each(updateStatement(table, columns), rows.map(keyLast)),
    deleteMany: async (table, key, keys) =>
      guard(
        () =>
          void database
            .query(`delete from ${table} where ${keyCondition(key, keys)}`)
            .run(keysParameter(keys)),
      ),
    lockMany: find,
    readMany: find,
  };
}

// One statement over a list costs a tenth of a statement for each key, and one for a single key half of that for a list.
function keyCondition(key: string, keys: readonly string[]): string {
  return keys.length === 1 ? `${key} = ?` : `${key} in (select value from json_each(?))`;
}

function keysParameter(keys: readonly string[]): string {
  const [only] = keys;
  return keys.length === 1 && only !== undefined ? only : JSON.stringify(keys);
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
