// x402 payments with the official client and by hand, rejected payments, the settings, and `postern doctor`.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import OpenAI from "openai";
import { DAY_MS } from "../../../src/base/time.ts";
import { checkX402 } from "../../../src/commands/doctor/check-agent-payments.ts";
import { readConfig } from "../../../src/config/config.ts";
import { lintOpenApi } from "../../discovery/lint-openapi.ts";
import {
  newWallet,
  startFacilitator,
  type TestFacilitator,
  type Wallet,
} from "../../support/fakes/x402-facilitator.ts";
import { casesOn } from "../../support/full.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { createUser, makeOwner, textOf, visitPage } from "../console-user.ts";
import {
  api,
  buyCredits,
  NANO_PER_CENT,
  expectLedgerValid,
  type ApiResponse,
  type InvoiceBody,
  readInvoice,
  submitForm,
  ledgerBalanceOf,
  invoiceAuditEntries,
  pageText,
  readWallet,
} from "../fixtures.ts";
import {
  challengeIn,
  fundedWallet,
  headerOf,
  newNonce,
  type SignOverrides,
  signPayment,
} from "./wallet.ts";

const MODEL = "openai/gpt-5";
/** Costs up to $0.60: more than the starting credit, less than one payment buys. */
const TOKENS = 60_000;
const TEXT = "[[sim: tokens=20]] hello";
const messages = [{ role: "user", content: TEXT }];
/** Also a stream needs credits for all of its output, and so a payment. */
const WHOLE_HOLD = { "x-postern-hold": "full" };
const CALLS = {
  chat: ["/v1/chat/completions", { model: MODEL, messages, max_tokens: TOKENS }],
  responses: ["/v1/responses", { model: MODEL, input: TEXT, max_output_tokens: TOKENS }],
  messages: ["/v1/messages", { model: MODEL, messages, max_tokens: TOKENS }],
} as const;
/** What $1.00 buys: 952,380 credits. */
const TOP_UP_NANO = 952_380_000n;

type PayingFetch = ReturnType<typeof wrapFetchWithPayment>;
type ErrorBody = {
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly param?: string;
    readonly payment_error?: string;
    readonly next?: readonly { readonly url: string; readonly why: string }[];
  };
};

function createPayingFetch(
  wallet: Wallet,
  options: { readonly isUnbounded?: boolean } = {},
): PayingFetch {
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(wallet));
  if (options.isUnbounded === true) client.setSpendControls(false);
  return wrapFetchWithPayment(fetch, client);
}

const CALLED_APIS = ["chat", "responses", "messages"] as const;

