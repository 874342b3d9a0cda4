// For commands that work on the store: settings first, then the store, which is closed whatever happens.

import { existsSync } from "node:fs";
import path from "node:path";
import { Fault } from "../base/fault.ts";
import type { Config } from "../config.ts";
import { openStore } from "../store/open.ts";
import type { Db } from "../store/db.ts";
import { missingMigrations } from "../store/migrate.ts";
import { EXIT_FAILED, EXIT_MISUSED, type World } from "./command.ts";

/** Runs the work with settings that are in order; tells every mistake in them otherwise. */
export async function withSettings(
  world: World,
  work: (config: Config) => Promise<number>,
): Promise<number> {
  const settings = world.readSettings();
  if (settings.ok) return await work(settings.config);
  world.complain(describeMistakes(settings.mistakes));
  return EXIT_MISUSED;
}

/** Runs the work on the store beside a server that may be running on it. */
export function withStore(
  world: World,
  work: (db: Db, config: Config) => Promise<number>,
): Promise<number> {
  return withSettings(world, async (config) => {
    const { databaseUrl, dataDir } = config.store;
    if (databaseUrl === undefined && !existsSync(path.join(dataDir, "postern.db"))) {
      world.complain(
        `There is no store in ${path.resolve(dataDir)}: set POSTERN_DATA_DIR to the gateway's data folder. A new store is made by postern migrate, or by the gateway's first start.`,
      );
      return EXIT_FAILED;
    }
    const db = await openStore(config.store, false);
    try {
      const missing = await missingMigrations(db);
      if (missing.length === 0) return await work(db, config);
      world.complain(
        `The store lacks the migrations ${missing.join(", ")}. Run postern migrate first.`,
      );
      return EXIT_FAILED;
    } finally {
      await db.close();
    }
  });
}

function describeMistakes(mistakes: readonly string[]): string {
  const head =
    mistakes.length === 1
      ? "The settings have a mistake:"
      : `The settings have ${mistakes.length} mistakes:`;
  return [head, ...mistakes.map((mistake) => `  ${mistake}`)].join("\n");
}

/** An error as one line for whoever runs the command. */
export function describeFailure(error: unknown): string {
  if (error instanceof Fault) return error.publicMessage;
  return error instanceof Error ? error.message : String(error);
}
