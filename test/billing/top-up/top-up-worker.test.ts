// Credits that are bought by themselves: as far as the owner allowed, one attempt at a time, and each charged once,
// whatever crashes, is lost or comes twice.

import {
  afterAll,
  afterEach,
  beforeAll,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import { DAY_MS, MINUTE_MS } from "../../../src/base/time.ts";
import { revokeCharging, disableAutoTopUp } from "../../../src/billing/top-up/auto-top-up.ts";
import { createInvoice, findInvoice } from "../../../src/billing/invoices/invoices.ts";
import { cancelOpenCheckout, beginPayment } from "../../../src/billing/billing-deps.ts";
import { failTopUp } from "../../../src/billing/top-up/top-up-outcome.ts";
import { findAutoTopUp, listTopUps } from "../../../src/billing/top-up/top-up-rows.ts";
import { processTopUps } from "../../../src/billing/top-up/top-up-worker.ts";
import { getMethod } from "../../../src/billing/top-up/payment-method-rows.ts";
import { requirePaymentMethods } from "../../../src/billing/top-up/payment-methods.ts";
import { windowEnd } from "../../../src/base/spend-window.ts";
import { setFreeze } from "../../../src/ledger/freezes.ts";
import { rejectionMessage } from "../../support/rejection.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import {
  NANO_PER_CENT,
  expectLedgerValid,
  ledgerBalanceOf,
  invoiceAuditEntries,
  NANO_PER_USD,
  readWallet,
} from "../fixtures.ts";
import {
  enableTopUp,
  expectLedgerMatchesStripe,
  createBuyer,
  createBillingHarness,
  deliverWebhooks,
  saveMethod,
  type BillingHarness,
} from "../harness.ts";

// The first test starts PostgreSQL.
setDefaultTimeout(60_000);

