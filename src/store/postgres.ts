// The store for several processes: PostgreSQL at READ COMMITTED. Rows that a decision rests on are locked first, in the
// order of their keys, and read by that same statement, so what is computed from them is computed from fresh rows.

import { SQL } from "bun";
import {
  type Column,
  columnName,
  type Db,
  DUPLICATE,
  type Reader,
  type Row,
  type Tx,
  type Values,
} from "./db.ts";

const CONNECTIONS_MAX = 10;
const CONNECT_TIMEOUT_SECONDS = 5;
const ATTEMPTS_MAX = 4;
const RETRY_BASE_MS = 5;
/** Serialisation failure, deadlock; both are promised to have changed nothing. */
const RETRIED = new Set(["40001", "40P01"]);

interface Runner {
  unsafe(
    sql: string,
    params?: unknown[],
  ): Promise<readonly Row[] & { readonly count?: number | bigint }>;
}

export function openPostgres(url: string): Db {
  const pool = new SQL(url, {
    max: CONNECTIONS_MAX,
    idleTimeout: 0,
    connectionTimeout: CONNECT_TIMEOUT_SECONDS,
    bigint: true,
    connection: { application_name: "postern" },
  });
  const write = async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await inTransaction(pool, "begin", (runner) => work(transactionOn(runner)));
      } catch (error) {
        if (attempt >= ATTEMPTS_MAX || !RETRIED.has(sqlState(error))) throw marked(error);
        await sleep(RETRY_BASE_MS * 2 ** attempt * jitter());
      }
    }
  };
  return {
    ...readerOn(pool),
    write,
    snapshot: (work) =>
      inTransaction(pool, "begin isolation level repeatable read read only", (runner) =>
        work(readerOn(runner)),
      ),
    backup: async () => {
      throw new Error(
        "a PostgreSQL store is backed up with pg_dump or by its service, not by Postern",
      );
    },
    close: () => pool.close({ timeout: 5 }),
  };
}

// `begin` is sent together with the work's first statement: one round trip less in every transaction.
async function inTransaction<T>(
  pool: SQL,
  begin: string,
  work: (runner: Runner) => Promise<T>,
): Promise<T> {
  const connection = await pool.reserve();
  try {
    const begun = connection.unsafe(begin);
    const [result] = await Promise.all([work(connection), begun]);
    await connection.unsafe("commit");
    return result;
  } catch (error) {
    await connection.unsafe("rollback").catch(() => {});
    throw error;
  } finally {
    await connection.release();
  }
}

function marked(error: unknown): unknown {
  if (sqlState(error) === "23505" && error instanceof Error)
    Object.assign(error, { [DUPLICATE]: true });
  return error;
}

function sqlState(error: unknown): string {
  return error instanceof Error && "errno" in error ? String(error.errno) : "";
}

function readerOn(runner: Runner): Reader {
  const all = (sql: string, params: Values = []): Promise<readonly Row[]> =>
    runner.unsafe(numbered(sql), [...params]);
  return { kind: "postgres", all, get: async (sql, params) => (await all(sql, params))[0] };
}

function transactionOn(runner: Runner): Tx {
  const many = async (
    sql: string,
    columns: readonly Column[],
    rows: readonly Values[],
  ): Promise<void> => {
    if (rows.length === 0) return;
    await runner.unsafe(
      sql,
      columns.map((_, place) => arrayText(rows.map((row) => row[place] ?? null))),
    );
  };
  const find = (
    table: string,
    key: string,
    keys: readonly string[],
    end: string,
  ): Promise<readonly Row[]> =>
    keys.length === 0
      ? Promise.resolve([])
      : runner.unsafe(`select * from ${table} where ${key} = any($1::text[]) ${end}`, [
          arrayText(keys),
        ]);
  return {
    ...readerOn(runner),
    run: async (sql, params = []) => {
      try {
        return Number((await runner.unsafe(numbered(sql), [...params])).count ?? 0);
      } catch (error) {
        throw marked(error);
      }
    },
    insertMany: (table, columns, rows) => many(insertStatement(table, columns), columns, rows),
    updateMany: (table, columns, rows) => many(updateStatement(table, columns), columns, rows),
    deleteMany: async (table, key, keys) => {
      if (keys.length > 0)
        await runner.unsafe(`delete from ${table} where ${key} = any($1::text[])`, [
          arrayText(keys),
        ]);
    },
    lockMany: (table, key, keys) => find(table, key, keys, `order by ${key} for update`),
    readMany: (table, key, keys) => find(table, key, keys, ""),
  };
}

function insertStatement(table: string, columns: readonly Column[]): string {
  return `insert into ${table} (${columns.map(columnName).join(", ")}) select * from ${unnest(columns)}`;
}

function updateStatement(table: string, columns: readonly Column[]): string {
  const [key = "", ...others] = columns.map(columnName);
  const sets = others.map((name) => `${name} = fresh.${name}`).join(", ");
  return `update ${table} set ${sets} from ${unnest(columns)} as fresh(${columns.map(columnName).join(", ")}) where ${table}.${key} = fresh.${key}`;
}

function unnest(columns: readonly Column[]): string {
  return `unnest(${columns.map((column, place) => `$${place + 1}::${column.slice(column.lastIndexOf(":") + 1)}[]`).join(", ")})`;
}

/** PostgreSQL's text form of an array: every element quoted, so that no value can end it. */
function arrayText(values: Values): string {
  return `{${values.map((value) => (value === null ? "NULL" : `"${String(value).replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`)).join(",")}}`;
}

const numberedStatements = new Map<string, string>();

// The house's SQL has no `?` inside a string, so each is a parameter.
function numbered(sql: string): string {
  let known = numberedStatements.get(sql);
  if (known === undefined) {
    let place = 0;
    known = sql.replaceAll("?", () => `$${++place}`);
    numberedStatements.set(sql, known);
  }
  return known;
}

function jitter(): number {
  return 0.5 + (crypto.getRandomValues(new Uint8Array(1))[0] ?? 0) / 256;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
