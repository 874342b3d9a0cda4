// `postern admin …` about accounts: finding and showing them, correcting balances, freezing and unfreezing.

import { usdText } from "../base/money.ts";
import { PAGE_LIMIT_MAX } from "../base/page.ts";
import { tellOfFalls } from "../cashier.ts";
import { readAccountFile } from "../operator/account.ts";
import { accountJson, accountText, lineJson, linesText } from "../operator/account-text.ts";
import { ACCOUNT_STATES, listAccounts } from "../operator/accounts.ts";
import {
  correctBalance,
  type Done,
  freezeAccount,
  readUsd,
  unfreezeAccount,
} from "../operator/operator.ts";
import type { Db } from "../store/db.ts";
import { actOf, ID, idOf, JSON_FLAG, REASON } from "./admin-act.ts";
import { type Command, EXIT_MISUSED, type Line, type World } from "./command.ts";
import { withStore } from "./with-store.ts";

const ACCOUNT_ID = /^acct_[0-9a-z]{26}$/;
const BUCKETS = ["promo", "paid"] as const;

export const adminAccountCommands: Readonly<Record<string, Command>> = {
  "admin list": {
    summary: "List accounts, the newest first",
    details:
      "A search is the beginning of an account's or a key's id, an invoice's id, or a member's email address.\nA state is active, frozen (by an operator) or owing (after a dispute).",
    positionals: [],
    flags: {
      search: { type: "string", value: "<text>", means: "Only accounts that this names." },
      state: { type: "string", value: "<state>", means: "Only accounts in this state." },
      limit: {
        type: "string",
        value: "<n>",
        means: "So many at most; 20 unless told, 100 at most.",
      },
      cursor: { type: "string", value: "<id>", means: "Only accounts older than this one." },
      json: JSON_FLAG,
    },
    run: (line, world) => withStore(world, (db) => list(db, line, world)),
  },
  "admin show": {
    summary: "Show an account: balance, state, keys, members, payments, movements",
    positionals: ["account"],
    flags: { json: JSON_FLAG },
    run: (line, world) => withStore(world, (db) => show(db, line, world)),
  },
  "admin adjust": {
    summary: "Correct an account's balance, upwards or downwards (-2.50)",
    details:
      "Upwards it goes to paid credit, after what the account owes; downwards it is taken from promotional credit first, and\nnever more than is there and not held by open calls. --bucket promo or paid touches that bucket alone. With the same\n--id it is done once, however often the command is repeated.",
    positionals: ["account", "usd"],
    flags: {
      reason: REASON,
      bucket: { type: "string", value: "<bucket>", means: "promo or paid, instead of the rule." },
      id: ID,
    },
    run: (line, world) => withStore(world, (db) => correct(db, line, world)),
  },
  "admin freeze": {
    summary: "Stop an account from making calls",
    details:
      "Calls that run go on, and everything can still be read. Provider keys of its own do not help it.",
    positionals: ["account"],
    flags: { reason: REASON },
    run: (line, world) => withStore(world, (db) => freeze(db, line, world)),
  },
  "admin unfreeze": {
    summary: "Let an account make calls again",
    details: "What it owes after a dispute freezes it still: postern admin write-off bears that.",
    positionals: ["account"],
    flags: { reason: REASON },
    run: (line, world) => withStore(world, (db) => unfreeze(db, line, world)),
  },
};

async function list(db: Db, line: Line, world: World): Promise<number> {
  const limitText = line.text("limit") ?? "20";
  const limit = /^\d{1,3}$/.test(limitText) ? Number(limitText) : 0;
  const cursor = line.text("cursor");
  const stateText = line.text("state");
  const state = ACCOUNT_STATES.find((one) => one === stateText);
  const mistake =
    limit < 1 || limit > PAGE_LIMIT_MAX
      ? `--limit must be from 1 to ${PAGE_LIMIT_MAX}.`
      : stateText !== undefined && state === undefined
        ? `--state must be one of ${ACCOUNT_STATES.join(", ")}.`
        : cursor !== undefined && !ACCOUNT_ID.test(cursor)
          ? "--cursor must be an account's id, as the end of the list before names it."
          : undefined;
  if (mistake !== undefined) {
    world.complain(mistake);
    return EXIT_MISUSED;
  }
  const asked = { search: line.text("search"), state };
  const page = await listAccounts(db, asked, { limit, cursor }, world.now());
  world.print(
    line.has("json")
      ? JSON.stringify({ ...page, data: page.data.map(lineJson) }, null, 2)
      : linesText(page),
  );
  return 0;
}

async function show(db: Db, line: Line, world: World): Promise<number> {
  const [accountId = ""] = line.positionals;
  const now = world.now();
  const file = await readAccountFile(db, accountId, now);
  world.print(
    line.has("json") ? JSON.stringify(accountJson(file, now), null, 2) : accountText(file, now),
  );
  return 0;
}

async function correct(db: Db, line: Line, world: World): Promise<number> {
  const [accountId = "", usd = ""] = line.positionals;
  const bucketText = line.text("bucket");
  const bucket = BUCKETS.find((one) => one === bucketText);
  if (bucketText !== undefined && bucket === undefined) {
    world.complain("--bucket must be promo or paid.");
    return EXIT_MISUSED;
  }
  const amount = readUsd(usd);
  const id = idOf(line, world);
  const act = { ...actOf(line, world), accountId, amount, bucket, id, tellFalls: tellOfFalls };
  const done = await db.write((tx) => correctBalance(tx, act));
  world.print(
    done.made
      ? `${accountId} was adjusted by ${usdText(amount)} USD. ${standingText(done)}`
      : `That adjustment had already been made; nothing was changed. ${standingText(done)}`,
  );
  return 0;
}

function standingText({ after }: Done): string {
  const owed = after.owed === 0n ? "" : `, and it owes ${usdText(after.owed)} USD`;
  return `Its balance is ${usdText(after.promo + after.paid)} USD (promotional ${usdText(after.promo)}, paid ${usdText(after.paid)})${owed}.`;
}

async function freeze(db: Db, line: Line, world: World): Promise<number> {
  const [accountId = ""] = line.positionals;
  const { made } = await db.write((tx) => freezeAccount(tx, { ...actOf(line, world), accountId }));
  world.print(
    made
      ? `${accountId} is frozen: it makes no calls until postern admin unfreeze.`
      : `${accountId} is frozen already; nothing was changed.`,
  );
  return 0;
}

async function unfreeze(db: Db, line: Line, world: World): Promise<number> {
  const [accountId = ""] = line.positionals;
  const { made, after } = await db.write((tx) =>
    unfreezeAccount(tx, { ...actOf(line, world), accountId }),
  );
  const debt =
    after.owed === 0n ? "" : ` It owes ${usdText(after.owed)} USD, which freezes it still.`;
  world.print(
    made
      ? `${accountId} is not frozen by an operator any more.${debt}`
      : `No operator has frozen ${accountId}; nothing was changed.${debt}`,
  );
  return 0;
}
