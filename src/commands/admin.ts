// `postern admin …`: what an operator does by hand, beside a gateway that may be running on the same store.

import { existsSync } from "node:fs";
import path from "node:path";
import { nanoFromUsd, usdText } from "../base/money.ts";
import { onOperatorRevokes } from "../events/announce.ts";
import { lockKey, revokeKey } from "../keys/keys.ts";
import { verifyLedger } from "../ledger/verify.ts";
import { giveCredit } from "../operator/operator.ts";
import { type Db, text } from "../store/db.ts";
import { actOf, ID, idOf, REASON } from "./admin-act.ts";
import { type Command, EXIT_FAILED, EXIT_MISUSED, type Line, type World } from "./command.ts";
import { withStore } from "./with-store.ts";

export const adminCommands: Readonly<Record<string, Command>> = {
  "admin grant": {
    summary: "Give an account promotional credit",
    details:
      "The credit is spent before bought credit and is not refundable. With the same --id the grant is made once,\nhowever often the command is repeated.",
    positionals: ["account", "usd"],
    flags: {
      reason: REASON,
      id: ID,
    },
    run: (line, world) => withStore(world, (db) => grantCredit(db, line, world)),
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
  if (amount === undefined || amount <= 0n) {
    world.complain(`"${usd}" is not an amount of US dollars above zero, such as 5 or 2.50.`);
    return EXIT_MISUSED;
  }
  const act = { ...actOf(line, world), accountId, amount, id: idOf(line, world) };
  const { made, after } = await db.write((tx) => giveCredit(tx, act));
  const balance = `Its balance is ${usdText(after.promo + after.paid)} USD.`;
  world.print(
    made
      ? `${accountId} was granted ${usdText(amount)} USD. ${balance}`
      : `That grant had already been made; nothing was changed. ${balance}`,
  );
  return 0;
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
  if (file === "" || !existsSync(path.dirname(file))) {
    world.complain(
      `"${file}" cannot be made: name a new file in a folder that is there, such as /backups/postern.db.`,
    );
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
