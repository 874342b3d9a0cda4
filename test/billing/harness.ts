// Billing without a gateway: a store, billing as the server creates it, accounts with a key, and what payers and owners
// do at the fake Stripe.

import { expect } from "bun:test";
import { secret } from "../../src/base/crypto/secret.ts";
import { newId } from "../../src/base/id.ts";
import { createLog } from "../../src/base/log.ts";
import { beginPayment, handleWebhook, type BillingDeps } from "../../src/billing/billing-deps.ts";
import { type Billing, createBilling } from "../../src/billing/create-billing.ts";
import { creditsOfCents } from "../../src/billing/invoices/cents.ts";
import { createInvoice, type Invoice } from "../../src/billing/invoices/invoices.ts";
import { scheduleTopUps } from "../../src/billing/top-up/auto-top-up.ts";
import { parseRules, enableAutoTopUp } from "../../src/billing/top-up/auto-top-up.ts";
import { beginMethodSetup, reconcileMethods } from "../../src/billing/top-up/payment-methods.ts";
import { readConfig } from "../../src/config/config.ts";
import type { Ledger } from "../../src/ledger/ledger.ts";
import { paymentOptions } from "../../src/server/create-discovery-settings.ts";
import type { Db } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { openAccount, startLedger, usageRecord } from "../ledger/fixtures.ts";
import { actIn } from "../support/act.ts";
import type { FakeStripe } from "../support/fakes/stripe.ts";
import { NANO_PER_CENT, expectLedgerValid, ledgerBalanceOf } from "./fixtures.ts";

export interface BillingHarness {
  readonly db: Db;
  readonly billing: BillingDeps;
  readonly runPoll: Billing["reconcile"];
  readonly runTopUps: Billing["processTopUps"];
  readonly ledger: Ledger<UsageRecord>;
  readonly clock: { now: number };
  readonly logged: string[];
  readonly newAccount: () => Promise<string>;
  readonly newInvoice: (accountId: string, amountCents: number) => Promise<Invoice>;
  readonly spend: (accountId: string, amount: bigint) => Promise<void>;
  /** Returns a function that releases the hold. */
  readonly hold: (accountId: string, amount: bigint) => Promise<() => Promise<unknown>>;
}

let nextId = 0;

export async function createBillingHarness(
  db: Db,
  env: Readonly<Record<string, string>> = {},
): Promise<BillingHarness> {
  const read = readConfig({ env, hostName: "test", providers: [] });
  if (!read.ok) throw new Error(read.errors.join("; "));
  const clock = { now: Date.now() };
  const logged: string[] = [];
  const log = createLog({
    level: "debug",
    isPretty: false,
    now: () => clock.now,
    write: (line) => logged.push(line),
  });
  const master = secret("a master secret that only these tests know");
  const { baseUrl, development } = read.config;
  const service = await createBilling({
    db,
    log,
    master,
    now: () => clock.now,
    baseUrl,
    development,
    paymentOptions: paymentOptions(read.config),
    isSignInDisabled: false,
    settings: read.config.billing,
  });
  const billing = service.deps;
  const name = `harness.${(nextId += 1)}`;
  const ledger = await startLedger(db, name, clock.now, { scheduleTopUps });
  const newCall = (accountId: string) => ({
    id: newId("req", clock.now),
    accountId,
    keyId: `${accountId}.k`,
    now: clock.now,
  });
  const hold: BillingHarness["hold"] = async (accountId, amount) => {
    const call = newCall(accountId);
    const held = await ledger.hold({ ...call, amount, expiresAt: clock.now + 1_000_000_000 });
    if (held.status !== "held") return async () => {};
    return () => ledger.settle({ ...call, cost: 0n });
  };
  const spend: BillingHarness["spend"] = async (accountId, amount) => {
    const call = newCall(accountId);
    const held = await ledger.hold({ ...call, amount, expiresAt: clock.now + 1_000_000 });
    if (held.status !== "held") return;
    const record = usageRecord({ ...call, cost: amount, createdAt: clock.now });
    await ledger.settle({ ...call, cost: amount, record });
  };
  return {
    db,
    billing,
    runPoll: service.reconcile,
    runTopUps: service.processTopUps,
    ledger,
    clock,
    logged,
    newAccount: async () => {
      const id = `acct.${(nextId += 1)}`;
      await db.write((tx) => openAccount(tx, id, [`${id}.k`], clock.now));
      return id;
    },
    newInvoice: (accountId, amountCents) =>
      db.write((tx) => createInvoice(tx, actIn(accountId, clock.now), creditsOfCents(amountCents))),
    spend,
    hold,
  };
}

