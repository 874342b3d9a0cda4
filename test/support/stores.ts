// One suite for both stores, and the means to open the same store again in this process or another.

import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Db } from "../../src/store/db.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { migratedPostgres, testPostgres } from "./postgres.ts";

export const STORE_KINDS = ["sqlite", "postgres"] as const;
export type StoreKind = (typeof STORE_KINDS)[number];

/** Where a store is: a data folder or a database URL, as text that can be handed to another process. */
export interface Place {
  readonly kind: StoreKind;
  readonly at: string;
}

export interface TestStore {
  readonly db: Db;
  readonly place: Place;
  readonly close: () => Promise<void>;
}

/** Calls the suite once a store; `open` gives a new, migrated store. */
export function eachStore(
  suite: (kind: StoreKind, open: () => Promise<TestStore>) => void,
  kinds: readonly StoreKind[] = STORE_KINDS,
): void {
  for (const kind of kinds) suite(kind, () => openStore(kind));
}

export async function openStore(kind: StoreKind): Promise<TestStore> {
  const place = kind === "postgres" ? { kind, at: await migratedPostgres() } : await newPlace(kind);
  const db = openPlace(place);
  await migrate(db, 1);
  return {
    db,
    place,
    close: async () => {
      await db.close();
      if (kind === "sqlite") rmSync(place.at, { recursive: true, force: true });
    },
  };
}

/** A place where nothing is yet. */
export async function newPlace(kind: StoreKind): Promise<Place> {
  return { kind, at: kind === "sqlite" ? scratchFolder() : await testPostgres() };
}

export function openPlace({ kind, at }: Place): Db {
  return kind === "sqlite" ? openSqlite({ folder: at, lock: false }) : openPostgres(at);
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
