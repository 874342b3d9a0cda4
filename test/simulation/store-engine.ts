// A model of PostgreSQL at READ COMMITTED on a SQLite database in memory: several open transactions, row locks that wait, and
// deadlocks. SQLite has one transaction at a time, so the writes of another one are repeated when it is its turn.

import type { Database, SQLQueryBindings, Statement } from "bun:sqlite";
import type { Row, Values } from "../../src/store/db.ts";

type Bindings = SQLQueryBindings[];
type UniqueKeys = readonly (readonly string[])[];

interface PreparedWrite {
  readonly table: string;
  readonly statement: Statement<Row, Bindings>;
  /** Returns no row. */
  readonly repeat: Statement<Row, Bindings>;
  readonly keys: UniqueKeys;
}

interface LoggedWrite extends Pick<PreparedWrite, "table" | "repeat"> {
  readonly params: Values;
}

export interface EngineTransaction {
  readonly log: LoggedWrite[];
  readonly locks: Set<string>;
  waitsFor: EngineTransaction | undefined;
  state: "open" | "failed" | "closed";
}

export type StatementResult =
  | { readonly status: "done"; readonly rows: readonly Row[] }
  | { readonly status: "blocked"; readonly owner: EngineTransaction };

export interface StoreEngine {
  readonly begin: () => EngineTransaction;
  /** Reads committed rows, and the transaction's own. */
  readonly read: (tx: EngineTransaction | undefined, sql: string, params: Values) => readonly Row[];
  /** Returns the written rows. */
  readonly write: (tx: EngineTransaction, sql: string, params: Values) => StatementResult;
  /** As `select … for update`: only rows that it saw first. */
  readonly lock: (
    tx: EngineTransaction,
    select: { readonly table: string; readonly sql: string; readonly params: Values },
    seen: { keys?: ReadonlySet<string> },
  ) => StatementResult;
  readonly commit: (tx: EngineTransaction) => void;
  readonly abort: (tx: EngineTransaction) => void;
  /** Returns a function that puts all rows back as they are committed now; no transaction may be open then. */
  readonly save: () => () => void;
  /** Deletes all rows. */
  readonly reset: () => void;
}

