// `postern admin report`: income, costs and liabilities of a period, from the ledger and the usage records.

import { textPage } from "../../base/text/text-page.ts";
import { reportJson, reportText } from "../../operator/report/report-output.ts";
import type { Db } from "../../store/db.ts";
import { parsePeriod } from "../../verification/report-period.ts";
import { readReport } from "../../verification/report.ts";
import { readTransferSums } from "../../verification/transfer-sums.ts";
import { type CliEnv, type Command, type ParsedArgs, stringFlag } from "../command.ts";
import { startProgress } from "../progress.ts";
import { withStore } from "../with-store.ts";
import { HTML_FLAG, JSON_FLAG } from "./admin-flags.ts";

export const adminReportCommands: Readonly<Record<string, Command>> = {
  "admin report": {
    summary: "Report grants, purchases, fees, refunds, losses, liabilities and cost per provider",
    details:
      "Default: the current UTC month until now. Days are UTC: --from 2027-01-01 --to 2027-02-01 is January. Reads a consistent\nsnapshot while the gateway runs.",
    positionals: [],
    flags: {
      from: stringFlag("<day>", "The first day, or a full hour."),
      to: stringFlag("<day>", "The day or full hour before which the period ends."),
      json: JSON_FLAG,
      html: HTML_FLAG,
    },
    run: (args, cli) => withStore(cli, (db) => reportCommand(db, args, cli)),
  },
};

async function reportCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const period = parsePeriod({ from: args.value("from"), to: args.value("to") }, cli.now());
  const progress = startProgress(cli, {
    unit: "statements",
    verb: "ran",
    whenInterrupted: "Nothing was changed. Run the command again.",
  });
  const report = await db.snapshot(async (reader) =>
    readReport(reader, period, await readTransferSums(reader, progress.update)),
  );
  progress.end();
  if (args.has("html")) cli.print(textPage("Postern report", reportText(report), cli.now()));
  else
    cli.print(args.has("json") ? JSON.stringify(reportJson(report), null, 2) : reportText(report));
  return 0;
}
