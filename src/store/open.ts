// Opens the store that the settings name, and says of one that cannot be opened what is wrong, and which setting is meant.

import type { Secret } from "../base/secret.ts";
import type { Db } from "./db.ts";
import { openPostgres } from "./postgres.ts";
import { openSqlite } from "./sqlite.ts";

export interface StoreSettings {
  readonly databaseUrl?: Secret;
  readonly dataDir: string;
}

/** Only a server locks the data folder; other commands work beside it. */
export async function openStore(settings: StoreSettings, lock: boolean): Promise<Db> {
  return settings.databaseUrl === undefined
    ? openSqliteFolder(settings.dataDir, lock)
    : await connectPostgres(settings.databaseUrl.reveal());
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
    return `postern.db or postern.lock in ${folder} is no SQLite file, or is damaged (${code}): put the right file or a backup there, or set POSTERN_DATA_DIR to another folder`;
  if (/ENOSPC|FULL/.test(code)) return `the disk of the data folder ${folder} is full (${code})`;
  return `the data folder ${folder} cannot be used (${code}): set POSTERN_DATA_DIR to a folder that Postern may write to`;
}

// The client connects when it is first asked for something.
async function connectPostgres(url: string): Promise<Db> {
  const db = openPostgres(url);
  try {
    await db.get("select 1 as one");
    return db;
  } catch (cause) {
    await db.close();
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`PostgreSQL${hostSuffix(url)} cannot be used: ${message}. ${hintFor(cause)}`, {
      cause,
    });
  }
}

/** Never with the user's name and password. */
function hostSuffix(url: string): string {
  const { host } = new URL(url);
  return host === "" ? "" : ` at ${host}`;
}

function hintFor(cause: unknown): string {
  const code = errorCodeOf(cause);
  if (code.startsWith("28")) return "See that DATABASE_URL has the right user and password.";
  if (code === "3D000") return "Create that database, or set DATABASE_URL to another one.";
  if (code.includes("TLS")) return "See what sslmode DATABASE_URL asks for.";
  return "See that the server runs and takes connections, and that DATABASE_URL names its host and port.";
}

/** PostgreSQL's own code where it said one. */
function errorCodeOf(cause: unknown): string {
  if (!(cause instanceof Error)) return "";
  if ("errno" in cause && typeof cause.errno === "string") return cause.errno;
  return "code" in cause ? String(cause.code) : "";
}
