// `postern admin` commands on payments: bank transfers, refunds, debts, unclear payments.

import { newId } from "../../base/id.ts";
import { createLog } from "../../base/log.ts";
import { formatUsdExact } from "../../base/text/format.ts";
import { centsFromUsd, formatCents } from "../../billing/invoices/cents.ts";
import { markPaid, markRefunded } from "../../billing/payments/manual-payments.ts";
import type { PaymentDeps } from "../../billing/payments/payment-facts.ts";
import { createOptionalChainClient } from "../../billing/x402/x402-protocol.ts";
import type { Config } from "../../config/config.ts";
import {
  writeOffAccountDebt,
  COMMAND_LINE_ACTOR,
} from "../../operator/accounts/account-actions.ts";
import { lookUpOnChain, markNotOnChain } from "../../operator/payments/mark-not-on-chain.ts";
import { listUnappliedFacts, listUnclearPayments } from "../../operator/payments/payment-list.ts";
import {
  unresolvedPaymentsJson,
  unresolvedPaymentsText,
} from "../../operator/payments/payments-output.ts";
import type { Db } from "../../store/db.ts";
import {
  booleanFlag,
  type CliEnv,
  type Command,
  type ParsedArgs,
  requiredFlag,
  usageFault,
} from "../command.ts";
import { withStore } from "../with-store.ts";
import { readAction, JSON_FLAG, REASON_FLAG } from "./admin-flags.ts";

const REFERENCE_FLAG = requiredFlag(
  "<text>",
  "The bank's reference of the transfer; each reference counts once.",
);

export const adminBillingCommands: Readonly<Record<string, Command>> = {
  "admin mark-paid": {
    summary: "Mark an invoice as paid by bank transfer",
    details:
      "Credits the account at once. Repeating the command with the same --reference credits once.",
    positionals: ["invoice"],
    flags: { reference: REFERENCE_FLAG },
    run: (args, cli) => withStore(cli, (db) => markPaidCommand(db, args, cli)),
  },
  "admin mark-refunded": {
    summary: "Mark a bank transfer as refunded, in part or in full",
    details:
      "Takes back credits, fee and tax in proportion; refused if fewer credits are unspent. Refund Stripe payments in Stripe;\nPostern applies them.",
    positionals: ["invoice", "usd"],
    flags: { reference: REFERENCE_FLAG },
    run: (args, cli) => withStore(cli, (db) => markRefundedCommand(db, args, cli)),
  },
  "admin payments": {
    summary: "List payments that need your attention",
    details:
      "Payments that do not match their invoice (the newest 20), and x402 payments whose outcome is unknown (the newest 100),\neach with how to find out, until marked as paid or as not on chain.",
    positionals: [],
    flags: {
      unclear: booleanFlag("Only payments whose outcome is unknown."),
      json: JSON_FLAG,
    },
    run: (args, cli) => withStore(cli, (db) => listUnresolvedPaymentsCommand(db, args, cli)),
  },
  "admin mark-absent": {
    summary: "Mark an x402 payment as not on chain",
    details:
      "Closes the payment without credit; its invoice can be paid in another way. Refused if it was credited, or if the node at\nX402_RPC_URL shows it.",
    positionals: ["payment"],
    flags: { reason: REASON_FLAG },
    run: (args, cli) =>
      withStore(cli, (db, config) => markNotOnChainCommand(db, config, { args, cli })),
  },
  "admin write-off": {
    summary: "Write off what an account owes",
    positionals: ["account"],
    flags: { reason: REASON_FLAG },
    run: (args, cli) => withStore(cli, (db) => writeOffCommand(db, args, cli)),
  },
};

async function markPaidCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [invoiceId = ""] = args.positionals;
  const reference = (args.value("reference") ?? "").trim();
  if (reference === "") throw usageFault("--reference must name the transfer.");
  const payment = { invoiceId, reference, by: COMMAND_LINE_ACTOR, now: cli.now() };
  const made = await markPaid(billingDeps(db, cli), payment);
  cli.print(
    made
      ? `Marked ${invoiceId} as paid and credited the account.`
      : `${invoiceId} was already marked as paid by ${reference}; nothing changed.`,
  );
  return 0;
}

async function markRefundedCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [invoiceId = "", usd = ""] = args.positionals;
  const reference = (args.value("reference") ?? "").trim();
  const amountCents = centsFromUsd(usd);
  if (reference === "") throw usageFault("--reference must name the transfer.");
  if (amountCents === undefined || amountCents <= 0)
    throw usageFault(`"${usd}" must be an amount of US dollars above zero, such as 5 or 2.50.`);
  const refund = { invoiceId, reference, amountCents, by: COMMAND_LINE_ACTOR, now: cli.now() };
  const made = await markRefunded(billingDeps(db, cli), refund);
  cli.print(
    made
      ? `Refunded ${formatCents(amountCents)} of ${invoiceId}.`
      : `Refund ${reference} was already recorded; nothing changed.`,
  );
  return 0;
}

async function listUnresolvedPaymentsCommand(
  db: Db,
  args: ParsedArgs,
  cli: CliEnv,
): Promise<number> {
  const unclear = await listUnclearPayments(db);
  const found = args.has("unclear")
    ? { unclear }
    : { unclear, unapplied: await listUnappliedFacts(db) };
  cli.print(
    args.has("json")
      ? JSON.stringify(unresolvedPaymentsJson(found), null, 2)
      : unresolvedPaymentsText(found),
  );
  return 0;
}

const CHAIN_LOOKUP_TEXT = {
  absent: "The node confirms it.",
  "no answer": "The node did not answer, so this rests on your decision.",
  "not asked": "No node is set, so this rests on your decision.",
} as const;

async function markNotOnChainCommand(
  db: Db,
  config: Config,
  { args, cli }: { readonly args: ParsedArgs; readonly cli: CliEnv },
): Promise<number> {
  const [id = ""] = args.positionals;
  const act = readAction(args, cli);
  const chainResult = await lookUpOnChain(db, createOptionalChainClient(config.x402?.rpcUrl), id);
  const made = await db.write((tx) => markNotOnChain(tx, { ...act, id, chainResult }));
  cli.print(
    made
      ? `Marked ${id} as not on chain; nothing was credited. ${CHAIN_LOOKUP_TEXT[chainResult]}`
      : `${id} was already closed; nothing changed.`,
  );
  return 0;
}

async function writeOffCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [accountId = ""] = args.positionals;
  const act = { ...readAction(args, cli), accountId, id: newId("tr", cli.now()) };
  const { isChanged, before, after } = await db.write((tx) => writeOffAccountDebt(tx, act));
  const rest =
    after.frozenAt === null ? "which can make calls again" : "which an operator has frozen";
  cli.print(
    isChanged
      ? `Wrote off ${formatUsdExact(before.owed)} of ${accountId}, ${rest}.`
      : `${accountId} owes nothing.`,
  );
  return 0;
}

function billingDeps(db: Db, cli: CliEnv): PaymentDeps {
  const log = createLog({
    level: "error",
    isPretty: true,
    now: cli.now,
    write: cli.printError,
  });
  return { db, log };
}
