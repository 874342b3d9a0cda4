// `postern admin verify-ledger`: recomputes every balance, while the gateway runs.

import { idTime } from "../../base/id.ts";
import { pluralize } from "../../base/text/format.ts";
import { textPage } from "../../base/text/text-page.ts";
import type { Config } from "../../config/config.ts";
import { createAlertChannels } from "../../server/operator-alerts.ts";
import type { Db } from "../../store/db.ts";
import { readPosition } from "../../verification/checkpoint.ts";
import { findChargeDifferences, rebuildChargeHours } from "../../verification/verify-charges.ts";
import { findRollupDifferences, rebuildWrongRollups } from "../../verification/verify-rollups.ts";
import { type Verification, verifyFromCheckpoint } from "../../verification/verify.ts";
import { booleanFlag, type CliEnv, type Command, EXIT_FAILURE } from "../command.ts";
import { startProgress } from "../progress.ts";
import { errorMessage, withStore } from "../with-store.ts";
import { HTML_FLAG, JSON_FLAG } from "./admin-flags.ts";

export const verifyLedgerCommand: Command = {
  summary: "Recompute every balance from the transfers and print differences",
  details:
    "Reads a consistent snapshot while the gateway runs. Calls that an earlier run has verified are checked by their sums;\n--full reads every call. Exit code 1 if there is a difference.",
  positionals: [],
  flags: {
    full: booleanFlag("Read every call, also those that an earlier run has verified."),
    "rebuild-sums": booleanFlag(
      "First recompute the report's hourly sums from the transfers, and usage summaries that are wrong from the usage records. Calls wait while it runs.",
    ),
    json: JSON_FLAG,
    html: HTML_FLAG,
    alert: booleanFlag("Send a difference to the operator's alert channels."),
  },
  run: (args, cli) =>
    withStore(cli, async (db, config) => {
      if (args.has("rebuild-sums")) {
        const hours = await db.write(rebuildChargeHours);
        const progress = startProgress(cli, {
          unit: "accounts",
          verb: "recomputed",
          whenInterrupted: "Run the same command again: it recomputes those that are still wrong.",
        });
        const accounts = await rebuildWrongRollups(db, progress.update);
        progress.end(accounts);
        (args.has("json") ? cli.printError : cli.print)(
          `Recomputed the charges of ${pluralize(hours, "hour")} and the usage summaries of ${pluralize(accounts, "account")}.`,
        );
      }
      const form = args.has("html") ? "html" : args.has("json") ? "json" : "text";
      const result = await verify(db, { isFull: args.has("full"), form }, cli);
      if (result !== 0 && args.has("alert")) await alertLedgerProblem(config, cli);
      return result;
    }),
};

async function alertLedgerProblem(config: Config, cli: CliEnv): Promise<void> {
  const channels = createAlertChannels(config);
  if (channels.length === 0)
    cli.printError("No alert was sent: set POSTERN_ALERT_WEBHOOK_URL or POSTERN_ALERT_EMAIL.");
  const [since, message] = [cli.now(), "postern admin verify-ledger found differences."];
  const alert = { alert: "ledger_problem", status: "problem", message, since, at: since } as const;
  const results = await Promise.allSettled(channels.map((send) => send(alert)));
  for (const result of results)
    if (result.status === "rejected")
      cli.printError(`The alert was not sent: ${errorMessage(result.reason)}`);
}

/** Printed differences of hourly sums. */
const SUM_PROBLEMS_MAX = 20;

async function verify(
  db: Db,
  { isFull, form }: { readonly isFull: boolean; readonly form: "json" | "html" | "text" },
  cli: CliEnv,
): Promise<number> {
  const position = await readPosition(db);
  const progress = startProgress(cli, {
    unit: "checks",
    verb: "ran",
    whenInterrupted:
      "Nothing was changed. Run the command again; without --full it reads only the calls since the last complete verification.",
  });
  const ledger = await verifyFromCheckpoint(db, {
    now: cli.now(),
    isFull,
    onCheck: progress.update,
  });
  // A wrong wallet is reported once, by the ledger.
  const isComparable = isFull || ledger.problemCount === 0;
  const charges = isComparable ? await findChargeDifferences(db, isFull) : [];
  const from = isFull || position === undefined ? undefined : idTime("req", position);
  const rollups = await db.snapshot((reader) => findRollupDifferences(reader, from));
  const sums = [...charges, ...rollups.map(({ problem }) => problem)];
  progress.end();
  const { checked } = ledger;
  const problems = [...ledger.problems, ...sums.slice(0, SUM_PROBLEMS_MAX)];
  const problemCount = ledger.problemCount + sums.length;
  if (form === "json") {
    cli.print(
      JSON.stringify({ checked: checkedJson(checked), problem_count: problemCount, problems }),
    );
    return problemCount === 0 ? 0 : EXIT_FAILURE;
  }
  const summary = `Checked ${checked.wallets} wallets, ${checked.keys} keys, ${checked.holds} open holds, ${checked.transfers} transfers and ${checked.usageRecords} usage records.`;
  if (form === "html") {
    const found = problemCount === 0 ? "No differences." : `Differences: ${problemCount}`;
    const text = [summary, found, ...problems].join("\n");
    cli.print(textPage("Verification of the ledger", text, cli.now()));
    return problemCount === 0 ? 0 : EXIT_FAILURE;
  }
  cli.print(summary);
  if (problemCount === 0) {
    cli.print("No differences.");
    return 0;
  }
  const shown = problems.length === problemCount ? "" : `; the first ${problems.length} of them`;
  cli.printError(
    [
      `${problemCount} ${problemCount === 1 ? "difference" : "differences"}${shown}:`,
      ...problems.map((problem) => `  ${problem}`),
    ].join("\n"),
  );
  if (sums.length > 0)
    cli.printError(
      "Differences of hourly charges and usage summaries concern reports, and no balance. postern admin verify-ledger --rebuild-sums recomputes them.",
    );
  return EXIT_FAILURE;
}

function checkedJson({ usageRecords, ...checked }: Verification["checked"]) {
  return { ...checked, usage_records: usageRecords };
}
