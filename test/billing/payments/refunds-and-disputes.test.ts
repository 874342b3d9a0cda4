// Money that goes back, and comes back after all: a refund that fails is undone as it was made, and a balance that a
// refund lowers is told of as one that a charge lowers.

import {
  afterAll,
  afterEach,
  beforeAll,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import { DAY_MS } from "../../../src/base/time.ts";
import { findInvoice } from "../../../src/billing/invoices/invoices.ts";
import { handleCheckoutWebhook } from "../../../src/billing/payments/checkouts.ts";
import { beginPayment } from "../../../src/billing/billing-deps.ts";
import { listDebtors } from "../../../src/ledger/payments/payments.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import { NANO_PER_CENT, ledgerBalanceOf, NANO_PER_USD, readWallet } from "../fixtures.ts";
import {
  expectLedgerMatchesStripe,
  createBuyer,
  createBillingHarness,
  deliverWebhooks,
  type BillingHarness,
} from "../harness.ts";

// The first test starts PostgreSQL.
setDefaultTimeout(60_000);

describeEachStore((kind, open) => {
  describe(`money that goes back, on ${kind}`, () => {
    let store: TestStore;
    let stripe: FakeStripe;
    let harness: BillingHarness;
    beforeAll(async () => {
      store = await open();
      stripe = startFakeStripe();
      harness = await createBillingHarness(store.db, stripe.env);
    });
    afterEach(async () => {
      stripe.webhookEvents.length = 0;
      await expectLedgerMatchesStripe(harness, stripe);
    });
    afterAll(async () => {
      await stripe.stop();
      await store.close();
    });

    const deliver = () => deliverWebhooks(harness, stripe);
    const bought = () => createBuyer(harness, stripe);
    const statusOf = async (invoiceId: string) =>
      (await findInvoice(harness.db, invoiceId))?.status;
    const paidOf = async (accountId: string) => (await readWallet(harness.db, accountId)).paid;
    const housesLoss = () => ledgerBalanceOf(harness.db, "system:refund_expense");

    test("a refund that fails brings everything back, and the invoice is paid again", async () => {
      const { accountId, invoiceId, intent } = await bought();
      const fees = await ledgerBalanceOf(harness.db, "system:fee_revenue");
      const refund = stripe.refund(intent, 1_050);
      await deliver();
      expect([await paidOf(accountId), await statusOf(invoiceId)]).toEqual([0n, "refunded"]);
      stripe.failRefund(refund);
      await deliver();
      expect([await paidOf(accountId), await statusOf(invoiceId)]).toEqual([
        10n * NANO_PER_USD,
        "paid",
      ]);
      expect(await ledgerBalanceOf(harness.db, "system:fee_revenue")).toBe(fees);
    });

    test("what the house bore of it goes back to the house, and the rest to the account", async () => {
      const { accountId, intent } = await bought();
      await harness.spend(accountId, 6n * NANO_PER_USD);
      const before = await housesLoss();
      const refund = stripe.refund(intent, 1_050);
      await deliver();
      expect(await paidOf(accountId)).toBe(0n);
      expect(before - (await housesLoss())).toBe(6n * NANO_PER_USD);
      stripe.failRefund(refund);
      await deliver();
      expect(await paidOf(accountId)).toBe(4n * NANO_PER_USD);
      expect(await housesLoss()).toBe(before);
    });

    test("it is heard of once, by webhook, twice, or by asking alone", async () => {
      for (const hears of [true, false]) {
        const { accountId, intent } = await bought();
        const refund = stripe.refund(intent, 525);
        await deliver();
        stripe.failRefund(refund);
        if (hears) {
          stripe.webhookEvents.push(...stripe.webhookEvents, ...stripe.webhookEvents);
          await deliver();
        } else {
          stripe.webhookEvents.length = 0;
          harness.clock.now += 90_000_000;
          await harness.runPoll();
        }
        expect(await paidOf(accountId)).toBe(10n * NANO_PER_USD);
      }
    });

    test("it is found without a webhook, also where a slow look took the page for expired after it was paid", async () => {
      const { processor } = harness.billing;
      if (processor.kind !== "hosted") throw new Error("no pages");
      const { id: invoiceId } = await harness.newInvoice(await harness.newAccount(), 1_000);
      const begun = await beginPayment(harness.billing, invoiceId, harness.clock.now);
      const session = stripe.sessionAt(begun.kind === "page" ? begun.url : null);
      const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const slow = {
        ...processor,
        fetchPage: async () => {
          asked.resolve();
          await answered.promise;
          return { state: "expired", url: undefined, facts: [] } as const;
        },
      };
      const late = handleCheckoutWebhook(harness.billing, slow, session.id, harness.clock.now);
      await asked.promise;
      const intent = stripe.pay(session);
      await deliver();
      answered.resolve();
      await late;
      stripe.refund(intent, 1_050);
      stripe.webhookEvents.length = 0;
      const today = harness.clock.now;
      harness.clock.now += DAY_MS;
      await harness.runPoll();
      expect(await statusOf(invoiceId)).toBe("refunded");
      harness.clock.now = today;
    });

    test("one that failed before anybody heard of it changes nothing in the end", async () => {
      const { accountId, invoiceId, intent } = await bought();
      stripe.failRefund(stripe.refund(intent, 1_050));
      await deliver();
      expect([await paidOf(accountId), await statusOf(invoiceId)]).toEqual([
        10n * NANO_PER_USD,
        "paid",
      ]);
    });

    test("of two refunds one may fail: what stays is as if the other had been alone", async () => {
      const { accountId, invoiceId, intent } = await bought();
      const refunds = [stripe.refund(intent, 333), stripe.refund(intent, 717)];
      await deliver();
      expect(await statusOf(invoiceId)).toBe("refunded");
      const [first] = refunds;
      if (first !== undefined) stripe.failRefund(first);
      await deliver();
      // 717 of 1,050 cents: 34 of the fee, 683 of the credits.
      expect([await paidOf(accountId), await statusOf(invoiceId)]).toEqual([
        317n * NANO_PER_CENT,
        "paid",
      ]);
    });

    test("a debt is paid first by what comes back", async () => {
      const { accountId, intent } = await bought();
      const refund = stripe.refund(intent, 525);
      await deliver();
      await harness.spend(accountId, 5n * NANO_PER_USD);
      stripe.dispute(intent, 525);
      await deliver();
      expect(await readWallet(harness.db, accountId)).toMatchObject({
        paid: 0n,
        owed: 5n * NANO_PER_USD,
      });
      stripe.failRefund(refund);
      await deliver();
      expect(await readWallet(harness.db, accountId)).toMatchObject({ paid: 0n, owed: 0n });
    });

    test("a refund or a dispute that takes a balance below a mark is told of, once", async () => {
      const { accountId, intent } = await bought();
      const told = async () => {
        const rows = await harness.db.all(
          "select type, data from event where account_id = ? and type like 'balance.%' order by created_at, type",
          [accountId],
        );
        return rows.map(({ type, data }) => [type, JSON.parse(String(data)).usd]);
      };
      stripe.refund(intent, 525);
      await deliver();
      expect(await told()).toEqual([]);
      stripe.refund(intent, 452);
      await deliver();
      expect(await told()).toEqual([["balance.low", 0.7]]);
      stripe.dispute(intent, 73);
      await deliver();
      expect(await told()).toEqual([
        ["balance.low", 0.7],
        ["balance.empty", 0],
      ]);
    });

    test("credit that a call held pays a debt when the call ends, and that is told of, too", async () => {
      const { accountId, intent } = await bought();
      const letGo = await harness.hold(accountId, 10n * NANO_PER_USD);
      stripe.dispute(intent, 1_050);
      await deliver();
      expect(await listDebtors(harness.db, 1)).toEqual([]);
      await letGo();
      // However many owe something and have nothing.
      const idle = await bought();
      await harness.spend(idle.accountId, 10n * NANO_PER_USD);
      stripe.dispute(idle.intent, 1_050);
      await deliver();
      expect(await readWallet(harness.db, idle.accountId)).toMatchObject({
        owed: 10n * NANO_PER_USD,
      });
      expect(await listDebtors(harness.db, 500)).toEqual([accountId]);
      await harness.runPoll();
      expect(await readWallet(harness.db, accountId)).toMatchObject({ paid: 0n, owed: 0n });
      const rows = await harness.db.all(
        "select type from event where account_id = ? order by type",
        [accountId],
      );
      expect(rows.map(({ type }) => type)).toEqual([
        "balance.empty",
        "balance.low",
        "invoice.paid",
      ]);
    });
  });
});
