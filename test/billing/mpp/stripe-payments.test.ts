// Machine Payments with the method `stripe`: the official client with shared payment tokens, and the fake Stripe.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  api,
  buyCredits,
  expectLedgerValid,
  type InvoiceBody,
  ledgerBalanceOf,
  NANO_PER_CENT,
  readInvoice,
} from "../fixtures.ts";
import { alterCredential, challengesIn, createStripeClient, receiptIn } from "./client.ts";
import { CALL, type ErrorBody, paidCalls } from "./paid-call.ts";

const PAID_CENTS = 100;

describe.each(STORE_KINDS)("Machine Payments with stripe on %s", (store) => {
  let stripe: FakeStripe;
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    stripe = startFakeStripe();
    const env = { ...stripe.env, STRIPE_NETWORK_ID: stripe.networkId };
    gateway = await startGateway({ store, env, providers: ["sim", "openai"] });
  });
  afterAll(async () => {
    const { db } = gateway.server;
    const cleared = -(await ledgerBalanceOf(db, "system:clearing:stripe"));
    expect(cleared).toBe(BigInt(stripe.balance()) * NANO_PER_CENT);
    await expectLedgerValid(db);
    await gateway.stop();
    await stripe.stop();
  });
  beforeEach(async () => {
    account = await registerAccount(gateway);
    stripe.fault = "ok";
    stripe.webhookEvents.length = 0;
  });

  const { callUrl, request, call, paidNano } = paidCalls(() => ({ gateway, account }));

  async function credentialFor(method = "pm_works", payer = account): Promise<string> {
    const response = await fetch(callUrl(), request(CALL, payer));
    return createStripeClient(stripe, method).credentialFor(response);
  }

  const charges = () => [...stripe.intents.values()].filter(({ status }) => status === "succeeded");

  async function deliver(): Promise<void> {
    for (const webhook of stripe.webhookEvents.splice(0))
      expect((await stripe.sendWebhook(gateway.url, webhook)).status).toBe(200);
  }

  async function states(): Promise<readonly unknown[]> {
    const rows = await gateway.server.db.all(
      "select state from agent_payment where account_id = ? order by created_at, id",
      [account.id],
    );
    return rows.map(({ state }) => state);
  }

  test("the official client pays for a call and gets a receipt", async () => {
    const before = charges().length;
    const client = createStripeClient(stripe);
    const response = await client.fetch(callUrl(), request());
    expect(response.status).toBe(200);
    const receipt = receiptIn(response);
    expect(receipt).toMatchObject({ method: "stripe", status: "success" });
    expect(stripe.intents.get(receipt.reference)).toMatchObject({
      cents: PAID_CENTS,
      status: "succeeded",
    });
    expect(charges()).toHaveLength(before + 1);
    expect((await paidNano()) > 0n).toBe(true);
    const invoices = await api<{ data: readonly InvoiceBody[] }>(gateway, account, [
      "GET",
      "/v1/billing/invoices",
    ]);
    expect(invoices.body.data.map(({ status, total_usd }) => [status, total_usd])).toEqual([
      ["paid", 1],
    ]);
  });

  test("the official client pays for a stream and prepays an invoice", async () => {
    const client = createStripeClient(stripe);
    const stream = await client.fetch(callUrl(), request({ ...CALL, stream: true }));
    expect(receiptIn(stream).method).toBe("stripe");
    expect(await stream.text()).toContain("[DONE]");
    const invoice = await buyCredits(gateway, account, 2);
    const url = `${gateway.url}/v1/billing/invoice/${invoice.id}/mpp`;
    const response = await client.fetch(url, request({}));
    expect(await response.json()).toMatchObject({ id: invoice.id, status: "paid" });
    expect(receiptIn(response).reference).toStartWith("pi_");
  });

  test("the challenge names the amount, the seller and the kinds of payment methods", async () => {
    const { status, headers } = await call();
    expect(status).toBe(402);
    expect(challengesIn(headers)).toMatchObject([
      {
        method: "stripe",
        intent: "charge",
        request: {
          amount: "100",
          currency: "usd",
          methodDetails: { networkId: stripe.networkId, paymentMethodTypes: ["card", "link"] },
        },
      },
    ]);
  });

  test("webhooks of the payment, also repeated and before the reply, credit nothing twice", async () => {
    const credential = await credentialFor();
    stripe.fault = "reply lost";
    expect((await call(credential)).status).toBe(503);
    stripe.fault = "ok";
    const events = [...stripe.webhookEvents];
    await deliver();
    const paid = await paidNano();
    expect(paid).toBe(952_380_000n);
    stripe.webhookEvents.push(...events, ...events);
    await deliver();
    expect(await paidNano()).toBe(paid);
    await gateway.server.db.write((tx) =>
      tx.run("update agent_payment set due_at = 0 where account_id = ?", [account.id]),
    );
    const rest = await fetch(callUrl(), {
      ...request({ ...CALL, max_tokens: 120_000 }),
      headers: { ...request().headers, authorization: credential },
    });
    // The challenge is for another amount, but the payment keeps its outcome.
    expect(rest.status).toBe(402);
    expect((await call(credential)).status).toBe(200);
    expect(await states()).toEqual(["paid"]);
    expect((await paidNano()) <= paid).toBe(true);
  });

  test("a credential is charged once, in sequence and at the same time", async () => {
    const before = charges().length;
    const credential = await credentialFor();
    const all = await Promise.all(Array.from({ length: 4 }, () => call(credential)));
    expect(all.some(({ status }) => status === 200)).toBe(true);
    await call(credential);
    expect(charges()).toHaveLength(before + 1);
    expect(await states()).toEqual(["paid"]);
  });

  test("a token that was used for another challenge is refused without a charge", async () => {
    const before = charges().length;
    const credential = await credentialFor();
    const invoice = await buyCredits(gateway, account, 2);
    const url = `${gateway.url}/v1/billing/invoice/${invoice.id}/mpp`;
    expect((await call(credential)).status).toBe(200);
    const challenged = await fetch(url, request({}));
    const second = await createStripeClient(stripe).credentialFor(challenged);
    const spt = tokenOf(credential);
    const headers = { ...request().headers, authorization: withToken(second, spt) };
    const replay = await fetch(url, { ...request({}), headers });
    expect(replay.status).toBe(402);
    expect(((await replay.json()) as ErrorBody).error.payment_error).toContain("used before");
    expect((await readInvoice(gateway, account, invoice.id)).status).toBe("open");
    expect(charges()).toHaveLength(before + 1);
  });

  test("a used challenge is refused with another token", async () => {
    const before = charges().length;
    const credential = await credentialFor();
    expect((await call(credential)).status).toBe(200);
    await gateway.server.db.write((tx) =>
      tx.run("update wallet set held = held where account_id = ?", [account.id]),
    );
    const second = withToken(credential, stripe.issueToken());
    const big = { ...CALL, max_tokens: 120_000 };
    const headers = { ...request().headers, authorization: second };
    const replay = await fetch(callUrl(), { ...request(big), headers });
    expect(replay.status).toBe(402);
    expect(((await replay.json()) as ErrorBody).error.payment_error).toContain("already used");
    expect(charges()).toHaveLength(before + 1);
  });

  const refusedTokens: Readonly<
    Record<string, readonly [issue: () => Promise<string>, reason: string]>
  > = {
    "a declined card": [() => credentialFor("pm_declined"), "declined"],
    "a card that needs its holder": [() => credentialFor("pm_needs_action"), "must confirm"],
    "a token for another seller": [
      async () => withToken(await credentialFor(), stripe.issueToken({ networkId: "profile_x" })),
      "another seller",
    ],
    "a token for a smaller amount": [
      async () => withToken(await credentialFor(), stripe.issueToken({ cents: 99 })),
      "smaller amount",
    ],
    "an expired token": [
      async () => withToken(await credentialFor(), stripe.issueToken({ expiresAt: 1 })),
      "expired",
    ],
  };

  for (const [title, [issue, reason]] of Object.entries(refusedTokens))
    test(`${title} is a 402 with new challenges, and credits nothing`, async () => {
      const { status, body, headers } = await call(await issue());
      expect(status).toBe(402);
      expect(body.error.payment_error).toContain(reason);
      expect(challengesIn(headers)).toHaveLength(1);
      expect(headers.has("payment-receipt")).toBe(false);
      expect(await states()).toEqual(["refused"]);
      expect(await paidNano()).toBe(0n);
      // A payment that failed cannot be completed later.
      for (const intent of stripe.intents.values())
        expect(["succeeded", "canceled", "processing"]).toContain(intent.status);
      const invoices = await api<{ data: readonly InvoiceBody[] }>(gateway, account, [
        "GET",
        "/v1/billing/invoices",
      ]);
      expect(invoices.body.data.map((invoice) => invoice.status)).toEqual(["void"]);
    });

  test("a payload without a token is a 400, and a changed challenge a 402", async () => {
    const credential = await credentialFor();
    const noToken = alterCredential(credential, () => ({ payload: {} }));
    const wrong = await call(noToken);
    expect([wrong.status, wrong.body.error.param]).toEqual([400, "authorization"]);
    const cheaper = alterCredential(credential, ({ challenge }) => ({
      challenge: { ...challenge, request: { ...challenge.request, amount: "50" } },
    }));
    const changed = await call(cheaper);
    expect(changed.body.error.payment_error).toContain("not issued by this gateway");
    expect(await states()).toEqual([]);
  });

  test("refunds and disputes of the payment take the credits back once", async () => {
    const client = createStripeClient(stripe);
    const invoice = await buyCredits(gateway, account, 2);
    const url = `${gateway.url}/v1/billing/invoice/${invoice.id}/mpp`;
    const { reference } = receiptIn(await client.fetch(url, request({})));
    const intent = stripe.intents.get(reference);
    if (intent === undefined) throw new Error("no intent");
    await deliver();
    expect(await paidNano()).toBe(200n * NANO_PER_CENT);
    stripe.refund(intent, 105);
    await deliver();
    expect(await paidNano()).toBe(100n * NANO_PER_CENT);
    const dispute = stripe.dispute(intent, 105);
    await deliver();
    expect(await paidNano()).toBe(0n);
    stripe.closeDispute(dispute, "won");
    await deliver();
    expect(await paidNano()).toBe(100n * NANO_PER_CENT);
  });

  test("amounts below Stripe's minimum have no challenge", async () => {
    const invoiceId = (await buyCredits(gateway, account, 1)).id;
    // No API creates such an invoice; the least that a call buys is a setting.
    await gateway.server.db.write((tx) =>
      tx.run("update invoice set credits = 400000, total_cents = 42 where id = ?", [invoiceId]),
    );
    const response = await fetch(`${gateway.url}/v1/billing/invoice/${invoiceId}/mpp`, request({}));
    expect(response.status).toBe(409);
    expect(((await response.json()) as ErrorBody).error.message).toContain("$0.50");
  });
});

function tokenOf(credential: string): string {
  let token = "";
  alterCredential(credential, ({ payload }) => {
    token = (payload as { spt: string }).spt;
    return {};
  });
  return token;
}

function withToken(credential: string, spt: string): string {
  return alterCredential(credential, () => ({ payload: { spt } }));
}
