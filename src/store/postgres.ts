// The store for several processes: PostgreSQL at READ COMMITTED. Rows that a decision depends on are locked in key
// order and read by the same statement, so decisions are always based on current rows.

import {
  ALLOW_LONG_STATEMENTS,
  assertExactValues,
  type Column,
  type Db,
  DUPLICATE,
  LOCKED,
  type Reader,
  type ReadRows,
  type Row,
  type Tx,
  UNAVAILABLE,
  type Values,
} from "./db.ts";
import {
  columnParameters,
  deleteStatement,
  insertStatement,
  keyParameters,
  lockStatement,
  readStatement,
  updateOnNodeStatement,
  updateStatement,
  valuesStatements,
} from "./postgres-bulk.ts";
import {
  createPoolSource,
  DEFAULT_POOL_SIZE,
  type Pool,
  type PoolFailure,
  trackInFlight,
  withoutStallCheck,
} from "./postgres-pool.ts";
import { parsePostgresUrl } from "./postgres-url.ts";

const STALL_CHECK_MS = 5_000;
const ATTEMPTS_MAX = 4;
const RETRY_BASE_MS = 5;
/** How long a process that freezes inside a transaction keeps its row locks. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 30_000;
/** Short, because the waiting transaction holds locks and a connection itself. */
const LOCK_TIMEOUT_MS = 2_000;
// A database, a role or the server may have `synchronous_commit=off`, which acknowledges charges that a crash loses.
// Transactions find rows by keys. A plan that was cached while a table was empty would read all of it later, and compare
// each row with each key of a batch.
const setForWrite = (
  synchronousCommit: "on" | "off",
) => `select set_config('synchronous_commit', '${synchronousCommit}', true), set_config('lock_timeout', $1, true),
  set_config('idle_in_transaction_session_timeout', '${IDLE_IN_TRANSACTION_TIMEOUT_MS}', true), set_config('enable_seqscan', 'off', true)`;
const BEGIN_SNAPSHOT = "begin isolation level repeatable read read only";
/** Serialization failure and deadlock: PostgreSQL guarantees that nothing was changed. */
const RETRYABLE_STATES = new Set(["40001", "40P01"]);
const STALE_PLAN = /cached plan must not change result type/;
const IN_FAILED_TRANSACTION = "25P02";
const LOCK_NOT_AVAILABLE = "55P03";
const READ_ONLY = "25006";
/** The connection is lost, or the server shuts down. */
const LOST_STATES = /^(08|57P)/;
/** Connection, resources, operator intervention, a server that has become read-only. */
const UNAVAILABLE_STATES = /^(08|53|57|25006|25P03)/;

type Rows = readonly Row[] & {
  readonly count?: number | bigint | null;
  readonly command?: string | null;
};

interface Runner {
  readonly unsafe: (sql: string, params?: Values) => Promise<Rows>;
}

interface TransactionRunner extends Runner {
  readonly sendCommit: () => void;
}

export interface PostgresOptions {
  /** By default as the URL says. */
  readonly usesPreparedStatements?: boolean;
  /** Connections; 10 by default. */
  readonly poolSize?: number;
  /** Whether tables are distributed by Citus, see `distribution.ts`. */
  readonly isDistributed?: boolean;
  /** False: "os_cache" commits are not synced. True by default, because the server can end alone, and its calls go on. */
  readonly syncsEveryCommit?: boolean;
  /** For tests. */
  readonly stallCheckMs?: number;
  /** For tests. */
  readonly lockTimeoutMs?: number | undefined;
}

