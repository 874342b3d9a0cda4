// A client that knows only what the 402 says: it creates the invoice, pays it and retries the call.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { expectLedgerValid } from "../fixtures.ts";

interface Step {
  readonly method: string;
  readonly url: string;
  readonly body?: unknown;
}

const TEXT = "[[sim: tokens=20]] hello";
const messages = [{ role: "user", content: TEXT }];
const CALLS = {
  chat: ["/v1/chat/completions", { model: "sim/echo", messages, max_tokens: 16_000 }],
  responses: ["/v1/responses", { model: "sim/echo", input: TEXT, max_output_tokens: 16_000 }],
  messages: ["/v1/messages", { model: "sim/echo", messages, max_tokens: 16_000 }],
} as const;

describe.each(STORE_KINDS)("402 on %s", (store) => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway({ store, providers: ["sim", "openai", "azure"] });
  });
  afterAll(async () => {
    await expectLedgerValid(gateway.server.db);
    await gateway.stop();
  });

  for (const [name, [path, body]] of Object.entries(CALLS))
    test(`a client that follows the 402's next step can pay and retry, on ${name}`, async () => {
      const account = await registerAndSpend();
      const call = (): Promise<Response> => post(account, path, body);
      const refused = await call();
      expect(refused.status).toBe(402);
      const { error } = (await refused.json()) as { error: { next: readonly Step[] } };
      const [step] = error.next;
      if (step === undefined) throw new Error("the 402 has no next step");

      expect(step.method).toBe("POST");
      const created = await post(account, step.url, step.body);
      expect(created.status).toBe(201);
      const { pay_url: payUrl } = (await created.json()) as { pay_url: string };
      await payOnPage(payUrl);

      expect((await call()).status).toBe(200);
    });

  test("names an amount that covers a call of more than $10", async () => {
    const account = await registerAccount(gateway);
    const refused = await post(account, "/v1/responses", {
      model: "azure/o1-pro",
      input: TEXT,
      max_output_tokens: 100_000,
    });
    expect(refused.status).toBe(402);
    const { error } = (await refused.json()) as {
      error: { code: string; required_credits: number; next: readonly Step[] };
    };
    expect(error.required_credits).toBeGreaterThan(20_000_000);
    const [step] = error.next;
    if (step === undefined) throw new Error("the 402 has no next step");
    const { amount_usd: usd } = step.body as { amount_usd: number };
    expect(usd * 1_000_000 + 50_000).toBeGreaterThanOrEqual(error.required_credits);
  });

  /** Returns an account that has spent four fifths of its starting credit. */
  async function registerAndSpend(): Promise<TestAccount> {
    const account = await registerAccount(gateway);
    for (let calls = 0; calls < 2; calls++)
      await post(account, "/v1/chat/completions", {
        model: "sim/echo",
        messages: [{ role: "user", content: "[[sim: tokens=10000]] hello" }],
        max_tokens: 10_000,
      });
    return account;
  }

  function post(account: TestAccount, path: string, body: unknown): Promise<Response> {
    return fetch(new URL(path, gateway.url), {
      method: "POST",
      headers: { ...account.headers, "x-postern-hold": "full" },
      body: JSON.stringify(body),
    });
  }
});

/** Submits the first button of the page's form, as a browser does. */
async function payOnPage(payUrl: string): Promise<void> {
  const page = await (await fetch(payUrl)).text();
  const [, action = ""] = /<form method="post" action="([^"]+)"/.exec(page) ?? [];
  const [, name = "", value = ""] =
    /<button type="submit" name="(\w+)" value="(\w+)"/.exec(page) ?? [];
  const response = await fetch(new URL(action, payUrl), {
    method: "POST",
    headers: {
      origin: new URL(payUrl).origin,
      "content-type": "application/x-www-form-urlencoded",
    },
    body: new URLSearchParams({ [name]: value }).toString(),
  });
  expect(await response.text()).toContain("Invoice paid");
}
