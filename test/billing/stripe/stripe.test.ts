// Stripe by way of its official package, which talks over HTTP to a Stripe that is not there.

import {
  afterAll,
  afterEach,
  beforeAll,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
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

// The first test starts PostgreSQL.
setDefaultTimeout(60_000);

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
    stripe.fault = "fine";
    stripe.webhookEvents.length = 0;
    await expectLedgerValid(gateway.server.db);
  });
  afterAll(async () => {
    await gateway.stop();
    await stripe.stop();
  });

  /** The page at Stripe that an invoice's button leads to. */
  async function toStripe(invoice: InvoiceBody) {
    const response = await submitForm(invoice.pay_url);
    expect(response.status).toBe(303);
    return stripe.sessionAt(response.headers.get("location"));
  }

  async function deliver(): Promise<void> {
    for (const letter of stripe.webhookEvents.splice(0))
      expect((await stripe.sendWebhook(gateway.url, letter)).status).toBe(200);
  }

  async function paid(usd = 10) {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account, usd);
    const session = await toStripe(invoice);
    const intent = stripe.pay(session);
    await deliver();
    return { account, invoice, session, intent };
  }

  const clearing = (): Promise<bigint> =>
    ledgerBalanceOf(gateway.server.db, "system:clearing:stripe");

  test("the button leads to one page with two lines, the credits and the fee", async () => {
    const invoice = await buyCredits(gateway, await registerAccount(gateway));
    const session = await toStripe(invoice);
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

  test("double clicks, retries and lost replies lead to the same page", async () => {
    const invoice = await buyCredits(gateway, await registerAccount(gateway));
    stripe.fault = "reply lost";
    const lost = await submitForm(invoice.pay_url);
    expect(lost.status).toBe(503);
    expect(await lost.text()).toContain("Nothing was charged");
    stripe.fault = "fine";
    const pages = await Promise.all(Array.from({ length: 6 }, () => toStripe(invoice)));
    pages.push(await toStripe(invoice));
    expect(new Set(pages.map(({ id }) => id)).size).toBe(1);
    expect(stripe.sessions().filter(({ reference }) => reference === invoice.id)).toHaveLength(1);
  });

  test("a paid page is credited by its webhook, with the tax that Stripe worked out", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    const before = await clearing();
    stripe.pay(await toStripe(invoice), { taxCents: 200 });
    await deliver();
    const response = await readInvoice(gateway, account, invoice.id);
    expect(response).toMatchObject({ status: "paid", tax_usd: 2, total_usd: 12.5 });
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(10n * NANO_PER_USD);
    expect(before - (await clearing())).toBe(1_250n * NANO_PER_CENT);
    const receipt = await pageText(`${invoice.pay_url}/receipt`);
    for (const words of ["$10.00", "$0.50", "$2.00", "$12.50", "stripe:pi_"])
      expect(receipt).toContain(words);
  });

  test("a lost webhook loses nothing: whoever reads the invoice finds it paid", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    stripe.pay(await toStripe(invoice));
    now += 3_000;
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "paid" });
    await deliver();
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(10n * NANO_PER_USD);
  });

  test("the payer who comes back sees at once that it is paid", async () => {
    const invoice = await buyCredits(gateway, await registerAccount(gateway));
    stripe.pay(await toStripe(invoice));
    now += 3_000;
    expect(await pageText(`${invoice.pay_url}?done=1`)).toContain("Invoice paid");
  });

  test("forged, foreign and old webhooks are refused, and nothing is asked for their sake", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    stripe.pay(await toStripe(invoice));
    const [letter] = stripe.webhookEvents;
    const body = letter?.body ?? "";
    const asked = stripe.calls.length;
    const seconds = Math.floor(now / 1_000);
    const signatures = [
      "",
      "t=1,v1=00",
      stripe.signWebhook(body, seconds, "whsec_of_somebody_else"),
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
    expect(stripe.calls.length).toBe(asked);
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(0n);
  });

  test("what a signed webhook claims is not believed: the page is read back", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    const session = await toStripe(invoice);
    const lie = JSON.stringify({
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
    expect((await stripe.sendWebhook(gateway.url, { type: "", body: lie })).status).toBe(200);
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(0n);
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "open" });
  });

  test("webhooks about what is none of ours are heard and ignored", async () => {
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

  test("another amount is kept aside, never credited, and told to the operator", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    const before = await ledgerBalanceOf(gateway.server.db, "system:suspense");
    const intent = stripe.pay(await toStripe(invoice), { cents: 1_049 });
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

  test("another currency is kept aside and never credited", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    const intent = stripe.pay(await toStripe(invoice), { currency: "jpy" });
    await deliver();
    stripe.refund(intent, 1_050);
    await deliver();
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "open" });
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(0n);
    expect(gateway.logLines.some((line) => line.includes("it is in jpy"))).toBe(true);
  });

  test("a Stripe that is down: the page says so, webhooks are asked for again, reading still works", async () => {
    const account = await registerAccount(gateway);
    const [invoice, fresh] = [
      await buyCredits(gateway, account),
      await buyCredits(gateway, account),
    ];
    stripe.pay(await toStripe(invoice));
    stripe.fault = "down";
    const [letter] = stripe.webhookEvents;
    if (letter === undefined) throw new Error("no webhook");
    expect((await stripe.sendWebhook(gateway.url, letter)).status).toBe(503);
    now += 3_000;
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "open" });
    const page = await submitForm(fresh.pay_url);
    expect([page.status, await page.text()]).toEqual([
      503,
      expect.stringContaining("cannot be reached"),
    ]);
    const held = await api(gateway, account, ["POST", `/v1/billing/invoice/${invoice.id}/void`]);
    expect(held.status).toBe(503);
    expect(Number(held.headers.get("retry-after"))).toBeGreaterThan(0);
    stripe.fault = "fine";
    await deliver();
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "paid" });
  });

  test("a Stripe that is slow is waited for", async () => {
    const invoice = await buyCredits(gateway, await registerAccount(gateway));
    stripe.fault = "slow";
    expect((await toStripe(invoice)).reference).toBe(invoice.id);
  });

  test("voiding closes the page at Stripe; a page that was paid at meanwhile wins", async () => {
    const account = await registerAccount(gateway);
    const [one, two, never] = [
      await buyCredits(gateway, account),
      await buyCredits(gateway, account),
      await buyCredits(gateway, account),
    ];
    const [first, second] = [await toStripe(one), await toStripe(two)];
    const voided = (id: string) =>
      api(gateway, account, ["POST", `/v1/billing/invoice/${id}/void`]);
    expect((await voided(one.id)).status).toBe(200);
    expect(first.status).toBe("expired");
    stripe.pay(second);
    expect((await voided(two.id)).status).toBe(409);
    expect((await voided(never.id)).status).toBe(200);
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(10n * NANO_PER_USD);
  });

  test("a page that ran out is followed by another one", async () => {
    const account = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    const first = await toStripe(invoice);
    stripe.expireSession(first);
    const second = await toStripe(invoice);
    expect(second.id).not.toBe(first.id);
    stripe.pay(second);
    await deliver();
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "paid" });
  });

  test("a page that Stripe does not know is given up: another can be paid at, and the invoice can be voided", async () => {
    const account = await registerAccount(gateway);
    const [one, two] = [await buyCredits(gateway, account), await buyCredits(gateway, account)];
    stripe.forgetSession(await toStripe(one));
    stripe.forgetSession(await toStripe(two));
    stripe.pay(await toStripe(one));
    await deliver();
    expect(await readInvoice(gateway, account, one.id)).toMatchObject({ status: "paid" });
    const gone = await api(gateway, account, ["POST", `/v1/billing/invoice/${two.id}/void`]);
    expect(gone.status).toBe(200);
  });

  test("a payment that takes days is waited for, not paid twice, and may fail", async () => {
    const account = await registerAccount(gateway);
    const [slow, bad] = [await buyCredits(gateway, account), await buyCredits(gateway, account)];
    for (const [invoice, ending] of [
      [slow, "succeeded"],
      [bad, "requires_payment_method"],
    ] as const) {
      const session = await toStripe(invoice);
      stripe.pay(session, { state: "processing" });
      await deliver();
      expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "open" });
      const again = await submitForm(invoice.pay_url);
      expect(again.headers.get("location")).toContain("?done=1");
      const gone = await api(gateway, account, ["POST", `/v1/billing/invoice/${invoice.id}/void`]);
      expect(gone.status).toBe(409);
      stripe.completePayment(session, ending);
      await deliver();
    }
    expect(await readInvoice(gateway, account, slow.id)).toMatchObject({ status: "paid" });
    expect(await readInvoice(gateway, account, bad.id)).toMatchObject({ status: "open" });
    expect((await toStripe(bad)).status).toBe("open");
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(10n * NANO_PER_USD);
  });

  test("a refund takes back credits and fee in proportion, and the invoice is refunded when all is back", async () => {
    const { account, invoice, intent } = await paid();
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

  test("a refund above what is left never takes a balance below zero: the house bears it", async () => {
    const { account, intent } = await paid();
    await spend(account);
    const left = (await readWallet(gateway.server.db, account.id)).paid;
    expect(left).toBeLessThan(10n * NANO_PER_USD);
    stripe.refund(intent, 1_050);
    await deliver();
    expect(await readWallet(gateway.server.db, account.id)).toMatchObject({ paid: 0n, owed: 0n });
    expect((await call(account)).status).toBe(402);
  });

  test("a dispute takes what is left and freezes the workspace for what is missing, and says so", async () => {
    const { account, intent } = await paid();
    await spend(account);
    const { paid: left } = await readWallet(gateway.server.db, account.id);
    const dispute = stripe.dispute(intent, 1_050);
    await deliver();
    const missing = 10n * NANO_PER_USD - left;
    expect(await readWallet(gateway.server.db, account.id)).toMatchObject({
      paid: 0n,
      owed: missing,
    });
    const refused = await call(account);
    const { error } = (await refused.json()) as {
      error: { code: string; owed_usd: string; next: readonly unknown[] };
    };
    expect({ status: refused.status, code: error.code }).toEqual({
      status: 403,
      code: "workspace_frozen",
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

  test("after a lost dispute, buying credits makes good for what is missing and unfreezes", async () => {
    const { account, intent } = await paid();
    await spend(account);
    const dispute = stripe.dispute(intent, 1_050);
    stripe.closeDispute(dispute, "lost");
    await deliver();
    const { owed } = await readWallet(gateway.server.db, account.id);
    expect(owed).toBeGreaterThan(0n);
    stripe.pay(await toStripe(await buyCredits(gateway, account)));
    await deliver();
    expect(await readWallet(gateway.server.db, account.id)).toMatchObject({
      paid: 10n * NANO_PER_USD - owed,
      owed: 0n,
    });
    expect((await call(account)).status).toBe(200);
  });

  test("a dispute that is only an inquiry takes nothing", async () => {
    const { account, intent } = await paid();
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

  /** Uses up the gift and a part of what was bought. */
  async function spend(account: TestAccount): Promise<void> {
    for (let times = 0; times < 4; times++) expect((await call(account)).status).toBe(200);
  }
});