export function openPostgres(url: string, options: PostgresOptions = {}): Db {
  const { stallCheckMs = STALL_CHECK_MS, lockTimeoutMs = LOCK_TIMEOUT_MS } = options;
  const target = parsePostgresUrl(url);
  const { usesPreparedStatements = target.usesPreparedStatements, poolSize = DEFAULT_POOL_SIZE } =
    options;
  const { syncsEveryCommit = true, isDistributed = false } = options;
  const source = createPoolSource({ ...target, usesPreparedStatements, poolSize }, stallCheckMs);
  const createBegin = isDistributed ? createBeginOnNodes : createBeginWrite;
  const beginSynced = createBegin(usesPreparedStatements, lockTimeoutMs, "on");
  const beginUnsynced = createBegin(usesPreparedStatements, lockTimeoutMs, "off");
  let inUse = 0;
  const onPool = <T>(work: (pool: Pool) => Promise<T>): Promise<T> =>
    withRetry(async () => {
      const pool = await source.current();
      inUse += 1;
      try {
        return await work(pool);
      } catch (error) {
        const failure = poolFailureOf(error, isDistributed);
        if (failure !== undefined) source.reportFailure(pool, failure);
        throw error;
      } finally {
        inUse -= 1;
      }
    });
  const reader = readerOn(
    { unsafe: (sql, params) => onPool(({ client }) => send(client, sql, params)) },
    isDistributed,
  );
  return {
    ...reader,
    write: async (work, durability) => {
      const isSynced = syncsEveryCommit || durability !== "os_cache";
      const begin = isSynced ? beginSynced : beginUnsynced;
      let afterCommit: AfterCommit[] = [];
      const result = await onPool((pool) => {
        afterCommit = [];
        return inTransaction(pool, begin, (runner) =>
          work(transactionOn(runner, afterCommit, isDistributed)),
        );
      });
      for (const run of afterCommit) await run(reader);
      return result;
    },
    snapshot: (work) =>
      onPool((pool) =>
        inTransaction(withoutStallCheck(pool), beginSnapshot, (runner) =>
          work(readerOn(runner, isDistributed)),
        ),
      ),
    backup: async () => {
      throw new Error(
        "Postern cannot back up a PostgreSQL store: use pg_dump or the backups of your database service",
      );
    },
    pool: () => ({
      max: poolSize,
      busy: Math.min(inUse, poolSize),
      waiting: Math.max(0, inUse - poolSize),
    }),
    close: source.close,
  };
}

async function withRetry<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isRetryable(error)) throw error;
      if (attempt >= ATTEMPTS_MAX) throw tagContention(error);
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

