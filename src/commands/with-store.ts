// For commands that use the store: reads the settings, opens the store, and always closes it.

import { existsSync } from "node:fs";
import path from "node:path";
import { Fault } from "../base/fault.ts";
import type { Config } from "../config/config.ts";
import type { Db } from "../store/db.ts";
import { missingMigrations } from "../store/migrate.ts";
import { openStore, type StoreSettings } from "../store/open.ts";
import { usageFault, type CliEnv } from "./command.ts";

/** Runs the work with valid settings. Throws every error in them. */
export async function withConfig(
  cli: CliEnv,
  run: (config: Config) => Promise<number>,
): Promise<number> {
  const result = cli.readConfig();
  if (!result.ok) throw usageFault(describeConfigErrors(result.errors));
  return await run(result.config);
}

/** Runs the work on the store, which a gateway may be using. */
export function withStore(
  cli: CliEnv,
  run: (db: Db, config: Config) => Promise<number>,
): Promise<number> {
  return withConfig(cli, async (config) => {
    const absent = describeMissingStore(config.store);
    if (absent !== undefined) throw new Error(absent);
    const db = await openStore(config.store, false);
    try {
      const missing = await missingMigrations(db);
      if (missing.length > 0)
        throw new Error(
          `Migrations are not applied: ${missing.join(", ")}. Run postern migrate first.`,
        );
      return await run(db, config);
    } finally {
      await db.close();
    }
  });
}

/** Undefined if there is a file, or the store is PostgreSQL. */
export function describeMissingStore({ databaseUrl, dataDir }: StoreSettings): string | undefined {
  if (databaseUrl !== undefined || existsSync(path.join(dataDir, "postern.db"))) return undefined;
  return `There is no store in ${path.resolve(dataDir)}: set POSTERN_DATA_DIR to the gateway's data folder. postern migrate and the first start create a new store.`;
}

function describeConfigErrors(errors: readonly string[]): string {
  const head =
    errors.length === 1
      ? "The settings have an error:"
      : `The settings have ${errors.length} errors:`;
  return [head, ...errors.map((error) => `  ${error}`)].join("\n");
}

/** An error as one line. */
export function errorMessage(error: unknown): string {
  if (error instanceof Fault) return error.publicMessage;
  if (!(error instanceof Error)) return String(error);
  return isPermissionDenied(error)
    ? `${error.message}: as the owner of the database, run grant usage, create on schema public to the user of DATABASE_URL; and let it own the tables, or run postern migrate with their owner's DATABASE_URL`
    : error.message;
}

/** `insufficient_privilege`, or no schema that the role may use. Since PostgreSQL 15, only the owner of a database may create tables in `public`. */
function isPermissionDenied(error: Error): boolean {
  return "errno" in error && (error.errno === "42501" || error.errno === "3F000");
}
