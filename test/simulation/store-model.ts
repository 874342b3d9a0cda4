// The store as each simulated process sees it: a `Db` whose statements take time, wait for locks and fail as PostgreSQL and
// its driver do.

import {
  columnName,
  type Column,
  type Db,
  DUPLICATE,
  type Key,
  LOCKED,
  type Reader,
  type Row,
  type Tx,
  UNAVAILABLE,
  type Values,
} from "../../src/store/db.ts";
import type { EngineTransaction, StatementResult, StoreEngine } from "./store-engine.ts";
import type { Actor, World } from "./world.ts";

/** Probabilities of faults of a statement or a commit. */
interface StoreFaults {
  readonly serializationFailure: number;
  readonly connectionLost: number;
  readonly commitLost: number;
  readonly commitReplyLost: number;
  readonly slowStatement: number;
}

export interface StoreModel {
  readonly dbOf: (actor: Actor) => Db;
  /** Ends the connections of a dead process; a commit that was sent may still happen. */
  readonly dropConnections: (actor: Actor) => void;
  /** Ends the transactions that a frozen process leaves open. */
  readonly endIdle: (actor: Actor) => void;
  /** Ends all connections, also those with a commit. */
  readonly dropAll: () => void;
  /** Every statement fails until this time. */
  readonly setOutage: (until: number) => void;
  readonly setFaults: (faults: StoreFaults) => void;
}

export interface StoreModelDeps {
  readonly world: World;
  readonly engine: StoreEngine;
  /** Called after each commit that wrote something, with the tables that it wrote. */
  readonly onCommit: (tables: ReadonlySet<string>) => void;
}

interface Session {
  readonly tx: EngineTransaction;
  readonly actor: Actor;
  readonly reply: Reply;
  readonly queue: (() => void)[];
  isBusy: boolean;
  /** A commit was sent: the server runs it, and the statements before it, although the process dies. */
  isCommitting: boolean;
  lockTimeoutMs: number;
  /** Why the transaction is aborted: the replies to its statements come in order, so this error comes first. */
  cause: unknown;
}

/** Made once, because errors record their stack. */
const TRANSACTION_OVER = { cause: new Error("the transaction is over") };

type AfterCommit = Parameters<Tx["afterCommit"]>[0];

/** Settles a promise in the process that waits for it, unless that has died since. */
type Reply = (settle: () => void) => void;

const ATTEMPTS_MAX = 4;
const RETRY_BASE_MS = 5;
const LOCK_TIMEOUT_MS = 2_000;
const IDLE_TIMEOUT_MS = 30_000;
const SLOW_MS = 3_000;
const RETRYABLE = Symbol("retryable");

function unavailable(message: string): Error {
  return Object.assign(new Error(message), { [UNAVAILABLE]: true });
}

function locked(message: string): Error {
  return Object.assign(unavailable(message), { [LOCKED]: true });
}

function retryable(message: string): Error {
  return Object.assign(new Error(message), { [RETRYABLE]: true });
}

function tagError(error: unknown): unknown {
  if (error instanceof Error && /UNIQUE constraint failed/.test(error.message))
    return Object.assign(error, { [DUPLICATE]: true });
  return error;
}

