// `postern admin` commands: grant, revoke-key, verify-ledger, backup. They work while a gateway uses the same store.

import { existsSync } from "node:fs";
import path from "node:path";
import { nanoFromUsd, usdText } from "../../base/money.ts";
import { onKeyRevokedByOperator } from "../../events/producers.ts";
import { lockKey, revokeKey } from "../../keys/keys.ts";
import { findBalanceDifferences } from "../../operator/report/balance-differences.ts";
import { findChargeDifferences, rebuildChargeHours } from "../../usage/rollup/verify-charges.ts";
import { verifyFromCheckpoint } from "../../ledger/verify/verify.ts";
import { grantCredit } from "../../operator/accounts/account-actions.ts";
import { type Db, text } from "../../store/db.ts";
import { readAction, ID_FLAG, operationId, REASON_FLAG } from "./admin-flags.ts";
import {
  type Command,
  EXIT_FAILURE,
  EXIT_USAGE,
  type ParsedArgs,
  type CliEnv,
} from "../command.ts";
import { errorMessage, withStore } from "../with-store.ts";
import type { Config } from "../../config/config.ts";
import { createAlertChannels } from "../../server/operator-alerts.ts";
import { rotateSecretCommand } from "./rotate-secret.ts";

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
  "admin verify-ledger": {
    summary: "Recompute every balance from the transfers and print differences",
    details:
      "Reads a consistent snapshot while the gateway runs. Calls that an earlier run has verified are checked by their sums; --full reads every call. Exit code 1 if there is a difference.",
    positionals: [],
    flags: {
      full: {
        type: "boolean",
        description: "Read every call, also those that an earlier run has verified.",
      },
      "rebuild-sums": {
        type: "boolean",
        description:
          "First recompute the report's hourly sums from the transfers. Calls wait while it runs.",
      },
      alert: {
        type: "boolean",
        description: "Send a difference to the operator's alert channels.",
      },
    },
    run: (args, cli) =>
      withStore(cli, async (db, config) => {
        if (args.has("rebuild-sums")) {
          const hours = await db.write(rebuildChargeHours);
          cli.print(`Recomputed the charges of ${hours} hours.`);
        }
        const result = await verifyLedgerCommand(db, args.has("full"), cli);
        if (result !== 0 && args.has("alert")) await alertLedgerProblem(config, cli);
        return result;
      }),
  },
  "admin backup": {
    summary: "Back up the SQLite store to a new file while it is in use",
    positionals: ["file"],
    flags: {},
    run: (args, cli) => withStore(cli, (db) => backupCommand(db, args, cli)),
  },
  "admin rotate-secret": rotateSecretCommand,
};

async function grantCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [accountId = "", usd = ""] = args.positionals;
  const amount = nanoFromUsd(usd);
  if (amount === undefined || amount <= 0n) {
    cli.printError(`"${usd}" must be an amount of US dollars above zero, such as 5 or 2.50.`);
    return EXIT_USAGE;
  }
  const act = { ...readAction(args, cli), accountId, amount, id: operationId(args, cli) };
  const { isChanged, after } = await db.write((tx) => grantCredit(tx, act));
  const balance = `Its balance is ${usdText(after.promo + after.paid)} USD.`;
  cli.print(
    isChanged
      ? `Granted ${usdText(amount)} USD to ${accountId}. ${balance}`
      : `This grant was already made; nothing changed. ${balance}`,
  );
  return 0;
}

async function revokeKeyCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [keyId = ""] = args.positionals;
  const row = await db.get("select account_id from api_key where id = ?", [keyId]);
  if (row === undefined) {
    cli.printError(
      `Key ${keyId} not found. postern admin show <account> lists the keys of an account.`,
    );
    return EXIT_FAILURE;
  }
  const accountId = text(row, "account_id");
  const now = cli.now();
  const key = await db.write(async (tx) => {
    const before = await lockKey(tx, accountId, keyId, now);
    const revoked = await revokeKey(tx, accountId, keyId, now);
    if (before.revokedAt === null) await onKeyRevokedByOperator(tx, revoked, now);
    return revoked;
  });
  cli.print(`Revoked ${key.id} of ${key.accountId}.`);
  return 0;
}

async function backupCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [file = ""] = args.positionals;
  if (existsSync(file)) {
    cli.printError(`${file} already exists; a backup does not overwrite files.`);
    return EXIT_FAILURE;
  }
  if (file === "" || !existsSync(path.dirname(file))) {
    cli.printError(
      `"${file}" cannot be created: name a new file in an existing folder, such as /backups/postern.db.`,
    );
    return EXIT_FAILURE;
  }
  await db.backup(file);
  cli.print(
    `Backed up the store to ${file}. Protect it like the store; it does not contain the master secret.`,
  );
  return 0;
}

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

async function verifyLedgerCommand(db: Db, isFull: boolean, cli: CliEnv): Promise<number> {
  const ledger = await verifyFromCheckpoint(db, { now: cli.now(), isFull });
  // A wrong wallet is reported once, by the ledger.
  const isComparable = isFull || ledger.problemCount === 0;
  const compare = isFull ? findChargeDifferences : findBalanceDifferences;
  const sums = isComparable ? await db.snapshot(compare) : [];
  const { checked } = ledger;
  const problems = [...ledger.problems, ...sums.slice(0, SUM_PROBLEMS_MAX)];
  const problemCount = ledger.problemCount + sums.length;
  cli.print(
    `Checked ${checked.wallets} wallets, ${checked.keys} keys, ${checked.holds} open holds, ${checked.transfers} transfers and ${checked.usageRecords} usage records.`,
  );
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
      "Differences of hourly charges concern the report only. postern admin verify-ledger --rebuild-sums recomputes them.",
    );
  return EXIT_FAILURE;
}
