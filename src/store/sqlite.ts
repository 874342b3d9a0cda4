// The default store: one SQLite file with one connection to write and one to read. In WAL mode with `synchronous=FULL`,
// a commit is on disk when it returns. SQLite is synchronous; the promises only fit the interface.

import { Database, type SQLQueryBindings, type Statement } from "bun:sqlite";
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { memoize } from "../base/memoize.ts";
import {
  assertExactValues,
  type BackupProgress,
  columnName,
  type Db,
  DUPLICATE,
  isUnavailable,
  type Key,
  type Reader,
  type ReadRows,
  type Row,
  type Tx,
  UNAVAILABLE,
  type Value,
  type Values,
} from "./db.ts";
import { cachePerColumns } from "./statements.ts";

const BUSY_TIMEOUT_MS = 5_000;
/** 16 MiB. */
const WAL_MAX_PAGES = 4_000;
/** A long read keeps the log from being reset; afterwards it shrinks to this. */
const WAL_KEPT_BYTES = 32 * 1_048_576;
const LOCK_POLL_MS = 10;
const LOCK_FILE = "postern.lock";
/** Twice as much is not faster, even with a thousand busy accounts: evicted pages are in the kernel's cache. */
const CACHE_KIB = 8_000;
/** Bun caches 20 compiled statements; a busy gateway has hundreds, and compiling one costs more than running most. */
const STATEMENTS_MAX = 500;
const UNAVAILABLE_CODES = /^SQLITE_(BUSY|FULL|IOERR|READONLY|CANTOPEN|NOMEM|LOCKED|PROTOCOL)/;

export interface SqliteOptions {
  readonly folder: string;
  /** Throws if another process has locked the folder. */
  readonly lock: boolean;
}

export function openSqlite(options: SqliteOptions): Db {
  mkdirSync(options.folder, { recursive: true, mode: 0o700 });
  const unlock = options.lock ? lockFolder(options.folder) : () => {};
  const file = path.join(options.folder, "postern.db");
  createPrivateFile(file);
  const writer = openFile(file);
  // SQLite waits for a lock by sleeping, which would stop the event loop.
  writer.run("pragma busy_timeout = 0");
  const reader = openFile(file);
  reader.run("pragma query_only = on");
  fsyncPath(options.folder);
  let lastWrite: Promise<unknown> = Promise.resolve();

  const setSynchronous = createSynchronousSwitch(writer);
  const write: Db["write"] = (work, durability = "disk") => {
    const busyDeadline = performance.now() + BUSY_TIMEOUT_MS;
    const result = lastWrite.then(async () => {
      setSynchronous(durability === "disk");
      const afterCommit: AfterCommit[] = [];
      const written = await inTransaction(writer, busyDeadline, (guard) =>
        work(transactionOn(writer, guard, afterCommit)),
      );
      for (const run of afterCommit) await run(readerOn(reader));
      return written;
    });
    lastWrite = result.catch(() => {});
    return result;
  };
  const snapshot = async <T>(work: (reader: Reader) => Promise<T>): Promise<T> => {
    const connection = openFile(file);
    try {
      connection.run("pragma query_only = on");
      connection.run("begin");
      return await work(readerOn(connection));
    } finally {
      connection.close();
    }
  };
  return {
    ...readerOn(reader),
    write,
    snapshot,
    backup: (target, onProgress) => backup(file, target, onProgress),
    dataVersion: createDataVersion(writer),
    isFileReplaced: createFileReplacedCheck([
      file,
      `${file}-wal`,
      `${file}-shm`,
      ...(options.lock ? [path.join(options.folder, LOCK_FILE)] : []),
    ]),
    close: async () => {
      await lastWrite;
      reader.close();
      checkpointAtClose(writer);
      writer.close();
      unlock();
    },
  };
}

// The next start repeats a checkpoint that fails, such as in a read-only folder.
function checkpointAtClose(writer: Database): void {
  try {
    writer.run(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
    writer.run("pragma wal_checkpoint(truncate)");
  } catch (error) {
    if (!isUnavailable(tagError(error))) throw error;
  }
}

// SQLite creates world-readable files; its WAL and shared-memory files copy the mode of the main file.
function createPrivateFile(file: string): void {
  if (!existsSync(file)) closeSync(openSync(file, "a", 0o600));
}

function openFile(file: string): Database {
  Database.MAX_QUERY_CACHE_SIZE = STATEMENTS_MAX;
  const database = new Database(file, { create: true });
  database.run(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
  switchToWal(database);
  database.run("pragma synchronous = full");
  database.run(`pragma cache_size = ${-CACHE_KIB}`);
  // A checkpoint blocks the event loop, so it runs rarely, as long as the log stays small.
  database.run(`pragma wal_autocheckpoint = ${WAL_MAX_PAGES}`);
  database.run(`pragma journal_size_limit = ${WAL_KEPT_BYTES}`);
  return database;
}

// SQLite does not wait for the lock while another process switches the same new file.
function switchToWal(database: Database): void {
  const deadline = performance.now() + BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      database.run("pragma journal_mode = wal");
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() > deadline) throw error;
      Bun.sleepSync(LOCK_POLL_MS);
    }
  }
}