describeEachStore((kind, open) => {
  describe(`automatic top-ups on ${kind}`, () => {
    let store: TestStore;
    let stripe: FakeStripe;
    let harness: BillingHarness;
    beforeAll(async () => {
      store = await open();
      stripe = startFakeStripe();
      harness = await createBillingHarness(store.db, stripe.env);
    });
    afterEach(async () => {
      stripe.fault = "fine";
      stripe.webhookEvents.length = 0;
      await expectLedgerMatchesStripe(harness, stripe);
    });
    afterAll(async () => {
      await stripe.stop();
      await store.close();
    });

    /** An account with 10 USD that were bought, whose owner allows it; Stripe's method does as it is told. */
    async function allowed(
      how: Parameters<FakeStripe["completeSetup"]>[1] = {},
      rules: Parameters<typeof enableTopUp>[2] = {},
    ) {
      const { accountId, intent } = await createBuyer(harness, stripe);
      const method = await saveMethod(harness, stripe, accountId, how);
      await enableTopUp(harness, accountId, rules);
      await turn();
      return { accountId, method, intent };
    }
    async function turn(): Promise<void> {
      harness.clock.now += 1;
      await harness.runTopUps();
    }
    const deliver = () => deliverWebhooks(harness, stripe);
    const charges = () =>
      [...stripe.intents.values()].filter(({ status }) => status === "succeeded");
    const ofAccount = (accountId: string) => listTopUps(harness.db, accountId, 100);
    const paidOf = async (accountId: string) => (await readWallet(harness.db, accountId)).paid;
    const settings = async (accountId: string) => {
      const found = await findAutoTopUp(harness.db, accountId);
      if (found === undefined) throw new Error("never turned on");
      return found;
    };
    const eventsOf = async (accountId: string) => {
      const rows = await harness.db.all(
        "select type, data from event where account_id = ? and type <> 'invoice.paid' order by created_at, type",
        [accountId],
      );
      return rows.map(({ type, data }) => ({ type, data: JSON.parse(String(data)) }));
    };

    test("a charge that takes the balance below the threshold buys the amount, with its fee, by an ordinary invoice", async () => {
      const { accountId } = await allowed();
      const [before, fees] = [
        charges().length,
        await ledgerBalanceOf(harness.db, "system:fee_revenue"),
      ];
      await harness.spend(accountId, 4n * NANO_PER_USD);
      await turn();
      expect(charges()).toHaveLength(before);
      await harness.spend(accountId, 3n * NANO_PER_USD);
      await turn();
      expect(charges()).toHaveLength(before + 1);
      expect(charges().at(-1)).toMatchObject({ cents: 1_050, currency: "usd" });
      expect(await paidOf(accountId)).toBe(13n * NANO_PER_USD);
      expect((await ledgerBalanceOf(harness.db, "system:fee_revenue")) - fees).toBe(
        50n * NANO_PER_CENT,
      );
      const [topUp] = await ofAccount(accountId);
      expect(topUp).toMatchObject({ state: "paid", isOpen: false, amountCents: 1_000 });
      const invoice = await findInvoice(harness.db, topUp?.invoiceId ?? "");
      expect(invoice).toMatchObject({ status: "paid", amountCents: 1_000, feeCents: 50 });
      for (let turns = 0; turns < 3; turns++) await turn();
      expect(charges()).toHaveLength(before + 1);
    });

    test("it goes on buying until the balance is above the threshold again", async () => {
      const { accountId } = await allowed({}, { threshold_usd: 15, amount_usd: 4 });
      for (let turns = 0; turns < 5; turns++) await turn();
      expect(await paidOf(accountId)).toBe(18n * NANO_PER_USD);
      expect(await ofAccount(accountId)).toHaveLength(2);
    });

    test("nothing is bought where the owner did not allow it, or turned it off", async () => {
      const accountId = await harness.newAccount();
      await saveMethod(harness, stripe, accountId);
      const { accountId: other } = await allowed();
      await harness.db.write((tx) => disableAutoTopUp(tx, other));
      await harness.spend(other, 9n * NANO_PER_USD);
      await turn();
      await harness.runPoll();
      await turn();
      expect(await ofAccount(accountId)).toEqual([]);
      expect(await ofAccount(other)).toEqual([]);
      expect((await settings(other)).status).toBe("off");
    });

    test("it cannot be turned on without a payment method", async () => {
      const accountId = await harness.newAccount();
      expect(await rejectionMessage(enableTopUp(harness, accountId))).toContain(
        "no payment method",
      );
    });

    test("many processes that look at once make one attempt and one charge", async () => {
      const { accountId } = await allowed();
      const others = await Promise.all(
        [1, 2, 3].map(() => createBillingHarness(store.db, stripe.env)),
      );
      for (const other of others) other.clock.now = harness.clock.now;
      const before = charges().length;
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await Promise.all([harness, ...others, harness, ...others].map((one) => one.runTopUps()));
      expect(charges()).toHaveLength(before + 1);
      expect(await ofAccount(accountId)).toHaveLength(1);
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });

    test("a process that dies between the attempt and the charge: another charges it, once", async () => {
      const { accountId } = await allowed();
      const before = charges().length;
      await harness.spend(accountId, 9n * NANO_PER_USD);
      stripe.fault = "down";
      await turn();
      stripe.fault = "fine";
      const [open] = await ofAccount(accountId);
      expect(open).toMatchObject({ state: "charging", isOpen: true });
      // Meanwhile nobody pays it by hand as well, and nobody withdraws it.
      const invoiceId = open?.invoiceId ?? "";
      expect(await beginPayment(harness.billing, invoiceId, harness.clock.now)).toEqual({
        kind: "processing",
      });
      expect(
        await rejectionMessage(
          cancelOpenCheckout(harness.billing, { id: invoiceId, accountId, now: harness.clock.now }),
        ),
      ).toContain("a payment is processing");
      await turn();
      expect(charges()).toHaveLength(before);
      harness.clock.now += MINUTE_MS + 1;
      const other = await createBillingHarness(store.db, stripe.env);
      other.clock.now = harness.clock.now;
      await Promise.all([turn(), other.runTopUps(), turn()]);
      expect(charges()).toHaveLength(before + 1);
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      expect((await settings(accountId)).failures).toBe(0);
    });

    test("a charge whose reply was lost, or whose process died right after it, is found and not made again", async () => {
      for (const dies of [false, true]) {
        const { accountId } = await allowed();
        const before = charges().length;
        await harness.spend(accountId, 9n * NANO_PER_USD);
        stripe.fault = dies ? "down" : "reply lost";
        await turn();
        stripe.fault = "fine";
        const [topUp] = await ofAccount(accountId);
        if (topUp === undefined) throw new Error("no attempt");
        if (dies) {
          const method = await getMethod(harness.db, topUp.methodId);
          await requirePaymentMethods(harness.billing.processor).charge({
            ...topUp,
            customer: method.customer ?? "",
            method: method.ref ?? "",
            now: harness.clock.now,
          });
        }
        expect(charges()).toHaveLength(before + 1);
        expect(await paidOf(accountId)).toBe(1n * NANO_PER_USD);
        harness.clock.now += MINUTE_MS + 1;
        await turn();
        expect(charges()).toHaveLength(before + 1);
        expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      }
    });

    test("its webhooks, early, twice and late, change nothing more; without any it is credited all the same", async () => {
      const { accountId } = await allowed();
      await harness.spend(accountId, 9n * NANO_PER_USD);
      stripe.fault = "reply lost";
      await turn();
      stripe.fault = "fine";
      const mail = [...stripe.webhookEvents];
      await deliver();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      expect((await ofAccount(accountId))[0]).toMatchObject({ state: "paid", isOpen: false });
      harness.clock.now += MINUTE_MS + 1;
      await turn();
      stripe.webhookEvents.push(...mail, ...mail);
      await deliver();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });

    test("a dispute is found without a webhook, also where only a webhook told of the payment", async () => {
      const { accountId } = await allowed();
      await harness.spend(accountId, 9n * NANO_PER_USD);
      stripe.fault = "reply lost";
      await turn();
      stripe.fault = "fine";
      await deliver();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      const intent = charges().at(-1);
      if (intent === undefined) throw new Error("nothing was charged");
      stripe.dispute(intent, 1_050);
      stripe.webhookEvents.length = 0;
      harness.clock.now += DAY_MS;
      await harness.runPoll();
      expect(await paidOf(accountId)).toBe(1n * NANO_PER_USD);
    });

    test("two failures in a row stop it, each is told, and the owner turns it on again", async () => {
      for (const behavior of ["declined", "authentication_required"] as const) {
        const { accountId, method } = await allowed({ behavior });
        await harness.spend(accountId, 9n * NANO_PER_USD);
        await turn();
        const [failed] = await ofAccount(accountId);
        expect(failed).toMatchObject({ state: "failed", reason: behavior, isOpen: false });
        expect((await findInvoice(harness.db, failed?.invoiceId ?? ""))?.status).toBe("void");
        expect((await invoiceAuditEntries(harness.db, accountId)).slice(-2)).toEqual([
          `invoice.created ${failed?.invoiceId} system billing`,
          `invoice.voided ${failed?.invoiceId} system billing`,
        ]);
        expect(await settings(accountId)).toMatchObject({ status: "on", failures: 1 });
        // Not at once: a bank that refused will refuse again.
        await turn();
        await harness.runPoll();
        await turn();
        expect(await ofAccount(accountId)).toHaveLength(1);
        harness.clock.now += 10 * MINUTE_MS + 1;
        await turn();
        expect(await settings(accountId)).toMatchObject({
          status: "stopped",
          failures: 2,
          stoppedReason: "payment_failed",
        });
        harness.clock.now += DAY_MS;
        await harness.runPoll();
        await turn();
        expect(await ofAccount(accountId)).toHaveLength(2);
        expect(
          (await eventsOf(accountId)).filter(({ type }) => type !== "balance.low"),
        ).toMatchObject([
          { type: "top_up.failed", data: { reason: behavior, failures_in_a_row: 1 } },
          {
            type: "top_up.failed",
            data: { reason: behavior, failures_in_a_row: 2, next_try_at: null },
          },
          { type: "top_up.stopped", data: { reason: "payment_failed", failures_in_a_row: 2 } },
        ]);
        const open = [...stripe.intents.values()].filter(
          ({ method: one, status }) => one === method.id && status !== "canceled",
        );
        expect(open).toEqual([]);
        method.behavior = "works";
        await enableTopUp(harness, accountId);
        await turn();
        expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
        expect(await settings(accountId)).toMatchObject({ status: "on", failures: 0 });
      }
    });

    test("a success in between begins the count of failures anew", async () => {
      const { accountId, method } = await allowed({ behavior: "declined" });
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await turn();
      method.behavior = "works";
      harness.clock.now += 10 * MINUTE_MS + 1;
      await turn();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      expect(await settings(accountId)).toMatchObject({ status: "on", failures: 0 });
    });

    test("a month's ceiling counts what was bought and what is being bought, is told once, and ends with the month", async () => {
      const { accountId, method } = await allowed({}, { monthly_ceiling_usd: "29.99" });
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await turn();
      method.behavior = "processing";
      await harness.spend(accountId, 10n * NANO_PER_USD);
      await turn();
      const [pending] = await ofAccount(accountId);
      expect(pending).toMatchObject({ state: "processing", isOpen: true });
      const intent = [...stripe.intents.values()].find(({ status }) => status === "processing");
      if (intent === undefined) throw new Error("nothing is under way");
      stripe.completeCharge(intent, "succeeded");
      await deliver();
      method.behavior = "works";
      await harness.spend(accountId, 10n * NANO_PER_USD);
      for (let turns = 0; turns < 3; turns++) {
        await turn();
        await harness.runPoll();
      }
      expect(await ofAccount(accountId)).toHaveLength(2);
      expect(await paidOf(accountId)).toBe(1n * NANO_PER_USD);
      const told = (await eventsOf(accountId)).filter(
        ({ type }) => type === "top_up.ceiling_reached",
      );
      const resumesAt = windowEnd("month", harness.clock.now);
      expect(told).toMatchObject([
        {
          data: {
            monthly_ceiling_usd: 29.99,
            bought_this_month_usd: 20,
            resumes_at: new Date(resumesAt).toISOString(),
          },
        },
      ]);
      const today = harness.clock.now;
      harness.clock.now = resumesAt + 1;
      await turn();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      harness.clock.now = today;
    });

    test("a payment that takes days is one attempt: it can neither be paid by hand nor withdrawn, and may fail", async () => {
      for (const ending of ["succeeded", "requires_payment_method"] as const) {
        const { accountId } = await allowed({ behavior: "processing" });
        await harness.spend(accountId, 9n * NANO_PER_USD);
        await turn();
        const [topUp] = await ofAccount(accountId);
        const invoiceId = topUp?.invoiceId ?? "";
        expect(await beginPayment(harness.billing, invoiceId, harness.clock.now)).toEqual({
          kind: "processing",
        });
        expect(
          await rejectionMessage(
            cancelOpenCheckout(harness.billing, {
              id: invoiceId,
              accountId,
              now: harness.clock.now,
            }),
          ),
        ).toContain("a payment is processing");
        await harness.runPoll();
        await turn();
        expect(await ofAccount(accountId)).toHaveLength(1);
        const intent = [...stripe.intents.values()].at(-1);
        if (intent === undefined) throw new Error("nothing is under way");
        stripe.completeCharge(intent, ending);
        stripe.webhookEvents.length = 0;
        harness.clock.now += 11 * MINUTE_MS;
        await turn();
        const after = (await ofAccount(accountId))[0];
        if (ending === "succeeded") {
          expect(after).toMatchObject({ state: "paid" });
          expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
        } else {
          expect(after).toMatchObject({ state: "failed", reason: "declined" });
          expect(await paidOf(accountId)).toBe(1n * NANO_PER_USD);
        }
      }
    });

    test("a Stripe that cannot be asked for long: given up, told, and credited if the charge turns up later", async () => {
      const { accountId } = await allowed();
      await harness.spend(accountId, 9n * NANO_PER_USD);
      stripe.fault = "down";
      await turn();
      harness.clock.now += 40 * MINUTE_MS;
      await turn();
      // As long as nobody can say, nobody gives up.
      expect((await ofAccount(accountId))[0]).toMatchObject({ isOpen: true });
      const [topUp] = await ofAccount(accountId);
      if (topUp === undefined) throw new Error("no attempt");
      const method = await getMethod(harness.db, topUp.methodId);
      await harness.db.write((tx) => revokeCharging(tx, accountId, harness.clock.now));
      await harness.db.write((tx) =>
        tx.run("update top_up set state = 'failed', open_for = null, due_at = ? where id = ?", [
          harness.clock.now + DAY_MS,
          topUp.id,
        ]),
      );
      stripe.fault = "fine";
      await requirePaymentMethods(harness.billing.processor).charge({
        ...topUp,
        customer: method.customer ?? "",
        method: method.ref ?? "",
        now: harness.clock.now,
      });
      stripe.webhookEvents.length = 0;
      const today = harness.clock.now;
      harness.clock.now += DAY_MS + 1;
      await turn();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      expect((await ofAccount(accountId))[0]).toMatchObject({ state: "paid", dueAt: null });
      harness.clock.now = today;
    });

    test("what was given up counts to the ceiling until it was looked for once more", async () => {
      const { accountId } = await allowed({}, { monthly_ceiling_usd: "15" });
      await harness.spend(accountId, 9n * NANO_PER_USD);
      stripe.fault = "down";
      await turn();
      stripe.fault = "fine";
      const [lost] = await ofAccount(accountId);
      if (lost === undefined) throw new Error("no attempt");
      const about = { reason: "processor_unreachable", now: harness.clock.now } as const;
      await harness.db.write((tx) => failTopUp(tx, lost, { ...about, onTopUpEvent: undefined }));
      const today = harness.clock.now;
      harness.clock.now += 11 * MINUTE_MS;
      for (let turns = 0; turns < 3; turns++) await turn();
      expect(await ofAccount(accountId)).toHaveLength(1);
      harness.clock.now = today + DAY_MS + 1;
      await turn();
      harness.clock.now += MINUTE_MS;
      await turn();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      expect((await findAutoTopUp(harness.db, accountId))?.ceilingNotifiedMonth).toBe(0);
      harness.clock.now = today;
    });

    test("a process that stood still between the attempt and the charge charges nothing: another may have", async () => {
      const { accountId } = await allowed();
      const before = charges().length;
      await harness.spend(accountId, 9n * NANO_PER_USD);
      const { now } = harness.clock;
      await processTopUps({ ...harness.billing, currentTime: () => now + DAY_MS }, now + 1);
      expect(charges()).toHaveLength(before);
      expect((await ofAccount(accountId))[0]).toMatchObject({ state: "charging", isOpen: true });
      harness.clock.now += MINUTE_MS + 2;
      await turn();
      expect(charges()).toHaveLength(before + 1);
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });

    test("a method that is gone at Stripe stops it at once", async () => {
      const { accountId, method } = await allowed();
      method.isAttached = false;
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await turn();
      expect((await ofAccount(accountId))[0]).toMatchObject({ reason: "method_gone" });
      expect(await settings(accountId)).toMatchObject({
        status: "stopped",
        stoppedReason: "no_payment_method",
      });
    });

    test("a payment that is not credited stops it at once: an operator has to look", async () => {
      const { accountId } = await allowed({ behavior: "processing" });
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await turn();
      const [topUp] = await ofAccount(accountId);
      const intent = [...stripe.intents.values()].at(-1);
      if (intent === undefined || topUp === undefined) throw new Error("nothing is under way");
      // Somebody at Stripe took another amount for it.
      stripe.completeCharge(Object.assign(intent, { cents: 999 }), "succeeded");
      await deliver();
      harness.clock.now += 11 * MINUTE_MS;
      await turn();
      expect(await settings(accountId)).toMatchObject({ stoppedReason: "payment_not_credited" });
      expect(await paidOf(accountId)).toBe(1n * NANO_PER_USD);
    });

    test("a refund that leaves the balance below the threshold stops it; one that does not, does not", async () => {
      const { accountId, intent } = await allowed();
      stripe.refund(intent, 105);
      await deliver();
      await turn();
      expect(await settings(accountId)).toMatchObject({ status: "on" });
      stripe.refund(intent, 630);
      await deliver();
      await harness.runPoll();
      await turn();
      expect(await paidOf(accountId)).toBe(3n * NANO_PER_USD);
      expect(await settings(accountId)).toMatchObject({
        status: "stopped",
        stoppedReason: "payment_refunded",
      });
      expect(await ofAccount(accountId)).toEqual([]);
    });

    test("a dispute stops it, also of a payment that it made, and what is owed is never charged by itself", async () => {
      const { accountId } = await allowed();
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await turn();
      await harness.spend(accountId, 5n * NANO_PER_USD);
      const intent = charges().at(-1);
      if (intent === undefined) throw new Error("nothing was charged");
      stripe.dispute(intent, 1_050);
      stripe.webhookEvents.length = 0;
      // No webhook came: the payment is asked after all the same.
      harness.clock.now += DAY_MS;
      await harness.runPoll();
      expect(await readWallet(harness.db, accountId)).toMatchObject({
        paid: 0n,
        owed: 4n * NANO_PER_USD,
      });
      expect(await settings(accountId)).toMatchObject({ stoppedReason: "payment_disputed" });
      await enableTopUp(harness, accountId);
      const before = charges().length;
      await turn();
      expect(charges()).toHaveLength(before);
    });

    test("open invoices of others do not stand in its way", async () => {
      const { accountId } = await allowed();
      for (let count = 0; count < 100; count++)
        await harness.db.write((tx) =>
          createInvoice(tx, { accountId, amountCents: 100, now: harness.clock.now }),
        );
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await turn();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });

    test("a workspace that an operator froze is not topped up, until it is free again", async () => {
      const { accountId } = await allowed();
      await harness.db.write((tx) => setFreeze(tx, accountId, { at: 1, reason: "looked into" }));
      await harness.db.write((tx) =>
        tx.run("update auto_top_up set threshold_cents = 2000, due_at = 1 where account_id = ?", [
          accountId,
        ]),
      );
      await turn();
      expect(await ofAccount(accountId)).toEqual([]);
      await harness.db.write((tx) => setFreeze(tx, accountId, null));
      harness.clock.now += DAY_MS;
      await turn();
      expect(await paidOf(accountId)).toBe(20n * NANO_PER_USD);
    });

    test("what no charge has told of is found by the sweep", async () => {
      const { accountId } = await allowed();
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await harness.db.write((tx) =>
        tx.run("update auto_top_up set due_at = null where account_id = ?", [accountId]),
      );
      await turn();
      expect(await paidOf(accountId)).toBe(1n * NANO_PER_USD);
      await harness.runPoll();
      await turn();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });

    test("a removed method is not charged any more, and forgotten at Stripe", async () => {
      const { accountId, method } = await allowed();
      await harness.db.write((tx) => revokeCharging(tx, accountId, harness.clock.now));
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await turn();
      stripe.fault = "down";
      await harness.runPoll();
      expect(method.isAttached).toBe(true);
      stripe.fault = "fine";
      harness.clock.now += MINUTE_MS + 1;
      await harness.runPoll();
      expect(method.isAttached).toBe(false);
      expect(await ofAccount(accountId)).toEqual([]);
    });

    test("another method takes the place of the one before, which is forgotten", async () => {
      const { accountId, method } = await allowed({ behavior: "declined" });
      const better = await saveMethod(harness, stripe, accountId);
      await harness.runPoll();
      expect([method.isAttached, better.isAttached]).toEqual([false, true]);
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await turn();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });
  });
});