describe.each(STORE_KINDS)("x402 on %s", (store) => {
  let facilitator: TestFacilitator;
  let gateway: Gateway;
  let account: TestAccount;
  let wallet: Wallet;
  beforeAll(async () => {
    facilitator = startFacilitator();
    gateway = await startGateway({ store, env: facilitator.env, providers: ["sim", "openai"] });
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

  function request(name: keyof typeof CALLS, more: object = {}): [string, RequestInit] {
    const [path, body] = CALLS[name];
    return [
      gateway.url + path,
      {
        method: "POST",
        headers: { ...account.headers, ...WHOLE_HOLD },
        body: JSON.stringify({ ...body, ...more }),
      },
    ];
  }

  function call(header?: string, more: object = {}, name: keyof typeof CALLS = "chat") {
    const [path, body] = CALLS[name];
    return api<ErrorBody>(gateway, account, ["POST", path], {
      body: { ...body, ...more },
      headers: { ...WHOLE_HOLD, ...(header !== undefined && { "payment-signature": header }) },
    });
  }

  async function requirementsFor(more: object = {}) {
    const [requirements] = challengeIn((await call(undefined, more)).headers).accepts;
    if (requirements === undefined) throw new Error("no payment requirements");
    return requirements;
  }

  async function expectNothingPaid(): Promise<void> {
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(0n);
    expect(facilitator.chain.balanceOf(wallet.address)).toBe(500n);
  }

  describe("the official client", () => {
    for (const name of casesOn(store, CALLED_APIS)) {
      test(`pays for a call on ${name}`, async () => {
        const response = await createPayingFetch(wallet)(...request(name));
        expect(response.status).toBe(200);
        expect(await response.text()).toContain("the sim can say");
        const settled = decodePaymentResponseHeader(response.headers.get("payment-response") ?? "");
        expect(settled).toMatchObject({
          success: true,
          amount: "1000000",
          network: "eip155:84532",
          payer: wallet.address.toLowerCase(),
        });
        expect(settled.transaction).toMatch(/^0x[0-9a-f]{64}$/);
        expect(facilitator.chain.balanceOf(wallet.address)).toBe(400n);
        const { paid, promo, held } = await readWallet(gateway.server.db, account.id);
        expect(held).toBe(0n);
        expect(paid).toBe(TOP_UP_NANO);
        expect(promo).toBeLessThan(5n * NANO_PER_CENT);
        expect(facilitator.calls).toEqual(["verify", "settle"]);
      });

      test(`pays for a stream on ${name}`, async () => {
        const response = await createPayingFetch(wallet)(...request(name, { stream: true }));
        expect(response.status).toBe(200);
        expect(response.headers.get("content-type")).toContain("text/event-stream");
        expect(
          decodePaymentResponseHeader(response.headers.get("payment-response") ?? "").success,
        ).toBe(true);
        expect(await response.text()).toMatch(/"sim ".*"can ".*"say "/s);
        expect(facilitator.chain.balanceOf(wallet.address)).toBe(400n);
        expect((await readWallet(gateway.server.db, account.id)).held).toBe(0n);
      });
    }

    test("pays for background responses and stored responses", async () => {
      const background = await createPayingFetch(wallet)(
        ...request("responses", { background: true, store: true }),
      );
      expect(background.status).toBe(200);
      expect(background.headers.get("payment-response")).not.toBeNull();
      expect(await background.json()).toMatchObject({ background: true });
      account = await registerAccount(gateway);
      const stored = await createPayingFetch(wallet)(...request("responses", { store: true }));
      expect(stored.status).toBe(200);
      const { id } = (await stored.json()) as { id: string };
      const read = await api(gateway, account, ["GET", `/v1/responses/${id}`]);
      expect(read.status).toBe(200);
      expect(facilitator.chain.balanceOf(wallet.address)).toBe(300n);
    });

    test("is named to people on Billing and on the invoice page", async () => {
      await createPayingFetch(wallet)(...request("chat"));
      const owner = await createUser(gateway, "olga");
      await makeOwner(gateway, account.id, owner);
      const billing = await visitPage(gateway, `/console/${account.id}/billing`, owner);
      expect(textOf(billing)).toContain("paid by an agent with x402");
      const { body } = await api<{ data: { pay_url: string }[] }>(gateway, account, [
        "GET",
        "/v1/billing/invoices",
      ]);
      expect(await pageText(body.data[0]?.pay_url ?? "")).toContain(
        "An agent paid it with x402. The credits were added to the workspace.",
      );
    });

    test("works as fetch of OpenAI's SDK", async () => {
      const openai = new OpenAI({
        baseURL: `${gateway.url}/v1`,
        apiKey: account.key,
        fetch: createPayingFetch(wallet),
        defaultHeaders: WHOLE_HOLD,
        maxRetries: 0,
      });
      const stream = await openai.chat.completions.create({
        model: MODEL,
        max_tokens: TOKENS,
        stream: true,
        messages: [{ role: "user", content: TEXT }],
      });
      let text = "";
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
      expect(text).toContain("the sim can say");
      expect(facilitator.calls).toEqual(["verify", "settle"]);
    });

    test("works as fetch of Anthropic's SDK", async () => {
      const anthropic = new Anthropic({
        baseURL: gateway.url,
        apiKey: account.key,
        fetch: createPayingFetch(wallet),
        defaultHeaders: WHOLE_HOLD,
        maxRetries: 0,
      });
      const message = await anthropic.messages
        .stream({
          model: MODEL,
          max_tokens: TOKENS,
          messages: [{ role: "user", content: TEXT }],
        })
        .finalText();
      expect(message).toContain("the sim can say");
      expect(facilitator.calls).toEqual(["verify", "settle"]);
    });

    test("pays nothing while the balance covers the calls", async () => {
      const pay = createPayingFetch(wallet);
      await pay(...request("chat"));
      const again = await pay(...request("chat"));
      expect(again.status).toBe(200);
      expect(again.headers.get("payment-response")).toBeNull();
      expect(facilitator.calls).toEqual(["verify", "settle"]);
    });

    test("pays an invoice at the URL in its challenge", async () => {
      const invoice = await api<InvoiceBody>(gateway, account, ["POST", "/v1/billing/invoice"], {
        body: { amount_usd: 4 },
      });
      const challenge = challengeIn(invoice.headers);
      expect(challenge.accepts[0]?.amount).toBe("4200000");
      const pay = createPayingFetch(wallet, { isUnbounded: true });
      const init = { method: "POST", headers: account.headers };
      const response = await pay(challenge.resource.url, init);
      expect(response.status).toBe(200);
      expect(response.headers.get("payment-response")).not.toBeNull();
      expect(await response.json()).toMatchObject({
        id: invoice.body.id,
        status: "paid",
        total_usd: 4.2,
      });
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(400n * NANO_PER_CENT);
      expect(facilitator.chain.balanceOf(wallet.address)).toBe(80n);
      // A repeated request pays nothing.
      expect((await pay(challenge.resource.url, init)).status).toBe(200);
      expect(facilitator.chain.balanceOf(wallet.address)).toBe(80n);
    });

    test("keeps its own spending limit, and pays more for a more expensive call", async () => {
      const expensive = { max_tokens: 120_000 };
      const pay = createPayingFetch(wallet);
      const error = await pay(...request("chat", expensive)).then(
        () => "paid",
        (thrown: unknown) => String(thrown),
      );
      expect(error).toContain("spendControls");
      const response = await createPayingFetch(wallet, { isUnbounded: true })(
        ...request("chat", expensive),
      );
      expect(response.status).toBe(200);
      const settled = decodePaymentResponseHeader(response.headers.get("payment-response") ?? "");
      expect(Number(settled.amount)).toBeGreaterThan(1_200_000);
    });

    test("pays for concurrent calls with as few payments as possible", async () => {
      const payer = fundedWallet(facilitator, 1_000n);
      const pay = createPayingFetch(payer);
      const responses = await Promise.all(
        Array.from({ length: 10 }, () => pay(...request("chat", { max_tokens: 9_000 }))),
      );
      expect(responses.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200));
      const payments = facilitator.calls.filter((step) => step === "settle").length;
      expect(payments).toBeGreaterThan(0);
      expect(payments).toBeLessThan(4);
      expect(facilitator.chain.balanceOf(payer.address)).toBe(1_000n - 100n * BigInt(payments));
    });
  });

  describe("a 402", () => {
    for (const name of casesOn(store, CALLED_APIS))
      test(`contains the challenge and the next step on ${name}`, async () => {
        const rejected = await call(undefined, {}, name);
        expect(rejected.status).toBe(402);
        const challenge = challengeIn(rejected.headers);
        expect(challenge).toEqual({
          x402Version: 2,
          error: "PAYMENT-SIGNATURE header is required",
          resource: {
            url: gateway.url + CALLS[name][0],
            description: "$0.95238 of credits for $1.00 including the fee; the call uses them.",
            mimeType: "application/json",
          },
          accepts: [
            {
              scheme: "exact",
              network: "eip155:84532",
              amount: "1000000",
              asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
              payTo: facilitator.payTo,
              maxTimeoutSeconds: 300,
              extra: { name: "USDC", version: "2" },
            },
          ],
        });
        const { error } = rejected.body;
        expect(error.code).toBe("insufficient_credits");
        expect(error.next?.[0]?.url).toBe("/v1/billing/invoice");
        expect(error.next?.at(-2)?.url).toBe(CALLS[name][0]);
        expect(error.next?.at(-2)?.why).toContain("PAYMENT-SIGNATURE");
        expect(facilitator.calls).toEqual([]);
      });

    test("can be paid by hand by repeating the request with one header", async () => {
      const { header } = await signPayment(wallet, await requirementsFor());
      const response = await call(header);
      expect(response.status).toBe(200);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(TOP_UP_NANO);
      const { body } = await api<{ data: InvoiceBody[] }>(gateway, account, [
        "GET",
        "/v1/billing/invoices",
      ]);
      expect(body.data).toHaveLength(1);
      expect(body.data[0]).toMatchObject({
        status: "paid",
        amount_usd: 0.95238,
        fee_usd: 0.04762,
        total_usd: 1,
        credits: 952_380,
      });
      const [entry = "", ...others] = await invoiceAuditEntries(gateway.server.db, account.id);
      expect([entry.slice(0, entry.lastIndexOf("_")), others]).toEqual([
        `invoice.created ${body.data[0]?.id} key key`,
        [],
      ]);
      const receipt = await (await fetch(`${body.data[0]?.pay_url}/receipt`)).text();
      expect(receipt).toContain(`x402:eip155:84532:`);
    });
  });

  describe("a payment", () => {
    test("that is sent again is settled once, and the calls use its credits", async () => {
      const { header } = await signPayment(wallet, await requirementsFor());
      const responses = [await call(header), await call(header), await call(header)];
      expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(TOP_UP_NANO);
      expect(facilitator.chain.balanceOf(wallet.address)).toBe(400n);
    });

    test("that is sent again after its credits are spent returns 402 with PAYMENT-RESPONSE", async () => {
      const { header } = await signPayment(wallet, await requirementsFor());
      await call(header);
      // Costs more than the remaining balance.
      const again = await call(header, { max_tokens: 110_000 });
      expect(again.status).toBe(402);
      expect(challengeIn(again.headers).error).toBe("already used");
      const settled = decodePaymentResponseHeader(again.headers.get("payment-response") ?? "");
      expect(settled.success).toBe(true);
      expect(facilitator.chain.balanceOf(wallet.address)).toBe(400n);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(TOP_UP_NANO);
    });

    test("that is sent ten times concurrently is settled once", async () => {
      const { header } = await signPayment(wallet, await requirementsFor());
      const responses = await Promise.all(Array.from({ length: 10 }, () => call(header)));
      expect(facilitator.calls.filter((step) => step === "settle")).toHaveLength(1);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(TOP_UP_NANO);
      for (const { status } of responses) expect([200, 402, 429]).toContain(status);
      expect(responses.some(({ status }) => status === 200)).toBe(true);
    });

    test("buys credits only for the account that presents it first", async () => {
      const { header } = await signPayment(wallet, await requirementsFor());
      expect((await call(header)).status).toBe(200);
      const first = account.id;
      account = await registerAccount(gateway);
      const response = await call(header);
      expect(response.status).toBe(402);
      expect(response.body.error.payment_error).toBe("already used for something else");
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(0n);
      expect((await readWallet(gateway.server.db, first)).paid).toBe(TOP_UP_NANO);
    });

    test("is ignored if the balance covers the call", async () => {
      const { header } = await signPayment(wallet, await requirementsFor());
      const response = await call(header, { max_tokens: 100 });
      expect(response.status).toBe(200);
      expect(response.headers.get("payment-response")).toBeNull();
      expect(facilitator.calls).toEqual([]);
      await expectNothingPaid();
    });

    test("stays in the account if the call fails", async () => {
      const { header } = await signPayment(wallet, await requirementsFor());
      const failing = [{ role: "user", content: "[[sim: status=500]] hello" }];
      const response = await call(header, { messages: failing });
      expect(response.status).toBeGreaterThanOrEqual(500);
      const settled = decodePaymentResponseHeader(response.headers.get("payment-response") ?? "");
      expect(settled.success).toBe(true);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(TOP_UP_NANO);
    });

    test("with an Idempotency-Key: a repetition replays the response and pays nothing", async () => {
      const { header } = await signPayment(wallet, await requirementsFor());
      const [path, body] = CALLS.chat;
      const options = {
        body,
        headers: { ...WHOLE_HOLD, "payment-signature": header, "idempotency-key": "once" },
      };
      const first = await api(gateway, account, ["POST", path], options);
      const second = await api(gateway, account, ["POST", path], options);
      expect([first.status, second.status]).toEqual([200, 200]);
      expect(second.headers.get("idempotent-replayed")).toBe("true");
      expect(second.body).toEqual(first.body);
      expect(facilitator.calls).toEqual(["verify", "settle"]);
    });
  });

  describe("rejects without settling or crediting", () => {
    const REJECTED: Readonly<Record<string, [string, SignOverrides]>> = {
      "another amount in the signature": [
        "invalid_exact_evm_payload_authorization_value_mismatch",
        { authorization: { value: 10_000n } },
      ],
      "another amount in both": [
        "invalid_exact_evm_payload_authorization_value_mismatch",
        { authorization: { value: 2_000_000n }, accepted: { amount: "2000000" } },
      ],
      "another amount in `accepted`": [
        "invalid_exact_evm_payload_authorization_value_mismatch",
        { accepted: { amount: "1" } },
      ],
      "another network": ["invalid_network", { accepted: { network: "eip155:8453" } }],
      "another scheme": ["unsupported_scheme", { accepted: { scheme: "upto" } }],
      "another token": [
        "invalid_payment_requirements",
        { accepted: { asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913" } },
      ],
      "another token name": [
        "invalid_payment_requirements",
        { accepted: { extra: { name: "USD Coin", version: "2" } } },
      ],
      "another payee in the signature": [
        "invalid_exact_evm_payload_recipient_mismatch",
        { authorization: { to: newWallet().address } },
      ],
      "another payee in `accepted`": [
        "invalid_exact_evm_payload_recipient_mismatch",
        { accepted: { payTo: newWallet().address } },
      ],
      "an expired signature": [
        "invalid_exact_evm_payload_authorization_valid_before",
        { now: Date.now() - 400_000 },
      ],
      "a signature that is valid for days": [
        "invalid_exact_evm_payload_authorization_valid_before",
        { now: Date.now() + DAY_MS },
      ],
      "a signature that is not valid yet": [
        "invalid_exact_evm_payload_authorization_valid_after",
        { authorization: { validAfter: BigInt(Math.floor(Date.now() / 1_000) + 200) } },
      ],
      "a signature of another wallet": ["invalid_exact_evm_signature", { signer: newWallet() }],
    };
    for (const [label, [reason, overrides]] of casesOn(store, Object.entries(REJECTED)))
      test(`402: ${label}`, async () => {
        const { header } = await signPayment(wallet, await requirementsFor(), overrides);
        const response = await call(header);
        expect(response.status).toBe(402);
        expect(response.body.error.payment_error).toBe(reason);
        expect(challengeIn(response.headers)).toMatchObject({ error: reason });
        // The gateway checks a payment against its own terms: only the signature is left to the facilitator.
        expect(facilitator.calls).toEqual(
          reason === "invalid_exact_evm_signature" ? ["verify"] : [],
        );
        await expectNothingPaid();
      });

    test("402: a wallet without funds", async () => {
      const { header } = await signPayment(newWallet(), await requirementsFor());
      const response = await call(header);
      expect(response.status).toBe(402);
      expect(response.body.error.payment_error).toBe("invalid_exact_evm_insufficient_balance");
      await expectNothingPaid();
    });

    test("402: a nonce that the payer has canceled", async () => {
      const nonce = newNonce();
      facilitator.chain.cancel(wallet.address, nonce);
      const { header } = await signPayment(wallet, await requirementsFor(), {
        authorization: { nonce },
      });
      const response = await call(header);
      expect(response.body.error.payment_error).toBe("invalid_exact_evm_nonce_already_used");
      await expectNothingPaid();
    });

    test("402: a payment for another invoice of the same amount", async () => {
      const [one, other] = [
        await buyCredits(gateway, account, 1),
        await buyCredits(gateway, account, 1),
      ];
      const pay = (id: string, header?: string): Promise<ApiResponse<ErrorBody>> =>
        api(gateway, account, ["POST", `/v1/billing/invoice/${id}/x402`], {
          headers: header === undefined ? {} : { "payment-signature": header },
        });
      const rejected = await pay(one.id);
      expect(rejected.status).toBe(402);
      expect(rejected.body.error.code).toBe("payment_required");
      const [requirements] = challengeIn(rejected.headers).accepts;
      if (requirements === undefined) throw new Error("no payment requirements");
      const { header } = await signPayment(wallet, requirements);
      expect((await pay(one.id, header)).status).toBe(200);
      expect((await pay(other.id, header)).body.error.payment_error).toBe(
        "already used for something else",
      );
      expect((await readInvoice(gateway, account, other.id)).status).toBe("open");
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(100n * NANO_PER_CENT);
    });

    const malformed = Object.entries({
      "not base64": "{}",
      "not JSON": "aGVsbG8=",
      "an array": headerOf([]),
      "version 1": headerOf({ x402Version: 1, scheme: "exact", network: "base", payload: {} }),
      "a Permit2 payment": headerOf({
        x402Version: 2,
        accepted: {},
        payload: { signature: "0x", permit2Authorization: {} },
      }),
      "a header that is too long": "A".repeat(9_000),
    });
    for (const [label, header] of casesOn(store, malformed))
      test(`400: ${label}`, async () => {
        const response = await call(header);
        expect(response.status).toBe(400);
        expect(response.body.error).toMatchObject({
          code: "invalid_request",
          param: "payment-signature",
        });
        expect(facilitator.calls).toEqual([]);
        await expectNothingPaid();
      });
  });

  describe("POST /v1/billing/invoice/{id}/x402", () => {
    const pay = (id: string, header?: string, caller = account): Promise<ApiResponse<ErrorBody>> =>
      api(gateway, caller, ["POST", `/v1/billing/invoice/${id}/x402`], {
        headers: header === undefined ? {} : { "payment-signature": header },
      });

    async function paymentFor(id: string, payer = wallet): Promise<string> {
      const [requirements] = challengeIn((await pay(id, undefined, account)).headers).accepts;
      if (requirements === undefined) throw new Error("no payment requirements");
      return (await signPayment(payer, requirements)).header;
    }

    test("returns 404 for another account's invoice", async () => {
      const invoice = await buyCredits(gateway, await registerAccount(gateway), 1);
      expect((await pay(invoice.id, undefined, account)).status).toBe(404);
    });

    test("returns 409 for a void invoice", async () => {
      const invoice = await buyCredits(gateway, account, 1);
      const header = await paymentFor(invoice.id);
      await api(gateway, account, ["POST", `/v1/billing/invoice/${invoice.id}/void`]);
      expect((await pay(invoice.id, undefined, account)).status).toBe(409);
      expect((await pay(invoice.id, header, account)).status).toBe(409);
      await expectNothingPaid();
    });

    test("returns 409 for an invoice that was paid in another way, and moves no money", async () => {
      const invoice = await buyCredits(gateway, account, 1);
      const header = await paymentFor(invoice.id);
      await submitForm(invoice.pay_url, { decision: "pay" });
      expect((await pay(invoice.id, undefined, account)).status).toBe(200);
      expect((await pay(invoice.id, header, account)).status).toBe(409);
      expect(facilitator.chain.balanceOf(wallet.address)).toBe(500n);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(100n * NANO_PER_CENT);
    });

    test("returns 503 if the facilitator is down, and the invoice stays open", async () => {
      const invoice = await buyCredits(gateway, account, 1);
      const header = await paymentFor(invoice.id);
      facilitator.faults.verify = "down";
      const response = await pay(invoice.id, header, account);
      facilitator.faults.verify = "ok";
      expect(response.status).toBe(503);
      expect(response.body.error.code).toBe("overloaded");
      expect((await readInvoice(gateway, account, invoice.id)).status).toBe("open");
      await expectNothingPaid();
      expect((await pay(invoice.id, header, account)).status).toBe(200);
    });

    test("of two concurrent payments one is settled", async () => {
      const invoice = await buyCredits(gateway, account, 1);
      const other = fundedWallet(facilitator, 500n);
      const headers = [await paymentFor(invoice.id), await paymentFor(invoice.id, other)];
      const responses = await Promise.all(
        headers.map((header) => pay(invoice.id, header, account)),
      );
      expect(responses.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
        200, 409,
      ]);
      const balances = [wallet, other].map(({ address }) => facilitator.chain.balanceOf(address));
      expect(balances.reduce((sum, balance) => sum + balance)).toBe(895n);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(100n * NANO_PER_CENT);
    });
  });

  test("the discovery documents describe x402 payments", async () => {
    const page = async (path: string): Promise<string> =>
      await (await fetch(gateway.url + path)).text();
    expect(await page("/openapi.yaml")).toContain("/v1/billing/invoice/{id}/x402");
    expect(await page("/openapi.yaml")).toContain("payment-required");
    expect(await page("/openapi.yaml")).toContain("payment-response");
    expect(await lintOpenApi(await page("/openapi.yaml"))).toEqual([]);
    expect(await page("/auth.md")).toContain("PAYMENT-SIGNATURE");
    expect(await page("/llms.txt")).toContain("x402");
  });
});

describe("x402 settings", () => {
  let facilitator: TestFacilitator;
  let gateway: Gateway;
  beforeAll(async () => {
    facilitator = startFacilitator();
    const env = {
      ...facilitator.env,
      X402_NETWORK: "eip155:43114",
      X402_ASSET: "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E;18;Other Dollar;1",
      X402_TOP_UP_USD: "5",
      POSTERN_INVOICE_MAX_USD: "10",
    };
    gateway = await startGateway({ env, providers: ["sim", "openai", "azure"] });
  });
  afterAll(async () => {
    await gateway.stop();
    await facilitator.stop();
  });

  const callWithoutCredits = async (changes: object): Promise<ApiResponse> =>
    api(gateway, await registerAccount(gateway), ["POST", CALLS.chat[0]], {
      headers: WHOLE_HOLD,
      body: { ...CALLS.chat[1], ...changes },
    });

  test("set the token, the chain and the minimum purchase of a call", async () => {
    expect(challengeIn((await callWithoutCredits({})).headers).accepts).toEqual([
      {
        scheme: "exact",
        network: "eip155:43114",
        amount: "5000000000000000000",
        asset: "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E",
        payTo: facilitator.payTo,
        maxTimeoutSeconds: 300,
        extra: { name: "Other Dollar", version: "1" },
      },
    ]);
  });

  test("the 402 of a call above the largest purchase has no challenge", async () => {
    const rejected = await callWithoutCredits({ model: "azure/o1-pro", max_tokens: 100_000 });
    expect(rejected.status).toBe(402);
    expect(rejected.headers.get("payment-required")).toBeNull();
  });

  const ERRORS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    "X402_PAY_TO must be 0x and 40 hexadecimal digits": { X402_PAY_TO: "0x12" },
    "X402_FACILITATOR_URL must be set": { X402_PAY_TO: newWallet().address },
    "X402_PAY_TO must be set": { X402_FACILITATOR_URL: "https://facilitator.example" },
    "X402_NETWORK must be a CAIP-2 ID": { X402_NETWORK: "base" },
    "X402_ASSET must be address;decimals;name;version": { X402_ASSET: "USDC" },
    "X402_TOP_UP_USD must be": { X402_TOP_UP_USD: "0.001" },
    "X402_ASSET must be set": {
      X402_PAY_TO: newWallet().address,
      X402_FACILITATOR_URL: "https://facilitator.example",
      X402_NETWORK: "eip155:10",
    },
  };
  for (const [message, env] of Object.entries(ERRORS))
    test(`reports an invalid setting: ${message}`, () => {
      const read = readConfig({ env, hostName: "test", providers: [] });
      expect(read.ok ? [] : read.errors.map((error) => error.slice(0, message.length))).toEqual([
        message,
      ]);
    });
});

describe("postern doctor", () => {
  let facilitator: TestFacilitator;
  beforeAll(() => {
    facilitator = startFacilitator();
  });
  afterAll(() => facilitator.stop());

  async function findingsOf(env: Readonly<Record<string, string>>): Promise<readonly string[]> {
    const read = readConfig({ env, hostName: "test", providers: [] });
    if (!read.ok) throw new Error(read.errors.join("; "));
    return (await checkX402(read.config)).map(({ status, message }) => `${status}: ${message}`);
  }

  test("reports nothing if x402 is off", async () => {
    expect(await findingsOf({})).toEqual([]);
  });

  test("checks the facilitator and the node", async () => {
    const env = { ...facilitator.env, X402_RPC_URL: facilitator.rpcUrl };
    expect(await findingsOf(env)).toEqual([
      "ok: the facilitator settles payments on eip155:84532",
      "ok: the node serves eip155:84532",
    ]);
  });

  test("reports a facilitator and a node of another chain", async () => {
    facilitator.faults.node = "wrong chain";
    const env = { ...facilitator.env, X402_NETWORK: "eip155:8453" };
    expect(await findingsOf({ ...env, X402_RPC_URL: facilitator.rpcUrl })).toEqual([
      `fail: the facilitator at ${facilitator.url} does not settle payments on eip155:8453`,
      "fail: the node serves eip155:1, but payments are on eip155:8453",
    ]);
    facilitator.faults.node = "ok";
  });

  test("warns about a test network, an unencrypted facilitator URL and a missing node", async () => {
    const findings = await findingsOf({
      ...facilitator.env,
      POSTERN_BASE_URL: "https://gateway.example",
      POSTERN_SECRET: "a secret of thirty-two characters or more",
      X402_FACILITATOR_URL: "http://facilitator.invalid",
    });
    expect(findings.map((line) => line.slice(0, 35))).toEqual(
      [
        "fail: the facilitator at http://faci",
        "note: without X402_RPC_URL, you mus",
        "warn: eip155:84532 is a test networ",
        "warn: the facilitator is called wit",
      ].map((line) => line.slice(0, 35)),
    );
  });
});

describe("without x402", () => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway({ providers: ["sim", "openai"] });
  });
  afterAll(() => gateway.stop());

  test("a 402 has no challenge, and payments are ignored", async () => {
    const account = await registerAccount(gateway);
    const [path, body] = CALLS.chat;
    for (const headers of [WHOLE_HOLD, { ...WHOLE_HOLD, "payment-signature": "whatever" }]) {
      const rejected = await api<ErrorBody>(gateway, account, ["POST", path], { body, headers });
      expect(rejected.status).toBe(402);
      expect(rejected.headers.get("payment-required")).toBeNull();
      expect(JSON.stringify(rejected.body)).not.toContain("x402");
    }
    const invoice = await api<InvoiceBody>(gateway, account, ["POST", "/v1/billing/invoice"], {
      body: { amount_usd: 1 },
    });
    expect(invoice.headers.get("payment-required")).toBeNull();
    const route = `/v1/billing/invoice/${invoice.body.id}/x402`;
    expect((await api(gateway, account, ["POST", route])).status).toBe(404);
  });

  test("the discovery documents do not mention x402", async () => {
    for (const path of ["/auth.md", "/llms.txt"])
      expect(await (await fetch(gateway.url + path)).text()).not.toContain("x402");
    expect(await (await fetch(`${gateway.url}/openapi.yaml`)).text()).not.toContain(
      "/v1/billing/invoice/{id}/x402",
    );
  });
});