// In WAL mode, `synchronous=NORMAL` appends a commit to the log without a sync; the next commit with `FULL` syncs the
// whole log.
function createSynchronousSwitch(database: Database): (isFull: boolean) => void {
  let isFullNow = true;
  return (isFull) => {
    if (isFull === isFullNow) return;
    database.run(`pragma synchronous = ${isFull ? "full" : "normal"}`);
    isFullNow = isFull;
  };
}

// An open file keeps receiving writes after its name was deleted or replaced. The log exists from the first write on.
function createFileReplacedCheck(files: readonly string[]): () => boolean {
  const seen = new Map<string, string>();
  const isReplaced = (file: string): boolean => {
    const stat = statSync(file, { throwIfNoEntry: false });
    const current = stat && `${stat.dev}:${stat.ino}`;
    const before = seen.get(file);
    if (before === undefined && current !== undefined) seen.set(file, current);
    return before !== undefined && before !== current;
  };
  files.some(isReplaced);
  return () => files.some(isReplaced);
}

// `data_version` does not change for the connection's own writes.
function createDataVersion(database: Database): () => number {
  const statement = database.query("pragma data_version");
  return () => Number(statement.values()[0]?.[0]);
}

// The kernel releases this lock however the process ends; a PID file would become stale.
function lockFolder(folder: string): () => void {
  const file = path.join(folder, LOCK_FILE);
  createPrivateFile(file);
  const lock = new Database(file, { create: true });
  try {
    lock.run("pragma locking_mode = exclusive");
    lock.run("begin exclusive");
  } catch (cause) {
    lock.close();
    if (!isBusy(cause)) throw cause;
    throw new Error(
      `the data folder ${folder} is in use by another Postern: stop it, or set POSTERN_DATA_DIR to another folder`,
      { cause },
    );
  }
  return () => lock.close();
}

// A thread of its own, because `vacuum into` blocks its thread until the copy is complete.
const BACKUP_THREAD = `
import { Database } from "bun:sqlite";
onmessage = ({ data: { file, target } }) => {
  try {
    const connection = new Database(file, { readwrite: true, strict: true });
    connection.run("pragma busy_timeout = ${BUSY_TIMEOUT_MS}");
    connection.run("vacuum into ?", [target]);
    connection.close();
    postMessage("");
  } catch (error) {
    postMessage(String(error));
  }
};`;
const BACKUP_POLL_MS = 100;

// `vacuum into` does not sync the copy, and creates it world-readable unless an empty file exists. An incomplete copy
// is deleted, so that the name is free for the next attempt.
async function backup(
  file: string,
  target: string,
  onProgress: BackupProgress = () => {},
): Promise<void> {
  closeSync(openSync(target, "wx", 0o600));
  const url = URL.createObjectURL(new Blob([BACKUP_THREAD], { type: "text/javascript" }));
  const thread = new Worker(url);
  const { promise: copied, resolve, reject } = Promise.withResolvers<void>();
  thread.onmessage = ({ data }: MessageEvent<string>) =>
    data === "" ? resolve() : reject(new Error(data));
  thread.onerror = ({ message }) => reject(new Error(message));
  const timer = setInterval(() => {
    try {
      onProgress(statSync(target).size, statSync(file).size);
    } catch (error) {
      reject(error);
    }
  }, BACKUP_POLL_MS);
  try {
    thread.postMessage({ file, target });
    await copied;
  } catch (error) {
    rmSync(target, { force: true });
    throw error;
  } finally {
    clearInterval(timer);
    thread.terminate();
    URL.revokeObjectURL(url);
  }
  fsyncPath(target);
  fsyncPath(path.dirname(target));
}

// Syncing a folder makes the names of its files durable.
function fsyncPath(fileOrFolder: string): void {
  const handle = openSync(fileOrFolder, "r");
  fsyncSync(handle);
  closeSync(handle);
}

async function inTransaction<T>(
  database: Database,
  busyDeadline: number,
  work: (guard: Guard) => Promise<T>,
): Promise<T> {
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
    if (!tryBegin(database)) await beginWhenUnlocked(database, busyDeadline);
    const result = await work(guard);
    guard(() => database.query("commit").run());
    return result;
  } catch (error) {
    if (database.inTransaction) database.run("rollback");
    throw tagError(error);
  } finally {
    failure ??= { cause: new Error("the transaction is over") };
  }
}

/** False while another connection has the write lock. */
function tryBegin(database: Database): boolean {
  try {
    database.query("begin immediate").run();
    return true;
  } catch (error) {
    if (!isBusy(error)) throw error;
    return false;
  }
}

async function beginWhenUnlocked(database: Database, deadline: number): Promise<void> {
  while (performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, LOCK_POLL_MS));
    if (tryBegin(database)) return;
  }
  database.query("begin immediate").run();
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && "code" in error && String(error.code).startsWith("SQLITE_BUSY");
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
type AfterCommit = Parameters<Tx["afterCommit"]>[0];