describe("where Stripe works out the tax", () => {
  test("a saved method is charged with the tax of its address, and the books hold it apart", async () => {
    const { openStore } = await import("../../support/stores/stores.ts");
    const store = await openStore("sqlite");
    const stripe = startFakeStripe();
    const harness = await createBillingHarness(store.db, {
      ...stripe.env,
      STRIPE_AUTOMATIC_TAX: "true",
    });
    const accountId = await harness.newAccount();
    await saveMethod(harness, stripe, accountId);
    expect([...stripe.setupSessions.values()].every(({ collectsAddress }) => collectsAddress)).toBe(
      true,
    );
    await enableTopUp(harness, accountId);
    await harness.runTopUps();
    // 20 % of 10.50 in that country.
    expect([...stripe.intents.values()].map(({ cents }) => cents)).toEqual([1_260]);
    expect((await readWallet(store.db, accountId)).paid).toBe(10n * NANO_PER_USD);
    expect(await ledgerBalanceOf(store.db, "system:tax_payable")).toBe(210n * NANO_PER_CENT);
    await expectLedgerValid(store.db);
    const nowhere = await harness.newAccount();
    await saveMethod(harness, stripe, nowhere, { country: null });
    await enableTopUp(harness, nowhere);
    await harness.runTopUps();
    expect(await findAutoTopUp(store.db, nowhere)).toMatchObject({
      stoppedReason: "no_payment_method",
    });
    await stripe.stop();
    await store.close();
  });
});
