// Two processes on one store with Stripe and the operator's command line: each payment is credited once.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { markPaid } from "../../../src/billing/payments/manual-payments.ts";
import {
  createTempFolder,
  runPostern,
  startPostern,
  stopPostern,
  stopAll,
} from "../../commands/run-postern.ts";
import { TEST_ACTOR } from "../../support/act.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { testPostgres } from "../../support/stores/postgres.ts";
import {
  api,
  buyCredits,
  NANO_PER_CENT,
  expectLedgerValid,
  type InvoiceBody,
  readInvoice,
  submitForm,
  ledgerBalanceOf,
  NANO_PER_USD,
  readWallet,
} from "../fixtures.ts";
import { createBillingHarness, type BillingHarness } from "../harness.ts";

describe("two gateways on one PostgreSQL", () => {
  let stripe: FakeStripe;
  let gateways: readonly Gateway[] = [];
  const now = { value: Date.now() };
  beforeAll(async () => {
    stripe = startFakeStripe();
    const databaseUrl = await testPostgres();
    const env = {
      ...stripe.env,
      POSTERN_SECRET: "one secret for both of the processes",
      POSTERN_BASE_URL: "https://gateway.example",
    };
    gateways = await Promise.all(
      ["one", "two"].map((name) =>
        startGateway({
          databaseUrl,
          env: { ...env, POSTERN_PROCESS_NAME: name },
          now: () => now.value,
        }),
      ),
    );
  });
  afterAll(async () => {
    for (const gateway of gateways) await gateway.stop();
    await stripe.stop();
  });

  test("one Idempotency-Key leads to one invoice, one page and one credit on both gateways", async () => {
    const [one, two] = gateways;
    if (one === undefined || two === undefined) throw new Error("two gateways expected");
    const account = await registerAccount(one);
    const headers = { "idempotency-key": "buy-once" };
    const created = await Promise.all(
      [one, two, one, two].map((gateway) =>
        api<InvoiceBody>(gateway, account, ["POST", "/v1/billing/invoice"], {
          body: { amount_usd: 10 },
          headers,
        }),
      ),
    );
    expect(new Set(created.map(({ body }) => body.id)).size).toBe(1);
    const invoice = created[0]?.body;
    if (invoice === undefined) throw new Error("no invoice");
    const path = new URL(invoice.pay_url).pathname;
    const clicks = await Promise.all(
      [one, two, one, two].map(({ url }) =>
        submitForm(url + path, {}, { origin: "https://gateway.example" }),
      ),
    );
    const pages = new Set(clicks.map((click) => click.headers.get("location")));
    expect(pages.size).toBe(1);
    stripe.pay(stripe.sessionAt([...pages][0] ?? null));
    const webhooks = stripe.webhookEvents.splice(0);
    now.value += 3_000;
    await Promise.all([
      ...webhooks.flatMap((webhook) => gateways.map(({ url }) => stripe.sendWebhook(url, webhook))),
      ...gateways.map((gateway) => readInvoice(gateway, account, invoice.id)),
    ]);
    expect(await readInvoice(two, account, invoice.id)).toMatchObject({ status: "paid" });
    expect((await readWallet(one.server.db, account.id)).paid).toBe(10n * NANO_PER_USD);
    expect(await ledgerBalanceOf(one.server.db, "system:clearing:stripe")).toBe(
      -1_050n * NANO_PER_CENT,
    );
    await expectLedgerValid(one.server.db);
  });

  test("two processes that poll at the same time reconcile each page once", async () => {
    const [one] = gateways;
    if (one === undefined) throw new Error("no gateway");
    const harnesses: BillingHarness[] = await Promise.all(
      [1, 2].map(() => createBillingHarness(one.server.db, stripe.env)),
    );
    const account = await registerAccount(one);
    for (let count = 0; count < 5; count++) {
      const invoice = await buyCredits(one, account);
      const click = await submitForm(
        one.url + new URL(invoice.pay_url).pathname,
        {},
        { origin: "https://gateway.example" },
      );
      stripe.pay(stripe.sessionAt(click.headers.get("location")));
    }
    stripe.webhookEvents.length = 0;
    stripe.calls.length = 0;
    for (const harness of harnesses) harness.clock.now = now.value + 70_000;
    await Promise.all(harnesses.map((harness) => harness.runPoll()));
    expect((await readWallet(one.server.db, account.id)).paid).toBe(50n * NANO_PER_USD);
    expect(
      stripe.calls.filter((call) => call.startsWith("GET /v1/checkout/sessions/")).length,
    ).toBeLessThanOrEqual(6);
    await expectLedgerValid(one.server.db);
  });

  test("closes the Stripe page of an invoice that was paid by bank transfer", async () => {
    const [one] = gateways;
    if (one === undefined) throw new Error("no gateway");
    const [account, harness] = [
      await registerAccount(one),
      await createBillingHarness(one.server.db, stripe.env),
    ];
    const invoice = await buyCredits(one, account);
    const click = await submitForm(
      one.url + new URL(invoice.pay_url).pathname,
      {},
      { origin: "https://gateway.example" },
    );
    const session = stripe.sessionAt(click.headers.get("location"));
    await markPaid(harness.billing, {
      invoiceId: invoice.id,
      reference: "bank 1",
      by: TEST_ACTOR,
      now: now.value,
    });
    harness.clock.now = now.value + 200_000;
    await harness.runPoll();
    expect(session.status).toBe("expired");
    expect((await readWallet(one.server.db, account.id)).paid).toBe(10n * NANO_PER_USD);
  });
});

describe("admin commands beside a running gateway", () => {
  const folder = createTempFolder();
  afterAll(() => {
    stopAll();
    folder.remove();
  });

  test("mark-paid and mark-refunded are applied once, and the ledger is valid", async () => {
    const gateway = await startPostern(["serve"], folder.settings);
    const account: TestAccount = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, account);
    const run = (...args: string[]) => runPostern(["admin", ...args], folder.settings);
    const markPaidTwice = await Promise.all(
      [1, 2].map(() => run("mark-paid", invoice.id, "--reference", "wire 7")),
    );
    expect(markPaidTwice.map(({ code }) => code)).toEqual([0, 0]);
    expect(
      markPaidTwice
        .map(({ stdout }) => stdout)
        .sort()
        .join(""),
    ).toMatch(/Marked inv_\w+ as paid[^]*was already marked as paid by wire 7/);
    expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "paid" });
    const [other, refund, tooMuch, nothing, check] = await Promise.all([
      run("mark-paid", invoice.id, "--reference", "wire 8"),
      run("mark-refunded", invoice.id, "5.25", "--reference", "back 1"),
      run("mark-refunded", invoice.id, "99", "--reference", "back 2"),
      run("write-off", account.id, "--reason", "none"),
      run("verify-ledger"),
    ]);
    expect([other.code, other.stderr]).toEqual([1, expect.stringContaining("is already paid")]);
    expect(refund.stdout).toContain("$5.25");
    expect([tooMuch.code, tooMuch.stderr]).toEqual([
      1,
      expect.stringMatching(/Only \$(10\.50|5\.25) of this payment/),
    ]);
    expect(nothing.stdout).toContain("owes nothing");
    expect(check.stdout).toContain("No differences");
    const { body } = await api<{ balance: { credits: number } }>(gateway, account, [
      "GET",
      "/v1/account",
    ]);
    expect(body.balance.credits).toBe(5_050_000);
    await stopPostern(gateway);
  });
});