export function createStoreModel({ world, engine, onCommit }: StoreModelDeps): StoreModel {
  const { random } = world;
  const sessions = new Set<Session>();
  const waiters = new Set<{ readonly session: Session; readonly retry: () => void }>();
  let outageUntil = 0;
  let faults: StoreFaults = {
    serializationFailure: 0,
    connectionLost: 0,
    commitLost: 0,
    commitReplyLost: 0,
    slowStatement: 0,
  };
  const latency = (): number =>
    0.1 + random.next() * 2 + (random.chance(faults.slowStatement) ? random.next() * SLOW_MS : 0);
  const replyTo = (actor: Actor): Reply => {
    const { life } = actor;
    return (settle) => {
      if (actor.life === life) world.schedule(actor, latency(), settle);
    };
  };
  const wake = (): void => {
    for (const waiter of waiters) {
      waiters.delete(waiter);
      world.schedule(undefined, random.next() / 10, waiter.retry);
    }
  };
  const end = (session: Session, state: "failed" | "closed"): void => {
    session.tx.state = state;
    session.tx.waitsFor = undefined;
    engine.abort(session.tx);
    if (state === "closed") sessions.delete(session);
    wake();
  };

  /** Sends a statement of a session, after the ones before it, and resolves in its process. */
  const send = <T>(session: Session, attempt: () => T | "blocked"): Promise<T> =>
    new Promise((resolve, reject) => {
      const finish = (settle: () => void): void => {
        session.reply(settle);
        const next = session.queue.shift();
        session.isBusy = next !== undefined;
        if (next !== undefined) world.schedule(undefined, latency() / 10, next);
      };
      const fail = (error: unknown, state: "failed" | "closed" = "failed"): void => {
        session.cause ??= error;
        if (session.tx.state === "open") end(session, state);
        finish(() => reject(error));
      };
      const waiter = { session, retry: () => run() };
      let hasTimer = false;
      const run = (): void => {
        const { tx } = session;
        if (tx.state === "closed") return fail(unavailable("the connection is closed"));
        if (tx.state === "failed") return fail(session.cause);
        if (world.now() < outageUntil || random.chance(faults.connectionLost))
          return fail(unavailable("the connection was lost"), "closed");
        if (random.chance(faults.serializationFailure))
          return fail(retryable("could not serialize access"));
        let result: T | "blocked";
        try {
          result = attempt();
        } catch (error) {
          return fail(tagError(error));
        }
        if (result !== "blocked") return finish(() => resolve(result));
        if (isDeadlock(tx)) return fail(retryable("deadlock detected"));
        waiters.add(waiter);
        if (hasTimer) return;
        hasTimer = true;
        world.schedule(undefined, session.lockTimeoutMs, () => {
          if (waiters.delete(waiter)) fail(locked("lock timeout"));
        });
      };
      const start = (): void => world.schedule(undefined, latency(), run);
      if (session.isBusy) session.queue.push(run);
      else start();
      session.isBusy = true;
    });

  const commit = (session: Session): Promise<void> =>
    new Promise((resolve, reject) => {
      session.isCommitting = true;
      const run = (): void => {
        const { tx, actor, reply } = session;
        if (tx.state === "failed") {
          end(session, "closed");
          return reply(() => reject(new Error("the server replied ROLLBACK to a commit")));
        }
        if (tx.state !== "open")
          return reply(() => reject(unavailable("the connection is closed")));
        if (world.now() < outageUntil || random.chance(faults.commitLost)) {
          end(session, "closed");
          return reply(() => reject(unavailable("the connection was lost")));
        }
        if (random.chance(faults.serializationFailure)) {
          end(session, "closed");
          return reply(() => reject(retryable("could not serialize access")));
        }
        const tables = new Set(tx.log.map(({ table }) => table));
        engine.commit(tx);
        sessions.delete(session);
        wake();
        world.trace(`commit ${actor.name} ${tx.log.length}`);
        if (tables.size > 0) onCommit(tables);
        if (random.chance(faults.commitReplyLost))
          return reply(() => reject(unavailable("the connection was lost")));
        reply(resolve);
      };
      if (session.isBusy) session.queue.push(run);
      else world.schedule(undefined, latency(), run);
    });

  const runTransaction = async <T>(
    actor: Actor,
    work: (tx: Tx) => Promise<T>,
    afterCommit: AfterCommit[],
  ): Promise<T> => {
    const session: Session = {
      tx: engine.begin(),
      actor,
      reply: replyTo(actor),
      queue: [],
      isBusy: false,
      isCommitting: false,
      lockTimeoutMs: LOCK_TIMEOUT_MS,
      cause: undefined,
    };
    sessions.add(session);
    let failure: { readonly cause: unknown } | undefined;
    let committing: Promise<void> | undefined;
    const guarded = async <R>(attempt: () => R | "blocked"): Promise<R> => {
      if (failure !== undefined) throw failure.cause;
      try {
        if (committing !== undefined) throw new Error("the commit was sent already");
        return await send(session, attempt);
      } catch (cause) {
        failure ??= { cause };
        throw cause;
      }
    };
    const sendCommit = (): void => {
      if (failure === undefined) (committing ??= commit(session)).catch(() => {});
    };
    try {
      const result = await work({
        ...transactionOn(session, engine, guarded),
        afterCommit: (run) => void afterCommit.push(run),
        ...(world.hasEarlyCommits && { sendCommit }),
      });
      if (failure !== undefined) throw failure.cause;
      failure = TRANSACTION_OVER;
      await (committing ?? commit(session));
      return result;
    } catch (error) {
      failure ??= { cause: error };
      // A rollback is sent after it, on the same connection.
      await committing?.catch(() => {});
      await new Promise<void>((resolve) => {
        world.schedule(undefined, latency(), () => {
          if (session.tx.state !== "closed") end(session, "closed");
          session.reply(resolve);
        });
      });
      throw error;
    }
  };

  const read = (actor: Actor, sql: string, params: Values): Promise<readonly Row[]> =>
    new Promise((resolve, reject) => {
      const reply = replyTo(actor);
      world.schedule(undefined, latency(), () => {
        if (world.now() < outageUntil || random.chance(faults.connectionLost)) {
          const error = unavailable("the connection was lost");
          return reply(() => reject(error));
        }
        const rows = engine.read(undefined, sql, params);
        reply(() => resolve(rows));
      });
    });

  const withRetry = async <T>(work: () => Promise<T>): Promise<T> => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof Error && RETRYABLE in error)) throw error;
        if (attempt >= ATTEMPTS_MAX) throw locked(error.message);
        const delayMs = RETRY_BASE_MS * 2 ** attempt * (0.5 + random.next());
        await new Promise((resolve) => setTimeout(resolve, delayMs));
      }
    }
  };

  const readerOf = (actor: Actor): Reader => ({
    kind: "postgres",
    all: (sql, params = []) => read(actor, sql, params),
    get: async (sql, params = []) => (await read(actor, sql, params))[0],
  });
  const write = async <T>(actor: Actor, work: (tx: Tx) => Promise<T>): Promise<T> => {
    let afterCommit: AfterCommit[] = [];
    const result = await withRetry(() => {
      afterCommit = [];
      return runTransaction(actor, work, afterCommit);
    });
    for (const run of afterCommit) await run(readerOf(actor));
    return result;
  };

  return {
    dbOf: (actor) => ({
      ...readerOf(actor),
      write: (work) => write(actor, work),
      snapshot: () => Promise.reject(new Error("a simulated store has no snapshots")),
      backup: () => Promise.reject(new Error("a simulated store has no backups")),
      close: () => Promise.resolve(),
    }),
    dropConnections: (actor) => {
      for (const session of sessions)
        if (session.actor === actor && !session.isCommitting) end(session, "closed");
    },
    dropAll: () => {
      for (const session of sessions) end(session, "closed");
    },
    endIdle: (actor) => {
      for (const session of sessions)
        if (session.actor === actor)
          world.schedule(undefined, IDLE_TIMEOUT_MS, () => {
            if (session.tx.state === "open" && !session.isBusy && !session.isCommitting)
              end(session, "closed");
          });
    },
    setOutage: (until) => {
      outageUntil = until;
    },
    setFaults: (next) => {
      faults = next;
    },
  };
}

