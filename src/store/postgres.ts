// The store for several processes: PostgreSQL at READ COMMITTED. Rows that a decision depends on are locked in key
// order and read by the same statement, so decisions are always based on current rows.

import {
  assertExactValues,
  type Column,
  columnName,
  type Db,
  DUPLICATE,
  LOCKED,
  type Reader,
  type Row,
  type Tx,
  UNAVAILABLE,
  type Values,
} from "./db.ts";

const CONNECTIONS_MAX = 10;
const CONNECT_TIMEOUT_SECONDS = 5;
/** A statement counts as stalled after this many checks: longer than the ledger's `FROZEN_MS`. */
const STALL_CHECK_MS = 5_000;
const STALL_CHECKS_MAX = 9;
/** Statements of migrations have no time limit. */
const IS_DDL = /^(create|alter) /;
const ATTEMPTS_MAX = 4;
const RETRY_BASE_MS = 5;
/** How long a process that freezes inside a transaction keeps its row locks. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 30_000;
/** Short, because the waiting transaction holds locks and a connection itself. */
const LOCK_TIMEOUT_MS = 2_000;
const beginWrite = (lockTimeoutMs: number): string =>
  `begin; set local idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_TIMEOUT_MS}; set local lock_timeout = ${lockTimeoutMs}`;
const DISABLE_LOCK_TIMEOUT = "set local lock_timeout = 0";
const BEGIN_SNAPSHOT = "begin isolation level repeatable read read only";
/** Serialization failure and deadlock: PostgreSQL guarantees that nothing was changed. */
const RETRYABLE_STATES = new Set(["40001", "40P01"]);
const STALE_PLAN = /cached plan must not change result type/;
const LOCK_NOT_AVAILABLE = "55P03";
/** Connection, resources, operator intervention, a server that has become read-only. */
const UNAVAILABLE_STATES = /^(08|53|57|25006|25P03)/;

type Rows = readonly Row[] & {
  readonly count?: number | bigint | null;
  readonly command?: string | null;
};

interface Runner {
  readonly unsafe: (sql: string, params?: Values) => Promise<Rows>;
}

export interface PostgresOptions {
  /** For tests. */
  readonly stallCheckMs?: number;
  /** For tests. */
  readonly lockTimeoutMs?: number;
}

export function openPostgres(
  url: string,
  { stallCheckMs = STALL_CHECK_MS, lockTimeoutMs = LOCK_TIMEOUT_MS }: PostgresOptions = {},
): Db {
  let pool = openPool(url);
  const begin = beginWrite(lockTimeoutMs);
  // A server whose machine died does not close its connections, and the kernel keeps them for 15 minutes. Closing the
  // pool fails its pending statements as unavailable; the next statement uses a new pool.
  const stallTimer = setInterval(() => {
    if (!isAnyStalled(pool)) return;
    const stalledPool = pool;
    pool = openPool(url);
    stalledPool.client.close({ timeout: 0 }).catch(() => {});
  }, stallCheckMs);
  stallTimer.unref();
  return {
    ...readerOn({
      unsafe: (sql, params) => withRetry(() => send(pool.client, sql, params)),
    }),
    write: (work) =>
      withRetry(() => inTransaction(pool, begin, (runner) => work(transactionOn(runner)))),
    snapshot: (work) =>
      withRetry(() =>
        inTransaction(withoutStallCheck(pool), BEGIN_SNAPSHOT, (runner) => work(readerOn(runner))),
      ),
    backup: async () => {
      throw new Error(
        "Postern cannot back up a PostgreSQL store: use pg_dump or the backups of your database service",
      );
    },
    close: () => {
      clearInterval(stallTimer);
      return pool.client.close({ timeout: 5 });
    },
  };
}

/** The connections and the statements that wait for a reply on them. */
interface Pool {
  readonly client: Bun.SQL;
  readonly inFlight: Set<{ checks: number }>;
}

function openPool(url: string): Pool {
  // The global loads the client on first use; importing it would cost 50 ms at every start, also with SQLite.
  const client = new Bun.SQL(url, {
    max: CONNECTIONS_MAX,
    idleTimeout: 0,
    connectionTimeout: CONNECT_TIMEOUT_SECONDS,
    bigint: true,
    connection: { application_name: "postern" },
  });
  return { client, inFlight: new Set() };
}

/** For snapshots, which may take long and block nothing. */
function withoutStallCheck({ client }: Pool): Pool {
  return { client, inFlight: new Set() };
}

// Counts checks instead of time: a process that was suspended has replies waiting that it has not read yet.
function isAnyStalled({ inFlight }: Pool): boolean {
  let isStalled = false;
  for (const statement of inFlight) {
    statement.checks += 1;
    isStalled ||= statement.checks > STALL_CHECKS_MAX;
  }
  return isStalled;
}

function trackInFlight<T>({ inFlight }: Pool, reply: Promise<T>, sql = ""): Promise<T> {
  if (IS_DDL.test(sql)) return reply;
  const statement = { checks: 0 };
  inFlight.add(statement);
  return reply.finally(() => inFlight.delete(statement));
}

async function withRetry<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt >= ATTEMPTS_MAX || !isRetryable(error)) throw error;
      await sleep(RETRY_BASE_MS * 2 ** attempt * jitter());
    }
  }
}

function isRetryable(error: unknown): boolean {
  return (
    RETRYABLE_STATES.has(sqlState(error)) ||
    (error instanceof Error && STALE_PLAN.test(error.message))
  );
}

// A column added by a newer version invalidates prepared statements. They are keyed by their text, so a new comment in
// the text makes every connection prepare them again.
let generation = 0;

