// Opens the store of the settings; errors name the setting to change.

import type { Secret } from "../base/crypto/secret.ts";
import type { Db, Durability } from "./db.ts";
import { isDistributedStore } from "./distribution.ts";
import { DEFAULT_POOL_SIZE, sharesServerConnections } from "./postgres-pool.ts";
import { parsePostgresUrl } from "./postgres-url.ts";
import { openPostgres, type PostgresOptions } from "./postgres.ts";
import { openSqlite } from "./sqlite.ts";

export interface StoreSettings {
  readonly databaseUrl?: Secret;
  /** Connections to PostgreSQL; 10 by default. */
  readonly poolSize?: number | undefined;
  /** How much the commits of calls survive; "disk" by default. */
  readonly commit?: Durability;
  /** Longer for tests. */
  readonly lockTimeoutMs?: number | undefined;
  readonly dataDir: string;
}

/** Only the server locks the data folder, so that other commands can run at the same time. */
export async function openStore(settings: StoreSettings, lock: boolean): Promise<Db> {
  return settings.databaseUrl === undefined
    ? openSqliteFolder(settings.dataDir, lock)
    : await connectPostgres(settings.databaseUrl.reveal(), settings);
}

function openSqliteFolder(folder: string, lock: boolean): Db {
  try {
    return openSqlite({ folder, lock });
  } catch (cause) {
    const code = errorCodeOf(cause);
    if (code === "") throw cause;
    throw new Error(describeFolderError(folder, code), { cause });
  }
}

function describeFolderError(folder: string, code: string): string {
  if (/NOTADB|CORRUPT/.test(code))
    return `postern.db or postern.lock in ${folder} is not a SQLite file or is damaged (${code}): restore a backup, or set POSTERN_DATA_DIR to another folder`;
  if (/ENOSPC|FULL|SHMSIZE/.test(code))
    return `the disk of the data folder ${folder} is full (${code})`;
  if (/CANTOPEN/.test(code))
    return `the data folder ${folder} cannot be written (${code}): it needs the rights to create files, not only to open postern.db. Run chown --recursive for the user of the gateway, or set POSTERN_DATA_DIR to another folder`;
  return `the data folder ${folder} cannot be used (${code}): set POSTERN_DATA_DIR to a folder that Postern can write to`;
}

// The client connects on the first query.
async function connectPostgres(
  url: string,
  { poolSize = DEFAULT_POOL_SIZE, commit, lockTimeoutMs }: Omit<StoreSettings, "dataDir">,
): Promise<Db> {
  const target = parsePostgresUrl(url);
  const options: PostgresOptions = {
    poolSize,
    lockTimeoutMs,
    syncsEveryCommit: commit !== "os_cache",
    usesPreparedStatements:
      target.usesPreparedStatements && !(await sharesServerConnections(target)),
  };
  const db = openPostgres(url, options);
  try {
    if (!(await isDistributedStore(db))) return db;
    await db.close();
    return openPostgres(url, { ...options, isDistributed: true });
  } catch (cause) {
    await db.close();
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`PostgreSQL${hostSuffix(url)} cannot be used: ${message}. ${hintFor(cause)}`, {
      cause,
    });
  }
}

/** Without the user name and password of the URL. */
function hostSuffix(url: string): string {
  const hosts = parsePostgresUrl(url).hosts.join(",");
  return hosts === "" ? "" : ` at ${hosts}`;
}

function hintFor(cause: unknown): string {
  const code = errorCodeOf(cause);
  if (code === "53300")
    return "Raise max_connections of the server, or lower POSTERN_DATABASE_POOL_SIZE.";
  if (code.startsWith("28")) return "Check the user and password in DATABASE_URL.";
  if (code === "3D000") return "Create the database, or set DATABASE_URL to another one.";
  if (code.includes("TLS")) return "Check sslmode in DATABASE_URL.";
  return "Check that the server is running and accepts connections, and that DATABASE_URL has its host and port.";
}

/** PostgreSQL's SQLSTATE if there is one. */
function errorCodeOf(cause: unknown): string {
  if (!(cause instanceof Error)) return "";
  if ("errno" in cause && typeof cause.errno === "string") return cause.errno;
  return "code" in cause ? String(cause.code) : "";
}
