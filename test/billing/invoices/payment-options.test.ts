// What an agent is told about paying is what is possible on this gateway: each `next` is executed, and works.

import { afterEach, describe, expect, test } from "bun:test";
import { startFacilitator } from "../../support/fakes/x402-facilitator.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS, type StoreKind } from "../../support/stores/stores.ts";
import { challengeIn, fundedWallet, signPayment } from "../x402/wallet.ts";

const PRODUCTION = {
  POSTERN_BASE_URL: "https://gateway.example",
  POSTERN_SECRET: "s".repeat(40),
};
const EXPENSIVE = {
  model: "sim/echo",
  messages: [{ role: "user", content: "[[sim: tokens=20]] hello" }],
  max_tokens: 16_000,
  n: 8,
};

interface Step {
  readonly method: string;
  readonly url: string;
  readonly body?: unknown;
  readonly why: string;
}
interface Invoice {
  readonly id: string;
  readonly status: string;
  readonly total_usd: number;
  readonly payment_methods: readonly { readonly type: string; readonly url: string }[];
}
interface Reply<Body> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

describe.each(STORE_KINDS)("paying on %s", (store: StoreKind) => {
  const stops: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const stop of stops.splice(0).toReversed()) await stop();
  });

  async function start(env: Readonly<Record<string, string>>) {
    const gateway = await startGateway({ store, env, providers: ["sim"] });
    stops.push(() => gateway.stop());
    const account = await registerAccount(gateway);
    return { gateway, account };
  }

  test("without a payment method no invoice is created, and every next step works", async () => {
    const { gateway, account } = await start(PRODUCTION);
    const invoice = { method: "POST", url: "/v1/billing/invoice", body: { amount_usd: 10 } };
    const refused = await follow<ErrorBody>(gateway, account, invoice);
    expect(refused.status).toBe(409);
    expect(refused.body.error.message).toContain("no payment method");
    const call = await follow<ErrorBody>(gateway, account, chatStep());
    expect(call.status).toBe(402);
    expect(call.body.error.next[0]?.why).toContain("sells no credits");
    for (const step of [...refused.body.error.next, ...call.body.error.next])
      expect({ step, status: (await follow(gateway, account, step)).status }).toEqual({
        step,
        status: 200,
      });
    const list = await follow<{ data: unknown[] }>(gateway, account, {
      method: "GET",
      url: "/v1/billing/invoices",
    });
    expect(list.body.data).toEqual([]);
    const authMd = await (await fetch(`${gateway.url}/auth.md`)).text();
    expect(authMd).toContain("This gateway sells no credits.");
    expect(authMd).not.toContain("/v1/billing/invoice \\");
  });

  test("with a page only, the smallest purchase is proposed and a human must pay", async () => {
    const { gateway, account } = await start({
      ...PRODUCTION,
      POSTERN_BANK_DETAILS: "IBAN DE00",
      POSTERN_INVOICE_MIN_USD: "2.50",
    });
    const call = await follow<ErrorBody>(gateway, account, chatStep());
    const [buy] = call.body.error.next;
    expect(buy).toMatchObject({ method: "POST", body: { amount_usd: 3 } });
    expect(buy?.why).toContain("ask your human");
    expect(buy?.why).not.toContain("wallet");
    const created = await follow<Invoice>(gateway, account, buy);
    expect(created.status).toBe(201);
    const { payment_methods: methods } = created.body;
    expect(methods.map(({ type }) => type)).toEqual(["page"]);
    const page = await fetch(
      (methods[0]?.url ?? "").replace("https://gateway.example", gateway.url),
    );
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining("IBAN DE00")]);
    const authMd = await (await fetch(`${gateway.url}/auth.md`)).text();
    expect(authMd).toContain("Only paying needs a human");
    expect(authMd).not.toContain("None of these steps needs a browser or a human");
  });

  test("with x402 an agent pays at the URL that its invoice lists, without a human", async () => {
    const facilitator = startFacilitator();
    stops.push(() => facilitator.stop());
    const { gateway, account } = await start({ ...PRODUCTION, ...facilitator.env });
    const call = await follow<ErrorBody>(gateway, account, chatStep());
    const [buy] = call.body.error.next;
    expect(buy?.why).not.toContain("pay_url");
    const { body: invoice } = await follow<Invoice>(gateway, account, buy);
    expect(invoice.payment_methods.map(({ type }) => type)).toEqual(["x402", "mpp"]);
    const pay = { method: "POST", url: invoice.payment_methods[0]?.url ?? "" };
    const challenge = await follow(gateway, account, pay);
    expect(challenge.status).toBe(402);
    const [requirements] = challengeIn(challenge.headers).accepts;
    if (requirements === undefined) throw new Error("no challenge");
    const wallet = fundedWallet(facilitator, BigInt(Math.round(invoice.total_usd * 100)));
    const { header } = await signPayment(wallet, requirements);
    const paid = await follow<Invoice>(gateway, account, pay, { "payment-signature": header });
    expect([paid.status, paid.body.status, paid.body.payment_methods]).toEqual([200, "paid", []]);
    expect((await follow(gateway, account, chatStep())).status).toBe(200);
    const authMd = await (await fetch(`${gateway.url}/auth.md`)).text();
    expect(authMd).toContain("None of these steps needs a browser or a human");
  });
});

interface ErrorBody {
  readonly error: { readonly message: string; readonly next: readonly Step[] };
}

function chatStep(): Omit<Step, "why"> {
  return { method: "POST", url: "/v1/chat/completions", body: EXPENSIVE };
}

async function follow<Body = unknown>(
  gateway: Gateway,
  account: TestAccount,
  step: Omit<Step, "why"> | undefined,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply<Body>> {
  if (step === undefined) throw new Error("there is no next step");
  const response = await fetch(new URL(new URL(step.url, gateway.url).pathname, gateway.url), {
    method: step.method,
    headers: { ...account.headers, ...headers },
    ...(step.body === undefined ? {} : { body: JSON.stringify(step.body) }),
  });
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as Body,
  };
}
