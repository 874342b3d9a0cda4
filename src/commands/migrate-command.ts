// `postern migrate`: applies migrations. `serve` does the same at start.

import { migrate } from "../store/migrate.ts";
import { openStore } from "../store/open.ts";
import type { Command } from "./command.ts";
import { withConfig } from "./with-store.ts";

export const migrateStore: Command = {
  summary: "Apply migrations to the store, as serve does at start",
  details: "Forward only. Safe to repeat and to run on several machines at once.",
  positionals: [],
  flags: {},
  run: (_line, cli) =>
    withConfig(cli, async (config) => {
      const db = await openStore(config.store, false);
      try {
        const applied = await migrate(db, cli.now());
        cli.print(
          applied.length === 0
            ? "The store is up to date."
            : `Applied ${applied.join(", ")}. The store is up to date.`,
        );
        return 0;
      } finally {
        await db.close();
      }
    }),
};
