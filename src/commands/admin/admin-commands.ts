// `postern admin` commands: grant, revoke-key, backup. They work while a gateway uses the same store.

import { existsSync, statSync } from "node:fs";
import path from "node:path";
import { nanoFromUsd } from "../../base/money/money.ts";
import { formatUsdExact } from "../../base/text/format.ts";
import { loadMasterSecret } from "../../config/master-secret.ts";
import { revokeKey } from "../../keys/keys.ts";
import { publishDueDays } from "../../ledger-proofs/publish-day.ts";
import { grantCredit } from "../../operator/accounts/account-actions.ts";
import { type Db, text } from "../../store/db.ts";
import { type CliEnv, type Command, type ParsedArgs, usageFault } from "../command.ts";
import { startProgress } from "../progress.ts";
import { withStore } from "../with-store.ts";
import { ID_FLAG, operationId, readAction, REASON_FLAG } from "./admin-flags.ts";
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
