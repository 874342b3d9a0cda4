// `postern migrate`: brings the store to this version's schema. `serve` does the same when it starts.

import { openStore } from "../store/open.ts";
import { migrate } from "../store/migrate.ts";
import type { Command } from "./command.ts";
import { withConfig } from "./with-store.ts";

export const migrateStore: Command = {
  summary: "Bring the store to this version's schema, as serve does when it starts",
  details: "Forward only, and safe to repeat or to run on several machines at once.",
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
