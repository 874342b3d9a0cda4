// For commands that work on the store: settings first, then the store, which is closed whatever happens.

import { existsSync } from "node:fs";
import path from "node:path";
import { Fault } from "../base/fault.ts";
import type { Config } from "../config/config.ts";
import { openStore } from "../store/open.ts";
import type { Db } from "../store/db.ts";
import { missingMigrations } from "../store/migrate.ts";
import { EXIT_FAILURE, EXIT_USAGE, type CliEnv } from "./command.ts";

/** Runs the work with settings that are in order; tells every mistake in them otherwise. */
export async function withConfig(
  cli: CliEnv,
  run: (config: Config) => Promise<number>,
): Promise<number> {
  const result = cli.readConfig();
  if (result.ok) return await run(result.config);
  cli.printError(describeConfigErrors(result.errors));
  return EXIT_USAGE;
}

/** Runs the work on the store beside a server that may be running on it. */
export function withStore(
  cli: CliEnv,
  run: (db: Db, config: Config) => Promise<number>,
): Promise<number> {
  return withConfig(cli, async (config) => {
    const { databaseUrl, dataDir } = config.store;
    if (databaseUrl === undefined && !existsSync(path.join(dataDir, "postern.db"))) {
      cli.printError(
        `There is no store in ${path.resolve(dataDir)}: set POSTERN_DATA_DIR to the gateway's data folder. A new store is made by postern migrate, or by the gateway's first start.`,
      );
      return EXIT_FAILURE;
    }
    const db = await openStore(config.store, false);
    try {
      const missing = await missingMigrations(db);
      if (missing.length === 0) return await run(db, config);
      cli.printError(
        `The store lacks the migrations ${missing.join(", ")}. Run postern migrate first.`,
      );
      return EXIT_FAILURE;
    } finally {
      await db.close();
    }
  });
}

function describeConfigErrors(errors: readonly string[]): string {
  const head =
    errors.length === 1
      ? "The settings have a mistake:"
      : `The settings have ${errors.length} mistakes:`;
  return [head, ...errors.map((error) => `  ${error}`)].join("\n");
}

/** An error as one line for whoever runs the command. */
export function errorMessage(error: unknown): string {
  if (error instanceof Fault) return error.publicMessage;
  return error instanceof Error ? error.message : String(error);
}
