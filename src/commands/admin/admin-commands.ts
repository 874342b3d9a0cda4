// `postern admin …`: what an operator does by hand, beside a gateway that may be running on the same store.

import { existsSync } from "node:fs";
import path from "node:path";
import { nanoFromUsd, usdText } from "../../base/money.ts";
import { onKeyRevokedByOperator } from "../../events/producers.ts";
import { lockKey, revokeKey } from "../../keys/keys.ts";
import { verifyLedger } from "../../ledger/verify.ts";
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
import { withStore } from "../with-store.ts";

export const adminCommands: Readonly<Record<string, Command>> = {
  "admin grant": {
    summary: "Give an account promotional credit",
    details:
      "The credit is spent before bought credit and is not refundable. With the same --id the grant is made once,\nhowever often the command is repeated.",
    positionals: ["account", "usd"],
    flags: {
      reason: REASON_FLAG,
      id: ID_FLAG,
    },
    run: (args, cli) => withStore(cli, (db) => grantCommand(db, args, cli)),
  },
  "admin revoke-key": {
    summary: "Revoke a key for good, on every process at once",
    positionals: ["key"],
    flags: {},
    run: (args, cli) => withStore(cli, (db) => revokeKeyCommand(db, args, cli)),
  },
  "admin verify-ledger": {
    summary: "Derive every balance from the transfers again, and print what does not add up",
    details:
      "Reads one moment's state, beside a running gateway. Exit code 1 where something does not add up.",
    positionals: [],
    flags: {},
    run: (_line, cli) => withStore(cli, (db) => verifyLedgerCommand(db, cli)),
  },
  "admin backup": {
    summary: "Copy the SQLite store to a new file while it is in use",
    positionals: ["file"],
    flags: {},
    run: (args, cli) => withStore(cli, (db) => backupCommand(db, args, cli)),
  },
};

async function grantCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [accountId = "", usd = ""] = args.positionals;
  const amount = nanoFromUsd(usd);
  if (amount === undefined || amount <= 0n) {
    cli.printError(`"${usd}" is not an amount of US dollars above zero, such as 5 or 2.50.`);
    return EXIT_USAGE;
  }
  const act = { ...readAction(args, cli), accountId, amount, id: operationId(args, cli) };
  const { isChanged, after } = await db.write((tx) => grantCredit(tx, act));
  const balance = `Its balance is ${usdText(after.promo + after.paid)} USD.`;
  cli.print(
    isChanged
      ? `${accountId} was granted ${usdText(amount)} USD. ${balance}`
      : `That grant had already been made; nothing was changed. ${balance}`,
  );
  return 0;
}

async function revokeKeyCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [keyId = ""] = args.positionals;
  const row = await db.get("select account_id from api_key where id = ?", [keyId]);
  if (row === undefined) {
    cli.printError(
      `There is no key ${keyId}. postern admin show <account> lists an account's keys.`,
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
  cli.print(`${key.id} of ${key.accountId} is revoked.`);
  return 0;
}

async function backupCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [file = ""] = args.positionals;
  if (existsSync(file)) {
    cli.printError(`${file} is there already; a backup never overwrites one.`);
    return EXIT_FAILURE;
  }
  if (file === "" || !existsSync(path.dirname(file))) {
    cli.printError(
      `"${file}" cannot be made: name a new file in a folder that is there, such as /backups/postern.db.`,
    );
    return EXIT_FAILURE;
  }
  await db.backup(file);
  cli.print(
    `The store was copied to ${file}. Keep it as secret as the store; the master secret is not in it.`,
  );
  return 0;
}

async function verifyLedgerCommand(db: Db, cli: CliEnv): Promise<number> {
  const { checked, problems, problemCount } = await verifyLedger(db);
  cli.print(
    `Checked ${checked.wallets} wallets, ${checked.keys} keys, ${checked.holds} open holds, ${checked.transfers} transfers and ${checked.usageRecords} usage records.`,
  );
  if (problemCount === 0) {
    cli.print("Everything adds up.");
    return 0;
  }
  const shown = problems.length === problemCount ? "" : `; the first ${problems.length}`;
  cli.printError(
    [
      `${problemCount} ${problemCount === 1 ? "thing does" : "things do"} not add up${shown}:`,
      ...problems.map((problem) => `  ${problem}`),
    ].join("\n"),
  );
  return EXIT_FAILURE;
}
