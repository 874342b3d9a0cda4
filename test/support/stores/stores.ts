// Opens SQLite and PostgreSQL stores for tests, also a second time from another process.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Db } from "../../../src/store/db.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { CITUS_URL } from "./citus.ts";
import { dropPostgres, migratedPostgres, testPostgres } from "./postgres.ts";

export const STORE_KINDS = ["sqlite", "postgres"] as const;
export type StoreKind = (typeof STORE_KINDS)[number];

/** The location of a store: a data folder or a database URL. */
export interface StoreLocation {
  readonly kind: StoreKind;
  readonly address: string;
}

const SQLITE_FILE = "postern.db";
/** Smaller than the default, because a connection costs PostgreSQL 5 ms of CPU. A test has at most four transactions at once. */
export const TEST_POOL_SIZE = 4;
/** PostgreSQL's lock timeout for tests of something else: what holds the lock may get no CPU for seconds. */
export const PATIENT_LOCK_MS = 60_000;

let sqliteTemplate: Promise<Uint8Array> | undefined;

export interface TestStore {
  readonly db: Db;
  readonly location: StoreLocation;
  readonly close: () => Promise<void>;
}

/** Runs the suite once per kind of store; `open` creates a new store with the current schema. */
export function describeEachStore(
  suite: (kind: StoreKind, open: () => Promise<TestStore>) => void,
  kinds: readonly StoreKind[] = STORE_KINDS,
): void {
  for (const kind of kinds) suite(kind, () => openStore(kind));
}

export async function openStore(kind: StoreKind): Promise<TestStore> {
  const location = await migratedStoreLocation(kind);
  const db = openStoreAt(location);
  return {
    db,
    location,
    close: async () => {
      await db.close();
      if (kind === "sqlite") rmSync(location.address, { recursive: true, force: true });
      else await dropPostgres(location.address);
    },
  };
}

/** The location of a new, empty store. */
export async function newStoreLocation(kind: StoreKind): Promise<StoreLocation> {
  return { kind, address: kind === "sqlite" ? scratchFolder() : await testPostgres() };
}

/** The location of a new store with the current schema. */
export async function migratedStoreLocation(kind: StoreKind): Promise<StoreLocation> {
  return { kind, address: kind === "sqlite" ? await migratedSqlite() : await migratedPostgres() };
}

export function openStoreAt({ kind, address }: StoreLocation): Db {
  return kind === "sqlite"
    ? openSqlite({ folder: address, lock: false })
    : openPostgres(address, {
        poolSize: TEST_POOL_SIZE,
        isDistributed: CITUS_URL !== "",
        lockTimeoutMs: PATIENT_LOCK_MS,
      });
}

/** A new data folder with the current schema, copied from a template: much faster than migrating. */
export async function migratedSqlite(): Promise<string> {
  sqliteTemplate ??= createSqliteTemplate();
  const folder = scratchFolder();
  writeFileSync(path.join(folder, SQLITE_FILE), await sqliteTemplate, { mode: 0o600 });
  return folder;
}

async function createSqliteTemplate(): Promise<Uint8Array> {
  const folder = scratchFolder();
  const db = openSqlite({ folder, lock: false });
  await migrate(db, 1);
  await db.close();
  const template = readFileSync(path.join(folder, SQLITE_FILE));
  rmSync(folder, { recursive: true, force: true });
  return template;
}
