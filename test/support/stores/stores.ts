// One suite for both stores, and the means to open the same store again in this process or another.

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

/** Where a store is: a data folder or a database URL, as text that can be handed to another process. */
export interface StoreLocation {
  readonly kind: StoreKind;
  readonly address: string;
}

export interface TestStore {
  readonly db: Db;
  readonly location: StoreLocation;
  readonly close: () => Promise<void>;
}

/** Calls the suite once a store; `open` gives a new, migrated store. */
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

/** A place where nothing is yet. */
export async function newStoreLocation(kind: StoreKind): Promise<StoreLocation> {
  return { kind, address: kind === "sqlite" ? scratchFolder() : await testPostgres() };
}

export function openStoreAt({ kind, address }: StoreLocation): Db {
  return kind === "sqlite" ? openSqlite({ folder: address, lock: false }) : openPostgres(address);
}

/** A new folder, in memory where the machine offers that: the tests kill processes, not the machine. */
export function scratchFolder(): string {
  let base = "/dev/shm";
  try {
    accessSync(base, constants.W_OK);
  } catch {
    base = tmpdir();
  }
  return mkdtempSync(path.join(base, "postern-test-"));
}