/** So many keys are parameters of their own, which SQLite looks up faster than those of a JSON array. */
const KEYS_MAX = 4;

interface KeyedSql {
  readonly lock: string;
  readonly remove: string;
}

const keyedSql = new Map<string, readonly KeyedSql[]>();

/** The statements for a number of keys. They are kept, because the engine finds prepared statements by their text. */
function keyedStatements(table: string, key: string, count: number, columns = "*"): KeyedSql {
  const name = `${table} ${key} ${columns}`;
  const selected = columns === "*" ? columns : `${key}, ${columns}`;
  let all = keyedSql.get(name);
  if (all === undefined) {
    all = Array.from({ length: KEYS_MAX + 1 }, (_, keys) => {
      const condition = keyCondition(key, keys);
      return {
        lock: `select ${selected} from ${table} where ${condition} order by ${key.split(", ").at(-1)}`,
        remove: `delete from ${table} where ${condition} returning *`,
      };
    });
    keyedSql.set(name, all);
  }
  const found = all[count > KEYS_MAX ? 0 : count];
  if (found === undefined) throw new Error("no statement for this number of keys");
  return found;
}

/** Without a count, the keys are a JSON array. */
function keyCondition(key: string, count: number): string {
  const columns = key.split(", ");
  if (count > 0) {
    const one = `(${columns.map((column) => `${column} = ?`).join(" and ")})`;
    return Array.from({ length: count }, () => one).join(" or ");
  }
  return columns.length > 1
    ? `(${key}) in (select value ->> 0, value ->> 1 from json_each(?))`
    : `${key} in (select value from json_each(?))`;
}

