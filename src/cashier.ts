// Who takes the money: the processor that the settings name, and the clock that asks after what is open.

import type { Log } from "./base/log.ts";
import { creditsOf } from "./base/money.ts";
import type { Secret } from "./base/secret.ts";
import { nanoOfCents, usdOfCents } from "./billing/cents.ts";
import { pollCheckouts } from "./billing/checkouts.ts";
import { collectDebts } from "./billing/debts.ts";
import { createPayLinks } from "./billing/pay-link.ts";
import type { PaidInvoice } from "./billing/payments.ts";
import type { Processor } from "./billing/processor.ts";
import { openStripe } from "./billing/stripe.ts";
import type { Till } from "./billing/till.ts";
import type { Clock } from "./clocks.ts";
import type { Config } from "./config.ts";
import { raise } from "./events/events.ts";
import type { Db, Tx } from "./store/db.ts";

const POLL_MS = 60_000;

export interface Cashier {
  readonly till: Till;
  readonly cashClocks: readonly Clock[];
}

export interface CashierGround {
  readonly db: Db;
  readonly master: Secret;
  readonly log: Log;
  readonly now: () => number;
}

export async function openCashier(config: Config, ground: CashierGround): Promise<Cashier> {
  const { db, master, log, now } = ground;
  const { leastCents, mostCents, operator } = config.billing;
  const processor = await processorFor(config);
  const till: Till = {
    db,
    log,
    processor,
    operator,
    links: createPayLinks(master, config.baseUrl),
    limits: { leastCents, mostCents },
    onPaid: tellOfPaid,
  };
  const poll = async (): Promise<void> => {
    if (processor.kind === "hosted") await pollCheckouts(till, processor, now());
    await collectDebts(db, now());
  };
  return { till, cashClocks: [[POLL_MS, poll]] };
}

async function processorFor(config: Config): Promise<Processor> {
  const { stripe, bankDetails } = config.billing;
  if (stripe !== undefined) return await openStripe(stripe);
  return config.development
    ? { kind: "development", id: "development" }
    : { kind: "manual", id: "manual", instructions: bankDetails };
}

export async function tellOfPaid(tx: Tx, { invoice, now }: PaidInvoice): Promise<void> {
  const { id, accountId, amountCents } = invoice;
  const credits = creditsOf(nanoOfCents(amountCents));
  const data = { invoice_id: id, amount_usd: usdOfCents(amountCents), credits };
  await raise(tx, { type: "invoice.paid", accountId, data, now });
}
