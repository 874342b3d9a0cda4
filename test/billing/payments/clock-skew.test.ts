// Times written by a clock that ran ahead and was set back.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { DAY_MS, MINUTE_MS } from "../../../src/base/time.ts";
import { beginPayment, tryReconcileInvoice } from "../../../src/billing/billing-deps.ts";
import { findInvoice } from "../../../src/billing/invoices/invoices.ts";
import { listTopUps } from "../../../src/billing/top-up/top-up-rows.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import { NANO_PER_USD, readWallet } from "../fixtures.ts";
import {
  enableTopUp,
  expectLedgerMatchesStripe,
  createBuyer,
  createBillingHarness,
  saveMethod,
  type BillingHarness,
} from "../harness.ts";

const YEAR_MS = 365 * DAY_MS;

describeEachStore((kind, open) => {
  let store: TestStore;
  let stripe: FakeStripe;
  let harness: BillingHarness;
  beforeAll(async () => {
    store = await open();
    stripe = startFakeStripe();
    harness = await createBillingHarness(store.db, stripe.env);
  });
  afterAll(async () => {
    await expectLedgerMatchesStripe(harness, stripe);
    await stripe.stop();
    await store.close();
  });

  test(`a reader reconciles a page whose last check lies in the future on ${kind}`, async () => {
    const invoice = await harness.newInvoice(await harness.newAccount(), 1_000);
    const start = await beginPayment(harness.billing, invoice.id, harness.clock.now);
    await tryReconcileInvoice(harness.billing, invoice, (harness.clock.now += MINUTE_MS));
    stripe.pay(stripe.sessionAt(start.kind === "page" ? start.url : null));
    harness.clock.now -= MINUTE_MS / 2;
    expect((await tryReconcileInvoice(harness.billing, invoice, harness.clock.now)).status).toBe(
      "paid",
    );
    stripe.webhookEvents.length = 0;
  });

  test(`work that is due in a year is done within minutes on ${kind}`, async () => {
    const { accountId } = await createBuyer(harness, stripe);
    await saveMethod(harness, stripe, accountId);
    await enableTopUp(harness, accountId);
    await harness.runTopUps();
    const unpaid = await harness.newInvoice(accountId, 1_000);
    const start = await beginPayment(harness.billing, unpaid.id, harness.clock.now);

    harness.clock.now += YEAR_MS;
    stripe.fault = "down";
    await harness.spend(accountId, 9n * NANO_PER_USD);
    await harness.runTopUps();
    await harness.runPoll();
    harness.clock.now -= YEAR_MS;
    stripe.fault = "ok";
    expect(await listTopUps(harness.db, accountId, 9)).toMatchObject([{ isOpen: true }]);
    stripe.pay(stripe.sessionAt(start.kind === "page" ? start.url : null));
    stripe.webhookEvents.length = 0;

    harness.clock.now += MINUTE_MS;
    await harness.runPoll();
    await harness.runTopUps();
    expect(await findInvoice(harness.db, unpaid.id)).toMatchObject({ status: "paid" });
    expect(await listTopUps(harness.db, accountId, 9)).toMatchObject([{ state: "paid" }]);
    expect(await readWallet(harness.db, accountId)).toMatchObject({ paid: 21n * NANO_PER_USD });
  });
});
