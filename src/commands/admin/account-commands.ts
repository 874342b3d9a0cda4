// `postern admin` commands on accounts: list, show, adjust, freeze, unfreeze.

import { PAGE_LIMIT_MAX } from "../../base/pagination.ts";
import { formatUsdExact } from "../../base/text/format.ts";
import {
  adjustBalance,
  type ChangeResult,
  freezeAccount,
  parseUsd,
  unfreezeAccount,
} from "../../operator/accounts/account-actions.ts";
import { readAccountDetails } from "../../operator/accounts/account-details.ts";
import { ACCOUNT_STATES, listAccounts } from "../../operator/accounts/account-list.ts";
import {
  accountJson,
  accountText,
  accountSummaryJson,
  accountListText,
} from "../../operator/accounts/account-output.ts";
import type { Db } from "../../store/db.ts";
import { type CliEnv, type Command, type ParsedArgs, stringFlag, usageFault } from "../command.ts";
import { withStore } from "../with-store.ts";
import { readAction, ID_FLAG, operationId, JSON_FLAG, REASON_FLAG } from "./admin-flags.ts";

const ACCOUNT_ID = /^acct_[0-9a-z]{26}$/;
const BUCKETS = ["promo", "paid"] as const;

export const adminAccountCommands: Readonly<Record<string, Command>> = {
  "admin list": {
    summary: "List accounts, newest first",
    details:
      "--search takes the beginning of an account or key ID, an invoice ID, or a member's email address.\nAmounts are US dollars. States: active, frozen (by an operator), owing (a debt).",
    positionals: [],
    flags: {
      search: stringFlag("<text>", "Only accounts that match."),
      state: stringFlag("<state>", "Only accounts in this state."),
      limit: stringFlag("<n>", "The number of accounts, from 1 to 100. Default 20."),
      cursor: stringFlag("<id>", "Only accounts older than this one."),
      json: JSON_FLAG,
    },
    run: (args, cli) => withStore(cli, (db) => listCommand(db, args, cli)),
  },
  "admin show": {
    summary: "Show an account: balance, state, keys, members, payments, transfers",
    positionals: ["account"],
    flags: { json: JSON_FLAG },
    run: (args, cli) => withStore(cli, (db) => showCommand(db, args, cli)),
  },
  "admin adjust": {
    summary: "Adjust a balance, up or down (-2.50)",
    details:
      "A positive amount first pays what the account owes, then adds paid credit. A negative amount is taken from promotional\ncredit first; credit that calls in flight hold cannot be taken. --bucket promo or paid adjusts only that bucket.\nRepeating the command with the same --id adjusts once.",
    positionals: ["account", "usd"],
    flags: {
      reason: REASON_FLAG,
      bucket: stringFlag("<bucket>", "promo or paid, instead of the default order."),
      id: ID_FLAG,
    },
    run: (args, cli) => withStore(cli, (db) => adjustCommand(db, args, cli)),
  },
  "admin freeze": {
    summary: "Freeze an account: it can make no calls",
    details:
      "Calls in flight finish, and everything can still be read. Calls on its own provider keys are refused too.",
    positionals: ["account"],
    flags: { reason: REASON_FLAG },
    run: (args, cli) => withStore(cli, (db) => freezeCommand(db, args, cli)),
  },
  "admin unfreeze": {
    summary: "Unfreeze an account",
    details: "A debt still blocks calls that cost credits; postern admin write-off ends it.",
    positionals: ["account"],
    flags: { reason: REASON_FLAG },
    run: (args, cli) => withStore(cli, (db) => unfreezeCommand(db, args, cli)),
  },
};

async function listCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const limitText = args.value("limit") ?? "20";
  const limit = /^\d{1,3}$/.test(limitText) ? Number(limitText) : 0;
  const cursor = args.value("cursor");
  const stateText = args.value("state");
  const state = ACCOUNT_STATES.find((one) => one === stateText);
  const usageMessage =
    limit < 1 || limit > PAGE_LIMIT_MAX
      ? `--limit must be from 1 to ${PAGE_LIMIT_MAX}.`
      : stateText !== undefined && state === undefined
        ? `--state must be one of ${ACCOUNT_STATES.join(", ")}.`
        : cursor !== undefined && !ACCOUNT_ID.test(cursor)
          ? "--cursor must be an account ID, as printed at the end of the previous page."
          : undefined;
  if (usageMessage !== undefined) throw usageFault(usageMessage);
  const filter = { search: args.value("search"), state };
  const page = await listAccounts(db, filter, { limit, cursor }, cli.now());
  cli.print(
    args.has("json")
      ? JSON.stringify({ ...page, data: page.data.map(accountSummaryJson) }, null, 2)
      : accountListText(page),
  );
  return 0;
}

async function showCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [accountId = ""] = args.positionals;
  const now = cli.now();
  const file = await readAccountDetails(db, accountId, now);
  cli.print(
    args.has("json") ? JSON.stringify(accountJson(file, now), null, 2) : accountText(file, now),
  );
  return 0;
}

async function adjustCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [accountId = "", usd = ""] = args.positionals;
  const bucketText = args.value("bucket");
  const bucket = BUCKETS.find((one) => one === bucketText);
  if (bucketText !== undefined && bucket === undefined)
    throw usageFault("--bucket must be promo or paid.");
  const amount = parseUsd(usd);
  const id = operationId(args, cli);
  const act = { ...readAction(args, cli), accountId, amount, bucket, id };
  const done = await db.write((tx) => adjustBalance(tx, act));
  cli.print(
    done.isChanged
      ? `Adjusted ${accountId} by ${formatUsdExact(amount)}. ${balanceText(done)}`
      : `This adjustment was already made; nothing changed. ${balanceText(done)}`,
  );
  return 0;
}

function balanceText({ after }: ChangeResult): string {
  const owed = after.owed === 0n ? "" : `, and it owes ${formatUsdExact(after.owed)}`;
  return `Its balance is ${formatUsdExact(after.promo + after.paid)} (promotional ${formatUsdExact(after.promo)}, paid ${formatUsdExact(after.paid)})${owed}.`;
}

async function freezeCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [accountId = ""] = args.positionals;
  const { isChanged } = await db.write((tx) =>
    freezeAccount(tx, { ...readAction(args, cli), accountId }),
  );
  cli.print(
    isChanged
      ? `Froze ${accountId}. It can make no calls until postern admin unfreeze.`
      : `${accountId} is already frozen; nothing changed.`,
  );
  return 0;
}

async function unfreezeCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [accountId = ""] = args.positionals;
  const { isChanged, after } = await db.write((tx) =>
    unfreezeAccount(tx, { ...readAction(args, cli), accountId }),
  );
  const debt =
    after.owed === 0n ? "" : ` It still owes ${formatUsdExact(after.owed)}, which keeps it frozen.`;
  cli.print(
    isChanged
      ? `Unfroze ${accountId}.${debt}`
      : `${accountId} is not frozen by an operator; nothing changed.${debt}`,
  );
  return 0;
}
