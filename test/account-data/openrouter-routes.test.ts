// The endpoints of OpenRouter that its clients ask for the key, the credits and a call, and its base path for model calls.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { grantCredits, USD } from "../inference/support/harness.ts";
import { call, valueAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const BODY = { model: "sim/echo", messages: [{ role: "user", content: "hi" }] };

describe.each(STORE_KINDS)("OpenRouter's endpoints (%s)", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    account = await registerAccount(gateway);
    await grantCredits(gateway, account, 20n * USD);
  });
  afterAll(() => gateway.stop());
  const get = (path: string, key = account.key) => call(gateway, `GET ${path}`, { key });
  const dataOf = ({ body }: Awaited<ReturnType<typeof get>>, name: string): unknown =>
    valueAt(body, `data.${name}`);

  test("answer calls and the list of models below /api/v1", async () => {
    const { key } = account;
    const chat = await call(gateway, "POST /api/v1/chat/completions", { key, body: BODY });
    expect([chat.status, valueAt(chat.body, "object")]).toEqual([200, "chat.completion"]);
    const embeddings = await call(gateway, "POST /api/v1/embeddings", {
      key,
      body: { model: "sim/embed", input: "a" },
    });
    expect(embeddings.status).toBe(200);
    const models = await get("/api/v1/models");
    expect(models.text).toBe((await get("/v1/models")).text);
    expect((await get("/api/v1/models/sim/echo")).status).toBe(200);
    // Only these: what has a secret or money has one address.
    expect((await get("/api/v1/usage")).status).toBe(404);
    expect((await get("/api/v1/account")).status).toBe(404);
    expect((await call(gateway, "POST /api/v1/keys", { key, body: {} })).status).toBe(404);
  });

  test("the key has its spend, limit and reset", async () => {
    const created = await call(gateway, "POST /v1/keys", {
      key: account.key,
      body: { name: "limited", limit_usd: 5, limit_window: "week" },
    });
    const limited = String(valueAt(created.body, "api_key"));
    const own = await get("/api/v1/key", limited);
    expectStatus("getOpenRouterKey", 200, own);
    expect(valueAt(own.body, "data")).toEqual({
      label: expect.stringMatching(/…\S{4}$/),
      usage: 0,
      limit: 5,
      limit_remaining: 5,
      limit_reset: "weekly",
      is_free_tier: true,
      expires_at: null,
    });
    const unlimited = await get("/api/v1/key");
    expect(valueAt(unlimited.body, "data")).toMatchObject({
      limit: null,
      limit_remaining: null,
      limit_reset: null,
    });
    expect((await get("/api/v1/key", "pst-rt-nothing")).status).toBe(401);
  });

  test("the credits are the balance and what was spent", async () => {
    const before = await get("/api/v1/credits");
    expectStatus("getOpenRouterCredits", 200, before);
    const spent = await call(gateway, "POST /v1/chat/completions", {
      key: account.key,
      body: { ...BODY, max_tokens: 50 },
    });
    expect(spent.status).toBe(200);
    const after = await get("/api/v1/credits");
    expect(Number(dataOf(after, "total_usage"))).toBeGreaterThan(
      Number(dataOf(before, "total_usage")),
    );
    expect(Number(dataOf(after, "total_credits"))).toBeCloseTo(
      Number(dataOf(before, "total_credits")),
      9,
    );
    const { body } = await get("/v1/account");
    const balance = Number(dataOf(after, "total_credits")) - Number(dataOf(after, "total_usage"));
    expect(balance).toBeCloseTo(Number(valueAt(body, "balance.usd")), 6);
  });

  test("a call has its cost and tokens, and is that of the account", async () => {
    const answer = await call(gateway, "POST /api/v1/chat/completions", {
      key: account.key,
      body: BODY,
    });
    const id = answer.headers.get("x-request-id") ?? "";
    const generation = await get(`/api/v1/generation?id=${id}`);
    expectStatus("getOpenRouterGeneration", 200, generation);
    const { body: record } = await get(`/v1/usage/${id}`);
    expect(valueAt(generation.body, "data")).toMatchObject({
      id,
      model: "sim/echo",
      provider_name: "sim",
      api_type: "chat",
      streamed: false,
      cancelled: false,
      is_byok: false,
      total_cost: Number(valueAt(record, "cost_usd")),
      tokens_prompt: valueAt(record, "usage.input_tokens"),
      tokens_completion: valueAt(record, "usage.output_tokens"),
    });
    const other = await registerAccount(gateway);
    const foreign = await get(`/api/v1/generation?id=${id}`, other.key);
    expectStatus("getOpenRouterGeneration", 404, foreign);
  });

  test("a call needs an id, and no other query parameter is an error", async () => {
    expectStatus("getOpenRouterGeneration", 400, await get("/api/v1/generation"));
    expectStatus("getOpenRouterKey", 400, await get("/api/v1/key?x=1&x=2"));
    expectStatus("getOpenRouterCredits", 400, await get("/api/v1/credits?x=1&x=2"));
    expect((await get("/api/v1/generation?id=req_none&x=1")).status).toBe(404);
  });
});