// Bun sends a statement when it is awaited, so a `begin` that is not awaited yet would be sent after the statements
// that follow it. `execute` sends it immediately.
function send(connection: Bun.SQL, sql: string, params?: Values): Promise<Rows> {
  const prepared = generation;
  const text = prepared === 0 ? sql : `${sql} /* ${prepared} */`;
  const query =
    params === undefined
      ? connection.unsafe(sql)
      : connection.unsafe(text, [...assertExactValues(params)]);
  return query.execute().catch((error: unknown) => {
    if (error instanceof Error && STALE_PLAN.test(error.message) && prepared === generation)
      generation += 1;
    throw tagError(error);
  });
}

// `begin` is pipelined with the first statement, which saves a round trip in every transaction.
async function inTransaction<T>(
  pool: Pool,
  begin: string,
  work: (runner: Runner) => Promise<T>,
): Promise<T> {
  const connection = await trackInFlight(pool, reserveConnection(pool.client));
  let failure: { readonly cause: unknown } | undefined;
  const fail = (cause: unknown): never => {
    failure ??= { cause };
    throw cause;
  };
  const runner: Runner = {
    unsafe: async (sql, params) => {
      if (failure !== undefined) throw failure.cause;
      if (IS_DDL.test(sql)) void send(connection, DISABLE_LOCK_TIMEOUT).catch(fail);
      return trackInFlight(pool, send(connection, sql, params), sql).catch(fail);
    },
  };
  try {
    const beginning = trackInFlight(pool, send(connection, begin)).catch(fail);
    const [result] = await Promise.all([(async () => work(runner))(), beginning]);
    if (failure !== undefined) throw failure.cause;
    failure = { cause: new Error("the transaction is over") };
    // PostgreSQL replies ROLLBACK, not an error, to the commit of a failed transaction.
    const { command } = await trackInFlight(pool, send(connection, "commit"));
    if (command !== "COMMIT") throw new Error(`the server replied ${String(command)} to a commit`);
    return result;
  } catch (error) {
    failure ??= { cause: error };
    await trackInFlight(pool, send(connection, "rollback")).catch(() => {});
    throw error;
  } finally {
    await connection.release();
  }
}

async function reserveConnection(pool: Bun.SQL): ReturnType<Bun.SQL["reserve"]> {
  try {
    return await pool.reserve();
  } catch (error) {
    throw tagError(error);
  }
}

function tagError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const state = sqlState(error);
  if (state === "23505") Object.assign(error, { [DUPLICATE]: true });
  if (state === LOCK_NOT_AVAILABLE) Object.assign(error, { [LOCKED]: true, [UNAVAILABLE]: true });
  const isConnectionLost =
    "code" in error && /^ERR_POSTGRES_(CONNECTION|IDLE|LIFETIME)/.test(String(error.code));
  if (isConnectionLost || UNAVAILABLE_STATES.test(state))
    Object.assign(error, { [UNAVAILABLE]: true });
  return error;
}

function sqlState(error: unknown): string {
  return error instanceof Error && "errno" in error ? String(error.errno) : "";
}

function readerOn(runner: Runner): Reader {
  const all = (sql: string, params: Values = []): Promise<readonly Row[]> =>
    runner.unsafe(numberParameters(sql), params);
  return { kind: "postgres", all, get: async (sql, params) => (await all(sql, params))[0] };
}

function transactionOn(runner: Runner): Tx {
  const runMany = async (
    sql: string,
    columns: readonly Column[],
    rows: readonly Values[],
  ): Promise<void> => {
    if (rows.length === 0) return;
    await runner.unsafe(
      sql,
      columns.map((_, index) =>
        arrayText(assertExactValues(rows.map((row) => row[index] ?? null))),
      ),
    );
  };
  const selectMany = (
    table: string,
    key: string,
    keys: readonly string[],
    suffix: string,
  ): Promise<readonly Row[]> =>
    keys.length === 0
      ? Promise.resolve([])
      : runner.unsafe(`select * from ${table} where ${key} = any($1::text[]) ${suffix}`, [
          arrayText(keys),
        ]);
  return {
    ...readerOn(runner),
    run: async (sql, params = []) =>
      Number((await runner.unsafe(numberParameters(sql), params)).count ?? 0),
    insertMany: (table, columns, rows) => runMany(insertStatement(table, columns), columns, rows),
    updateMany: (table, columns, rows) => runMany(updateStatement(table, columns), columns, rows),
    deleteMany: async (table, key, keys) => {
      if (keys.length > 0)
        await runner.unsafe(`delete from ${table} where ${key} = any($1::text[])`, [
          arrayText(keys),
        ]);
    },
    lockMany: (table, key, keys) => selectMany(table, key, keys, `order by ${key} for update`),
    readMany: (table, key, keys) => selectMany(table, key, keys, ""),
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
  return `unnest(${columns.map((column, index) => `$${index + 1}::${column.slice(column.lastIndexOf(":") + 1)}[]`).join(", ")})`;
}

/** PostgreSQL's array literal. Every element is quoted, so that no value can end it. */
function arrayText(values: Values): string {
  return `{${values.map((value) => (value === null ? "NULL" : `"${String(value).replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`)).join(",")}}`;
}

const numberedSqlCache = new Map<string, string>();

// No SQL here has a `?` inside a string literal, so each one is a parameter.
function numberParameters(sql: string): string {
  let cached = numberedSqlCache.get(sql);
  if (cached === undefined) {
    let index = 0;
    cached = sql.replaceAll("?", () => `$${++index}`);
    numberedSqlCache.set(sql, cached);
  }
  return cached;
}

function jitter(): number {
  return 0.5 + (crypto.getRandomValues(new Uint8Array(1))[0] ?? 0) / 256;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