/** Delivers one Stripe webhook. */
export async function deliverWebhook(
  harness: BillingHarness,
  stripe: FakeStripe,
  body: string,
): Promise<void> {
  const now = Date.now();
  await handleWebhook(harness.billing, {
    bodyText: body,
    signature: stripe.signWebhook(body),
    now,
  });
}

/** Delivers all pending Stripe webhooks in order. */
export async function deliverWebhooks(harness: BillingHarness, stripe: FakeStripe): Promise<void> {
  for (const { body } of stripe.webhookEvents.splice(0))
    await deliverWebhook(harness, stripe, body);
}

/** An account that has bought credits for $10 on a Stripe page. */
export async function createBuyer(harness: BillingHarness, stripe: FakeStripe) {
  const accountId = await harness.newAccount();
  const { id: invoiceId } = await harness.newInvoice(accountId, 1_000);
  const start = await beginPayment(harness.billing, invoiceId, harness.clock.now);
  const intent = stripe.pay(stripe.sessionAt(start.kind === "page" ? start.url : null));
  await deliverWebhooks(harness, stripe);
  return { accountId, invoiceId, intent };
}

/** The ledger is consistent, and its clearing account equals Stripe's balance. */
export async function expectLedgerMatchesStripe(
  { db }: BillingHarness,
  stripe: FakeStripe,
): Promise<void> {
  await expectLedgerValid(db);
  const cleared = -(await ledgerBalanceOf(db, "system:clearing:stripe"));
  expect(cleared).toBe(BigInt(stripe.balance()) * NANO_PER_CENT);
}

const OWNER = "usr_of_the_tests";

/** An owner saves a payment method on a Stripe page. Returns it. */
export async function saveMethod(
  harness: BillingHarness,
  stripe: FakeStripe,
  accountId: string,
  options: Parameters<FakeStripe["completeSetup"]>[1] = {},
) {
  await harness.db.write(async (tx) => {
    await tx.run(
      "insert into account (id, created_at, created_from, claimed_at) values (?, 1, 'test', 1) on conflict (id) do nothing",
      [accountId],
    );
    await tx.run(
      "insert into person (id, issuer, subject, email, created_at, signed_in_at) values (?, 'test', 'owner', 'owner@example.com', 1, 1) on conflict (id) do nothing",
      [OWNER],
    );
    await tx.run(
      `insert into membership (account_id, person_id, role, owner_of, added_at, via) values (?, ?, 'owner', ?, 1, 'test')
       on conflict (account_id, person_id) do nothing`,
      [accountId, OWNER, accountId],
    );
  });
  const returnUrl = harness.billing.billingPageUrl(accountId);
  const request = { accountId, personId: OWNER, returnUrl };
  const url = await beginMethodSetup(harness.billing, request, harness.clock.now);
  const setup = stripe.setupSessions.get(url?.split("/").at(-1) ?? "");
  if (setup === undefined) throw new Error(`no setup page at ${url}`);
  const method = stripe.completeSetup(setup, options);
  harness.clock.now += 3_000;
  await reconcileMethods(harness.billing, accountId, harness.clock.now);
  return method;
}

/** Enables auto top-up: below $5 buy for $10, at most $30 a month, unless `rules` say otherwise. */
export async function enableTopUp(
  harness: BillingHarness,
  accountId: string,
  rules: Partial<Parameters<typeof parseRules>[0]> = {},
): Promise<void> {
  const input = { threshold_usd: 5, amount_usd: 10, monthly_ceiling_usd: 30, ...rules };
  const parsed = parseRules(input, harness.billing.limits);
  await harness.db.write((tx) => enableAutoTopUp(tx, actIn(accountId, harness.clock.now), parsed));
}

/** A store that fails before or after one of its writes, and at all later writes, as if the process had crashed. */
export function failAtWrite(db: Db, write: number, when: "before" | "after"): Db {
  let writes = 0;
  return {
    ...db,
    kind: db.kind,
    all: (sql, params) => db.all(sql, params),
    get: (sql, params) => db.get(sql, params),
    write: async (work) => {
      writes += 1;
      if (writes > write || (writes === write && when === "before")) throw new Error("crashed");
      const result = await db.write(work);
      if (writes === write) throw new Error("crashed");
      return result;
    },
  };
}
