// An agent with a wallet and no human: the official client, as it is published, meets a 402, pays, and is answered.
// Then what an agent does by hand, and everything that it may send instead of the payment that is asked for.

import {
  afterAll,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import OpenAI from "openai";
import { DAY_MS } from "../../../src/base/time.ts";
import { checkX402 } from "../../../src/commands/doctor/check-x402.ts";
import { readConfig } from "../../../src/config/config.ts";
import {
  newWallet,
  startFacilitator,
  type TestFacilitator,
  type Wallet,
} from "../../support/fakes/x402-facilitator.ts";
import { lintOpenApi } from "../../discovery/lint-openapi.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
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

// The first test starts PostgreSQL.
setDefaultTimeout(30_000);

const MODEL = "openai/gpt-5";
/** These cost up to sixty cents: more than an account begins with, and less than one payment buys. */
const TOKENS = 60_000;
const TEXT = "[[sim: tokens=20]] hello";
const messages = [{ role: "user", content: TEXT }];
const CALLS = {
  chat: ["/v1/chat/completions", { model: MODEL, messages, max_tokens: TOKENS }],
  responses: ["/v1/responses", { model: MODEL, input: TEXT, max_output_tokens: TOKENS }],
  messages: ["/v1/messages", { model: MODEL, messages, max_tokens: TOKENS }],
} as const;
const TOP_UP_NANO = 95n * NANO_PER_CENT;

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
  more: { readonly isUnbounded?: boolean } = {},
): PayingFetch {
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(wallet));
  if (more.isUnbounded === true) client.setSpendControls(false);
  return wrapFetchWithPayment(fetch, client);
}

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
      { method: "POST", headers: account.headers, body: JSON.stringify({ ...body, ...more }) },
    ];
  }

  function call(header?: string, more: object = {}, name: keyof typeof CALLS = "chat") {
    const [path, body] = CALLS[name];
    return api<ErrorBody>(gateway, account, ["POST", path], {
      body: { ...body, ...more },
      ...(header === undefined ? {} : { headers: { "payment-signature": header } }),
    });
  }

  async function asked(more: object = {}) {
    const [requirement] = challengeIn((await call(undefined, more)).headers).accepts;
    if (requirement === undefined) throw new Error("nothing is asked for");
    return requirement;
  }

  async function expectNothingTaken(): Promise<void> {
    expect((await readWallet(gateway.server.db, account.id)).paid).toBe(0n);
    expect(facilitator.chain.balanceOf(wallet.address)).toBe(500n);
  }

  describe("the official client, unmodified", () => {
    for (const name of ["chat", "responses", "messages"] as const) {
      test(`pays for a call by itself, on ${name}`, async () => {
        const response = await createPayingFetch(wallet)(...request(name));
        expect(response.status).toBe(200);
        expect(await response.text()).toContain("the sim can say");
        const receipt = decodePaymentResponseHeader(response.headers.get("payment-response") ?? "");
        expect(receipt).toMatchObject({
          success: true,
          amount: "1000000",
          network: "eip155:84532",
          payer: wallet.address.toLowerCase(),
        });
        expect(receipt.transaction).toMatch(/^0x[0-9a-f]{64}$/);
        expect(facilitator.chain.balanceOf(wallet.address)).toBe(400n);
        const { paid, promo, held } = await readWallet(gateway.server.db, account.id);
        expect(held).toBe(0n);
        expect(paid).toBe(TOP_UP_NANO);
        expect(promo).toBeLessThan(5n * NANO_PER_CENT);
        expect(facilitator.calls).toEqual(["verify", "settle"]);
      });

      test(`pays for a stream by itself, on ${name}`, async () => {
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

    test("pays for a response that runs in the background, and for one that is stored", async () => {
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

    test("is what OpenAI's SDK fetches with", async () => {
      const openai = new OpenAI({
        baseURL: `${gateway.url}/v1`,
        apiKey: account.key,
        fetch: createPayingFetch(wallet),
        maxRetries: 0,
      });
      const about = { model: MODEL, max_tokens: TOKENS, stream: true } as const;
      const asked = [{ role: "user" as const, content: TEXT }];
      const stream = await openai.chat.completions.create({ ...about, messages: asked });
      let text = "";
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
      expect(text).toContain("the sim can say");
      expect(facilitator.calls).toEqual(["verify", "settle"]);
    });

    test("is what Anthropic's SDK fetches with", async () => {
      const anthropic = new Anthropic({
        baseURL: gateway.url,
        apiKey: account.key,
        fetch: createPayingFetch(wallet),
        maxRetries: 0,
      });
      const asked = [{ role: "user" as const, content: TEXT }];
      const message = await anthropic.messages
        .stream({ model: MODEL, max_tokens: TOKENS, messages: asked })
        .finalText();
      expect(message).toContain("the sim can say");
      expect(facilitator.calls).toEqual(["verify", "settle"]);
    });

    test("pays nothing while what it bought lasts", async () => {
      const pay = createPayingFetch(wallet);
      await pay(...request("chat"));
      const again = await pay(...request("chat"));
      expect(again.status).toBe(200);
      expect(again.headers.get("payment-response")).toBeNull();
      expect(facilitator.calls).toEqual(["verify", "settle"]);
    });

    test("pays an invoice at the address that the invoice names", async () => {
      const invoice = await api<InvoiceBody>(gateway, account, ["POST", "/v1/billing/invoice"], {
        body: { amount_usd: 4 },
      });
      const challenge = challengeIn(invoice.headers);
      expect(challenge.accepts[0]?.amount).toBe("4200000");
      const pay = createPayingFetch(wallet, { isUnbounded: true });
      const sent = { method: "POST", headers: account.headers };
      const response = await pay(challenge.resource.url, sent);
      expect(response.status).toBe(200);
      expect(response.headers.get("payment-response")).not.toBeNull();
      expect(await response.json()).toMatchObject({
        id: invoice.body.id,
        status: "paid",
        total_usd: 4.2,
      });
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(400n * NANO_PER_CENT);
      expect(facilitator.chain.balanceOf(wallet.address)).toBe(80n);
      // Asked again it pays nothing again.
      expect((await pay(challenge.resource.url, sent)).status).toBe(200);
      expect(facilitator.chain.balanceOf(wallet.address)).toBe(80n);
    });

    test("keeps to its own limit, and is told the amount of a call that costs more", async () => {
      const more = { max_tokens: 120_000 };
      const pay = createPayingFetch(wallet);
      const refusal = await pay(...request("chat", more)).then(
        () => "paid",
        (error: unknown) => String(error),
      );
      expect(refusal).toContain("spendControls");
      const response = await createPayingFetch(wallet, { isUnbounded: true })(
        ...request("chat", more),
      );
      expect(response.status).toBe(200);
      const receipt = decodePaymentResponseHeader(response.headers.get("payment-response") ?? "");
      expect(Number(receipt.amount)).toBeGreaterThan(1_200_000);
    });

    test("makes ten calls at once, and one payment covers as many as it can", async () => {
      const poor = fundedWallet(facilitator, 1_000n);
      const pay = createPayingFetch(poor);
      const responses = await Promise.all(
        Array.from({ length: 10 }, () => pay(...request("chat", { max_tokens: 9_000 }))),
      );
      expect(responses.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200));
      const payments = facilitator.calls.filter((step) => step === "settle").length;
      expect(payments).toBeGreaterThan(0);
      expect(payments).toBeLessThan(4);
      expect(facilitator.chain.balanceOf(poor.address)).toBe(1_000n - 100n * BigInt(payments));
    });
  });

  describe("a 402", () => {
    for (const name of ["chat", "responses", "messages"] as const)
      test(`says on ${name} what to sign, and that the same request goes with it`, async () => {
        const refused = await call(undefined, {}, name);
        expect(refused.status).toBe(402);
        const challenge = challengeIn(refused.headers);
        expect(challenge).toEqual({
          x402Version: 2,
          error: "PAYMENT-SIGNATURE header is required",
          resource: {
            url: gateway.url + CALLS[name][0],
            description: "$0.95 of credits for $1.00 including the fee; the call uses them.",
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
        const { error } = refused.body;
        expect(error.code).toBe("insufficient_credits");
        expect(error.next?.[0]?.url).toBe("/v1/billing/invoice");
        expect(error.next?.at(-1)?.url).toBe(CALLS[name][0]);
        expect(error.next?.at(-1)?.why).toContain("PAYMENT-SIGNATURE");
        expect(facilitator.calls).toEqual([]);
      });

    test("is paid by hand with the same request and one header", async () => {
      const { header } = await signPayment(wallet, await asked());
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
        amount_usd: 0.95,
        fee_usd: 0.05,
        total_usd: 1,
      });
      const [told = "", ...more] = await invoiceAuditEntries(gateway.server.db, account.id);
      expect([told.slice(0, told.lastIndexOf("_")), more]).toEqual([
        `invoice.created ${body.data[0]?.id} key key`,
        [],
      ]);
      const receipt = await (await fetch(`${body.data[0]?.pay_url}/receipt`)).text();
      expect(receipt).toContain(`x402:eip155:84532:`);
    });
  });

  describe("a payment", () => {
    test("that is sent again buys nothing again, and the call runs on what it bought", async () => {
      const { header } = await signPayment(wallet, await asked());
      const responses = [await call(header), await call(header), await call(header)];
      expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(TOP_UP_NANO);
      expect(facilitator.chain.balanceOf(wallet.address)).toBe(400n);
    });

    test("that is sent again when its credits are spent is answered 402, with its receipt", async () => {
      const { header } = await signPayment(wallet, await asked());
      await call(header);
      // This one may cost more than is left.
      const again = await call(header, { max_tokens: 110_000 });
      expect(again.status).toBe(402);
      expect(challengeIn(again.headers).error).toBe("already used");
      const receipt = decodePaymentResponseHeader(again.headers.get("payment-response") ?? "");
      expect(receipt.success).toBe(true);
      expect(facilitator.chain.balanceOf(wallet.address)).toBe(400n);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(TOP_UP_NANO);
    });

    test("that is sent ten times at once is settled once", async () => {
      const { header } = await signPayment(wallet, await asked());
      const responses = await Promise.all(Array.from({ length: 10 }, () => call(header)));
      expect(facilitator.calls.filter((step) => step === "settle")).toHaveLength(1);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(TOP_UP_NANO);
      for (const { status } of responses) expect([200, 402]).toContain(status);
      expect(responses.some(({ status }) => status === 200)).toBe(true);
    });

    test("buys for whoever presents it first, and for nobody else", async () => {
      const { header } = await signPayment(wallet, await asked());
      expect((await call(header)).status).toBe(200);
      const first = account.id;
      account = await registerAccount(gateway);
      const stolen = await call(header);
      expect(stolen.status).toBe(402);
      expect(stolen.body.error.payment_error).toBe("already used for something else");
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(0n);
      expect((await readWallet(gateway.server.db, first)).paid).toBe(TOP_UP_NANO);
    });

    test("that is not needed is not taken", async () => {
      const { header } = await signPayment(wallet, await asked());
      const response = await call(header, { max_tokens: 100 });
      expect(response.status).toBe(200);
      expect(response.headers.get("payment-response")).toBeNull();
      expect(facilitator.calls).toEqual([]);
      await expectNothingTaken();
    });

    test("stays in the account where the call fails after it", async () => {
      const { header } = await signPayment(wallet, await asked());
      const failing = [{ role: "user", content: "[[sim: status=500]] hello" }];
      const response = await call(header, { messages: failing });
      expect(response.status).toBeGreaterThanOrEqual(500);
      const receipt = decodePaymentResponseHeader(response.headers.get("payment-response") ?? "");
      expect(receipt.success).toBe(true);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(TOP_UP_NANO);
    });

    test("and an Idempotency-Key: the repetition is the first response, and pays nothing", async () => {
      const { header } = await signPayment(wallet, await asked());
      const [path, body] = CALLS.chat;
      const sent = {
        body,
        headers: { "payment-signature": header, "idempotency-key": "once" },
      };
      const first = await api(gateway, account, ["POST", path], sent);
      const second = await api(gateway, account, ["POST", path], sent);
      expect([first.status, second.status]).toEqual([200, 200]);
      expect(second.headers.get("idempotent-replayed")).toBe("true");
      expect(second.body).toEqual(first.body);
      expect(facilitator.calls).toEqual(["verify", "settle"]);
    });
  });

  describe("what is refused, with nothing taken and nothing credited", () => {
    const WRONG: Readonly<Record<string, [string, SignOverrides]>> = {
      "another amount in the signature": [
        "invalid_exact_evm_payload_authorization_value_mismatch",
        { authorization: { value: 10_000n } },
      ],
      "another amount in both": [
        "invalid_exact_evm_payload_authorization_value_mismatch",
        { authorization: { value: 2_000_000n }, accepted: { amount: "2000000" } },
      ],
      "another amount in words only": [
        "invalid_exact_evm_payload_authorization_value_mismatch",
        { accepted: { amount: "1" } },
      ],
      "another network": ["invalid_network", { accepted: { network: "eip155:8453" } }],
      "another scheme": ["unsupported_scheme", { accepted: { scheme: "upto" } }],
      "another token": [
        "invalid_payment_requirements",
        { accepted: { asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913" } },
      ],
      "another name of the token": [
        "invalid_payment_requirements",
        { accepted: { extra: { name: "USD Coin", version: "2" } } },
      ],
      "another payee in the signature": [
        "invalid_exact_evm_payload_recipient_mismatch",
        { authorization: { to: newWallet().address } },
      ],
      "another payee in words": [
        "invalid_exact_evm_payload_recipient_mismatch",
        { accepted: { payTo: newWallet().address } },
      ],
      "a signature that has expired": [
        "invalid_exact_evm_payload_authorization_valid_before",
        { now: Date.now() - 400_000 },
      ],
      "a signature that lives for days": [
        "invalid_exact_evm_payload_authorization_valid_before",
        { now: Date.now() + DAY_MS },
      ],
      "a signature that is not valid yet": [
        "invalid_exact_evm_payload_authorization_valid_after",
        { authorization: { validAfter: BigInt(Math.floor(Date.now() / 1_000) + 200) } },
      ],
      "somebody else's signature": ["invalid_exact_evm_signature", { signer: newWallet() }],
    };
    for (const [what, [reason, otherwise]] of Object.entries(WRONG))
      test(`402: ${what}`, async () => {
        const { header } = await signPayment(wallet, await asked(), otherwise);
        const response = await call(header);
        expect(response.status).toBe(402);
        expect(response.body.error.payment_error).toBe(reason);
        expect(challengeIn(response.headers)).toMatchObject({ error: reason });
        expect(facilitator.calls).not.toContain("settle");
        await expectNothingTaken();
      });

    test("402: a wallet without money", async () => {
      const { header } = await signPayment(newWallet(), await asked());
      const response = await call(header);
      expect(response.status).toBe(402);
      expect(response.body.error.payment_error).toBe("invalid_exact_evm_insufficient_balance");
      await expectNothingTaken();
    });

    test("402: a nonce that its owner has cancelled", async () => {
      const nonce = newNonce();
      facilitator.chain.cancel(wallet.address, nonce);
      const { header } = await signPayment(wallet, await asked(), { authorization: { nonce } });
      const response = await call(header);
      expect(response.body.error.payment_error).toBe("invalid_exact_evm_nonce_already_used");
      await expectNothingTaken();
    });

    test("402: a payment of another invoice of the same amount", async () => {
      const [one, other] = [
        await buyCredits(gateway, account, 1),
        await buyCredits(gateway, account, 1),
      ];
      const pay = (id: string, header?: string): Promise<ApiResponse<ErrorBody>> =>
        api(gateway, account, ["POST", `/v1/billing/invoice/${id}/x402`], {
          headers: header === undefined ? {} : { "payment-signature": header },
        });
      const refused = await pay(one.id);
      expect(refused.status).toBe(402);
      expect(refused.body.error.code).toBe("payment_required");
      const [requirement] = challengeIn(refused.headers).accepts;
      if (requirement === undefined) throw new Error("nothing is asked for");
      const { header } = await signPayment(wallet, requirement);
      expect((await pay(one.id, header)).status).toBe(200);
      expect((await pay(other.id, header)).body.error.payment_error).toBe(
        "already used for something else",
      );
      expect((await readInvoice(gateway, account, other.id)).status).toBe("open");
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(100n * NANO_PER_CENT);
    });

    for (const [what, header] of Object.entries({
      "no base64": "{}",
      "no JSON": "aGVsbG8=",
      "an array": headerOf([]),
      "version 1": headerOf({ x402Version: 1, scheme: "exact", network: "base", payload: {} }),
      "a Permit2 payment": headerOf({
        x402Version: 2,
        accepted: {},
        payload: { signature: "0x", permit2Authorization: {} },
      }),
      "a huge one": "A".repeat(9_000),
    }))
      test(`400: ${what}`, async () => {
        const response = await call(header);
        expect(response.status).toBe(400);
        expect(response.body.error).toMatchObject({
          code: "invalid_request",
          param: "payment-signature",
        });
        expect(facilitator.calls).toEqual([]);
        await expectNothingTaken();
      });
  });

  describe("POST /v1/billing/invoice/{id}/x402", () => {
    const pay = (id: string, header?: string, who = account): Promise<ApiResponse<ErrorBody>> =>
      api(gateway, who, ["POST", `/v1/billing/invoice/${id}/x402`], {
        headers: header === undefined ? {} : { "payment-signature": header },
      });

    async function paymentFor(id: string, who = wallet): Promise<string> {
      const [requirement] = challengeIn((await pay(id, undefined, account)).headers).accepts;
      if (requirement === undefined) throw new Error("nothing is asked for");
      return (await signPayment(who, requirement)).header;
    }

    test("404: another account's invoice", async () => {
      const invoice = await buyCredits(gateway, await registerAccount(gateway), 1);
      expect((await pay(invoice.id, undefined, account)).status).toBe(404);
    });

    test("409: an invoice that was withdrawn", async () => {
      const invoice = await buyCredits(gateway, account, 1);
      const header = await paymentFor(invoice.id);
      await api(gateway, account, ["POST", `/v1/billing/invoice/${invoice.id}/void`]);
      expect((await pay(invoice.id, undefined, account)).status).toBe(409);
      expect((await pay(invoice.id, header, account)).status).toBe(409);
      await expectNothingTaken();
    });

    test("409: an invoice that was paid otherwise, and the wallet keeps its money", async () => {
      const invoice = await buyCredits(gateway, account, 1);
      const header = await paymentFor(invoice.id);
      await submitForm(invoice.pay_url, { decision: "pay" });
      expect((await pay(invoice.id, undefined, account)).status).toBe(200);
      expect((await pay(invoice.id, header, account)).status).toBe(409);
      expect(facilitator.chain.balanceOf(wallet.address)).toBe(500n);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(100n * NANO_PER_CENT);
    });

    test("503: a facilitator that cannot be asked, and the invoice stays open", async () => {
      const invoice = await buyCredits(gateway, account, 1);
      const header = await paymentFor(invoice.id);
      facilitator.faults.verify = "down";
      const response = await pay(invoice.id, header, account);
      facilitator.faults.verify = "fine";
      expect(response.status).toBe(503);
      expect(response.body.error.code).toBe("overloaded");
      expect((await readInvoice(gateway, account, invoice.id)).status).toBe("open");
      await expectNothingTaken();
      expect((await pay(invoice.id, header, account)).status).toBe(200);
    });

    test("two wallets at once: one of them pays", async () => {
      const invoice = await buyCredits(gateway, account, 1);
      const other = fundedWallet(facilitator, 500n);
      const headers = [await paymentFor(invoice.id), await paymentFor(invoice.id, other)];
      const responses = await Promise.all(
        headers.map((header) => pay(invoice.id, header, account)),
      );
      expect(responses.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
        200, 409,
      ]);
      const left = [wallet, other].map(({ address }) => facilitator.chain.balanceOf(address));
      expect(left.reduce((sum, one) => sum + one)).toBe(895n);
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(100n * NANO_PER_CENT);
    });
  });

  test("the documents tell an agent how it pays", async () => {
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

describe("the operator's settings", () => {
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
    gateway = await startGateway({ env, providers: ["sim", "openai"] });
  });
  afterAll(async () => {
    await gateway.stop();
    await facilitator.stop();
  });

  const refusal = async (more: object): Promise<ApiResponse> =>
    api(gateway, await registerAccount(gateway), ["POST", CALLS.chat[0]], {
      body: { ...CALLS.chat[1], ...more },
    });

  test("name the token, the chain and what a payment buys at least", async () => {
    expect(challengeIn((await refusal({})).headers).accepts).toEqual([
      {
        scheme: "exact",
        network: "eip155:43114",
        amount: "5250000000000000000",
        asset: "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E",
        payTo: facilitator.payTo,
        maxTimeoutSeconds: 300,
        extra: { name: "Other Dollar", version: "1" },
      },
    ]);
  });

  test("bound what is asked for: a call that may cost more than one purchase has no challenge", async () => {
    const refused = await refusal({ model: "openai/o1-pro", max_tokens: 100_000 });
    expect(refused.status).toBe(402);
    expect(refused.headers.get("payment-required")).toBeNull();
  });

  const MISTAKES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
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
  for (const [mistake, env] of Object.entries(MISTAKES))
    test(`are refused where they make no sense: ${mistake}`, () => {
      const read = readConfig({ env, hostName: "test", providers: [] });
      expect(read.ok ? [] : read.errors.map((one) => one.slice(0, mistake.length))).toEqual([
        mistake,
      ]);
    });
});

describe("postern doctor", () => {
  let facilitator: TestFacilitator;
  beforeAll(() => {
    facilitator = startFacilitator();
  });
  afterAll(() => facilitator.stop());

  async function says(env: Readonly<Record<string, string>>): Promise<readonly string[]> {
    const read = readConfig({ env, hostName: "test", providers: [] });
    if (!read.ok) throw new Error(read.errors.join("; "));
    return (await checkX402(read.config)).map(({ status, message }) => `${status}: ${message}`);
  }

  test("says nothing where x402 is off", async () => {
    expect(await says({})).toEqual([]);
  });

  test("asks the facilitator and the node", async () => {
    const env = { ...facilitator.env, X402_RPC_URL: facilitator.rpcUrl };
    expect(await says(env)).toEqual([
      "ok: the facilitator settles payments on eip155:84532",
      "ok: the node is of eip155:84532",
    ]);
  });

  test("finds a facilitator and a node of another chain", async () => {
    facilitator.faults.node = "elsewhere";
    const env = { ...facilitator.env, X402_NETWORK: "eip155:8453" };
    expect(await says({ ...env, X402_RPC_URL: facilitator.rpcUrl })).toEqual([
      `fail: the facilitator at ${facilitator.url} does not settle payments on eip155:8453`,
      "fail: the node is of eip155:1, and payments are on eip155:8453",
    ]);
    facilitator.faults.node = "fine";
  });

  test("warns of play money, of what crosses the network in the clear, and of no node", async () => {
    const found = await says({
      ...facilitator.env,
      POSTERN_BASE_URL: "https://gateway.example",
      POSTERN_SECRET: "a secret of thirty-two characters or more",
      X402_FACILITATOR_URL: "http://facilitator.invalid",
    });
    expect(found.map((line) => line.slice(0, 35))).toEqual(
      [
        "fail: the facilitator at http://faci",
        "note: without X402_RPC_URL, a payme",
        "warn: eip155:84532 is a test networ",
        "warn: the facilitator is asked with",
      ].map((line) => line.slice(0, 35)),
    );
  });
});

describe("where x402 is off", () => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway({ providers: ["sim", "openai"] });
  });
  afterAll(() => gateway.stop());

  test("a 402 has no challenge, and a payment is not looked at", async () => {
    const account = await registerAccount(gateway);
    const [path, body] = CALLS.chat;
    for (const headers of [{}, { "payment-signature": "whatever" }]) {
      const refused = await api<ErrorBody>(gateway, account, ["POST", path], { body, headers });
      expect(refused.status).toBe(402);
      expect(refused.headers.get("payment-required")).toBeNull();
      expect(JSON.stringify(refused.body)).not.toContain("x402");
    }
    const invoice = await api<InvoiceBody>(gateway, account, ["POST", "/v1/billing/invoice"], {
      body: { amount_usd: 1 },
    });
    expect(invoice.headers.get("payment-required")).toBeNull();
    const route = `/v1/billing/invoice/${invoice.body.id}/x402`;
    expect((await api(gateway, account, ["POST", route])).status).toBe(404);
  });

  test("no document speaks of it", async () => {
    for (const path of ["/auth.md", "/llms.txt"])
      expect(await (await fetch(gateway.url + path)).text()).not.toContain("x402");
    expect(await (await fetch(`${gateway.url}/openapi.yaml`)).text()).not.toContain(
      "/v1/billing/invoice/{id}/x402",
    );
  });
});
