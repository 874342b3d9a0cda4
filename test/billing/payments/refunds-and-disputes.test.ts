// Refunds, failed refunds and disputes: what they do to balance, invoice status, debts and balance events.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { newId } from "../../../src/base/id.ts";
import { DAY_MS } from "../../../src/base/time.ts";
import { beginPayment } from "../../../src/billing/billing-deps.ts";
import { findInvoice } from "../../../src/billing/invoices/invoices.ts";
import { handleCheckoutWebhook } from "../../../src/billing/payments/checkouts.ts";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { createOwnHolds } from "../../../src/ledger/own-holds.ts";
import { listDebtors } from "../../../src/ledger/payments/payments.ts";
import type { UsageRecord } from "../../../src/usage/usage.ts";
import { startLedger } from "../../ledger/fixtures.ts";
import { eventually } from "../../support/eventually.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import { ledgerBalanceOf, NANO_PER_USD, readWallet } from "../fixtures.ts";
import {
  expectLedgerMatchesStripe,
  createBuyer,
  createBillingHarness,
  deliverWebhooks,
  type BillingHarness,
} from "../harness.ts";

/** After it, its process has a lease. */
async function callForFree(
  ledger: Ledger<UsageRecord>,
  { accountId, now }: { readonly accountId: string; readonly now: number },
): Promise<void> {
  const call = { id: newId("req", now), accountId, keyId: `${accountId}.k`, now };
  const held = await ledger.hold({ ...call, amount: NANO_PER_USD / 10n, expiresAt: now + DAY_MS });
  expect(held.status).toBe("held");
  await ledger.settle({ ...call, cost: 0n });
  await ledger.idle();
}

describeEachStore((kind, open) => {
  describe(`refunds and disputes on ${kind}`, () => {
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
    const newBuyer = () => createBuyer(harness, stripe);
    const statusOf = async (invoiceId: string) =>
      (await findInvoice(harness.db, invoiceId))?.status;
    const paidOf = async (accountId: string) => (await readWallet(harness.db, accountId)).paid;
    const refundExpense = () => ledgerBalanceOf(harness.db, "system:refund_expense");

    test("a failed refund restores the credits and the invoice's status", async () => {
      const { accountId, invoiceId, intent } = await newBuyer();
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

    if (kind === "postgres")
      test("a refund and a dispute take the credits that a process has leased", async () => {
        const name = "leasing";
        const leases = { now: () => harness.clock.now, busyHolds: 1 };
        const ownHolds = createOwnHolds<UsageRecord>();
        const ledger = await startLedger(harness.db, name, harness.clock.now, { leases, ownHolds });
        for (const takeBack of ["refund", "dispute"] as const) {
          const { accountId, intent } = await newBuyer();
          const before = await refundExpense();
          await eventually(async () => {
            await callForFree(ledger, { accountId, now: harness.clock.now });
            return (await readWallet(harness.db, accountId)).held > 0n;
          });
          stripe[takeBack](intent, 1_050);
          await deliver();
          const taken = { paid: 0n, held: 0n, owed: 0n };
          expect(await readWallet(harness.db, accountId)).toMatchObject(taken);
          expect(await refundExpense()).toBe(before);
        }
      });

    test("a failed refund first repays what the operator lost, then the account", async () => {
      const { accountId, intent } = await newBuyer();
      await harness.spend(accountId, 6n * NANO_PER_USD);
      const before = await refundExpense();
      const refund = stripe.refund(intent, 1_050);
      await deliver();
      expect(await paidOf(accountId)).toBe(0n);
      expect(before - (await refundExpense())).toBe(6n * NANO_PER_USD);
      stripe.failRefund(refund);
      await deliver();
      expect(await paidOf(accountId)).toBe(4n * NANO_PER_USD);
      expect(await refundExpense()).toBe(before);
    });

    test("a failed refund is applied once, by repeated webhooks or by polling alone", async () => {
      for (const hasWebhooks of [true, false]) {
        const { accountId, intent } = await newBuyer();
        const refund = stripe.refund(intent, 525);
        await deliver();
        stripe.failRefund(refund);
        if (hasWebhooks) {
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

    test("a refund is found by polling, even if a slow reconciliation saw the paid page as expired", async () => {
      const { processor } = harness.billing;
      if (processor.kind !== "hosted") throw new Error("the processor has no pages");
      const { id: invoiceId } = await harness.newInvoice(await harness.newAccount(), 1_000);
      const start = await beginPayment(harness.billing, invoiceId, harness.clock.now);
      const session = stripe.sessionAt(start.kind === "page" ? start.url : null);
      const [fetching, fetched] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const slow = {
        ...processor,
        fetchPage: async () => {
          fetching.resolve();
          await fetched.promise;
          return { state: "expired", url: undefined, facts: [] } as const;
        },
      };
      const late = handleCheckoutWebhook(harness.billing, slow, session.id, harness.clock.now);
      await fetching.promise;
      const intent = stripe.pay(session);
      await deliver();
      fetched.resolve();
      await late;
      stripe.refund(intent, 1_050);
      stripe.webhookEvents.length = 0;
      const today = harness.clock.now;
      harness.clock.now += DAY_MS;
      await harness.runPoll();
      expect(await statusOf(invoiceId)).toBe("refunded");
      harness.clock.now = today;
    });

    test("a refund that failed before it was recorded has no effect", async () => {
      const { accountId, invoiceId, intent } = await newBuyer();
      stripe.failRefund(stripe.refund(intent, 1_050));
      await deliver();
      expect([await paidOf(accountId), await statusOf(invoiceId)]).toEqual([
        10n * NANO_PER_USD,
        "paid",
      ]);
    });

    test("if one of two refunds fails, the other one remains", async () => {
      const { accountId, invoiceId, intent } = await newBuyer();
      const refunds = [stripe.refund(intent, 333), stripe.refund(intent, 717)];
      await deliver();
      expect(await statusOf(invoiceId)).toBe("refunded");
      const [first] = refunds;
      if (first !== undefined) stripe.failRefund(first);
      await deliver();
      // 333 of 1,050 cents remain: 0.158571 of the fee, the rest is credit.
      expect([await paidOf(accountId), await statusOf(invoiceId)]).toEqual([
        3_171_429_000n,
        "paid",
      ]);
    });

    test("a failed refund first pays the account's debt", async () => {
      const { accountId, intent } = await newBuyer();
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

    test("a refund or dispute that crosses a balance threshold emits one event", async () => {
      const { accountId, intent } = await newBuyer();
      const balanceEvents = async () => {
        const rows = await harness.db.all(
          "select type, data from event where account_id = ? and type like 'balance.%' order by created_at, type",
          [accountId],
        );
        return rows.map(({ type, data }) => [type, JSON.parse(String(data)).usd]);
      };
      stripe.refund(intent, 525);
      await deliver();
      expect(await balanceEvents()).toEqual([]);
      stripe.refund(intent, 452);
      await deliver();
      expect(await balanceEvents()).toEqual([["balance.low", 0.695238]]);
      stripe.dispute(intent, 73);
      await deliver();
      expect(await balanceEvents()).toEqual([
        ["balance.low", 0.695238],
        ["balance.empty", 0],
      ]);
    });

    test("credit released by a call pays the debt and emits balance events", async () => {
      const { accountId, intent } = await newBuyer();
      const release = await harness.hold(accountId, 10n * NANO_PER_USD);
      stripe.dispute(intent, 1_050);
      await deliver();
      expect(await listDebtors(harness.db, 1)).toEqual([]);
      await release();
      // A debtor without balance is not listed.
      const idle = await newBuyer();
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
