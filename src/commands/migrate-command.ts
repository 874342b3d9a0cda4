// `postern migrate`: applies migrations. `serve` does the same at start.

import { upgradeStore } from "../server/upgrade-store.ts";
import { booleanFlag, type Command } from "./command.ts";
import { startProgress } from "./progress.ts";
import { withConfig } from "./with-store.ts";

export const migrateStore: Command = {
  summary: "Apply migrations to the store, as serve does at start",
  details:
    "Forward only, and safe to repeat. It refuses while a gateway of an older version uses the store. A SQLite store is first\nbacked up in the data folder; back up PostgreSQL yourself.",
  positionals: [],
  flags: {
    force: booleanFlag("Migrate although gateways of an older version run."),
  },
  run: (args, cli) =>
    withConfig(cli, async (config) => {
      const progress = startProgress(cli, {
        unit: "migrations",
        verb: "applied",
        whenInterrupted: "Run the command again: it applies the rest.",
      });
      let count = 0;
      const applied = await upgradeStore(config.store, {
        now: cli.now,
        isForced: args.has("force"),
        onBackup: (file) => cli.print(`Backed up the store to ${file}.`),
        onApplied: (name, ms) => {
          cli.print(`Applied ${name} in ${ms} ms.`);
          progress.update((count += 1));
        },
      });
      if (applied.length > 0) progress.end(applied.length);
      cli.print(applied.length === 0 ? "The store is up to date." : "The store is now up to date.");
      return 0;
    }),
};
