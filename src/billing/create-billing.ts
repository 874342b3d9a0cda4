// Creates the billing service: the payment processor from the settings, and the periodic work.

import type { MasterSecret } from "../base/crypto/encryption.ts";
import { newId } from "../base/id.ts";
import type { Log } from "../base/log.ts";
import type { PaymentOptions } from "../base/purchase-steps.ts";
import { DAY_MS, HOUR_MS } from "../base/time.ts";
import { collectDebt, listDebtors } from "../ledger/payments/payments.ts";
import { type DueTable, clampDueTimes } from "../store/clamp-due.ts";
import type { Db } from "../store/db.ts";
import type { BillingDeps, OperatorDetails } from "./billing-deps.ts";
import { createPayLinks } from "./invoices/pay-link.ts";
import { pollCheckouts } from "./payments/checkouts.ts";
import { developmentPaymentMethods } from "./payments/development-cards.ts";
import type { PaymentProcessor } from "./payments/payment-processor.ts";
import { type StripeSettings, createStripeProcessor } from "./stripe/stripe.ts";
import { scheduleTopUps } from "./top-up/auto-top-up.ts";
import { pollMethods } from "./top-up/payment-methods.ts";
import { processTopUps, scheduleMissedTopUps } from "./top-up/top-up-worker.ts";

/** How far ahead a due time can be, with a margin. After its monthly ceiling, an auto top-up is due in the next month. */
const DUE_TABLES: readonly DueTable[] = [
  { table: "auto_top_up", maxAheadMs: 33 * DAY_MS },
  { table: "top_up", maxAheadMs: 2 * DAY_MS },
  { table: "checkout", maxAheadMs: 2 * DAY_MS },
  { table: "payment_method", maxAheadMs: HOUR_MS },
  { table: "agent_payment", maxAheadMs: 3 * HOUR_MS },
];

export interface BillingOptions {
  readonly db: Db;
  readonly master: MasterSecret;
  readonly log: Log;
  readonly now: () => number;
  readonly baseUrl: string;
  readonly development: boolean;
  readonly paymentOptions: PaymentOptions;
  readonly isSignInDisabled: boolean;
  readonly settings: {
    readonly stripe?: StripeSettings | undefined;
    readonly bankDetails: string | undefined;
    readonly operator: OperatorDetails;
    readonly minCents: number;
    readonly maxCents: number;
  };
}

export interface Billing {
  readonly deps: BillingDeps;
  /** Reconciles open payments with the processor and collects debts. */
  readonly reconcile: () => Promise<void>;
  readonly processTopUps: () => Promise<void>;
}

export async function createBilling(options: BillingOptions): Promise<Billing> {
  const { db, log, now, baseUrl } = options;
  const { minCents, maxCents, operator } = options.settings;
  const processor = await createProcessor(options);
  const deps: BillingDeps = {
    db,
    log,
    processor,
    operator,
    links: createPayLinks(options.master, baseUrl),
    limits: { minCents, maxCents },
    baseUrl,
    paymentOptions: options.paymentOptions,
    isSignInDisabled: options.isSignInDisabled,
    billingPageUrl: (accountId) => `${baseUrl}/console/${accountId}/billing`,
  };
  return {
    deps,
    reconcile: async () => {
      for (const table of DUE_TABLES) await clampDueTimes(db, table, now());
      if (processor.kind === "hosted") await pollCheckouts(deps, processor, now());
      await collectDebts(db, now());
      await pollMethods(deps, now());
      await scheduleMissedTopUps(deps, now());
    },
    processTopUps: () => processTopUps(deps, now(), now),
  };
}

async function createProcessor({
  development,
  settings: { stripe, bankDetails },
}: BillingOptions): Promise<PaymentProcessor> {
  if (stripe !== undefined) return await createStripeProcessor(stripe);
  return development
    ? { kind: "development", id: "development", paymentMethods: developmentPaymentMethods }
    : { kind: "manual", id: "manual", instructions: bankDetails };
}

const DEBTORS_BATCH_MAX = 500;

async function collectDebts(db: Db, now: number): Promise<void> {
  for (const accountId of await listDebtors(db, DEBTORS_BATCH_MAX))
    await db.write(async (tx) => {
      const crossings = await collectDebt(tx, { id: `debt.${newId("tr", now)}`, accountId, now });
      await scheduleTopUps(tx, crossings);
    });
}
