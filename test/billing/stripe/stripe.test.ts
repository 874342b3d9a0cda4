// Payments with Stripe: the official package talks over HTTP to the fake Stripe.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { createUser, makeOwner, type TestUser, textOf, visitPage } from "../console-user.ts";
import {
  api,
  buyCredits,
  NANO_PER_CENT,
  expectLedgerValid,
  type InvoiceBody,
  pageText,
  readInvoice,
  submitForm,
  ledgerBalanceOf,
  NANO_PER_USD,
  readWallet,
} from "../fixtures.ts";

describe.each(STORE_KINDS)("Stripe on %s", (store) => {
  let stripe: FakeStripe;
  let gateway: Gateway;
  let now = Date.now();
  beforeAll(async () => {
    stripe = startFakeStripe();
    gateway = await startGateway({
      store,
      env: { ...stripe.env, STRIPE_AUTOMATIC_TAX: "true" },
      now: () => now,
    });
  });
  afterEach(async () => {
    stripe.fault = "ok";
    stripe.webhookEvents.length = 0;
    await expectLedgerValid(gateway.server.db);
  });
  afterAll(async () => {
    await gateway.stop();
    await stripe.stop();
  });

  /** Submits the invoice page's form and returns the Stripe session that it leads to. */
  async function openCheckout(invoice: InvoiceBody) {
    const response = await submitForm(invoice.pay_url);
    expect(response.status).toBe(303);
    return stripe.sessionAt(response.headers.get("location"));
  }

  async function deliver(): Promise<void> {
    for (const webhook of stripe.webhookEvents.splice(0))
      expect((await stripe.sendWebhook(gateway.url, webhook)).status).toBe(200);
  }

  async function newPaidInvoice(usd = 10) {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account, usd);
    const session = await openCheckout(invoice);
    const intent = stripe.pay(session);
    await deliver();
    return { account, invoice, session, intent };
  }

  const clearing = (): Promise<bigint> =>
    ledgerBalanceOf(gateway.server.db, "system:clearing:stripe");

  test("the checkout page has a line for the credits and one for the fee", async () => {
    const invoice = await buyCredits(gateway, await registerAccount(gateway));
    const session = await openCheckout(invoice);
    expect(session).toMatchObject({
      cents: 1_050,
      hasAutomaticTax: true,
      metadata: { postern_invoice: invoice.id },
      lineItems: [
        ["10,000,000 credits", 1_000],
        ["Platform fee", 50],
      ],
    });
  });

  test("repeated clicks and lost replies lead to one checkout page", async () => {
    const invoice = await buyCredits(gateway, await registerAccount(gateway));
    stripe.fault = "reply lost";
    const lost = await submitForm(invoice.pay_url);
    expect(lost.status).toBe(503);
    expect(await lost.text()).toContain("Nothing was charged");
    stripe.fault = "ok";
    const pages = await Promise.all(Array.from({ length: 6 }, () => openCheckout(invoice)));
    pages.push(await openCheckout(invoice));
    expect(new Set(pages.map(({ id }) => id)).size).toBe(1);
    expect(stripe.sessions().filter(({ reference }) => reference === invoice.id)).toHaveLength(1);
  });

  test("a webhook credits a paid checkout, with the tax that Stripe calculated", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    const before = await clearing();
    stripe.pay(await openCheckout(invoice), { taxCents: 200 });
    await deliver();
    const response = await readInvoice(gateway, account, invoice.id);
    expect(response).toMatchObject({ status: "paid", tax_usd: 2, total_usd: 12.5 });
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(10n * NANO_PER_USD);
    expect(before - (await clearing())).toBe(1_250n * NANO_PER_CENT);
    const receipt = await pageText(`${invoice.pay_url}/receipt`);
    for (const words of ["$10.00", "$0.50", "$2.00", "$12.50", "stripe:pi_"])
      expect(receipt).toContain(words);
  });

  test("without a webhook, reading the invoice finds the payment", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    stripe.pay(await openCheckout(invoice));
    now += 3_000;
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "paid" });
    await deliver();
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(10n * NANO_PER_USD);
  });

  test("the payer who returns from Stripe sees a paid invoice", async () => {
    const invoice = await buyCredits(gateway, await registerAccount(gateway));
    stripe.pay(await openCheckout(invoice));
    now += 3_000;
    expect(await pageText(`${invoice.pay_url}?done=1`)).toContain("Invoice paid");
  });

  test("a member who returns from Stripe is led to Billing, which says what was added", async () => {
    const account = await registerAccount(gateway);
    const owner = await createUser(gateway, "olga");
    await makeOwner(gateway, account.id, owner);
    const stranger = await createUser(gateway, "stranger");
    const invoice = await buyCredits(gateway, account);
    const returnTo = async (user: TestUser) =>
      fetch(`${invoice.pay_url}?done=1`, { headers: { cookie: user.cookie }, redirect: "manual" });
    const billing = `/console/${account.id}/billing`;
    const session = await openCheckout(invoice);
    const before = await returnTo(owner);
    expect(before.headers.get("location")).toBe(`${gateway.url}${billing}?invoice=${invoice.id}`);
    const waiting = await visitPage(gateway, `${billing}?invoice=${invoice.id}`, owner);
    expect(textOf(waiting)).toContain("The payment is being confirmed.");
    stripe.pay(session);
    now += 3_000;
    const { location } = await visitPage(
      gateway,
      `${new URL(invoice.pay_url).pathname}?done=1`,
      owner,
    );
    expect(location).toContain(billing);
    const paid = await visitPage(gateway, `${billing}?invoice=${invoice.id}`, owner);
    expect(textOf(paid)).toContain("Payment received. 10,000,000 credits ($10.00) were added.");
    const seen = await returnTo(stranger);
    expect([seen.status, await seen.text()]).toEqual([
      200,
      expect.stringContaining("Invoice paid"),
    ]);
  });

  test("rejects forged and old webhooks without calling Stripe", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    stripe.pay(await openCheckout(invoice));
    const [webhook] = stripe.webhookEvents;
    const body = webhook?.body ?? "";
    const callsBefore = stripe.calls.length;
    const seconds = Math.floor(now / 1_000);
    const signatures = [
      "",
      "t=1,v1=00",
      stripe.signWebhook(body, seconds, "whsec_forged"),
      stripe.signWebhook(`${body} `, seconds),
      stripe.signWebhook(body, seconds - 301),
    ];
    for (const signature of signatures) {
      const response = await fetch(`${gateway.url}/webhooks/stripe`, {
        method: "POST",
        headers: { "content-type": "application/json", "stripe-signature": signature },
        body,
      });
      expect(response.status).toBe(400);
    }
    expect(stripe.calls.length).toBe(callsBefore);
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(0n);
  });

  test("does not trust a webhook's content: the session is read from Stripe", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    const session = await openCheckout(invoice);
    const body = JSON.stringify({
      id: "evt_x",
      object: "event",
      type: "checkout.session.completed",
      data: {
        object: {
          id: session.id,
          object: "checkout.session",
          status: "complete",
          payment_status: "paid",
          metadata: { postern_invoice: invoice.id },
          amount_total: 1_050,
        },
      },
    });
    expect((await stripe.sendWebhook(gateway.url, { type: "", body })).status).toBe(200);
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(0n);
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "open" });
  });

  test("accepts and ignores webhooks about other objects", async () => {
    const objects = [
      { id: "cs_other", object: "checkout.session", metadata: {} },
      { id: "cs_other", object: "checkout.session", metadata: null, client_reference_id: "inv_x" },
      { id: "pi_other", object: "payment_intent", metadata: {} },
      { id: "cus_other", object: "customer" },
      { id: "ch_other", object: "charge", payment_intent: "pi_other" },
    ];
    for (const object of objects) {
      const body = JSON.stringify({ id: "evt_o", object: "event", type: "x", data: { object } });
      expect((await stripe.sendWebhook(gateway.url, { type: "", body })).status).toBe(200);
    }
  });

  test("a wrong amount goes to suspense and is reported to the operator", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    const before = await ledgerBalanceOf(gateway.server.db, "system:suspense");
    const intent = stripe.pay(await openCheckout(invoice), { cents: 1_049 });
    await deliver();
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "open" });
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(0n);
    expect((await ledgerBalanceOf(gateway.server.db, "system:suspense")) - before).toBe(
      1_049n * NANO_PER_CENT,
    );
    expect(
      gateway.logLines.filter((line) => line.includes("1049 cents were paid, but 1050 are due")),
    ).toHaveLength(1);
    stripe.refund(intent, 1_049);
    await deliver();
    expect(await ledgerBalanceOf(gateway.server.db, "system:suspense")).toBe(before);
  });

  test("a payment in another currency is never credited", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    const intent = stripe.pay(await openCheckout(invoice), { currency: "jpy" });
    await deliver();
    stripe.refund(intent, 1_050);
    await deliver();
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "open" });
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(0n);
    expect(gateway.logLines.some((line) => line.includes("the currency is jpy"))).toBe(true);
  });

  test("while Stripe is down, paying and webhooks return 503, and reading still works", async () => {
    const account = await registerAccount(gateway);
    const [invoice, fresh] = [
      await buyCredits(gateway, account),
      await buyCredits(gateway, account),
    ];
    stripe.pay(await openCheckout(invoice));
    stripe.fault = "down";
    const [webhook] = stripe.webhookEvents;
    if (webhook === undefined) throw new Error("no webhook");
    expect((await stripe.sendWebhook(gateway.url, webhook)).status).toBe(503);
    now += 3_000;
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "open" });
    const page = await submitForm(fresh.pay_url);
    expect([page.status, await page.text()]).toEqual([
      503,
      expect.stringContaining("payment service is not available"),
    ]);
    const voided = await api(gateway, account, ["POST", `/v1/billing/invoice/${invoice.id}/void`]);
    expect(voided.status).toBe(503);
    expect(Number(voided.headers.get("retry-after"))).toBeGreaterThan(0);
    stripe.fault = "ok";
    await deliver();
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "paid" });
  });

  test("waits for a slow Stripe", async () => {
    const invoice = await buyCredits(gateway, await registerAccount(gateway));
    stripe.fault = "slow";
    expect((await openCheckout(invoice)).reference).toBe(invoice.id);
  });

  test("voiding an invoice expires its session; a payment made meanwhile is credited", async () => {
    const account = await registerAccount(gateway);
    const [one, two, unopened] = [
      await buyCredits(gateway, account),
      await buyCredits(gateway, account),
      await buyCredits(gateway, account),
    ];
    const [first, second] = [await openCheckout(one), await openCheckout(two)];
    const voided = (id: string) =>
      api(gateway, account, ["POST", `/v1/billing/invoice/${id}/void`]);
    expect((await voided(one.id)).status).toBe(200);
    expect(first.status).toBe("expired");
    stripe.pay(second);
    expect((await voided(two.id)).status).toBe(409);
    expect((await voided(unopened.id)).status).toBe(200);
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(10n * NANO_PER_USD);
  });

  test("an expired session is replaced", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    const first = await openCheckout(invoice);
    stripe.expireSession(first);
    const second = await openCheckout(invoice);
    expect(second.id).not.toBe(first.id);
    stripe.pay(second);
    await deliver();
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "paid" });
  });

  test("a session unknown to Stripe is replaced, and its invoice can be voided", async () => {
    const account = await registerAccount(gateway);
    const [one, two] = [await buyCredits(gateway, account), await buyCredits(gateway, account)];
    stripe.forgetSession(await openCheckout(one));
    stripe.forgetSession(await openCheckout(two));
    stripe.pay(await openCheckout(one));
    await deliver();
    expect(await readInvoice(gateway, account, one.id)).toMatchObject({ status: "paid" });
    const voided = await api(gateway, account, ["POST", `/v1/billing/invoice/${two.id}/void`]);
    expect(voided.status).toBe(200);
  });

  test("an invoice with a delayed payment cannot be paid again until the payment fails", async () => {
    const account = await registerAccount(gateway);
    const [delayed, failing] = [
      await buyCredits(gateway, account),
      await buyCredits(gateway, account),
    ];
    for (const [invoice, finalStatus] of [
      [delayed, "succeeded"],
      [failing, "requires_payment_method"],
    ] as const) {
      const session = await openCheckout(invoice);
      stripe.pay(session, { state: "processing" });
      await deliver();
      expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "open" });
      const again = await submitForm(invoice.pay_url);
      expect(again.headers.get("location")).toContain("?done=1");
      const voided = await api(gateway, account, [
        "POST",
        `/v1/billing/invoice/${invoice.id}/void`,
      ]);
      expect(voided.status).toBe(409);
      stripe.completePayment(session, finalStatus);
      await deliver();
    }
    expect(await readInvoice(gateway, account, delayed.id)).toMatchObject({ status: "paid" });
    expect(await readInvoice(gateway, account, failing.id)).toMatchObject({ status: "open" });
    expect((await openCheckout(failing)).status).toBe("open");
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(10n * NANO_PER_USD);
  });

  test("a refund returns credits and fee pro rata; a full refund marks the invoice as refunded", async () => {
    const { account, invoice, intent } = await newPaidInvoice();
    const fees = await ledgerBalanceOf(gateway.server.db, "system:fee_revenue");
    stripe.refund(intent, 525);
    await deliver();
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(5n * NANO_PER_USD);
    expect(fees - (await ledgerBalanceOf(gateway.server.db, "system:fee_revenue"))).toBe(
      25n * NANO_PER_CENT,
    );
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "paid" });
    stripe.refund(intent, 525);
    await deliver();
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(0n);
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "refunded" });
    const receipt = await pageText(`${invoice.pay_url}/receipt`);
    expect(receipt).toContain("Refunded −$10.50");
    expect(await pageText(invoice.pay_url)).toContain("Payment refunded");
  });

  test("a refund of spent credits does not make the balance negative: the operator bears it", async () => {
    const { account, intent } = await newPaidInvoice();
    await spend(account);
    const left = (await readWallet(gateway.server.db, account.id)).paid;
    expect(left).toBeLessThan(10n * NANO_PER_USD);
    stripe.refund(intent, 1_050);
    await deliver();
    expect(await readWallet(gateway.server.db, account.id)).toMatchObject({ paid: 0n, owed: 0n });
    expect((await call(account)).status).toBe(402);
  });

  test("a dispute of spent credits freezes the workspace until it is won", async () => {
    const { account, intent } = await newPaidInvoice();
    await spend(account);
    const { paid: left } = await readWallet(gateway.server.db, account.id);
    const dispute = stripe.dispute(intent, 1_050);
    await deliver();
    const missing = 10n * NANO_PER_USD - left;
    expect(await readWallet(gateway.server.db, account.id)).toMatchObject({
      paid: 0n,
      owed: missing,
    });
    const rejected = await call(account);
    const { error } = (await rejected.json()) as {
      error: { code: string; owed_usd: string; next: readonly unknown[] };
    };
    expect({ status: rejected.status, code: error.code }).toEqual({
      status: 402,
      code: "insufficient_credits",
    });
    expect(BigInt(Math.round(Number(error.owed_usd) * 1e9))).toBe(missing);
    expect(error.next[0]).toMatchObject({ url: "/v1/billing/invoice", method: "POST" });
    const owed = async () =>
      (await api<{ owed_usd: number }>(gateway, account, ["GET", "/v1/account"])).body.owed_usd;
    expect(await owed()).toBe(Number(error.owed_usd));
    stripe.closeDispute(dispute, "won");
    await deliver();
    expect(await readWallet(gateway.server.db, account.id)).toMatchObject({ paid: left, owed: 0n });
    expect(await owed()).toBe(0);
    expect((await call(account)).status).toBe(200);
  });

  test("after a lost dispute, buying credits pays the debt and unfreezes the workspace", async () => {
    const { account, intent } = await newPaidInvoice();
    await spend(account);
    const dispute = stripe.dispute(intent, 1_050);
    stripe.closeDispute(dispute, "lost");
    await deliver();
    const { owed } = await readWallet(gateway.server.db, account.id);
    expect(owed).toBeGreaterThan(0n);
    stripe.pay(await openCheckout(await buyCredits(gateway, account)));
    await deliver();
    expect(await readWallet(gateway.server.db, account.id)).toMatchObject({
      paid: 10n * NANO_PER_USD - owed,
      owed: 0n,
    });
    expect((await call(account)).status).toBe(200);
  });

  test("an inquiry takes nothing", async () => {
    const { account, intent } = await newPaidInvoice();
    stripe.dispute(intent, 1_050, "warning_needs_response");
    await deliver();
    expect(await readWallet(gateway.server.db, account.id)).toMatchObject({
      paid: 10n * NANO_PER_USD,
      owed: 0n,
    });
  });

  const call = (account: TestAccount): Promise<Response> =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({
        model: "sim/echo",
        messages: [{ role: "user", content: "[[sim: tokens=30000]] hello" }],
        max_tokens: 30_000,
      }),
    });

  /** Spends the starting credit and a part of the purchased credits. */
  async function spend(account: TestAccount): Promise<void> {
    for (let calls = 0; calls < 4; calls++) expect((await call(account)).status).toBe(200);
  }
});
