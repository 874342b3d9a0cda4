// `postern admin …` for money that only the operator sees: transfers that came, transfers that went back, debts, and
// payments that nobody else can make sense of.

import { newId } from "../../base/id.ts";
import { createLog } from "../../base/log.ts";
import { usdText } from "../../base/money.ts";
import { centsFromUsd, formatCents } from "../../billing/invoices/cents.ts";
import type { PaymentDeps } from "../../billing/payments/checkouts.ts";
import { markPaid, markRefunded } from "../../billing/payments/manual-payments.ts";
import { PAYMENT_CALLBACKS } from "../../billing/event-handlers.ts";
import { auditManualPayment } from "../../operator/payments/audit-manual-payment.ts";
import { lookUpOnChain, markNotOnChain } from "../../operator/payments/mark-not-on-chain.ts";
import {
  writeOffAccountDebt,
  COMMAND_LINE_ACTOR,
} from "../../operator/accounts/account-actions.ts";
import { listUnappliedFacts, listUnclearPayments } from "../../operator/payments/payment-list.ts";
import {
  unresolvedPaymentsJson,
  unresolvedPaymentsText,
} from "../../operator/payments/payments-output.ts";
import type { Config } from "../../config/config.ts";
import type { Db } from "../../store/db.ts";
import { createOptionalChainClient } from "../../billing/x402/create-x402.ts";
import { readAction, JSON_FLAG, REASON_FLAG } from "./admin-flags.ts";
import { type Command, EXIT_USAGE, type ParsedArgs, type CliEnv } from "../command.ts";
import { withStore } from "../with-store.ts";

const REFERENCE_FLAG = {
  type: "string",
  placeholder: "<text>",
  description: "What the bank calls the transfer; one transfer counts once.",
  required: true,
} as const;

export const adminBillingCommands: Readonly<Record<string, Command>> = {
  "admin mark-paid": {
    summary: "Say that an invoice's whole amount has arrived by bank transfer",
    details:
      "The credits are there at once. With the same --reference it is done once, however often it is said.",
    positionals: ["invoice"],
    flags: { reference: REFERENCE_FLAG },
    run: (args, cli) => withStore(cli, (db) => markPaidCommand(db, args, cli)),
  },
  "admin mark-refunded": {
    summary: "Say that you have given back a part, or all, of what came by bank transfer",
    details:
      "Credits, fee and tax are taken back in proportion; refused where fewer credits are unspent. What was paid with\nStripe is refunded at Stripe, and found there.",
    positionals: ["invoice", "usd"],
    flags: { reference: REFERENCE_FLAG },
    run: (args, cli) => withStore(cli, (db) => markRefundedCommand(db, args, cli)),
  },
  "admin payments": {
    summary: "List the payments that need you",
    details:
      "Those that did not fit their invoice, the newest 20, and those by x402 of which nobody can say whether they moved\nmoney, the newest 100: each with how to find out, until it is marked as paid or as absent.",
    positionals: [],
    flags: {
      unclear: {
        type: "boolean",
        description: "Only those that may have moved money, or may not.",
      },
      json: JSON_FLAG,
    },
    run: (args, cli) => withStore(cli, (db) => listUnresolvedPaymentsCommand(db, args, cli)),
  },
  "admin mark-absent": {
    summary: "Say that an unclear payment by x402 is not on the chain",
    details:
      "Ends it: nothing is credited, it leaves the list, and its invoice can be paid in another way. Refused where it was\ncredited, and where the node at X402_RPC_URL shows it.",
    positionals: ["payment"],
    flags: { reason: REASON_FLAG },
    run: (args, cli) =>
      withStore(cli, (db, config) => markNotOnChainCommand(db, config, { args, cli })),
  },
  "admin write-off": {
    summary: "Bear what an account owes after a dispute, which unfreezes it",
    positionals: ["account"],
    flags: { reason: REASON_FLAG },
    run: (args, cli) => withStore(cli, (db) => writeOffCommand(db, args, cli)),
  },
};

async function markPaidCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [invoiceId = ""] = args.positionals;
  const reference = (args.value("reference") ?? "").trim();
  if (reference === "") return usageError(cli, "--reference must name the transfer.");
  const made = await markPaid(billingDeps(db, cli), { invoiceId, reference, now: cli.now() });
  cli.print(
    made
      ? `${invoiceId} is paid; its credits are in the account.`
      : `${invoiceId} was marked as paid by ${reference} before; nothing was changed.`,
  );
  return 0;
}

async function markRefundedCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [invoiceId = "", usd = ""] = args.positionals;
  const reference = (args.value("reference") ?? "").trim();
  const amountCents = centsFromUsd(usd);
  if (reference === "") return usageError(cli, "--reference must name the transfer.");
  if (amountCents === undefined || amountCents <= 0)
    return usageError(
      cli,
      `"${usd}" is not an amount of US dollars above zero, such as 5 or 2.50.`,
    );
  const refund = { invoiceId, reference, amountCents, now: cli.now() };
  const made = await markRefunded(billingDeps(db, cli), refund);
  cli.print(
    made
      ? `${formatCents(amountCents)} of ${invoiceId} are given back.`
      : `The refund ${reference} was known before; nothing was changed.`,
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
  absent: "The node says so, too.",
  "no answer": "The node could not say, so your word stands alone.",
  "not asked": "No node was asked, so your word stands alone.",
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
      ? `${id} counts as never made; nothing was credited. ${CHAIN_LOOKUP_TEXT[chainResult]}`
      : `${id} was ended before; nothing was changed.`,
  );
  return 0;
}

async function writeOffCommand(db: Db, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [accountId = ""] = args.positionals;
  const act = { ...readAction(args, cli), accountId, id: newId("tr", cli.now()) };
  const { isChanged, before, after } = await db.write((tx) => writeOffAccountDebt(tx, act));
  const rest = after.frozenAt === null ? "which can make calls again" : "which an operator froze";
  cli.print(
    isChanged
      ? `The house bears ${usdText(before.owed)} USD of ${accountId}, ${rest}.`
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
  return {
    db,
    log,
    ...PAYMENT_CALLBACKS,
    onApplied: auditManualPayment(COMMAND_LINE_ACTOR, cli.now()),
  };
}

function usageError(cli: CliEnv, message: string): number {
  cli.printError(message);
  return EXIT_USAGE;
}
