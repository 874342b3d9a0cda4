// Opens SQLite and PostgreSQL stores for tests, also a second time from another process.

import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Db } from "../../../src/store/db.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { migratedPostgres, testPostgres } from "./postgres.ts";

export const STORE_KINDS = ["sqlite", "postgres"] as const;
export type StoreKind = (typeof STORE_KINDS)[number];

/** The location of a store: a data folder or a database URL. */
export interface StoreLocation {
  readonly kind: StoreKind;
  readonly address: string;
}

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
  const location =
    kind === "postgres"
      ? { kind, address: await migratedPostgres() }
      : await newStoreLocation(kind);
  const db = openStoreAt(location);
  await migrate(db, 1);
  return {
    db,
    location,
    close: async () => {
      await db.close();
      if (kind === "sqlite") rmSync(location.address, { recursive: true, force: true });
    },
  };
}

/** The location of a new, empty store. */
export async function newStoreLocation(kind: StoreKind): Promise<StoreLocation> {
  return { kind, address: kind === "sqlite" ? scratchFolder() : await testPostgres() };
}

export function openStoreAt({ kind, address }: StoreLocation): Db {
  return kind === "sqlite" ? openSqlite({ folder: address, lock: false }) : openPostgres(address);
}

/** A new folder, in memory if available: the tests do not need it to survive a reboot. */
export function scratchFolder(): string {
  let base = "/dev/shm";
  try {
    accessSync(base, constants.W_OK);
  } catch {
    base = tmpdir();
  }
  return mkdtempSync(path.join(base, "postern-test-"));
}
