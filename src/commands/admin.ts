// `postern admin …`: what an operator does by hand, beside a gateway that may be running on the same store.

import { existsSync } from "node:fs";
import { getAccount } from "../accounts/accounts.ts";
import { newId } from "../base/id.ts";
import { nanoFromUsd, usdText } from "../base/money.ts";
import { onOperatorGrants, onOperatorRevokes } from "../events/announce.ts";
import { listKeys, lockKey, revokeKey } from "../keys/keys.ts";
import { getWallet, grant } from "../ledger/ledger.ts";
import { verifyLedger } from "../ledger/verify.ts";
import { type Db, text } from "../store/db.ts";
import { type Command, EXIT_FAILED, EXIT_MISUSED, type Line, type World } from "./command.ts";
import { withStore } from "./with-store.ts";

const KEYS_SHOWN_MAX = 100;

export const adminCommands: Readonly<Record<string, Command>> = {
  "admin grant": {
    summary: "Give an account promotional credit",
    details:
      "The credit is spent before bought credit and is not refundable. With the same --id the grant is made once,\nhowever often the command is repeated.",
    positionals: ["account", "usd"],
    flags: {
      reason: { type: "string", value: "<text>", means: "Kept with the transfer.", required: true },
      id: { type: "string", value: "<id>", means: "Makes a repetition harmless; any text." },
    },
    run: (line, world) => withStore(world, (db) => grantCredit(db, line, world)),
  },
  "admin show": {
    summary: "Show an account: balance and keys",
    positionals: ["account"],
    flags: {},
    run: (line, world) => withStore(world, (db) => showAccount(db, line, world)),
  },
  "admin revoke-key": {
    summary: "Revoke a key for good, on every process at once",
    positionals: ["key"],
    flags: {},
    run: (line, world) => withStore(world, (db) => revoke(db, line, world)),
  },
  "admin verify-ledger": {
    summary: "Derive every balance from the transfers again, and print what does not add up",
    details:
      "Reads one moment's state, beside a running gateway. Exit code 1 where something does not add up.",
    positionals: [],
    flags: {},
    run: (_line, world) => withStore(world, (db) => verify(db, world)),
  },
  "admin backup": {
    summary: "Copy the SQLite store to a new file while it is in use",
    positionals: ["file"],
    flags: {},
    run: (line, world) => withStore(world, (db) => backUp(db, line, world)),
  },
};

async function grantCredit(db: Db, line: Line, world: World): Promise<number> {
  const [accountId = "", usd = ""] = line.positionals;
  const amount = nanoFromUsd(usd);
  const reason = (line.text("reason") ?? "").trim();
  if (amount === undefined || amount <= 0n) {
    world.complain(`"${usd}" is not an amount of US dollars above zero, such as 5 or 2.50.`);
    return EXIT_MISUSED;
  }
  if (reason === "") {
    world.complain("--reason must say something: it is the only record of why the money is there.");
    return EXIT_MISUSED;
  }
  const now = world.now();
  const id = `grant.${accountId}.${line.text("id") ?? newId("req", now)}`;
  const made = await db.write(async (tx) => {
    const fresh = await grant(tx, { id, accountId, amount, now, reason });
    if (fresh) await onOperatorGrants(tx, { id, accountId, amount, now, reason });
    return fresh;
  });
  const wallet = await getWallet(db, accountId);
  const balance = `Its balance is ${usdText(wallet.promo + wallet.paid)} USD.`;
  world.print(
    made
      ? `${accountId} was granted ${usdText(amount)} USD. ${balance}`
      : `That grant had already been made; nothing was changed. ${balance}`,
  );
  return 0;
}

async function showAccount(db: Db, line: Line, world: World): Promise<number> {
  const [accountId = ""] = line.positionals;
  const now = world.now();
  const account = await getAccount(db, accountId);
  const wallet = await getWallet(db, accountId);
  const { data: keys, has_more: more } = await listKeys(
    db,
    accountId,
    { limit: KEYS_SHOWN_MAX },
    now,
  );
  const usd = (amount: bigint): string => `${usdText(amount)} USD`;
  world.print(
    [
      `account    ${account.id}`,
      `email      ${account.email ?? "none was given"}`,
      `created    ${dateText(account.createdAt)}`,
      `claimed    ${account.claimedAt === null ? "no" : dateText(account.claimedAt)}`,
      `balance    ${usd(wallet.promo + wallet.paid)} (promotional ${usd(wallet.promo)}, paid ${usd(wallet.paid)})`,
      `held       ${usd(wallet.held)}`,
      ...keys.map(
        (key) =>
          `key        ${key.id}  ${key.prefix}…${key.last4}  ${stateOf(key, now)}  spent ${usd(key.spent)}${key.name === null ? "" : `  ${key.name}`}`,
      ),
      ...(more ? [`           and older ones; these are the newest ${KEYS_SHOWN_MAX}`] : []),
    ].join("\n"),
  );
  return 0;
}

function stateOf(
  key: { readonly revokedAt: number | null; readonly expiresAt: number | null },
  now: number,
): string {
  if (key.revokedAt !== null) return `revoked ${dateText(key.revokedAt)}`;
  return key.expiresAt !== null && key.expiresAt <= now
    ? `expired ${dateText(key.expiresAt)}`
    : "live";
}

async function revoke(db: Db, line: Line, world: World): Promise<number> {
  const [keyId = ""] = line.positionals;
  const row = await db.get("select account_id from api_key where id = ?", [keyId]);
  if (row === undefined) {
    world.complain(
      `There is no key ${keyId}. postern admin show <account> lists an account's keys.`,
    );
    return EXIT_FAILED;
  }
  const accountId = text(row, "account_id");
  const now = world.now();
  const key = await db.write(async (tx) => {
    const before = await lockKey(tx, accountId, keyId, now);
    const revoked = await revokeKey(tx, accountId, keyId, now);
    if (before.revokedAt === null) await onOperatorRevokes(tx, revoked, now);
    return revoked;
  });
  world.print(`${key.id} of ${key.accountId} is revoked.`);
  return 0;
}

async function backUp(db: Db, line: Line, world: World): Promise<number> {
  const [file = ""] = line.positionals;
  if (existsSync(file)) {
    world.complain(`${file} is there already; a backup never overwrites one.`);
    return EXIT_FAILED;
  }
  await db.backup(file);
  world.print(
    `The store was copied to ${file}. Keep it as secret as the store; the master secret is not in it.`,
  );
  return 0;
}

async function verify(db: Db, world: World): Promise<number> {
  const { checked, problems, problemCount } = await verifyLedger(db);
  world.print(
    `Checked ${checked.wallets} wallets, ${checked.keys} keys, ${checked.holds} open holds, ${checked.transfers} transfers and ${checked.usageRecords} usage records.`,
  );
  if (problemCount === 0) {
    world.print("Everything adds up.");
    return 0;
  }
  const shown = problems.length === problemCount ? "" : `; the first ${problems.length}`;
  world.complain(
    [
      `${problemCount} ${problemCount === 1 ? "thing does" : "things do"} not add up${shown}:`,
      ...problems.map((problem) => `  ${problem}`),
    ].join("\n"),
  );
  return EXIT_FAILED;
}

function dateText(at: number): string {
  return new Date(at).toISOString();
}
