// What is left behind by a clock that ran ahead, and was set right again.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { findInvoice } from "../../src/billing/billing.ts";
import { payAt, upToDate } from "../../src/billing/till.ts";
import { listTopUps } from "../../src/billing/top-up-rows.ts";
import { eachStore, type TestStore } from "../support/stores.ts";
import { type FakeStripe, startStripe } from "../support/stripe-server.ts";
import { USD, walletOf } from "./desk.ts";
import { allow, expectEven, newBuyer, openShop, saveMethod, type Shop } from "./world.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const MINUTE_MS = 60_000;
const YEAR_MS = 365 * 86_400_000;

eachStore((kind, open) => {
  let store: TestStore;
  let stripe: FakeStripe;
  let shop: Shop;
  beforeAll(async () => {
    store = await open();
    stripe = startStripe();
    shop = await openShop(store.db, stripe.env);
  });
  afterAll(async () => {
    await expectEven(shop, stripe);
    await stripe.stop();
    await store.close();
  });

  test(`an invoice's page that was looked at ahead of time is asked after by who reads it on ${kind}`, async () => {
    const invoice = await shop.newInvoice(await shop.newAccount(), 1_000);
    const begun = await payAt(shop.till, invoice.id, shop.clock.now);
    await upToDate(shop.till, invoice, (shop.clock.now += MINUTE_MS));
    stripe.pay(stripe.sessionAt(begun.kind === "page" ? begun.url : null));
    shop.clock.now -= MINUTE_MS / 2;
    expect((await upToDate(shop.till, invoice, shop.clock.now)).status).toBe("paid");
    stripe.letters.length = 0;
  });

  test(`what was to be done a year later is done within minutes on ${kind}`, async () => {
    const { accountId } = await newBuyer(shop, stripe);
    await saveMethod(shop, stripe, accountId);
    await allow(shop, accountId);
    await shop.turn();
    const unpaid = await shop.newInvoice(accountId, 1_000);
    const begun = await payAt(shop.till, unpaid.id, shop.clock.now);

    shop.clock.now += YEAR_MS;
    stripe.weather = "down";
    await shop.spend(accountId, 9n * USD);
    await shop.turn();
    await shop.poll();
    shop.clock.now -= YEAR_MS;
    stripe.weather = "fine";
    expect(await listTopUps(shop.db, accountId, 9)).toMatchObject([{ isOpen: true }]);
    stripe.pay(stripe.sessionAt(begun.kind === "page" ? begun.url : null));
    stripe.letters.length = 0;

    shop.clock.now += MINUTE_MS;
    await shop.poll();
    await shop.turn();
    expect(await findInvoice(shop.db, unpaid.id)).toMatchObject({ status: "paid" });
    expect(await listTopUps(shop.db, accountId, 9)).toMatchObject([{ state: "paid" }]);
    expect(await walletOf(shop.db, accountId)).toMatchObject({ paid: 21n * USD });
  });
});
