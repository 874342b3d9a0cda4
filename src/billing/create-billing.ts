// Who takes the money: the processor that the settings name, and the clock that asks after what is open.

import type { MemberChange } from "../accounts/members.ts";
import { record } from "../audit/audit.ts";
import type { Log } from "../base/log.ts";
import { creditsOf } from "../base/money.ts";
import type { Secret } from "../base/secret.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../base/time.ts";
import { nanoOfCents, usdOfCents } from "./invoices/cents.ts";
import { revokeCharging, scheduleTopUps, type TopUpEvent } from "./top-up/auto-top-up.ts";
import { pollCheckouts } from "./payments/checkouts.ts";
import { collectDebts } from "./payments/debts.ts";
import { developmentPaymentMethods } from "./payments/development-cards.ts";
import { pollMethods } from "./top-up/payment-methods.ts";
import { createPayLinks } from "./invoices/pay-link.ts";
import type { PaymentCallbacks, PaidInvoice } from "./payments/payment-facts.ts";
import type { PaymentProcessor } from "./payments/payment-processor.ts";
import { createStripeProcessor } from "./stripe/stripe.ts";
import type { BillingDeps } from "./billing-deps.ts";
import { scheduleMissedTopUps, processTopUps } from "./top-up/top-up-worker.ts";
import type { Job } from "../server/scheduler.ts";
import type { Config } from "../config/config.ts";
import { emitBalanceEvents, onMemberChange } from "../events/producers.ts";
import { emitEvent } from "../events/events.ts";
import { networksOf } from "../http/request/client-ip.ts";
import type { ThresholdCrossing } from "../ledger/balance-thresholds.ts";
import type { Db, Tx } from "../store/db.ts";
import { clampDueTimes, type DueTable } from "../store/clamp-due.ts";
import { createX402, type X402Services } from "./x402/create-x402.ts";

const POLL_INTERVAL_MS = MINUTE_MS;
const TOP_UP_INTERVAL_MS = 1_000;
/** A ceiling that is reached waits for the next month; all else is looked at within a day. */
const DUE_TABLES: readonly DueTable[] = [
  { table: "auto_top_up", maxAheadMs: 33 * DAY_MS },
  { table: "top_up", maxAheadMs: 2 * DAY_MS },
  { table: "checkout", maxAheadMs: 2 * DAY_MS },
  { table: "payment_method", maxAheadMs: HOUR_MS },
  { table: "agent_payment", maxAheadMs: 3 * HOUR_MS },
];

export interface BillingServices extends Omit<X402Services, "x402Jobs"> {
  readonly billing: BillingDeps;
  readonly billingJobs: readonly Job[];
}

export interface CreateBillingDeps {
  readonly db: Db;
  readonly master: Secret;
  readonly log: Log;
  readonly now: () => number;
}

export async function createBilling(
  config: Config,
  deps: CreateBillingDeps,
): Promise<BillingServices> {
  const { db, master, log, now } = deps;
  const { minCents, maxCents, operator } = config.billing;
  const processor = await createProcessor(config);
  const billing: BillingDeps = {
    db,
    log,
    processor,
    operator,
    links: createPayLinks(master, config.baseUrl),
    limits: { minCents, maxCents },
    billingPageUrl: (accountId) => `${config.baseUrl}/console/${accountId}/billing`,
    ...PAYMENT_CALLBACKS,
  };
  const poll = async (): Promise<void> => {
    for (const table of DUE_TABLES) await clampDueTimes(db, table, now());
    if (processor.kind === "hosted") await pollCheckouts(billing, processor, now());
    await collectDebts(db, billing, now());
    await pollMethods(billing, now());
    await scheduleMissedTopUps(billing, now());
  };
  const processDueTopUps = (): Promise<void> =>
    processTopUps({ ...billing, currentTime: now }, now());
  const { x402Jobs, ...x402 } = createX402(config, billing, now);
  return {
    billing,
    ...x402,
    billingJobs: [[POLL_INTERVAL_MS, poll], [TOP_UP_INTERVAL_MS, processDueTopUps], ...x402Jobs],
  };
}

async function createProcessor(config: Config): Promise<PaymentProcessor> {
  const { stripe, bankDetails } = config.billing;
  if (stripe !== undefined) return await createStripeProcessor(stripe);
  return config.development
    ? { kind: "development", id: "development", paymentMethods: developmentPaymentMethods }
    : { kind: "manual", id: "manual", instructions: bankDetails };
}

async function handleInvoicePaid(tx: Tx, { invoice, now }: PaidInvoice): Promise<void> {
  const { id, accountId, amountCents } = invoice;
  const credits = creditsOf(nanoOfCents(amountCents));
  const data = { invoice_id: id, amount_usd: usdOfCents(amountCents), credits };
  await emitEvent(tx, { type: "invoice.paid", accountId, data, now });
}

/** Whoever owns a workspace now must not spend from the payment method of who owned it before. */
export async function handleMemberChange(tx: Tx, change: MemberChange): Promise<void> {
  await onMemberChange(tx, change);
  if (change.kind !== "owner.changed") return;
  const { accountId, by, address, now } = change;
  for (const action of await revokeCharging(tx, accountId, now))
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
export async function handleBalanceThresholds(
  tx: Tx,
  crossings: readonly ThresholdCrossing[],
): Promise<void> {
  await emitBalanceEvents(tx, crossings);
  await scheduleTopUps(tx, crossings);
}

async function handleTopUpEvent(tx: Tx, event: TopUpEvent, now: number): Promise<void> {
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
      await emitEvent(tx, { type: "top_up.failed", accountId: topUp.accountId, data, now });
      return;
    }
    case "stopped": {
      const { accountId, reason, failures } = event;
      const data = { reason, failures_in_a_row: failures };
      await emitEvent(tx, { type: "top_up.stopped", accountId, data, now });
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
      await emitEvent(tx, { type: "top_up.ceiling_reached", accountId, data, now });
    }
  }
}

/** Whom the door for payments tells, whoever brings a fact to it. */
export const PAYMENT_CALLBACKS: Required<PaymentCallbacks> = {
  onInvoicePaid: handleInvoicePaid,
  onBalanceThresholds: handleBalanceThresholds,
  onTopUpEvent: handleTopUpEvent,
};
