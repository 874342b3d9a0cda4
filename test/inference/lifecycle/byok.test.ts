import { afterEach, describe, expect, test } from "bun:test";
import { challengeIn, fundedWallet, signPayment } from "../../billing/x402/wallet.ts";
import { startFacilitator } from "../../support/fakes/x402-facilitator.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import {
  bodyOf,
  errorOf,
  expectSettledLedger,
  expectEnvelope,
  grantCredits,
  type Json,
  postCall,
  usageRecordOf,
  usageRecordsOf,
  USD,
  readWallet,
} from "../support/harness.ts";
import {
  type RawProvider,
  type RawReply,
  type RawRequest,
  startRawProvider,
} from "../support/raw-provider.ts";

const GATEWAY_KEY = "sk-gateway-0123456789abcdef";
const CALLER_KEY = "sk-caller-0123456789abcdefghij";
const MODEL = "openai/gpt-5-mini";
const OK = JSON.stringify({
  id: "x",
  object: "chat.completion",
  model: "gpt-5-mini",
  choices: [{ index: 0, message: { role: "assistant", content: "fine" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
});
const RESPONSE = JSON.stringify({
  id: "resp_1",
  object: "response",
  status: "completed",
  model: "gpt-5-mini",
  output: [],
  usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
});

let provider: RawProvider;
let gateway: Gateway;
let account: TestAccount;

/** Starts a provider that replies by the key it is called with. The account has added a key for it. */
async function start(
  replyToCaller: (request: RawRequest) => RawReply,
  replyToGateway: (request: RawRequest) => RawReply = () => ({ body: OK }),
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  provider = await startRawProvider((request) => {
    if (request.path.endsWith("/models")) return { body: '{"object":"list","data":[]}' };
    return request.headers["authorization"] === `Bearer ${CALLER_KEY}`
      ? replyToCaller(request)
      : replyToGateway(request);
  });
  gateway = await startGateway({
    providers: [],
    env: {
      OPENAI_BASE_URL: provider.url,
      OPENAI_API_KEY: GATEWAY_KEY,
      MISTRAL_BASE_URL: provider.url,
      MISTRAL_API_KEY: GATEWAY_KEY,
      ...env,
    },
  });
  account = await registerAccount(gateway);
  await addKey("openai");
  provider.requests.length = 0;
}

async function addKey(to: string): Promise<void> {
  const response = await fetch(`${gateway.url}/v1/provider-keys`, {
    method: "POST",
    headers: account.headers,
    body: JSON.stringify({ provider: to, api_key: CALLER_KEY }),
  });
  expect(response.status).toBe(201);
}

afterEach(async () => {
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
  await provider.stop();
});

const chat = (more: Json = {}) =>
  postCall(gateway, account, "chat", bodyOf("chat", "hello", { model: MODEL, ...more }));
const keysUsed = (): string[] =>
  provider.requests.map((request) => String(request.headers["authorization"]).slice(7));

/** Holds the starting credit of the account. */
async function holdBalance(): Promise<void> {
  const key = await gateway.server.db.get("select id from api_key where account_id = ?", [
    account.id,
  ]);
  const ids = { id: `req_test_${account.id}`, accountId: account.id, keyId: String(key?.["id"]) };
  await gateway.server.ledger.hold({
    ...ids,
    amount: 50_000_000n,
    now: Date.now(),
    expiresAt: Date.now() + 600_000,
  });
}

/** Otherwise a first part of the output is affordable. */
const WHOLE_HOLD = { postern: { hold: "full" } };

describe("a call with the caller's provider key", () => {
  test("uses that key first, costs nothing, is metered and recorded, and needs no balance", async () => {
    await start(() => ({ body: OK }));
    const response = await chat();
    expect(response.status).toBe(200);
    expect([
      response.headers.get("x-postern-byok"),
      response.headers.get("x-postern-cost-usd"),
    ]).toEqual(["true", "0"]);
    expect((await response.json()) as Json).toMatchObject({ usage: { cost: 0 } });
    expect(keysUsed()).toEqual([CALLER_KEY]);
    expect(
      await usageRecordOf(gateway.server.db, response.headers.get("x-request-id")),
    ).toMatchObject({
      byok: 1,
      cost_nano: 0,
      input_tokens: 10,
      output_tokens: 5,
      outcome: "completed",
    });
    await holdBalance();
    expect((await chat({ max_tokens: 100_000 })).status).toBe(200);
    expect((await readWallet(gateway.server.db, account.id)).promo).toBe(50_000_000n);
    await gateway.server.db.write((tx) =>
      tx.run("delete from hold where account_id = ?", [account.id]),
    );
    await gateway.server.db.write((tx) =>
      tx.run("update wallet set held = 0 where account_id = ?", [account.id]),
    );
    await gateway.server.db.write((tx) =>
      tx.run("update spender set held = 0, open_calls = 0 where account_id = ?", [account.id]),
    );
  });

  test("may use features without a price, which the caller pays at the provider", async () => {
    await start(() => ({ body: RESPONSE }));
    const tools = [{ type: "image_generation" }];
    const body = { model: MODEL, input: "a cat", max_output_tokens: 64 };
    for (const more of [{ tools }, { service_tier: "scale" }])
      expect((await postCall(gateway, account, "responses", { ...body, ...more })).status).toBe(
        200,
      );
    expect(keysUsed()).toEqual([CALLER_KEY, CALLER_KEY]);
  });

  test("with features without a price does not fall back to the gateway's account", async () => {
    await start(() => ({ status: 500, body: '{"error":{"message":"no"}}' }));
    const tools = [{ type: "image_generation" }];
    const body = { model: MODEL, input: "a cat", max_output_tokens: 64, tools };
    expect((await postCall(gateway, account, "responses", body)).status).toBe(500);
    expect(new Set(keysUsed())).toEqual(new Set([CALLER_KEY]));
  });

  test("may refer to objects in the caller's provider account, and is forwarded unchanged", async () => {
    await start(() => ({ body: RESPONSE }));
    const body = {
      model: MODEL,
      input: [{ type: "item_reference", id: "msg_1" }],
      previous_response_id: "resp_0",
      store: false,
    };
    const response = await postCall(gateway, account, "responses", body);
    expect(response.status).toBe(200);
    expect(provider.requests[0]?.body).toBe(JSON.stringify({ ...body, model: "gpt-5-mini" }));
  });

  test("with such a reference does not fall back to the gateway's account", async () => {
    await start(() => ({ status: 500, body: "{}" }));
    const response = await postCall(gateway, account, "responses", {
      model: MODEL,
      input: "x",
      previous_response_id: "resp_0",
    });
    expect(response.status).toBe(500);
    expect(new Set(keysUsed())).toEqual(new Set([CALLER_KEY]));
  });

  test("falls back to the gateway's account after a rate limit or a failure, and is charged for that", async () => {
    await start(() => ({
      status: 429,
      headers: { "retry-after": "60" },
      body: '{"error":{"message":"slow"}}',
    }));
    const response = await chat();
    expect(response.status).toBe(200);
    expect(keysUsed()).toEqual([CALLER_KEY, GATEWAY_KEY]);
    expect(response.headers.get("x-postern-byok")).toBe("false");
    expect(Number(response.headers.get("x-postern-cost-usd"))).toBeGreaterThan(0);
    const record = await usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
    expect(record).toMatchObject({ byok: 0, outcome: "completed" });
    expect(JSON.parse(String(record["detail"])).attempts.map((one: Json) => one["status"])).toEqual(
      [429, 200],
    );
    const { promo } = await readWallet(gateway.server.db, account.id);
    expect(promo).toBe(50_000_000n - BigInt(String(record["cost_nano"])));
    expect((await usageRecordsOf(gateway.server.db, account.id)).length).toBe(1);
  });

  test("returns the error of the caller's key if the balance does not cover the fallback", async () => {
    await start(() => ({
      status: 429,
      headers: { "retry-after": "60" },
      body: '{"error":{"message":"slow"}}',
    }));
    const response = await chat({ max_tokens: 100_000, ...WHOLE_HOLD });
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "60"]);
    expect(errorOf(await response.json())).toMatchObject({ code: "rate_limited" });
    expect(new Set(keysUsed())).toEqual(new Set([CALLER_KEY]));
    expect(await usageRecordsOf(gateway.server.db, account.id)).toMatchObject([
      { outcome: "upstream_error", status: 429, byok: 1, cost_nano: 0 },
    ]);
  });

  test("falls back to the caller's key for the next model if the balance does not cover the candidates between", async () => {
    await start(({ body }) =>
      body.includes("gpt-5-mini")
        ? { status: 429, headers: { "retry-after": "60" }, body: '{"error":{"message":"slow"}}' }
        : { body: OK },
    );
    await addKey("mistral");
    provider.requests.length = 0;
    const models = [MODEL, "mistral/mistral-small-latest"];
    const response = await chat({ models, max_tokens: 100_000, ...WHOLE_HOLD });
    expect(response.status).toBe(200);
    expect(response.headers.get("x-postern-byok")).toBe("true");
    expect(new Set(keysUsed())).toEqual(new Set([CALLER_KEY]));
    expect(await usageRecordsOf(gateway.server.db, account.id)).toMatchObject([
      { outcome: "completed", status: 200, byok: 1, cost_nano: 0 },
    ]);
  });

  test("takes an x402 payment for the fallback after a rate limit", async () => {
    const facilitator = startFacilitator();
    try {
      await start(() => ({ status: 429, body: "{}" }), undefined, facilitator.env);
      const refused = await chat({ max_tokens: 60_000, ...WHOLE_HOLD });
      expect(refused.status).toBe(429);
      const next = errorOf(await refused.json())["next"] as Json[];
      expect(next.map(({ url }) => url)).toContain("/v1/billing/invoice");
      const [requirement] = challengeIn(refused.headers).accepts;
      if (requirement === undefined) throw new Error("no payment requirement");
      const { header } = await signPayment(fundedWallet(facilitator, 500n), requirement);
      const paid = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: { ...account.headers, "payment-signature": header },
        body: JSON.stringify(
          bodyOf("chat", "hello", { model: MODEL, max_tokens: 60_000, ...WHOLE_HOLD }),
        ),
      });
      expect([paid.status, paid.headers.get("x-postern-byok")]).toEqual([200, "false"]);
      expect(paid.headers.get("payment-response")).not.toBeNull();
      const records = await usageRecordsOf(gateway.server.db, account.id);
      expect(records.map(({ outcome, byok }) => [outcome, byok])).toEqual([
        ["upstream_error", 1],
        ["completed", 0],
      ]);
    } finally {
      await facilitator.stop();
    }
  });

  test("is recorded once and free if the caller's key and the gateway's account both fail", async () => {
    await start(
      () => ({ status: 503, body: "{}" }),
      () => ({ status: 503, body: "{}" }),
    );
    expect((await chat()).status).toBe(503);
    const records = await usageRecordsOf(gateway.server.db, account.id);
    expect(records.map((record) => [record["outcome"], record["cost_nano"]])).toEqual([
      ["upstream_error", 0],
    ]);
    expect((await readWallet(gateway.server.db, account.id)).promo).toBe(50_000_000n);
  });

  test("returns 403 without a fallback if the provider rejects the key", async () => {
    await start(() => ({
      status: 401,
      body: `{"error":{"message":"Incorrect API key provided: ${CALLER_KEY}"}}`,
    }));
    for (const api of ["chat", "responses"] as const) {
      const response = await postCall(gateway, account, api, bodyOf(api, "x", { model: MODEL }));
      expect(response.status).toBe(403);
      const text = await response.text();
      expect(text).not.toContain(CALLER_KEY);
      expectEnvelope(api, JSON.parse(text));
      expect(errorOf(JSON.parse(text))).toMatchObject({
        code: "forbidden",
        next: [{ url: "/v1/provider-keys" }],
      });
    }
    expect(new Set(keysUsed())).toEqual(new Set([CALLER_KEY]));
  });

  test("does not affect other accounts, whose calls use the gateway's account", async () => {
    await start(() => ({ body: OK }));
    const other = await registerAccount(gateway);
    await grantCredits(gateway, other, USD);
    expect(
      (await postCall(gateway, other, "chat", bodyOf("chat", "x", { model: MODEL }))).headers.get(
        "x-postern-byok",
      ),
    ).toBe("false");
    expect(keysUsed()).toEqual([GATEWAY_KEY]);
  });
});