function readerOn(database: Database, guard: Guard = (step) => step()): Reader {
  const all = (sql: string, params: Values = []): readonly Row[] =>
    guard(() => prepared(database, sql).all(...assertExactValues(params)));
  return {
    kind: "sqlite",
    all: async (sql, params) => all(sql, params),
    get: async (sql, params) => all(sql, params)[0],
  };
}

// Sums over many balances can exceed a safe integer, and Bun would round them silently. Statements that read such sums
// get every integer as a bigint, which costs nothing measurable on so few columns.
const needsBigints = memoize((sql: string) => /\b(?:spender|wallet)\b|\bsum\(/.test(sql));

function prepared(database: Database, sql: string): Statement<Row, SQLQueryBindings[]> {
  const statement = database.query<Row, SQLQueryBindings[]>(sql);
  return needsBigints(sql) ? statement.safeIntegers(true) : statement;
}

function transactionOn(database: Database, guard: Guard, afterCommit: AfterCommit[]): Tx {
  const runMany = async (sql: string, rows: readonly Values[]): Promise<void> =>
    guard(() => {
      const statement = database.query<Row, SQLQueryBindings[]>(sql);
      for (const row of rows) statement.run(...assertExactValues(row));
    });
  const selectMany: ReadRows = async (table, key, keys, columns = "*") =>
    guard(() =>
      prepared(database, selectStatement(table, key, keys, columns)).all(...keyParameters(keys)),
    );
  return {
    ...readerOn(database, guard),
    run: async (sql, params: readonly Value[] = []) =>
      guard(
        () =>
          database.query<Row, SQLQueryBindings[]>(sql).run(...assertExactValues(params)).changes,
      ),
    insertMany: (table, columns, rows) => runMany(insertStatement(table, columns), rows),
    updateMany: (table, columns, rows, keyColumns = 1) =>
      runMany(
        updateStatement(table, columns, keyColumns),
        rows.map((row) => moveKeyLast(row, keyColumns)),
      ),
    deleteMany: async (table, key, keys, columns) =>
      guard(() =>
        prepared(
          database,
          `delete from ${table} where ${keyCondition(key, keys)}${columns === undefined ? "" : ` returning ${columns}`}`,
        ).all(...keyParameters(keys)),
      ),
    lockMany: selectMany,
    readMany: selectMany,
    afterCommit: (run) => void afterCommit.push(run),
  };
}

// A list of pairs is a JSON object with the accounts as values, which `json_each` reads as fast as a list. A join with it
// costs two thirds of `in`. Its rows are not sorted: SQLite has no row locks that need an order.
function selectStatement(
  table: string,
  key: string,
  keys: readonly Key[],
  columns: string,
): string {
  const [account, id] = key.split(", ");
  if (id === undefined || keys.length === 1)
    return `select ${columns} from ${table} where ${keyCondition(key, keys)} order by ${key}`;
  return `select ${columns === "*" ? `${table}.*` : columns} from (select value as key_1, key as key_2 from json_each(?)) as given
    cross join ${table} on ${table}.${account} = given.key_1 and ${table}.${id} = given.key_2`;
}

// One statement for a list costs a tenth of one for each key; for a single key, `=` costs half of a list.
function keyCondition(key: string, keys: readonly Key[]): string {
  const isPair = key.includes(",");
  if (keys.length === 1) return isPair ? `(${key}) = (?, ?)` : `${key} = ?`;
  return isPair
    ? `(${key}) in (select value, key from json_each(?))`
    : `${key} in (select value from json_each(?))`;
}

function keyParameters(keys: readonly Key[]): readonly string[] {
  const [only] = keys;
  if (keys.length === 1 && only !== undefined) return typeof only === "string" ? [only] : only;
  return [typeof only === "string" ? JSON.stringify(keys) : pairsText(keys)];
}

/** Sorted by id, so that a join reads the pages of an index one after another. */
function pairsText(keys: readonly Key[]): string {
  const sorted = keys.toSorted(([, one = ""], [, other = ""]) => (one < other ? -1 : 1));
  const fields = sorted.map(([account, id]) => `${JSON.stringify(id)}:${JSON.stringify(account)}`);
  return `{${fields.join(",")}}`;
}

const insertStatement = cachePerColumns(
  (table, columns) =>
    `insert into ${table} (${columns.map(columnName).join(", ")}) values (${columns.map(() => "?").join(", ")})`,
);

const updateStatement = cachePerColumns((table, columns, keyColumns) => {
  const assignments = columns.map((column) => `${columnName(column)} = ?`);
  return `update ${table} set ${assignments.slice(keyColumns).join(", ")} where ${assignments.slice(0, keyColumns).join(" and ")}`;
});

function moveKeyLast(row: Values, keyColumns: number): Values {
  return [...row.slice(keyColumns), ...row.slice(0, keyColumns)];
}
