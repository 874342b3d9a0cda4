// Applies migrations while no process of an older version uses the store: it would write rows that the new schema does not
// expect, such as usage that is in no roll-up.

import path from "node:path";
import { findRunningProcesses } from "../ledger/running-processes.ts";
import type { Db } from "../store/db.ts";
import { isNewStore, migrate, type Migration, missingMigrations } from "../store/migrate.ts";
import { openStore, type StoreSettings } from "../store/open.ts";

export interface UpgradeOptions {
  readonly now: () => number;
  readonly onApplied: (name: string, ms: number) => void;
  readonly onBackup: (file: string) => void;
  /** Migrates although other processes run. */
  readonly isForced?: boolean;
  /** For tests. */
  readonly migrations?: readonly Migration[];
  /** Shorter for tests. */
  readonly watchMs?: number | undefined;
}

/** For commands. Returns the names of the applied migrations. */
export async function upgradeStore(
  settings: StoreSettings,
  options: UpgradeOptions,
): Promise<readonly string[]> {
  const db = await openStore(settings, false);
  try {
    if ((await missingMigrations(db, options.migrations)).length === 0) return [];
    if (db.kind === "postgres" || options.isForced === true)
      return await upgradeOpenStore(db, settings, options);
  } finally {
    await db.close();
  }
  // The lock of the data folder, which a serving process has.
  const locked = await openStore(settings, true);
  try {
    return await upgradeOpenStore(locked, settings, options);
  } finally {
    await locked.close();
  }
}

/** For a process that has locked its SQLite folder. */
export async function upgradeOpenStore(
  db: Db,
  { dataDir }: StoreSettings,
  options: UpgradeOptions,
): Promise<readonly string[]> {
  const { migrations, onApplied, onBackup } = options;
  const now = options.now();
  const [next] = await missingMigrations(db, migrations);
  if (next === undefined) return [];
  if (!(await isNewStore(db))) {
    if (options.isForced !== true) await assertNoneRuns(db, options);
    if (db.kind === "sqlite") {
      // With milliseconds: an upgrade that was killed may be started again within the second.
      const time = new Date(now).toISOString().replaceAll(/[-:.]/g, "");
      const file = path.join(dataDir, `before-${next}-${time}.db`);
      await db.backup(file);
      onBackup(file);
    }
  }
  return await migrate(db, now, { ...(migrations && { migrations }), onApplied });
}

async function assertNoneRuns(db: Db, { now, watchMs }: UpgradeOptions): Promise<void> {
  // On SQLite the lock of the folder says it.
  if (db.kind === "sqlite") return;
  const running = await findRunningProcesses(db, { now: now(), watchMs });
  if (running.length === 0) return;
  throw new Error(
    `processes of an older version still use the store (${running.join(", ")}): stop all of them before the schema is migrated. postern migrate --force migrates nevertheless; what older processes write then may be missing in usage summaries`,
  );
}
