// `postern admin …` about accounts: finding and showing them, correcting balances, freezing and unfreezing.

import { usdText } from "../../base/money.ts";
import { PAGE_LIMIT_MAX } from "../../base/pagination.ts";
import { handleBalanceThresholds } from "../../billing/event-handlers.ts";
import { readAccountDetails } from "../../operator/accounts/account-details.ts";
import {
  accountJson,
  accountText,
  accountSummaryJson,
  accountListText,
} from "../../operator/accounts/account-output.ts";
import { ACCOUNT_STATES, listAccounts } from "../../operator/accounts/account-list.ts";
import {
  adjustBalance,
  type ChangeResult,
  freezeAccount,
  parseUsd,
  unfreezeAccount,
} from "../../operator/accounts/account-actions.ts";
import type { Db } from "../../store/db.ts";
import { readAction, ID_FLAG, operationId, JSON_FLAG, REASON_FLAG } from "./admin-flags.ts";
import { type Command, EXIT_USAGE, type ParsedArgs, type CliEnv } from "../command.ts";
import { withStore } from "../with-store.ts";

const ACCOUNT_ID = /^acct_[0-9a-z]{26}$/;
const BUCKETS = ["promo", "paid"] as const;

export const adminAccountCommands: Readonly<Record<string, Command>> = {
  "admin list": {
    summary: "List accounts, the newest first",
    details:
      "A search is the beginning of an account's or a key's id, an invoice's id, or a member's email address.\nA state is active, frozen (by an operator) or owing (after a dispute).",
    positionals: [],
    flags: {
      search: {
        type: "string",
        placeholder: "<text>",
        description: "Only accounts that this names.",
      },
      state: {
        type: "string",
        placeholder: "<state>",
        description: "Only accounts in this state.",
      },
      limit: {
        type: "string",
        placeholder: "<n>",
        description: "So many at most; 20 unless told, 100 at most.",
      },
      cursor: {
        type: "string",
        placeholder: "<id>",
        description: "Only accounts older than this one.",
      },
      json: JSON_FLAG,
    },
    run: (args, cli) => withStore(cli, (db) => listCommand(db, args, cli)),
  },
  "admin show": {
    summary: "Show an account: balance, state, keys, members, payments, movements",
    positionals: ["account"],
    flags: { json: JSON_FLAG },
    run: (args, cli) => withStore(cli, (db) => showCommand(db, args, cli)),
  },
  "admin adjust": {
    summary: "Correct an account's balance, upwards or downwards (-2.50)",
    details:
      "Upwards it goes to paid credit, after what the account owes; downwards it is taken from promotional credit first, and\nnever more than is there and not held by open calls. --bucket promo or paid touches that bucket alone. With the same\n--id it is done once, however often the command is repeated.",
    positionals: ["account", "usd"],
    flags: {
      reason: REASON_FLAG,
      bucket: {
        type: "string",
        placeholder: "<bucket>",
        description: "promo or paid, instead of the rule.",
      },
      id: ID_FLAG,
    },
    run: (args, cli) => withStore(cli, (db) => adjustCommand(db, args, cli)),
  },
  "admin freeze": {
    summary: "Stop an account from making calls",
    details:
      "Calls that run go on, and everything can still be read. Provider keys of its own do not help it.",
    positionals: ["account"],
    flags: { reason: REASON_FLAG },
    run: (args, cli) => withStore(cli, (db) => freezeCommand(db, args, cli)),
  },
  "admin unfreeze": {
    summary: "Let an account make calls again",
    details: "What it owes after a dispute freezes it still: postern admin write-off bears that.",
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
          ? "--cursor must be an account's id, as the end of the list before names it."
          : undefined;
  if (usageMessage !== undefined) {
    cli.printError(usageMessage);
    return EXIT_USAGE;
  }
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
  if (bucketText !== undefined && bucket === undefined) {
    cli.printError("--bucket must be promo or paid.");
    return EXIT_USAGE;
  }
  const amount = parseUsd(usd);
  const id = operationId(args, cli);
  const act = {
    ...readAction(args, cli),
    accountId,
    amount,
    bucket,
    id,
    onBalanceThresholds: handleBalanceThresholds,
  };
  const done = await db.write((tx) => adjustBalance(tx, act));
  cli.print(
    done.isChanged
      ? `${accountId} was adjusted by ${usdText(amount)} USD. ${balanceText(done)}`
      : `That adjustment had already been made; nothing was changed. ${balanceText(done)}`,
  );
  return 0;
}

function balanceText({ after }: ChangeResult): string {
  const owed = after.owed === 0n ? "" : `, and it owes ${usdText(after.owed)} USD`;
  return `Its balance is ${usdText(after.promo + after.paid)} USD (promotional ${usdText(after.promo)}, paid ${usdText(after.paid)})${owed}.`;
}

async function freezeCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [accountId = ""] = args.positionals;
  const { isChanged } = await db.write((tx) =>
    freezeAccount(tx, { ...readAction(args, cli), accountId }),
  );
  cli.print(
    isChanged
      ? `${accountId} is frozen: it makes no calls until postern admin unfreeze.`
      : `${accountId} is frozen already; nothing was changed.`,
  );
  return 0;
}

async function unfreezeCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [accountId = ""] = args.positionals;
  const { isChanged, after } = await db.write((tx) =>
    unfreezeAccount(tx, { ...readAction(args, cli), accountId }),
  );
  const debt =
    after.owed === 0n ? "" : ` It owes ${usdText(after.owed)} USD, which freezes it still.`;
  cli.print(
    isChanged
      ? `${accountId} is not frozen by an operator any more.${debt}`
      : `No operator has frozen ${accountId}; nothing was changed.${debt}`,
  );
  return 0;
}
