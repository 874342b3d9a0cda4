// `postern admin publish-ledger`: publishes the roots of the days that are due, as the gateway does every day.

import { loadMasterSecret } from "../../config/master-secret.ts";
import { publishDueDays } from "../../ledger-proofs/publish-day.ts";
import type { Command } from "../command.ts";
import { withStore } from "../with-store.ts";

export const publishLedgerCommand: Command = {
  summary: "Publish the roots of the ledger that are due",
  details:
    "The gateway runs it every day at 01:30 UTC, unless POSTERN_LEDGER_PROOFS is off. It can run at any time: each day is published once.",
  positionals: [],
  flags: {},
  run: (_args, cli) =>
    withStore(cli, async (db, config) => {
      const master = loadMasterSecret(config, config.store.dataDir);
      const days = await publishDueDays({ db, master, baseUrl: config.baseUrl }, cli.now());
      cli.print(days.length === 0 ? "No day is due." : `Published ${days.join(", ")}.`);
      return 0;
    }),
};
