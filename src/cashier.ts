// Who takes the money: the processor that the settings name, and the clock that asks after what is open.

import type { MemberChange } from "./accounts/members.ts";
import { record } from "./audit/audit.ts";
import type { Log } from "./base/log.ts";
import { creditsOf } from "./base/money.ts";
import type { Secret } from "./base/secret.ts";
import { nanoOfCents, usdOfCents } from "./billing/cents.ts";
import { endCharging, noteDue, type TopUpEvent } from "./billing/auto-top-up.ts";
import { pollCheckouts } from "./billing/checkouts.ts";
import { collectDebts } from "./billing/debts.ts";
import { developmentVault } from "./billing/development-card.ts";
import { pollMethods } from "./billing/methods.ts";
import { createPayLinks } from "./billing/pay-link.ts";
import type { DoorParts, PaidInvoice } from "./billing/payments.ts";
import type { Processor } from "./billing/processor.ts";
import { openStripe } from "./billing/stripe.ts";
import type { Till } from "./billing/till.ts";
import { sweepTopUps, turnTopUps } from "./billing/top-ups.ts";
import type { Clock } from "./clocks.ts";
import type { Config } from "./config.ts";
import { onFalls, onMemberChange } from "./events/announce.ts";
import { raise } from "./events/events.ts";
import { networksOf } from "./http/address.ts";
import type { Fall } from "./ledger/marks.ts";
import type { Db, Tx } from "./store/db.ts";
import { bringForward, type DueTable } from "./store/due.ts";
import { openCounter, type OpenedCounter } from "./x402-counter.ts";

const POLL_MS = 60_000;
const TOP_UP_MS = 1_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** A ceiling that is reached waits for the next month; all else is looked at within a day. */
const DUE: readonly DueTable[] = [
  { table: "auto_top_up", mostMs: 33 * DAY_MS },
  { table: "top_up", mostMs: 2 * DAY_MS },
  { table: "checkout", mostMs: 2 * DAY_MS },
  { table: "payment_method", mostMs: HOUR_MS },
  { table: "agent_payment", mostMs: 3 * HOUR_MS },
];

export interface Cashier extends Omit<OpenedCounter, "counterClocks"> {
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
    manageUrlOf: (accountId) => `${config.baseUrl}/console/${accountId}/billing`,
    ...TOLD,
  };
  const poll = async (): Promise<void> => {
    for (const table of DUE) await bringForward(db, table, now());
    if (processor.kind === "hosted") await pollCheckouts(till, processor, now());
    await collectDebts(db, till, now());
    await pollMethods(till, now());
    await sweepTopUps(till, now());
  };
  const topUp = (): Promise<void> => turnTopUps({ ...till, clock: now }, now());
  const { counterClocks, ...counter } = openCounter(config, till, now);
  return { till, ...counter, cashClocks: [[POLL_MS, poll], [TOP_UP_MS, topUp], ...counterClocks] };
}

async function processorFor(config: Config): Promise<Processor> {
  const { stripe, bankDetails } = config.billing;
  if (stripe !== undefined) return await openStripe(stripe);
  return config.development
    ? { kind: "development", id: "development", vault: developmentVault }
    : { kind: "manual", id: "manual", instructions: bankDetails };
}

async function tellOfPaid(tx: Tx, { invoice, now }: PaidInvoice): Promise<void> {
  const { id, accountId, amountCents } = invoice;
  const credits = creditsOf(nanoOfCents(amountCents));
  const data = { invoice_id: id, amount_usd: usdOfCents(amountCents), credits };
  await raise(tx, { type: "invoice.paid", accountId, data, now });
}

/** Whoever owns a workspace now must not spend from the payment method of who owned it before. */
export async function tellOfMembers(tx: Tx, change: MemberChange): Promise<void> {
  await onMemberChange(tx, change);
  if (change.kind !== "owner.changed") return;
  const { accountId, by, address, now } = change;
  for (const action of await endCharging(tx, accountId, now))
    await record(tx, {
      accountId,
      actor: { type: "person", id: by.personId },
      action,
      target: null,
      detail: { by: by.email },
      network: networksOf(address)[1],
      now,
    });
}

/** What charges tell of: those outside hear of low balances, and credits are bought where an owner allowed it. */
export async function tellOfFalls(tx: Tx, falls: readonly Fall[]): Promise<void> {
  await onFalls(tx, falls);
  await noteDue(tx, falls);
}

async function tellOfTopUp(tx: Tx, event: TopUpEvent, now: number): Promise<void> {
  switch (event.kind) {
    case "failed": {
      const { topUp, reason, failures, nextTryAt } = event;
      const data = {
        invoice_id: topUp.invoiceId,
        amount_usd: usdOfCents(topUp.amountCents),
        reason,
        failures_in_a_row: failures,
        next_try_at: nextTryAt === null ? null : new Date(nextTryAt).toISOString(),
      };
      await raise(tx, { type: "top_up.failed", accountId: topUp.accountId, data, now });
      return;
    }
    case "stopped": {
      const { accountId, reason, failures } = event;
      const data = { reason, failures_in_a_row: failures };
      await raise(tx, { type: "top_up.stopped", accountId, data, now });
      await record(tx, {
        accountId,
        actor: { type: "system", id: "billing" },
        action: "auto_top_up.stopped",
        target: null,
        detail: { reason },
        network: null,
        now,
      });
      return;
    }
    case "ceiling_reached": {
      const { accountId, ceilingCents, boughtCents, resumesAt } = event;
      const data = {
        monthly_ceiling_usd: usdOfCents(ceilingCents),
        bought_this_month_usd: usdOfCents(boughtCents),
        resumes_at: new Date(resumesAt).toISOString(),
      };
      await raise(tx, { type: "top_up.ceiling_reached", accountId, data, now });
    }
  }
}

/** Whom the door for payments tells, whoever brings a fact to it. */
export const TOLD: Required<DoorParts> = {
  onPaid: tellOfPaid,
  onFalls: tellOfFalls,
  onTopUp: tellOfTopUp,
};
