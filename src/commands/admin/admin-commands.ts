// `postern admin` commands: grant, revoke-key, backup. They work while a gateway uses the same store.

import { existsSync, statSync } from "node:fs";
import path from "node:path";
import { invalid } from "../../base/fault.ts";
import { nanoFromUsd } from "../../base/money/money.ts";
import { formatUsdExact } from "../../base/text/format.ts";
import { textPage } from "../../base/text/text-page.ts";
import type { Config } from "../../config/config.ts";
import { loadMasterSecret } from "../../config/master-secret.ts";
import { revokeKey } from "../../keys/keys.ts";
import { publishDueDays } from "../../ledger-proofs/publish-day.ts";
import { createLiveCatalog, modelsFileAt, readPriceTable } from "../../models/live-catalog.ts";
import { comparePrices, differenceText } from "../../models/price-differences.ts";
import { grantCredit } from "../../operator/accounts/account-actions.ts";
import { reportJson, reportText } from "../../operator/report/report-output.ts";
import { type Db, text } from "../../store/db.ts";
import { parsePeriod } from "../../verification/report-period.ts";
import { readReport } from "../../verification/report.ts";
import { readTransferSums } from "../../verification/transfer-sums.ts";
import { type CliEnv, type Command, type ParsedArgs, stringFlag, usageFault } from "../command.ts";
import { startProgress } from "../progress.ts";
import { withConfig, withStore } from "../with-store.ts";
import {
  HTML_FLAG,
  ID_FLAG,
  JSON_FLAG,
  operationId,
  readAction,
  REASON_FLAG,
} from "./admin-flags.ts";
import { distributeCommand } from "./distribute.ts";
import { rotateSecretCommand, rotateSigningKeyCommand } from "./rotate-secret.ts";
import { verifyLedgerCommand } from "./verify-ledger.ts";

const publishLedgerCommand: Command = {
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

export const adminCommands: Readonly<Record<string, Command>> = {
  "admin grant": {
    summary: "Grant promotional credit to an account",
    details:
      "Promotional credit is spent before paid credit and is not refundable. Repeating the command with the same --id grants\nonce.",
    positionals: ["account", "usd"],
    flags: {
      reason: REASON_FLAG,
      id: ID_FLAG,
    },
    run: (args, cli) => withStore(cli, (db) => grantCommand(db, args, cli)),
  },
  "admin revoke-key": {
    summary: "Revoke a key permanently, on every process",
    positionals: ["key"],
    flags: {},
    run: (args, cli) => withStore(cli, (db) => revokeKeyCommand(db, args, cli)),
  },
  "admin verify-ledger": verifyLedgerCommand,
  "admin backup": {
    summary: "Back up the SQLite store to a new file while it is in use",
    positionals: ["file"],
    flags: {},
    run: (args, cli) => withStore(cli, (db) => backupCommand(db, args, cli)),
  },
  "admin publish-ledger": publishLedgerCommand,
  "admin distribute": distributeCommand,
  "admin rotate-secret": rotateSecretCommand,
  "admin rotate-signing-key": rotateSigningKeyCommand,
};

async function grantCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [accountId = "", usd = ""] = args.positionals;
  const amount = nanoFromUsd(usd);
  if (amount === undefined || amount <= 0n)
    throw usageFault(`"${usd}" must be an amount of US dollars above zero, such as 5 or 2.50.`);
  const act = { ...readAction(args, cli), accountId, amount, id: operationId(args, cli) };
  const { isChanged, after } = await db.write((tx) => grantCredit(tx, act));
  const balance = `Its balance is ${formatUsdExact(after.promo + after.paid)}.`;
  cli.print(
    isChanged
      ? `Granted ${formatUsdExact(amount)} to ${accountId}. ${balance}`
      : `This grant was already made; nothing changed. ${balance}`,
  );
  return 0;
}

async function revokeKeyCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [keyId = ""] = args.positionals;
  const row = await db.get("select account_id from api_key where id = ?", [keyId]);
  if (row === undefined)
    throw new Error(
      `Key ${keyId} not found. postern admin show <account> lists the keys of an account.`,
    );
  const accountId = text(row, "account_id");
  const now = cli.now();
  const actor = { type: "operator", id: "command line" } as const;
  const key = await db.write((tx) =>
    revokeKey(tx, { accountId, actor, network: null, now }, keyId),
  );
  cli.print(`Revoked ${key.id} of ${key.accountId}.`);
  return 0;
}

async function backupCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [file = ""] = args.positionals;
  if (existsSync(file))
    throw new Error(`${file} already exists; a backup does not overwrite files.`);
  if (file === "" || !existsSync(path.dirname(file)))
    throw new Error(
      `"${file}" cannot be created: name a new file in an existing folder, such as /backups/postern.db.`,
    );
  const progress = startProgress(cli, {
    unit: "bytes",
    verb: "copied",
    whenInterrupted: "The incomplete copy is deleted. Run the command again.",
  });
  await db.backup(file, progress.update);
  if (db.kind === "sqlite") progress.end(statSync(file).size);
  cli.print(
    `Backed up the store to ${file}. Protect it like the store; it does not contain the master secret.`,
  );
  return 0;
}

// `postern admin prices`: what a newer price table would change.

export const adminPriceCommands: Readonly<Record<string, Command>> = {
  "admin prices": {
    summary: "Show what a newer price table changes, before it is used",
    details:
      "Compares the file with the table in use: the built-in one, or POSTERN_PRICES_FILE. Changes nothing. To use the file, set\nPOSTERN_PRICES_FILE to its path and restart. Prices of POSTERN_MODELS_FILE stay as they are.",
    positionals: ["file"],
    flags: { json: JSON_FLAG },
    run: (args, cli) => withConfig(cli, (config) => pricesCommand(config, args, cli)),
  },
};

async function pricesCommand(config: Config, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [file = ""] = args.positionals;
  if (!existsSync(file)) throw invalid("file", `The file ${file} does not exist.`);
  const { pricesFile, modelsFile } = config;
  const before = readPriceTable(pricesFile);
  const after = readPriceTable(file);
  // The models file must still be valid with the new table, because `priced_like` names its models.
  createLiveCatalog({
    now: cli.now(),
    prices: after,
    ...(modelsFile === undefined ? {} : { file: modelsFileAt(modelsFile) }),
  });
  const differences = comparePrices(before, after);
  if (args.has("json")) {
    cli.print(
      JSON.stringify({ before: before.checked, after: after.checked, differences }, null, 2),
    );
    return 0;
  }
  cli.print(`In use: checked on ${before.checked}. ${file}: checked on ${after.checked}.`);
  cli.print(differenceText(differences));
  return 0;
}

// `postern admin report`: income, costs and liabilities of a period, from the ledger and the usage records.

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
