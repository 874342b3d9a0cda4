// `postern admin …` for money that only the operator sees: transfers that came, transfers that went back, debts, and
// payments that nobody else can make sense of.

import { newId } from "../base/id.ts";
import { createLog } from "../base/log.ts";
import { usdText } from "../base/money.ts";
import { centsFromUsd, moneyOfCents } from "../billing/cents.ts";
import type { TillParts } from "../billing/checkouts.ts";
import { markPaid, markRefunded } from "../billing/manual.ts";
import { TOLD } from "../cashier.ts";
import { noteEntered } from "../operator/entered.ts";
import { askChainAfter, markAbsent } from "../operator/absent.ts";
import { bearDebt, COMMAND_LINE } from "../operator/operator.ts";
import { listAside, listUnclear } from "../operator/payments.ts";
import { looseEndsJson, looseEndsText } from "../operator/payments-text.ts";
import type { Config } from "../config.ts";
import type { Db } from "../store/db.ts";
import { chainOf } from "../x402-counter.ts";
import { actOf, JSON_FLAG, REASON } from "./admin-act.ts";
import { type Command, EXIT_MISUSED, type Line, type World } from "./command.ts";
import { withStore } from "./with-store.ts";

const REFERENCE = {
  type: "string",
  value: "<text>",
  means: "What the bank calls the transfer; one transfer counts once.",
  required: true,
} as const;

export const adminBillingCommands: Readonly<Record<string, Command>> = {
  "admin mark-paid": {
    summary: "Say that an invoice's whole amount has arrived by bank transfer",
    details:
      "The credits are there at once. With the same --reference it is done once, however often it is said.",
    positionals: ["invoice"],
    flags: { reference: REFERENCE },
    run: (line, world) => withStore(world, (db) => sayPaid(db, line, world)),
  },
  "admin mark-refunded": {
    summary: "Say that you have given back a part, or all, of what came by bank transfer",
    details:
      "Credits, fee and tax are taken back in proportion; refused where fewer credits are unspent. What was paid with\nStripe is refunded at Stripe, and found there.",
    positionals: ["invoice", "usd"],
    flags: { reference: REFERENCE },
    run: (line, world) => withStore(world, (db) => sayRefunded(db, line, world)),
  },
  "admin payments": {
    summary: "List the payments that need you",
    details:
      "Those that did not fit their invoice, the newest 20, and those by x402 of which nobody can say whether they moved\nmoney, the newest 100: each with how to find out, until it is marked as paid or as absent.",
    positionals: [],
    flags: {
      unclear: { type: "boolean", means: "Only those that may have moved money, or may not." },
      json: JSON_FLAG,
    },
    run: (line, world) => withStore(world, (db) => showLooseEnds(db, line, world)),
  },
  "admin mark-absent": {
    summary: "Say that an unclear payment by x402 is not on the chain",
    details:
      "Ends it: nothing is credited, it leaves the list, and its invoice can be paid in another way. Refused where it was\ncredited, and where the node at X402_RPC_URL shows it.",
    positionals: ["payment"],
    flags: { reason: REASON },
    run: (line, world) => withStore(world, (db, config) => sayAbsent(db, config, { line, world })),
  },
  "admin write-off": {
    summary: "Bear what an account owes after a dispute, which unfreezes it",
    positionals: ["account"],
    flags: { reason: REASON },
    run: (line, world) => withStore(world, (db) => writeOff(db, line, world)),
  },
};

async function sayPaid(db: Db, line: Line, world: World): Promise<number> {
  const [invoiceId = ""] = line.positionals;
  const reference = (line.text("reference") ?? "").trim();
  if (reference === "") return misused(world, "--reference must name the transfer.");
  const made = await markPaid(partsFor(db, world), { invoiceId, reference, now: world.now() });
  world.print(
    made
      ? `${invoiceId} is paid; its credits are in the account.`
      : `${invoiceId} was marked as paid by ${reference} before; nothing was changed.`,
  );
  return 0;
}

async function sayRefunded(db: Db, line: Line, world: World): Promise<number> {
  const [invoiceId = "", usd = ""] = line.positionals;
  const reference = (line.text("reference") ?? "").trim();
  const amountCents = centsFromUsd(usd);
  if (reference === "") return misused(world, "--reference must name the transfer.");
  if (amountCents === undefined || amountCents <= 0)
    return misused(world, `"${usd}" is not an amount of US dollars above zero, such as 5 or 2.50.`);
  const told = { invoiceId, reference, amountCents, now: world.now() };
  const made = await markRefunded(partsFor(db, world), told);
  world.print(
    made
      ? `${moneyOfCents(amountCents)} of ${invoiceId} are given back.`
      : `The refund ${reference} was known before; nothing was changed.`,
  );
  return 0;
}

async function showLooseEnds(db: Db, line: Line, world: World): Promise<number> {
  const unclear = await listUnclear(db);
  const found = line.has("unclear") ? { unclear } : { unclear, aside: await listAside(db) };
  world.print(
    line.has("json") ? JSON.stringify(looseEndsJson(found), null, 2) : looseEndsText(found),
  );
  return 0;
}

const BESIDES = {
  absent: "The node says so, too.",
  "no answer": "The node could not say, so your word stands alone.",
  "not asked": "No node was asked, so your word stands alone.",
} as const;

async function sayAbsent(
  db: Db,
  config: Config,
  { line, world }: { readonly line: Line; readonly world: World },
): Promise<number> {
  const [id = ""] = line.positionals;
  const act = actOf(line, world);
  const chainSays = await askChainAfter(db, chainOf(config), id);
  const made = await db.write((tx) => markAbsent(tx, { ...act, id, chainSays }));
  world.print(
    made
      ? `${id} counts as never made; nothing was credited. ${BESIDES[chainSays]}`
      : `${id} was ended before; nothing was changed.`,
  );
  return 0;
}

async function writeOff(db: Db, line: Line, world: World): Promise<number> {
  const [accountId = ""] = line.positionals;
  const act = { ...actOf(line, world), accountId, id: newId("tr", world.now()) };
  const { made, before, after } = await db.write((tx) => bearDebt(tx, act));
  const rest = after.frozenAt === null ? "which can make calls again" : "which an operator froze";
  world.print(
    made
      ? `The house bears ${usdText(before.owed)} USD of ${accountId}, ${rest}.`
      : `${accountId} owes nothing.`,
  );
  return 0;
}

function partsFor(db: Db, world: World): TillParts {
  const log = createLog({
    level: "error",
    readable: true,
    now: world.now,
    write: world.complain,
  });
  return { db, log, ...TOLD, onApplied: noteEntered(COMMAND_LINE, world.now()) };
}

function misused(world: World, message: string): number {
  world.complain(message);
  return EXIT_MISUSED;
}
