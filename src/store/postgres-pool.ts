// Connections to PostgreSQL: a pool on the host that accepts writes, replaced when that host stops responding, becomes
// read-only, or when another host has taken over.

import { UNAVAILABLE } from "./db.ts";
import type { PostgresTarget } from "./postgres-url.ts";

/** Connections of a process, unless its settings say otherwise. */
export const DEFAULT_POOL_SIZE = 10;
const CONNECT_TIMEOUT_SECONDS = 5;
/** A statement counts as stalled after this many checks: longer than the ledger counts a silent process as alive. */
const STALL_CHECKS_MAX = 9;
/** The pause between two searches for a host, so that not every request searches while the database is down. */
const SEARCH_PAUSE_MS = 250;
/** How long to wait for the other hosts after one has replied that it accepts writes. */
const TIMELINE_WAIT_MS = 500;

/** A busy pooler may give two connections the same server connection only at times. */
const POOLER_CHECKS = 5;

/** The connections and the statements that wait for a reply on them. */
export interface Pool {
  readonly url: string;
  readonly client: Bun.SQL;
  readonly inFlight: Set<{ checks: number }>;
}

/** A failure after which the pool must be replaced. */
export type PoolFailure = "connection_lost" | "read_only";

export interface PoolSource {
  /** A promise while the host that accepts writes is searched. */
  readonly current: () => Pool | Promise<Pool>;
  readonly reportFailure: (pool: Pool, failure: PoolFailure) => void;
  readonly close: () => Promise<void>;
}

export interface PoolTarget extends PostgresTarget {
  readonly poolSize: number;
}

export function createPoolSource(target: PoolTarget, stallCheckMs: number): PoolSource {
  const { urls } = target;
  const [onlyUrl = ""] = urls;
  const hasOneHost = urls.length === 1;
  let pool = hasOneHost ? openPool(onlyUrl, target) : undefined;
  let search: Promise<Pool> | undefined;
  const replaceWith = (url: string): Pool => {
    const previous = pool;
    pool = openPool(url, target);
    // Fails the pending statements as unavailable.
    previous?.client.close({ timeout: 0 }).catch(() => {});
    return pool;
  };
  let timeline = 0;
  const findHost = (isReplaced: boolean): Promise<Pool> => {
    search ??= findWritableHost(target, timeline)
      .then((found) => {
        timeline = found.timeline;
        return pool !== undefined && pool.url === found.url && !isReplaced
          ? pool
          : replaceWith(found.url);
      })
      .finally(() => {
        search = undefined;
      });
    return search;
  };
  // A server whose machine died does not close its connections, and the kernel keeps them for 15 minutes.
  const stallTimer = setInterval(() => {
    if (pool === undefined || !isAnyStalled(pool)) return;
    if (hasOneHost) replaceWith(onlyUrl);
    else findHost(true).catch(() => {});
  }, stallCheckMs);
  stallTimer.unref();
  return {
    current: () => search ?? pool ?? findHost(false),
    reportFailure: (failed, failure) => {
      if (failed !== pool) return;
      // The host name may resolve to another machine by now, so the pool reconnects even if the server was read-only.
      if (hasOneHost) {
        if (failure === "read_only") replaceWith(onlyUrl);
      } else findHost(failure === "read_only").catch(() => {});
    },
    close: async () => {
      clearInterval(stallTimer);
      await search?.catch(() => {});
      await pool?.client.close({ timeout: 5 });
    },
  };
}

/** For snapshots, which may take long and block nothing. */
export function withoutStallCheck({ url, client }: Pool): Pool {
  return { url, client, inFlight: new Set() };
}

export function trackInFlight<T>({ inFlight }: Pool, reply: Promise<T>): Promise<T> {
  const statement = { checks: 0 };
  inFlight.add(statement);
  return reply.finally(() => inFlight.delete(statement));
}

