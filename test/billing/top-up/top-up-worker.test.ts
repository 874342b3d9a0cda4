// Automatic top-ups: limits, failures and recovery. Every top-up is charged once after crashes, lost replies and repeated
// webhooks.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { windowEnd } from "../../../src/base/money/spend-window.ts";
import { DAY_MS, MINUTE_MS } from "../../../src/base/time.ts";
import { cancelOpenCheckout, beginPayment } from "../../../src/billing/billing-deps.ts";
import { creditsOfCents } from "../../../src/billing/invoices/cents.ts";
import { createInvoice, findInvoice } from "../../../src/billing/invoices/invoices.ts";
import { removePaymentMethod, disableAutoTopUp } from "../../../src/billing/top-up/auto-top-up.ts";
import { getMethod } from "../../../src/billing/top-up/payment-method-rows.ts";
import { requirePaymentMethods } from "../../../src/billing/top-up/payment-methods.ts";
import { failTopUp, findRefusedTopUps } from "../../../src/billing/top-up/top-up-outcome.ts";
import { findAutoTopUp, listTopUps, type TopUp } from "../../../src/billing/top-up/top-up-rows.ts";
import { processTopUps } from "../../../src/billing/top-up/top-up-worker.ts";
import { setFreeze } from "../../../src/ledger/freezes.ts";
import { actIn } from "../../support/act.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import { rejectionMessage } from "../../support/rejection.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
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
      stripe.fault = "ok";
      stripe.webhookEvents.length = 0;
      await expectLedgerMatchesStripe(harness, stripe);
    });
    afterAll(async () => {
      await stripe.stop();
      await store.close();
    });

    /** An account with $10 of purchased credits, a saved method and auto top-up enabled. */
    async function newEnabledAccount(
      methodOptions: Parameters<FakeStripe["completeSetup"]>[1] = {},
      rules: Parameters<typeof enableTopUp>[2] = {},
    ) {
      const { accountId, intent } = await createBuyer(harness, stripe);
      const method = await saveMethod(harness, stripe, accountId, methodOptions);
      await enableTopUp(harness, accountId, rules);
      await runJob();
      return { accountId, method, intent };
    }
    async function runJob(): Promise<void> {
      harness.clock.now += 1;
      await harness.runTopUps();
    }
    const deliver = () => deliverWebhooks(harness, stripe);
    const charges = () =>
      [...stripe.intents.values()].filter(({ status }) => status === "succeeded");
    const topUpsOf = (accountId: string) => listTopUps(harness.db, accountId, 100);
    const paidOf = async (accountId: string) => (await readWallet(harness.db, accountId)).paid;
    const settings = async (accountId: string) => {
      const found = await findAutoTopUp(harness.db, accountId);
      if (found === undefined) throw new Error("auto top-up was never enabled");
      return found;
    };
    const purchaseOf = ({ amountCents, feeCents }: TopUp) => ({
      credits: creditsOfCents(amountCents),
      totalCents: amountCents + feeCents,
    });
    const eventsOf = async (accountId: string) => {
      const rows = await harness.db.all(
        "select type, data from event where account_id = ? and type <> 'invoice.paid' order by created_at, type",
        [accountId],
      );
      return rows.map(({ type, data }) => ({ type, data: JSON.parse(String(data)) }));
    };

    test("buys credits with an invoice when a charge takes the balance below the threshold", async () => {
      const { accountId } = await newEnabledAccount();
      const [before, fees] = [
        charges().length,
        await ledgerBalanceOf(harness.db, "system:fee_revenue"),
      ];
      await harness.spend(accountId, 4n * NANO_PER_USD);
      await runJob();
      expect(charges()).toHaveLength(before);
      await harness.spend(accountId, 3n * NANO_PER_USD);
      await runJob();
      expect(charges()).toHaveLength(before + 1);
      expect(charges().at(-1)).toMatchObject({ cents: 1_050, currency: "usd" });
      expect(await paidOf(accountId)).toBe(13n * NANO_PER_USD);
      expect((await ledgerBalanceOf(harness.db, "system:fee_revenue")) - fees).toBe(
        50n * NANO_PER_CENT,
      );
      const [topUp] = await topUpsOf(accountId);
      expect(topUp).toMatchObject({ state: "paid", isOpen: false, amountCents: 1_000 });
      const invoice = await findInvoice(harness.db, topUp?.invoiceId ?? "");
      expect(invoice).toMatchObject({ status: "paid", credits: 10_000_000, totalCents: 1_050 });
      for (let runs = 0; runs < 3; runs++) await runJob();
      expect(charges()).toHaveLength(before + 1);
    });

    test("buys until the balance is above the threshold", async () => {
      const { accountId } = await newEnabledAccount({}, { threshold_usd: 15, amount_usd: 4 });
      for (let runs = 0; runs < 5; runs++) await runJob();
      expect(await paidOf(accountId)).toBe(18n * NANO_PER_USD);
      expect(await topUpsOf(accountId)).toHaveLength(2);
    });

    test("buys nothing if auto top-up was never enabled or is off", async () => {
      const accountId = await harness.newAccount();
      await saveMethod(harness, stripe, accountId);
      const { accountId: other } = await newEnabledAccount();
      await harness.db.write((tx) => disableAutoTopUp(tx, actIn(other, harness.clock.now)));
      await harness.spend(other, 9n * NANO_PER_USD);
      await runJob();
      await harness.runPoll();
      await runJob();
      expect(await topUpsOf(accountId)).toEqual([]);
      expect(await topUpsOf(other)).toEqual([]);
      expect((await settings(other)).status).toBe("off");
    });

    test("cannot be enabled without a payment method", async () => {
      const accountId = await harness.newAccount();
      expect(await rejectionMessage(enableTopUp(harness, accountId))).toContain(
        "no payment method",
      );
    });

    test("concurrent processes make one top-up and one charge", async () => {
      const { accountId } = await newEnabledAccount();
      const others = await Promise.all(
        [1, 2, 3].map(() => createBillingHarness(store.db, stripe.env)),
      );
      for (const other of others) other.clock.now = harness.clock.now;
      const before = charges().length;
      await harness.spend(accountId, 9n * NANO_PER_USD);
      const processes = [harness, ...others, harness, ...others];
      await Promise.all(processes.map(({ runTopUps }) => runTopUps()));
      expect(charges()).toHaveLength(before + 1);
      expect(await topUpsOf(accountId)).toHaveLength(1);
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });

    test("a top-up whose process died before the charge is charged once by another process", async () => {
      const { accountId } = await newEnabledAccount();
      const before = charges().length;
      await harness.spend(accountId, 9n * NANO_PER_USD);
      stripe.fault = "down";
      await runJob();
      stripe.fault = "ok";
      const [open] = await topUpsOf(accountId);
      expect(open).toMatchObject({ state: "charging", isOpen: true });
      // Meanwhile its invoice can neither be paid by hand nor voided.
      const invoiceId = open?.invoiceId ?? "";
      expect(await beginPayment(harness.billing, invoiceId, harness.clock.now)).toEqual({
        kind: "processing",
      });
      expect(
        await rejectionMessage(
          cancelOpenCheckout(harness.billing, { id: invoiceId, accountId, now: harness.clock.now }),
        ),
      ).toContain("a payment is processing");
      await runJob();
      expect(charges()).toHaveLength(before);
      harness.clock.now += MINUTE_MS + 1;
      const other = await createBillingHarness(store.db, stripe.env);
      other.clock.now = harness.clock.now;
      stripe.calls.length = 0;
      await Promise.all([runJob(), other.runTopUps(), runJob()]);
      expect(charges()).toHaveLength(before + 1);
      // Of several processes, the one that has the lease asks Stripe; the others would get the same charge again.
      const asked = stripe.calls.filter((call) => call === "POST /v1/payment_intents");
      expect(asked).toHaveLength(1);
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      expect((await settings(accountId)).failures).toBe(0);
    });

    test("a charge with a lost reply is found and not repeated", async () => {
      for (const hasCrashed of [false, true]) {
        const { accountId } = await newEnabledAccount();
        const before = charges().length;
        await harness.spend(accountId, 9n * NANO_PER_USD);
        stripe.fault = hasCrashed ? "down" : "reply lost";
        await runJob();
        stripe.fault = "ok";
        const [topUp] = await topUpsOf(accountId);
        if (topUp === undefined) throw new Error("no top-up");
        if (hasCrashed) {
          const method = await getMethod(harness.db, topUp.methodId);
          await requirePaymentMethods(harness.billing.processor).charge({
            ...topUp,
            ...purchaseOf(topUp),
            customer: method.customer ?? "",
            method: method.ref ?? "",
            now: harness.clock.now,
          });
        }
        expect(charges()).toHaveLength(before + 1);
        expect(await paidOf(accountId)).toBe(1n * NANO_PER_USD);
        harness.clock.now += MINUTE_MS + 1;
        await runJob();
        expect(charges()).toHaveLength(before + 1);
        expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      }
    });

    test("early, repeated and late webhooks credit the payment once", async () => {
      const { accountId } = await newEnabledAccount();
      await harness.spend(accountId, 9n * NANO_PER_USD);
      stripe.fault = "reply lost";
      await runJob();
      stripe.fault = "ok";
      const webhooks = [...stripe.webhookEvents];
      await deliver();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      expect((await topUpsOf(accountId))[0]).toMatchObject({ state: "paid", isOpen: false });
      harness.clock.now += MINUTE_MS + 1;
      await runJob();
      stripe.webhookEvents.push(...webhooks, ...webhooks);
      await deliver();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });

    test("a dispute is found by polling, even if the payment was found by a webhook", async () => {
      const { accountId } = await newEnabledAccount();
      await harness.spend(accountId, 9n * NANO_PER_USD);
      stripe.fault = "reply lost";
      await runJob();
      stripe.fault = "ok";
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

    test("two failures in a row stop auto top-up until the owner enables it again", async () => {
      for (const behavior of ["declined", "authentication_required"] as const) {
        const { accountId, method } = await newEnabledAccount({ behavior });
        await harness.spend(accountId, 9n * NANO_PER_USD);
        await runJob();
        const [failed] = await topUpsOf(accountId);
        expect(failed).toMatchObject({ state: "failed", reason: behavior, isOpen: false });
        expect((await findInvoice(harness.db, failed?.invoiceId ?? ""))?.status).toBe("void");
        expect((await invoiceAuditEntries(harness.db, accountId)).slice(-2)).toEqual([
          `invoice.created ${failed?.invoiceId} system billing`,
          `invoice.voided ${failed?.invoiceId} system billing`,
        ]);
        expect(await settings(accountId)).toMatchObject({ status: "on", failures: 1 });
        // No immediate retry: a bank that declined would decline again.
        await runJob();
        await harness.runPoll();
        await runJob();
        expect(await topUpsOf(accountId)).toHaveLength(1);
        harness.clock.now += 10 * MINUTE_MS + 1;
        await runJob();
        expect(await settings(accountId)).toMatchObject({
          status: "stopped",
          failures: 2,
          stoppedReason: "payment_failed",
        });
        harness.clock.now += DAY_MS;
        await harness.runPoll();
        await runJob();
        expect(await topUpsOf(accountId)).toHaveLength(2);
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
          (intent) => intent.method === method.id && intent.status !== "canceled",
        );
        expect(open).toEqual([]);
        method.behavior = "works";
        await enableTopUp(harness, accountId);
        await runJob();
        expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
        expect(await settings(accountId)).toMatchObject({ status: "on", failures: 0 });
      }
    });

    test("a success resets the number of failures", async () => {
      const { accountId, method } = await newEnabledAccount({ behavior: "declined" });
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await runJob();
      method.behavior = "works";
      harness.clock.now += 10 * MINUTE_MS + 1;
      await runJob();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      expect(await settings(accountId)).toMatchObject({ status: "on", failures: 0 });
    });

    test("the monthly ceiling counts paid and open top-ups, is reported once, and resets monthly", async () => {
      const { accountId, method } = await newEnabledAccount({}, { monthly_ceiling_usd: "29.99" });
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await runJob();
      method.behavior = "processing";
      await harness.spend(accountId, 10n * NANO_PER_USD);
      await runJob();
      const [pfinalStatus] = await topUpsOf(accountId);
      expect(pfinalStatus).toMatchObject({ state: "processing", isOpen: true });
      const intent = [...stripe.intents.values()].find(({ status }) => status === "processing");
      if (intent === undefined) throw new Error("no payment is processing");
      stripe.completeCharge(intent, "succeeded");
      await deliver();
      method.behavior = "works";
      await harness.spend(accountId, 10n * NANO_PER_USD);
      for (let runs = 0; runs < 3; runs++) {
        await runJob();
        await harness.runPoll();
      }
      expect(await topUpsOf(accountId)).toHaveLength(2);
      expect(await paidOf(accountId)).toBe(1n * NANO_PER_USD);
      const ceilingEvents = (await eventsOf(accountId)).filter(
        ({ type }) => type === "top_up.ceiling_reached",
      );
      const resumesAt = windowEnd("month", harness.clock.now);
      expect(ceilingEvents).toMatchObject([
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
      await runJob();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      harness.clock.now = today;
    });

    test("an invoice with a delayed charge can neither be paid by hand nor voided", async () => {
      for (const finalStatus of ["succeeded", "requires_payment_method"] as const) {
        const { accountId } = await newEnabledAccount({ behavior: "processing" });
        await harness.spend(accountId, 9n * NANO_PER_USD);
        await runJob();
        const [topUp] = await topUpsOf(accountId);
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
        await runJob();
        expect(await topUpsOf(accountId)).toHaveLength(1);
        const intent = [...stripe.intents.values()].at(-1);
        if (intent === undefined) throw new Error("no payment is processing");
        stripe.completeCharge(intent, finalStatus);
        stripe.webhookEvents.length = 0;
        harness.clock.now += 11 * MINUTE_MS;
        await runJob();
        const after = (await topUpsOf(accountId))[0];
        if (finalStatus === "succeeded") {
          expect(after).toMatchObject({ state: "paid" });
          expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
        } else {
          expect(after).toMatchObject({ state: "failed", reason: "declined" });
          expect(await paidOf(accountId)).toBe(1n * NANO_PER_USD);
        }
      }
    });

    test("a charge that is found after the top-up was abandoned is credited", async () => {
      const { accountId } = await newEnabledAccount();
      await harness.spend(accountId, 9n * NANO_PER_USD);
      stripe.fault = "down";
      await runJob();
      harness.clock.now += 40 * MINUTE_MS;
      await runJob();
      // While Stripe is down, its charges cannot be listed, so the top-up stays open.
      expect((await topUpsOf(accountId))[0]).toMatchObject({ isOpen: true });
      const [topUp] = await topUpsOf(accountId);
      if (topUp === undefined) throw new Error("no top-up");
      const method = await getMethod(harness.db, topUp.methodId);
      await harness.db.write((tx) => removePaymentMethod(tx, actIn(accountId, harness.clock.now)));
      await harness.db.write((tx) =>
        tx.run("update top_up set state = 'failed', open_for = null, due_at = ? where id = ?", [
          harness.clock.now + DAY_MS,
          topUp.id,
        ]),
      );
      stripe.fault = "ok";
      await requirePaymentMethods(harness.billing.processor).charge({
        ...topUp,
        ...purchaseOf(topUp),
        customer: method.customer ?? "",
        method: method.ref ?? "",
        now: harness.clock.now,
      });
      stripe.webhookEvents.length = 0;
      const today = harness.clock.now;
      harness.clock.now += DAY_MS + 1;
      await runJob();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      expect((await topUpsOf(accountId))[0]).toMatchObject({ state: "paid", dueAt: null });
      harness.clock.now = today;
    });

    test("an abandoned top-up counts towards the ceiling until its last check", async () => {
      const { accountId } = await newEnabledAccount({}, { monthly_ceiling_usd: "15" });
      await harness.spend(accountId, 9n * NANO_PER_USD);
      stripe.fault = "down";
      await runJob();
      stripe.fault = "ok";
      const [lost] = await topUpsOf(accountId);
      if (lost === undefined) throw new Error("no top-up");
      const failure = { reason: "processor_unreachable", now: harness.clock.now } as const;
      await harness.db.write((tx) => failTopUp(tx, lost, failure));
      const today = harness.clock.now;
      harness.clock.now += 11 * MINUTE_MS;
      for (let runs = 0; runs < 3; runs++) await runJob();
      expect(await topUpsOf(accountId)).toHaveLength(1);
      harness.clock.now = today + DAY_MS + 1;
      await runJob();
      harness.clock.now += MINUTE_MS;
      await runJob();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      expect((await findAutoTopUp(harness.db, accountId))?.ceilingNotifiedMonth).toBe(0);
      harness.clock.now = today;
    });

    test("a process that stalled before the charge does not charge", async () => {
      const { accountId } = await newEnabledAccount();
      const before = charges().length;
      await harness.spend(accountId, 9n * NANO_PER_USD);
      const { now } = harness.clock;
      await processTopUps(harness.billing, now + 1, () => now + DAY_MS);
      expect(charges()).toHaveLength(before);
      expect((await topUpsOf(accountId))[0]).toMatchObject({ state: "charging", isOpen: true });
      harness.clock.now += MINUTE_MS + 2;
      await runJob();
      expect(charges()).toHaveLength(before + 1);
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });

    test("a method that was detached at Stripe stops auto top-up at once", async () => {
      const { accountId, method } = await newEnabledAccount();
      method.isAttached = false;
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await runJob();
      expect((await topUpsOf(accountId))[0]).toMatchObject({ reason: "method_gone" });
      expect(await settings(accountId)).toMatchObject({
        status: "stopped",
        stoppedReason: "no_payment_method",
      });
    });

    test("a request that Stripe refuses for the operator's mistake neither stops auto top-up nor counts as a failure", async () => {
      const create = "POST /v1/payment_intents";
      const invalid = { status: 400, type: "invalid_request_error" };
      const missing = { ...invalid, status: 404, code: "resource_missing" };
      const mistakes = [
        { [create]: { ...invalid, status: 401, message: "Invalid API Key provided" } },
        { [create]: { ...invalid, status: 403, message: "The key has no access to this" } },
        { [create]: { ...invalid, message: "Your account cannot make live charges" } },
        { [create]: { ...invalid, code: "parameter_unknown", message: "Unknown parameter" } },
        // The key of another Stripe account, which has none of the customers.
        {
          [create]: { ...missing, message: "No such customer" },
          "GET /v1/payment_methods": { ...missing, message: "No such PaymentMethod" },
          "GET /v1/customers": { ...missing, message: "No such customer" },
        },
      ];
      for (const mistake of mistakes) {
        const { accountId } = await newEnabledAccount();
        const [before, logged] = [charges().length, harness.logged.length];
        await harness.spend(accountId, 9n * NANO_PER_USD);
        for (const [request, error] of Object.entries(mistake)) stripe.refusals.set(request, error);
        for (let runs = 0; runs < 4; runs++) {
          await runJob();
          expect((await topUpsOf(accountId))[0]).toMatchObject({
            state: "failed",
            reason: "processor_refused",
          });
          expect(await settings(accountId)).toMatchObject({ status: "on", failures: 0 });
          harness.clock.now += 31 * MINUTE_MS;
        }
        expect(await topUpsOf(accountId)).toHaveLength(4);
        const problem = await findRefusedTopUps(harness.db, harness.clock.now);
        expect(problem).toContain("The payment processor refused");
        const error = harness.logged.slice(logged).find((line) => line.includes('"error"'));
        expect(error).toContain("payment processor refused a top-up");
        // The customer is told once.
        expect(await eventsOf(accountId)).toMatchObject([
          { type: "top_up.failed", data: { reason: "processor_refused", failures_in_a_row: 0 } },
        ]);
        stripe.refusals.clear();
        await runJob();
        expect(charges()).toHaveLength(before + 1);
        expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
        expect(
          await findRefusedTopUps(harness.db, harness.clock.now + 60 * MINUTE_MS),
        ).toBeUndefined();
      }
    });

    test("an invalid request after a charge whose reply was lost is not taken for a refusal", async () => {
      const { accountId } = await newEnabledAccount();
      await harness.spend(accountId, 9n * NANO_PER_USD);
      const before = charges().length;
      stripe.fault = "reply lost";
      await runJob();
      stripe.fault = "ok";
      stripe.refusals.set("POST /v1/payment_intents", {
        status: 400,
        type: "invalid_request_error",
        message: "Keys for idempotent requests can only be used with the same parameters",
      });
      harness.clock.now += MINUTE_MS + 1;
      await runJob();
      stripe.refusals.clear();
      expect(charges()).toHaveLength(before + 1);
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });

    test("an outage of Stripe does not stop auto top-up", async () => {
      const today = harness.clock.now;
      const { accountId } = await newEnabledAccount();
      for (let outage = 0; outage < 3; outage++) {
        await harness.spend(accountId, 1n * NANO_PER_USD);
        stripe.refusals.set("POST /v1/payment_intents", {
          status: 503,
          type: "api_error",
          message: "Stripe is down.",
        });
        if (outage === 0) await harness.spend(accountId, 6n * NANO_PER_USD);
        await runJob();
        harness.clock.now += 32 * MINUTE_MS;
        await runJob();
        harness.clock.now += 32 * MINUTE_MS;
      }
      const unreachable = (await topUpsOf(accountId)).filter(
        ({ reason }) => reason === "processor_unreachable",
      );
      expect(unreachable.length).toBeGreaterThan(1);
      expect(await settings(accountId)).toMatchObject({ status: "on", failures: 0 });
      stripe.refusals.clear();
      // The lost top-ups count towards the monthly limit until their last check, a day later.
      harness.clock.now += DAY_MS + 60 * MINUTE_MS;
      for (let runs = 0; runs < 3; runs++) {
        await runJob();
        harness.clock.now += 2 * MINUTE_MS;
      }
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
      harness.clock.now = today;
    });

    test("a payment that is not credited stops auto top-up at once", async () => {
      const { accountId } = await newEnabledAccount({ behavior: "processing" });
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await runJob();
      const [topUp] = await topUpsOf(accountId);
      const intent = [...stripe.intents.values()].at(-1);
      if (intent === undefined || topUp === undefined) throw new Error("no payment is processing");
      // Stripe captured another amount.
      stripe.completeCharge(Object.assign(intent, { cents: 999 }), "succeeded");
      await deliver();
      harness.clock.now += 11 * MINUTE_MS;
      await runJob();
      expect(await settings(accountId)).toMatchObject({ stoppedReason: "payment_not_credited" });
      expect(await paidOf(accountId)).toBe(1n * NANO_PER_USD);
    });

    test("a refund stops auto top-up only if the balance is below the threshold", async () => {
      const { accountId, intent } = await newEnabledAccount();
      stripe.refund(intent, 105);
      await deliver();
      await runJob();
      expect(await settings(accountId)).toMatchObject({ status: "on" });
      stripe.refund(intent, 630);
      await deliver();
      await harness.runPoll();
      await runJob();
      expect(await paidOf(accountId)).toBe(3n * NANO_PER_USD);
      expect(await settings(accountId)).toMatchObject({
        status: "stopped",
        stoppedReason: "payment_refunded",
      });
      expect(await topUpsOf(accountId)).toEqual([]);
    });

    test("a dispute stops auto top-up, and the debt is never charged automatically", async () => {
      const { accountId } = await newEnabledAccount();
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await runJob();
      await harness.spend(accountId, 5n * NANO_PER_USD);
      const intent = charges().at(-1);
      if (intent === undefined) throw new Error("nothing was charged");
      stripe.dispute(intent, 1_050);
      stripe.webhookEvents.length = 0;
      // Without a webhook, polling finds the dispute.
      harness.clock.now += DAY_MS;
      await harness.runPoll();
      expect(await readWallet(harness.db, accountId)).toMatchObject({
        paid: 0n,
        owed: 4n * NANO_PER_USD,
      });
      expect(await settings(accountId)).toMatchObject({ stoppedReason: "payment_disputed" });
      await enableTopUp(harness, accountId);
      const before = charges().length;
      await runJob();
      expect(charges()).toHaveLength(before);
    });

    test("the limit of open invoices does not block a top-up", async () => {
      const { accountId } = await newEnabledAccount();
      for (let count = 0; count < 100; count++)
        await harness.db.write((tx) =>
          createInvoice(tx, actIn(accountId, harness.clock.now), 1_000_000),
        );
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await runJob();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });

    test("a frozen workspace is not topped up until it is unfrozen", async () => {
      const { accountId } = await newEnabledAccount();
      await harness.db.write((tx) => setFreeze(tx, accountId, { at: 1, reason: "looked into" }));
      await harness.db.write((tx) =>
        tx.run("update auto_top_up set threshold_cents = 2000, due_at = 1 where account_id = ?", [
          accountId,
        ]),
      );
      await runJob();
      expect(await topUpsOf(accountId)).toEqual([]);
      await harness.db.write((tx) => setFreeze(tx, accountId, null));
      harness.clock.now += DAY_MS;
      await runJob();
      expect(await paidOf(accountId)).toBe(20n * NANO_PER_USD);
    });

    test("polling finds a low balance that no charge reported", async () => {
      const { accountId } = await newEnabledAccount();
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await harness.db.write((tx) =>
        tx.run("update auto_top_up set due_at = null where account_id = ?", [accountId]),
      );
      await runJob();
      expect(await paidOf(accountId)).toBe(1n * NANO_PER_USD);
      await harness.runPoll();
      await runJob();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });

    test("a removed method is not charged and is detached at Stripe", async () => {
      const { accountId, method } = await newEnabledAccount();
      await harness.db.write((tx) => removePaymentMethod(tx, actIn(accountId, harness.clock.now)));
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await runJob();
      stripe.fault = "down";
      await harness.runPoll();
      expect(method.isAttached).toBe(true);
      stripe.fault = "ok";
      harness.clock.now += MINUTE_MS + 1;
      await harness.runPoll();
      expect(method.isAttached).toBe(false);
      expect(await topUpsOf(accountId)).toEqual([]);
    });

    test("a new method replaces the former one, which is detached", async () => {
      const { accountId, method } = await newEnabledAccount({ behavior: "declined" });
      const newMethod = await saveMethod(harness, stripe, accountId);
      await harness.runPoll();
      expect([method.isAttached, newMethod.isAttached]).toEqual([false, true]);
      await harness.spend(accountId, 9n * NANO_PER_USD);
      await runJob();
      expect(await paidOf(accountId)).toBe(11n * NANO_PER_USD);
    });
  });
});

describe("with Stripe's automatic tax", () => {
  test("a saved method is charged the tax of its address, which the ledger keeps apart", async () => {
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
    // 20% of 10.50 in that country.
    expect([...stripe.intents.values()].map(({ cents }) => cents)).toEqual([1_260]);
    expect((await readWallet(store.db, accountId)).paid).toBe(10n * NANO_PER_USD);
    expect(await ledgerBalanceOf(store.db, "system:tax_payable")).toBe(210n * NANO_PER_CENT);
    await expectLedgerValid(store.db);
    const withoutAddress = await harness.newAccount();
    await saveMethod(harness, stripe, withoutAddress, { country: null });
    await enableTopUp(harness, withoutAddress);
    await harness.runTopUps();
    expect(await findAutoTopUp(store.db, withoutAddress)).toMatchObject({
      stoppedReason: "no_payment_method",
    });
    await stripe.stop();
    await store.close();
  });
});