/** Rows that other transactions keep changing are like locked ones: a settlement waits for them, new work is refused. */
function tagContention(error: unknown): unknown {
  return error instanceof Error && RETRYABLE_STATES.has(sqlState(error))
    ? Object.assign(error, { [LOCKED]: true, [UNAVAILABLE]: true })
    : error;
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

interface Begin {
  (connection: Bun.SQL): Promise<unknown>;
  /** Whether statements without parameters are prepared, too, so that a commit can be sent before the replies to the writes. */
  readonly isPrepared?: boolean;
}

const beginSnapshot: Begin = (connection) => send(connection, BEGIN_SNAPSHOT);

/** Bun pipelines only prepared statements; without parameters, it prepares only templates. */
function createBeginWrite(
  usesPreparedStatements: boolean,
  lockTimeoutMs: number,
  synchronousCommit: "on" | "off",
): Begin {
  const sql = setForWrite(synchronousCommit);
  if (!usesPreparedStatements)
    return (connection) => send(connection, `begin; ${sql.replace("$1", `'${lockTimeoutMs}'`)}`);
  const settings = [String(lockTimeoutMs)];
  return Object.assign(
    (connection: Bun.SQL) => Promise.all([sendBegin(connection), send(connection, sql, settings)]),
    { isPrepared: true },
  );
}

/** Citus sends the nodes what `set local` sets, and not what `set_config` does. */
function createBeginOnNodes(
  _: boolean,
  lockTimeoutMs: number,
  synchronousCommit: "on" | "off",
): Begin {
  const sql = `begin; set local citus.propagate_set_commands = 'local'; set local synchronous_commit = ${synchronousCommit};
    set local lock_timeout = ${lockTimeoutMs}; set local idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_TIMEOUT_MS}; set local enable_seqscan = off`;
  return (connection) => send(connection, sql);
}

async function sendBegin(connection: Bun.SQL): Promise<void> {
  try {
    const { command } = await connection`begin`.execute();
    if (command !== "BEGIN") throw new Error(`the server replied ${String(command)} to a begin`);
  } catch (error) {
    throw tagError(error);
  }
}

function sendCommit(connection: Bun.SQL, { isPrepared }: Begin): Promise<Rows> {
  if (isPrepared !== true) return send(connection, "commit");
  return connection`commit`.execute().catch((error: unknown) => {
    throw tagError(error);
  });
}

// `begin` is pipelined with the first statements, which saves a round trip in every transaction.
async function inTransaction<T>(
  pool: Pool,
  begin: Begin,
  work: (runner: TransactionRunner) => Promise<T>,
): Promise<T> {
  const connection = await trackInFlight(pool, reserveConnection(pool.client));
  let failure: { readonly cause: unknown } | undefined;
  const fail = (cause: unknown): never => {
    failure ??= { cause };
    throw cause;
  };
  let isTracked = true;
  let committing: Promise<Rows> | undefined;
  const commit = (): Promise<Rows> =>
    (committing ??= trackInFlight(pool, sendCommit(connection, begin)));
  const runner: TransactionRunner = {
    unsafe: async (sql, params) => {
      if (failure !== undefined) throw failure.cause;
      // It would be a transaction of its own.
      if (committing !== undefined) return fail(new Error("the commit was sent already"));
      const reply = send(connection, sql, params);
      const tracked = isTracked ? trackInFlight(pool, reply) : reply;
      isTracked &&= !ALLOW_LONG_STATEMENTS.includes(sql);
      return tracked.catch(fail);
    },
    sendCommit: () => {
      if (failure === undefined && begin.isPrepared === true) commit().catch(() => {});
    },
  };
  try {
    const beginning = trackInFlight(pool, begin(connection)).catch(fail);
    const [result] = await Promise.all([(async () => work(runner))(), beginning]);
    if (failure !== undefined) throw failure.cause;
    failure = { cause: new Error("the transaction is over") };
    // PostgreSQL replies ROLLBACK, not an error, to the commit of a failed transaction.
    const { command } = await commit();
    if (command !== "COMMIT") throw new Error(`the server replied ${String(command)} to a commit`);
    return result;
  } catch (error) {
    failure ??= { cause: error };
    await trackInFlight(pool, send(connection, "rollback")).catch(() => {});
    // Statements that were sent after the one that failed fail too, and their errors can arrive here first.
    throw sqlState(error) === IN_FAILED_TRANSACTION ? failure.cause : error;
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
  if (isConnectionLost(error) || UNAVAILABLE_STATES.test(state))
    Object.assign(error, { [UNAVAILABLE]: true });
  return error;
}

function isConnectionLost(error: unknown): boolean {
  return (
    error instanceof Error &&
    "code" in error &&
    /^ERR_POSTGRES_(CONNECTION|IDLE|LIFETIME)/.test(String(error.code))
  );
}

function poolFailureOf(error: unknown, isDistributed: boolean): PoolFailure | undefined {
  const state = sqlState(error);
  if (state === READ_ONLY) return "read_only";
  // The coordinator reports a node that is down with the state of a lost connection. Its own connections go on.
  if (isDistributed && !isConnectionLost(error)) return undefined;
  return isConnectionLost(error) || LOST_STATES.test(state) ? "connection_lost" : undefined;
}

function sqlState(error: unknown): string {
  return error instanceof Error && "errno" in error ? String(error.errno) : "";
}

function readerOn(runner: Runner, isDistributed: boolean): Reader {
  const all = (sql: string, params: Values = []): Promise<readonly Row[]> =>
    runner.unsafe(numberParameters(sql), params);
  return {
    kind: "postgres",
    isDistributed,
    all,
    get: async (sql, params) => (await all(sql, params))[0],
  };
}

type AfterCommit = Parameters<Tx["afterCommit"]>[0];

function transactionOn(
  runner: TransactionRunner,
  afterCommit: AfterCommit[],
  isDistributed: boolean,
): Tx {
  const runMany = async (
    sql: string,
    columns: readonly Column[],
    rows: readonly Values[],
  ): Promise<void> => {
    if (rows.length === 0) return;
    await runner.unsafe(sql, columnParameters(columns, rows));
  };
  const byKeys =
    (statement: typeof lockStatement, all = "*"): ReadRows =>
    async (table, key, keys, columns = all) =>
      keys.length === 0 ? [] : runner.unsafe(statement(table, key, columns), keyParameters(keys));
  return {
    ...readerOn(runner, isDistributed),
    run: async (sql, params = []) =>
      Number((await runner.unsafe(numberParameters(sql), params)).count ?? 0),
    insertMany: async (table, columns, rows) => {
      if (!isDistributed) return runMany(insertStatement(table, columns), columns, rows);
      const statements = valuesStatements(table, columns, rows);
      await Promise.all(statements.map(({ sql, params }) => runner.unsafe(sql, params)));
    },
    updateMany: (table, columns, rows, keyColumns) => {
      const statement = isDistributed ? updateOnNodeStatement : updateStatement;
      return runMany(statement(table, columns, keyColumns), columns, rows);
    },
    deleteMany: byKeys(deleteStatement, ""),
    lockMany: byKeys(lockStatement),
    readMany: byKeys(readStatement),
    sendCommit: runner.sendCommit,
    afterCommit: (run) => void afterCommit.push(run),
  };
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