function openPool(
  url: string,
  { usesPreparedStatements, poolSize }: Pick<PoolTarget, "usesPreparedStatements" | "poolSize">,
): Pool {
  // The global loads the client on first use; importing it would cost 50 ms at every start, also with SQLite.
  const client = new Bun.SQL(url, {
    max: poolSize,
    idleTimeout: 0,
    connectionTimeout: CONNECT_TIMEOUT_SECONDS,
    bigint: true,
    prepare: usesPreparedStatements,
    connection: { application_name: "postern" },
  });
  return { url, client, inFlight: new Set() };
}

interface WritableHost {
  readonly url: string;
  /** Increases with each promotion of a standby; 0 if there is only one host, or the server has no timelines. */
  readonly timeline: number;
}

/**
 * Connects to all hosts at once: one that is down must not delay the one that has taken over. A former primary that was
 * started again also accepts writes, which the cluster then discards, so the host with the latest timeline is used.
 */
async function findWritableHost(target: PostgresTarget, timeline: number): Promise<WritableHost> {
  const asked = target.urls.map(async (url) => {
    const host = { url, timeline: await getTimeline(url, target) };
    if (host.timeline < timeline) throw new Error("a former primary, which was replaced");
    return host;
  });
  try {
    await Promise.any(asked);
    const late = new Promise<undefined>((resolve) => setTimeout(resolve, TIMELINE_WAIT_MS));
    const answers = asked.map((one) => Promise.race([one.catch(() => undefined), late]));
    const hosts = (await Promise.all(answers)).filter((host) => host !== undefined);
    return hosts.reduce((latest, host) => (host.timeline > latest.timeline ? host : latest));
  } catch (cause) {
    await new Promise((resolve) => setTimeout(resolve, SEARCH_PAUSE_MS));
    const reasons = cause instanceof AggregateError ? cause.errors : [cause];
    const detail = target.hosts.map((host, index) => `${host}: ${reasonOf(reasons[index])}`);
    throw Object.assign(
      new Error(`none of the hosts accepts writes (${detail.join("; ")})`, { cause }),
      { [UNAVAILABLE]: true },
    );
  }
}

/** Throws if the host does not accept writes. */
async function getTimeline(url: string, target: PostgresTarget): Promise<number> {
  const { client } = openPool(url, { ...target, poolSize: 1 });
  try {
    const [row] = await client.unsafe("show transaction_read_only");
    if (row?.transaction_read_only !== "off") throw new Error("read-only, such as a standby");
    if (target.urls.length === 1) return 0;
    // The first eight digits of the name of a file of the write-ahead log.
    const [log] = await client
      .unsafe("select pg_walfile_name(pg_current_wal_lsn()) as name")
      .catch(() => []);
    return Number.parseInt(String(log?.name ?? "0").slice(0, 8), 16);
  } finally {
    client.close({ timeout: 0 }).catch(() => {});
  }
}

/**
 * Whether connections that are open at the same time are served by one server connection: behind a pooler in transaction
 * mode, such as PgBouncer, where a prepared statement may meet another connection's statement of the same name.
 * An unreachable server shares none.
 */
export async function sharesServerConnections(target: PostgresTarget): Promise<boolean> {
  const unprepared = { ...target, usesPreparedStatements: false, poolSize: 1 };
  const clients: Bun.SQL[] = [];
  try {
    const [onlyUrl = "", ...others] = target.urls;
    const url = others.length === 0 ? onlyUrl : (await findWritableHost(unprepared, 0)).url;
    for (let index = 0; index < 2; index++) {
      const { client } = openPool(url, unprepared);
      clients.push(client);
      await client.unsafe("select 1");
    }
    for (let round = 0; round < POOLER_CHECKS; round++) {
      const pids: unknown[] = [];
      for (const client of clients)
        pids.push((await client.unsafe("select pg_backend_pid() as pid"))[0]?.pid);
      if (pids[0] === pids[1]) return true;
    }
    return false;
  } catch {
    return false;
  } finally {
    for (const client of clients) client.close({ timeout: 0 }).catch(() => {});
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
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
