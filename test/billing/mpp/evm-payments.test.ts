// Machine Payments with the method `evm`: the official client, and credentials that are refused.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import {
  startFacilitator,
  type TestFacilitator,
  type Wallet,
} from "../../support/fakes/x402-facilitator.ts";
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
import { fundedWallet } from "../x402/wallet.ts";
import { alterCredential, challengesIn, createEvmClient, receiptIn } from "./client.ts";
import { CALL, type ErrorBody, paidCalls, WHOLE_HOLD } from "./paid-call.ts";

/** What $1.00 buys: 952,380 credits. */
const TOP_UP_NANO = 952_380_000n;

describe.each(STORE_KINDS)("Machine Payments with evm on %s", (store) => {
  let facilitator: TestFacilitator;
  let gateway: Gateway;
  let account: TestAccount;
  let wallet: Wallet;
  beforeAll(async () => {
    facilitator = startFacilitator();
    const env = { ...facilitator.env, X402_RPC_URL: facilitator.rpcUrl };
    gateway = await startGateway({ store, env, providers: ["sim", "openai"] });
  });
  afterAll(async () => {
    const { db } = gateway.server;
    const cleared = -(await ledgerBalanceOf(db, "system:clearing:x402"));
    expect(cleared).toBe(facilitator.chain.balanceOf(facilitator.payTo) * NANO_PER_CENT);
    await expectLedgerValid(db);
    await gateway.stop();
    await facilitator.stop();
  });
  beforeEach(async () => {
    account = await registerAccount(gateway);
    wallet = fundedWallet(facilitator, 500n);
    facilitator.calls.length = 0;
  });

  const { callUrl, request, call, paidNano } = paidCalls(() => ({ gateway, account }));

  async function credentialFor(payer = account): Promise<string> {
    return createEvmClient(wallet).credentialFor(await fetch(callUrl(), request(CALL, payer)));
  }

  async function expectNothingPaid(): Promise<void> {
    expect(await paidNano()).toBe(0n);
    expect(facilitator.chain.balanceOf(wallet.address)).toBe(500n);
  }

  test("the official client pays for a call and gets a receipt", async () => {
    const client = createEvmClient(wallet);
    const response = await client.fetch(callUrl(), request());
    expect(response.status).toBe(200);
    expect(client.sent.at(-1)?.get("authorization")).toStartWith("Payment ");
    expect(client.sent.at(-1)?.has("payment-signature")).toBe(false);
    const receipt = receiptIn(response);
    expect(receipt).toMatchObject({ method: "evm", status: "success" });
    expect(receipt.reference).toMatch(/^0x[0-9a-f]{64}$/);
    expect(response.headers.get("cache-control")).toBe("private");
    expect(facilitator.chain.balanceOf(wallet.address)).toBe(400n);
    const paid = await paidNano();
    expect(paid > 0n && paid <= TOP_UP_NANO).toBe(true);
    const invoices = await api<{ data: readonly InvoiceBody[] }>(gateway, account, [
      "GET",
      "/v1/billing/invoices",
    ]);
    expect(invoices.body.data.map(({ status, total_usd }) => [status, total_usd])).toEqual([
      ["paid", 1],
    ]);
  });

  test("the official client pays for a stream and prepays an invoice", async () => {
    const client = createEvmClient(wallet);
    const stream = await client.fetch(callUrl(), request({ ...CALL, stream: true }));
    expect(stream.status).toBe(200);
    expect(receiptIn(stream).method).toBe("evm");
    expect(await stream.text()).toContain("[DONE]");
    const invoice = await buyCredits(gateway, account, 2);
    const url = `${gateway.url}/v1/billing/invoice/${invoice.id}/mpp`;
    const response = await client.fetch(url, request({}));
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ id: invoice.id, status: "paid" });
    expect(receiptIn(response).reference).toMatch(/^0x/);
    expect(facilitator.chain.balanceOf(wallet.address)).toBe(190n);
    // A paid invoice needs no payment.
    const again = await fetch(url, request({}));
    expect(again.status).toBe(200);
    expect(again.headers.has("payment-receipt")).toBe(false);
  });

  test("a 402 has x402 and Payment challenges, and says that the key goes into x-api-key", async () => {
    const { status, headers, body } = await call();
    expect(status).toBe(402);
    expect(headers.has("payment-required")).toBe(true);
    expect(headers.has("payment-receipt")).toBe(false);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(challengesIn(headers)).toMatchObject([
      {
        method: "evm",
        intent: "charge",
        realm: new URL(gateway.url).host,
        request: {
          amount: "1000000",
          recipient: facilitator.payTo,
          methodDetails: { chainId: 84_532, credentialTypes: ["authorization"], decimals: 6 },
        },
      },
    ]);
    expect(body.error.next?.at(-1)?.why).toContain("x-api-key");
  });

  test("a credential without a key is a 401 that says where the key goes", async () => {
    const credential = await credentialFor();
    const response = await fetch(callUrl(), {
      method: "POST",
      headers: { authorization: credential, "content-type": "application/json" },
      body: JSON.stringify(CALL),
    });
    expect(response.status).toBe(401);
    expect(((await response.json()) as ErrorBody).error.message).toContain("x-api-key");
    await expectNothingPaid();
  });

  test("a credential is charged once, in sequence and at the same time", async () => {
    const credential = await credentialFor();
    const all = await Promise.all(Array.from({ length: 4 }, () => call(credential)));
    expect(all.some(({ status }) => status === 200)).toBe(true);
    await call(credential);
    expect(facilitator.chain.balanceOf(wallet.address)).toBe(400n);
    expect(facilitator.chain.transfers()).toBeGreaterThan(0);
    const rows = await gateway.server.db.all(
      "select state from agent_payment where account_id = ?",
      [account.id],
    );
    expect(rows.map(({ state }) => state)).toEqual(["paid"]);
  });

  test("a used credential does not pay for another call", async () => {
    const credential = await credentialFor();
    expect((await call(credential)).status).toBe(200);
    // Costs up to $1.20, more than the balance.
    const body = { ...CALL, max_tokens: 120_000 };
    const headers = { ...request().headers, authorization: credential };
    const replay = await fetch(callUrl(), { ...request(body), headers });
    expect(replay.status).toBe(402);
    expect(replay.headers.has("payment-receipt")).toBe(false);
    expect(challengesIn(replay.headers)).toMatchObject([{ request: { amount: "1270000" } }]);
    expect(facilitator.chain.balanceOf(wallet.address)).toBe(400n);
  });

  const refusals: Readonly<
    Record<string, readonly [change: (parsed: never) => object, reason: string]>
  > = {
    "another realm": [
      ({ challenge }: { challenge: object }) => ({
        challenge: { ...challenge, realm: "elsewhere" },
      }),
      "not issued by this gateway",
    ],
    "a smaller amount": [
      ({ challenge }: { challenge: { request: object } }) => ({
        challenge: { ...challenge, request: { ...challenge.request, amount: "1" } },
      }),
      "not issued by this gateway",
    ],
    "a later expiry": [
      ({ challenge }: { challenge: object }) => ({
        challenge: { ...challenge, expires: "2099-01-01T00:00:00.000Z" },
      }),
      "not issued by this gateway",
    ],
    "another nonce": [
      ({ payload }: { payload: object }) => ({
        payload: { ...payload, nonce: `0x${"12".repeat(32)}` },
      }),
      "the nonce is not the hash of the challenge",
    ],
    "a longer authorization": [
      ({ payload }: { payload: { validBefore: string } }) => ({
        payload: { ...payload, validBefore: String(Number(payload.validBefore) + 60) },
      }),
      "valid for longer than the challenge",
    ],
    "another signer": [
      ({ payload }: { payload: object }) => ({
        payload: { ...payload, from: `0x${"34".repeat(20)}` },
      }),
      "signature",
    ],
    "another recipient": [
      ({ payload }: { payload: object }) => ({
        payload: { ...payload, to: `0x${"34".repeat(20)}` },
      }),
      "recipient",
    ],
  };

  for (const [title, [change, reason]] of Object.entries(refusals))
    test(`a credential with ${title} is refused and nothing is written`, async () => {
      const altered = alterCredential(await credentialFor(), change as never);
      const { status, body, headers } = await call(altered);
      expect(status).toBe(402);
      expect(body.error.payment_error).toContain(reason);
      expect(challengesIn(headers)).toHaveLength(1);
      expect(headers.has("payment-receipt")).toBe(false);
      await expectNothingPaid();
    });

  test("a challenge of another account, and of an earlier amount, is refused", async () => {
    const other = await registerAccount(gateway);
    const foreign = await call(await credentialFor(other));
    expect(foreign.body.error.payment_error).toContain("another account");
    const invoice = await buyCredits(gateway, account, 3);
    const url = `${gateway.url}/v1/billing/invoice/${invoice.id}/mpp`;
    const headers = { ...request().headers, authorization: await credentialFor() };
    const wrong = await fetch(url, { method: "POST", headers, body: "{}" });
    expect(wrong.status).toBe(402);
    expect(((await wrong.json()) as ErrorBody).error.payment_error).toContain("another amount");
    expect((await readInvoice(gateway, account, invoice.id)).status).toBe("open");
    await expectNothingPaid();
  });

  test("an unreadable credential, and two payments at once, are a 400", async () => {
    const wrong = await call("Payment not-a-credential");
    expect([wrong.status, wrong.body.error.param]).toEqual([400, "authorization"]);
    const init = request();
    const headers = new Headers(init.headers);
    headers.set("authorization", await credentialFor());
    headers.set("payment-signature", "e30=");
    const both = await fetch(callUrl(), { ...init, headers });
    expect(both.status).toBe(400);
    expect(((await both.json()) as ErrorBody).error.message).toContain("two payments");
    await expectNothingPaid();
  });

  test("an unknown outcome is a 503, and the same credential then finds the payment", async () => {
    const credential = await credentialFor();
    facilitator.faults.settle = "reply lost";
    const lost = await call(credential);
    facilitator.faults.settle = "ok";
    expect([lost.status, lost.headers.has("payment-receipt")]).toEqual([503, false]);
    await gateway.server.db.write((tx) =>
      tx.run("update agent_payment set due_at = 0 where account_id = ?", [account.id]),
    );
    const resumed = await call(credential);
    expect([resumed.status, receiptIn(resumed).status]).toEqual([200, "success"]);
    expect(facilitator.chain.balanceOf(wallet.address)).toBe(400n);
  });
});

describe("Machine Payments without a method", () => {
  test("no challenge, no endpoint, and a payment header is ignored", async () => {
    const gateway = await startGateway({ providers: ["sim", "openai"] });
    try {
      const account = await registerAccount(gateway);
      const response = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: {
          "x-api-key": account.key,
          authorization: "Payment e30",
          ...WHOLE_HOLD,
          "content-type": "application/json",
        },
        body: JSON.stringify(CALL),
      });
      expect(response.status).toBe(402);
      expect(response.headers.has("www-authenticate")).toBe(false);
      const missing = await fetch(`${gateway.url}/v1/billing/invoice/inv_1/mpp`, {
        method: "POST",
        headers: account.headers,
      });
      expect(missing.status).toBe(404);
    } finally {
      await gateway.stop();
    }
  });
});
