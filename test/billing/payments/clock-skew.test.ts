// What is left behind by a clock that ran ahead, and was set right again.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { DAY_MS, MINUTE_MS } from "../../../src/base/time.ts";
import { findInvoice } from "../../../src/billing/invoices/invoices.ts";
import { beginPayment, tryReconcileInvoice } from "../../../src/billing/billing-deps.ts";
import { listTopUps } from "../../../src/billing/top-up/top-up-rows.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import { NANO_PER_USD, readWallet } from "../fixtures.ts";
import {
  allowAutoTopUp,
  expectLedgerMatchesStripe,
  createBuyer,
  createBillingHarness,
  saveMethod,
  type BillingHarness,
} from "../harness.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const YEAR_MS = 365 * DAY_MS;

describeEachStore((kind, open) => {
  let store: TestStore;
  let stripe: FakeStripe;
  let shop: BillingHarness;
  beforeAll(async () => {
    store = await open();
    stripe = startFakeStripe();
    shop = await createBillingHarness(store.db, stripe.env);
  });
  afterAll(async () => {
    await expectLedgerMatchesStripe(shop, stripe);
    await stripe.stop();
    await store.close();
  });

  test(`an invoice's page that was looked at ahead of time is asked after by who reads it on ${kind}`, async () => {
    const invoice = await shop.newInvoice(await shop.newAccount(), 1_000);
    const begun = await beginPayment(shop.billing, invoice.id, shop.clock.now);
    await tryReconcileInvoice(shop.billing, invoice, (shop.clock.now += MINUTE_MS));
    stripe.pay(stripe.sessionAt(begun.kind === "page" ? begun.url : null));
    shop.clock.now -= MINUTE_MS / 2;
    expect((await tryReconcileInvoice(shop.billing, invoice, shop.clock.now)).status).toBe("paid");
    stripe.webhookEvents.length = 0;
  });

  test(`what was to be done a year later is done within minutes on ${kind}`, async () => {
    const { accountId } = await createBuyer(shop, stripe);
    await saveMethod(shop, stripe, accountId);
    await allowAutoTopUp(shop, accountId);
    await shop.runTopUps();
    const unpaid = await shop.newInvoice(accountId, 1_000);
    const begun = await beginPayment(shop.billing, unpaid.id, shop.clock.now);

    shop.clock.now += YEAR_MS;
    stripe.fault = "down";
    await shop.spend(accountId, 9n * NANO_PER_USD);
    await shop.runTopUps();
    await shop.runPoll();
    shop.clock.now -= YEAR_MS;
    stripe.fault = "fine";
    expect(await listTopUps(shop.db, accountId, 9)).toMatchObject([{ isOpen: true }]);
    stripe.pay(stripe.sessionAt(begun.kind === "page" ? begun.url : null));
    stripe.webhookEvents.length = 0;

    shop.clock.now += MINUTE_MS;
    await shop.runPoll();
    await shop.runTopUps();
    expect(await findInvoice(shop.db, unpaid.id)).toMatchObject({ status: "paid" });
    expect(await listTopUps(shop.db, accountId, 9)).toMatchObject([{ state: "paid" }]);
    expect(await readWallet(shop.db, accountId)).toMatchObject({ paid: 21n * NANO_PER_USD });
  });
});