function keyValues(keys: readonly Key[]): Values {
  return keys.length > KEYS_MAX ? [JSON.stringify(keys)] : keys.flat();
}

function isDeadlock(tx: EngineTransaction): boolean {
  for (let next = tx.waitsFor; next !== undefined; next = next.waitsFor)
    if (next === tx) return true;
  return false;
}

type Guarded = <R>(attempt: () => R | "blocked") => Promise<R>;

function transactionOn(
  session: Session,
  engine: StoreEngine,
  guarded: Guarded,
): Omit<Tx, "afterCommit"> {
  const { tx } = session;
  const rowsOf = (result: StatementResult): readonly Row[] | "blocked" => {
    tx.waitsFor = result.status === "blocked" ? result.owner : undefined;
    return result.status === "blocked" ? "blocked" : result.rows;
  };
  const write = (sql: string, params: Values): Promise<readonly Row[]> =>
    guarded(() => rowsOf(engine.write(tx, sql, params)));
  const all = (sql: string, params: Values = []): Promise<readonly Row[]> =>
    /^\s*(insert|update|delete)\b/i.test(sql)
      ? write(sql, params)
      : guarded(() => engine.read(tx, sql, params));
  const selectMany = (table: string, key: string, keys: readonly Key[], columns?: string) => ({
    table,
    sql: keyedStatements(table, key, keys.length, columns).lock,
    params: keyValues(keys),
  });
  const reader: Reader = {
    kind: "postgres",
    all,
    get: async (sql, params) => (await all(sql, params))[0],
  };
  return {
    ...reader,
    run: async (sql, params = []) => {
      const timeout = /^set local lock_timeout = (\d+)/.exec(sql)?.[1];
      if (timeout === undefined) return (await write(sql, params)).length;
      session.lockTimeoutMs = Number(timeout);
      return 0;
    },
    insertMany: async (table, columns, rows) => {
      const names = columns.map(columnName);
      const sql = `insert into ${table} (${names.join(", ")}) values (${names.map(() => "?").join(", ")})`;
      await Promise.all(rows.map((row) => write(sql, row)));
    },
    updateMany: async (table, columns: readonly Column[], rows, keyColumns = 1) => {
      const assignments = columns.map((column) => `${columnName(column)} = ?`);
      const sql = `update ${table} set ${assignments.slice(keyColumns).join(", ")} where ${assignments.slice(0, keyColumns).join(" and ")}`;
      await Promise.all(
        rows.map((row) => write(sql, [...row.slice(keyColumns), ...row.slice(0, keyColumns)])),
      );
    },
    deleteMany: async (table, key, keys) =>
      keys.length > 0
        ? write(keyedStatements(table, key, keys.length).remove, keyValues(keys))
        : [],
    lockMany: (table, key, keys, columns) => {
      if (keys.length === 0) return Promise.resolve([]);
      const seen = {};
      const select = selectMany(table, key, keys, columns);
      return guarded(() => rowsOf(engine.lock(tx, select, seen)));
    },
    readMany: (table, key, keys, columns) => {
      const { sql, params } = selectMany(table, key, keys, columns);
      return guarded(() => engine.read(tx, sql, params));
    },
  };
}