const TARGET = /^\s*(?:insert\s+into|update|delete\s+from)\s+(\w+)/i;
// As in the driver: sums and balances are read as bigints.
const BIGINTS = /\b(?:spender|wallet)\b|\bsum\(/;

export function createStoreEngine(database: Database): StoreEngine {
  const uniqueKeys = new Map<string, UniqueKeys>();
  const locks = new Map<string, EngineTransaction>();
  const written = new Set<string>();
  /** The transaction whose writes the database shows. */
  let live: EngineTransaction | undefined;

  // On a few rows, a temporary index costs more than it saves.
  database.run("pragma automatic_index = off");
  const reads = new Map<string, Statement<Row, Bindings>>();
  const writes = new Map<string, PreparedWrite>();
  // SQLite compiles a join again whenever a plain parameter of its conditions is bound.
  const prepare = (sql: string): Statement<Row, Bindings> => {
    const statement = database.prepare<Row, Bindings>(sql.replaceAll("?", "+?"));
    return BIGINTS.test(sql) ? statement.safeIntegers(true) : statement;
  };
  const query = (sql: string, params: Values): Row[] =>
    getOrAdd(reads, sql, prepare).all(...params);
  const prepareWrite = (sql: string): PreparedWrite => {
    const table = TARGET.exec(sql)?.[1] ?? "";
    const keys = keysOf(table);
    const columns = [...new Set(keys.flat())].join(", ") || "1";
    const returning = /\breturning\b/i.test(sql)
      ? `${sql}, ${columns}`
      : `${sql} returning ${columns}`;
    return { table, statement: prepare(returning), repeat: prepare(sql), keys };
  };
  const begin = database.prepare("begin");
  const commit = database.prepare("commit");
  const rollback = database.prepare("rollback");
  const suspend = (): void => {
    if (live !== undefined) rollback.run();
    live = undefined;
  };
  const resume = (tx: EngineTransaction): void => {
    if (live === tx) return;
    suspend();
    begin.run();
    live = tx;
    for (const { repeat, params } of tx.log) repeat.run(...params);
  };
  const keysOf = (table: string): UniqueKeys =>
    getOrAdd(uniqueKeys, table, (name) => readUniqueKeys(database, name));
  const take = (tx: EngineTransaction, key: string): EngineTransaction | undefined => {
    const owner = locks.get(key);
    if (owner !== undefined && owner !== tx) return owner;
    locks.set(key, tx);
    tx.locks.add(key);
    return undefined;
  };
  const release = (tx: EngineTransaction): void => {
    for (const key of tx.locks) locks.delete(key);
    tx.locks.clear();
  };
  return {
    begin: () => ({ log: [], locks: new Set(), waitsFor: undefined, state: "open" }),
    read: (tx, sql, params) => {
      if (tx === undefined || tx.log.length === 0) suspend();
      else resume(tx);
      return query(sql, params);
    },
    write: (tx, sql, params) => {
      const { table, statement, repeat, keys } = getOrAdd(writes, sql, prepareWrite);
      resume(tx);
      let rows: Row[];
      try {
        rows = statement.all(...params);
      } catch (error) {
        suspend();
        throw error;
      }
      for (const row of rows)
        for (const columns of keys) {
          // Nulls are not equal.
          if (columns.some((column) => row[column] === null)) continue;
          const owner = take(tx, lockKey(table, columns, row));
          if (owner === undefined) continue;
          // The statement is repeated when the other transaction has ended.
          suspend();
          return { status: "blocked", owner };
        }
      written.add(table);
      tx.log.push({ table, repeat, params });
      return { status: "done", rows };
    },
    lock: (tx, { table, sql, params }, seen) => {
      if (tx.log.length === 0) suspend();
      else resume(tx);
      const [columns = []] = keysOf(table);
      const rows = query(sql, params);
      seen.keys ??= new Set(rows.map((row) => lockKey(table, columns, row)));
      const visible = rows.filter((row) => seen.keys?.has(lockKey(table, columns, row)));
      for (const row of visible) {
        const owner = take(tx, lockKey(table, columns, row));
        if (owner !== undefined) return { status: "blocked", owner };
      }
      return { status: "done", rows: visible };
    },
    commit: (tx) => {
      if (tx.log.length > 0) {
        resume(tx);
        commit.run();
        live = undefined;
      }
      tx.state = "closed";
      release(tx);
    },
    abort: (tx) => {
      if (live === tx) suspend();
      release(tx);
    },
    save: () => {
      suspend();
      const saved = [...written].map((table) => [table, readTable(database, table)] as const);
      return () => {
        suspend();
        for (const table of written) database.query(`delete from ${table}`).run();
        for (const [table, rows] of saved) insertRows(database, table, rows);
      };
    },
    reset: () => {
      suspend();
      locks.clear();
      for (const table of written) database.query(`delete from ${table}`).run();
      written.clear();
    },
  };
}

function getOrAdd<T>(map: Map<string, T>, key: string, create: (key: string) => T): T {
  const known = map.get(key);
  if (known !== undefined) return known;
  const created = create(key);
  map.set(key, created);
  return created;
}

function readTable(database: Database, table: string): readonly Row[] {
  return database.query<Row, []>(`select * from ${table}`).safeIntegers(true).all();
}

function insertRows(database: Database, table: string, rows: readonly Row[]): void {
  for (const row of rows) {
    const names = Object.keys(row);
    const sql = `insert into ${table} (${names.join(", ")}) values (${names.map(() => "?").join(", ")})`;
    // Safe: these are values of SQLite.
    database.query<Row, Bindings>(sql).run(...(Object.values(row) as Bindings));
  }
}

function lockKey(table: string, columns: readonly string[], row: Row): string {
  return `${table}|${columns.map((column) => `${column}=${String(row[column])}`).join("|")}`;
}

/** The primary key first. */
function readUniqueKeys(database: Database, table: string): UniqueKeys {
  const columns = database
    .query<{ name: string; pk: number }, []>(`pragma table_info(${table})`)
    .all();
  const primary = columns
    .filter(({ pk }) => pk > 0)
    .sort((left, right) => left.pk - right.pk)
    .map(({ name }) => name);
  const indexes = database
    .query<{ name: string; unique: number; origin: string }, []>(`pragma index_list(${table})`)
    .all();
  const others = indexes
    .filter(({ unique, origin }) => unique === 1 && origin !== "pk")
    .map(({ name }) =>
      database
        .query<{ name: string }, []>(`pragma index_info(${name})`)
        .all()
        .map((column) => column.name),
    );
  return [primary, ...others];
}
