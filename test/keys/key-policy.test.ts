// What a key may call, and how fast: set through the API, enforced on calls, kept by keys.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { matchesGlob } from "../../src/http/key-policy.ts";
import { createUser, makeOwner } from "../billing/console-user.ts";
import {
  type ApiResponse,
  call,
  chat,
  createFakeClock,
  expectError,
  type Json,
  listAt,
  textAt,
  valueAt,
} from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

test("matches globs without regard to letter case, in linear time", () => {
  for (const [glob, name, isMatch] of [
    ["openai/*", "openai/gpt-6-sol", true],
    ["OpenAI/GPT-*", "openai/gpt-6-sol", true],
    ["*", "sim/echo", true],
    ["*mini*", "openai/gpt-5-mini", true],
    ["openai/*-mini", "openai/gpt-5-mini-2026", false],
    ["openai/gpt-5", "openai/gpt-5-mini", false],
    ["a*a", "a", false],
    ["a.c", "abc", false],
  ] as const)
    expect([glob, matchesGlob([glob], name)]).toEqual([glob, isMatch]);
  // Backtracking would take longer than the test may.
  expect(matchesGlob([`${"*a".repeat(128)}b`], "a".repeat(256))).toBe(false);
});

describe.each(STORE_KINDS)("the policy of a key on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    account = await registerAccount(gateway);
  });
  afterAll(() => gateway.stop());

  const createKey = async (body: Json, key = account.key): Promise<ApiResponse> =>
    call(gateway, "POST /v1/keys", { key, body });
  const keyWith = async (body: Json): Promise<{ id: string; key: string }> => {
    const created = await createKey(body);
    expect([body, created.status]).toEqual([body, 201]);
    return { id: textAt(created.body, "id"), key: textAt(created.body, "api_key") };
  };
  const chatWith = (key: string, model = "sim/echo", more: Json = {}): Promise<ApiResponse> =>
    call(gateway, "POST /v1/chat/completions", {
      key,
      body: { model, max_tokens: 8, messages: [{ role: "user", content: "hello" }], ...more },
    });

  test.each([
    [{ allowed_models: ["sim/rea*"] }, "allowed_models"],
    [{ allowed_providers: ["openai", "anth*"] }, "allowed_providers"],
    [{ max_price_per_million_usd: 1.5 }, "max_price_per_million_usd"],
  ])("refuses a model outside of %p, also as a fallback", async (policy, field) => {
    const { key } = await keyWith(policy);
    for (const more of [{}, { models: ["sim/echo"] }]) {
      const refused = await chatWith(key, "sim/echo", more);
      expectError(refused, { status: 403, code: "forbidden" });
      expect(valueAt(refused.body, "error.policy")).toBe(field);
      expect(textAt(refused.body, "error.message")).toContain(`\`${field}\``);
    }
  });

  test("refuses to count the tokens of a model outside of the policy", async () => {
    const { key } = await keyWith({ allowed_models: ["sim/rea*"] });
    const count = (model: string): Promise<ApiResponse> =>
      call(gateway, "POST /v1/messages/count_tokens", {
        key,
        body: { model, messages: [{ role: "user", content: "hello" }] },
      });
    const refused = await count("sim/echo");
    expectStatus("countTokens", 403, refused);
    expect(valueAt(refused.body, "error.policy")).toBe("allowed_models");
    expect((await count("sim/reason")).status).toBe(200);
  });

  test("allows a model within the policy, and a fallback within it instead of one outside", async () => {
    const { key } = await keyWith({
      allowed_models: ["sim/rea*"],
      allowed_providers: ["SIM"],
      max_price_per_million_usd: 2,
    });
    expect((await chatWith(key, "sim/reason")).status).toBe(200);
    const fallback = await chatWith(key, "sim/echo", { models: ["sim/reason"] });
    expect(fallback.status).toBe(200);
    expect(textAt(fallback.body, "model")).toContain("reason");
  });

  test("limits requests per minute of the key, and of no other", async () => {
    // The clock stands still, so the burst does not refill.
    const own = await startGateway({ store, now: createFakeClock().now });
    const { key: first } = await registerAccount(own);
    const body = { requests_per_minute: 12 };
    const created = await call(own, "POST /v1/keys", { key: first, body });
    const key = textAt(created.body, "api_key");
    const replies: ApiResponse[] = [];
    for (let sent = 0; sent < 4; sent++) replies.push(await chat(own, key));
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 429, 429]);
    expect(replies.map(({ headers }) => headers.get("ratelimit")?.replace(/t=\d+/, "t"))).toEqual([
      '"burst";r=1;t',
      '"burst";r=0;t',
      '"burst";r=0;t',
      '"burst";r=0;t',
    ]);
    for (const { headers } of replies)
      expect(headers.get("ratelimit-policy")).toBe('"minute";q=12;w=60, "burst";q=2;w=10');
    const refused = await chat(own, key);
    const wait = Number(refused.headers.get("retry-after"));
    expect(wait).toBeGreaterThan(0);
    expect(valueAt(refused.body, "error.retry_after_seconds")).toBe(wait);
    const other = await chat(own, first);
    expect([other.status, other.headers.get("ratelimit")]).toEqual([200, null]);
    await own.stop();
  });

  test("of calls per minute are in every reply, also to requests that it does not count", async () => {
    const clock = createFakeClock();
    const own = await startGateway({ store, now: clock.now });
    const { key: first } = await registerAccount(own);
    const body = { requests_per_minute: 12 };
    const created = await call(own, "POST /v1/keys", { key: first, body });
    const key = textAt(created.body, "api_key");
    const sent = async (): Promise<readonly unknown[]> => {
      const replies = [
        await call(own, "GET /v1/account", { key }),
        await call(own, "GET /v1/keys/self", { key }),
        await call(own, "GET /v1/webhooks/hook_none", { key }),
        await call(own, "POST /v1/chat/completions", { key, body: {} }),
        await chat(own, key, { model: "sim/no-such" }),
      ];
      for (const { headers } of replies)
        expect(headers.get("ratelimit-policy")).toBe('"minute";q=12;w=60, "burst";q=2;w=10');
      return [...new Set(replies.map(({ headers }) => headers.get("ratelimit")))];
    };
    expect(await sent()).toEqual(['"burst";r=2;t=0']);
    const stream = await chat(own, key, { stream: true });
    expect(stream.headers.get("ratelimit")).toBe('"burst";r=1;t=5');
    expect(await sent()).toEqual(['"burst";r=1;t=5']);
    clock.advance(5_000);
    expect(await sent()).toEqual(['"burst";r=2;t=0']);
    const unlimited = await call(own, "GET /v1/account", { key: first });
    expect(unlimited.headers.get("ratelimit-policy")).toBeNull();
    await own.stop();
  });

  test("limits tokens per minute", async () => {
    const { key } = await keyWith({ tokens_per_minute: 1 });
    expect((await chatWith(key)).status).toBe(200);
    const refused = await chatWith(key);
    expectError(refused, { status: 429, code: "rate_limited" });
    expect(textAt(refused.body, "error.message")).toContain("1 tokens per minute");
  });

  test("limits concurrent calls", async () => {
    const { key } = await keyWith({ max_concurrent_calls: 1 });
    const controller = new AbortController();
    const open = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      signal: controller.signal,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: "sim/echo",
        stream: true,
        max_tokens: 2_000,
        messages: [{ role: "user", content: "[[sim: hang=1]] hello" }],
      }),
    });
    expect(open.status).toBe(200);
    const refused = await chatWith(key);
    controller.abort();
    expectError(refused, { status: 429, code: "rate_limited" });
    expect(textAt(refused.body, "error.message")).toContain("1 open calls");
  });

  test("shows, changes and removes a policy", async () => {
    const { id } = await keyWith({ allowed_models: ["sim/*"], requests_per_minute: 5 });
    const change = (body: Json): Promise<ApiResponse> =>
      call(gateway, `PATCH /v1/keys/${id}`, { key: account.key, body });
    expect((await change({ tokens_per_minute: 9 })).body).toMatchObject({
      allowed_models: ["sim/*"],
      requests_per_minute: 5,
      tokens_per_minute: 9,
      max_concurrent_calls: null,
    });
    const removed = await change({
      allowed_models: null,
      requests_per_minute: null,
      tokens_per_minute: null,
    });
    expect(removed.body).toMatchObject({ allowed_models: null, requests_per_minute: null });
    const row = await gateway.server.db.get("select policy from api_key where id = ?", [id]);
    expect(row?.["policy"]).toBeNull();
  });

  test.each([
    [{ allowed_models: [] }, "allowed_models"],
    [{ allowed_models: ["x".repeat(300)] }, "allowed_models.0"],
    [{ requests_per_minute: 0 }, "requests_per_minute"],
    [{ max_concurrent_calls: 1.5 }, "max_concurrent_calls"],
    [{ max_price_per_million_usd: -1 }, "max_price_per_million_usd"],
    [{ limit_usd: 1, alert_percents: [0] }, "alert_percents.0"],
    [{ alert_percents: [50] }, "alert_percents"],
  ])("rejects %p", async (body, param) => {
    const refused = await createKey(body);
    expectError(refused, { status: 400, code: "invalid_request" });
    expect(valueAt(refused.body, "error.param")).toBe(param);
  });

  test("a key passes its policy on, and cannot loosen it on itself or others", async () => {
    const policy = { allowed_models: ["sim/rea*"], max_price_per_million_usd: 2 };
    const parent = await keyWith(policy);
    const wider = await createKey({ allowed_models: ["*"] }, parent.key);
    expectError(wider, { status: 403, code: "forbidden" });
    const child = await createKey({ requests_per_minute: 3 }, parent.key);
    expect(child.body).toMatchObject({ ...policy, requests_per_minute: 3 });
    const childKey = textAt(child.body, "api_key");
    expect((await chatWith(childKey)).status).toBe(403);
    expectError(await createKey({}, childKey), { status: 403, code: "forbidden" });
    for (const body of [{ allowed_models: null }, { max_price_per_million_usd: 9 }]) {
      const changed = await call(gateway, `PATCH /v1/keys/${parent.id}`, { key: parent.key, body });
      expectError(changed, { status: 403, code: "forbidden" });
    }
    expect((await call(gateway, "GET /v1/audit", { key: parent.key })).status).toBe(403);
    expect((await call(gateway, "GET /v1/webhooks", { key: parent.key })).status).toBe(403);
  });

  test("a key cannot loosen the policy of another in a claimed account", async () => {
    const claimed = await registerAccount(gateway);
    const limited = await createKey({ allowed_models: ["sim/rea*"] }, claimed.key);
    await makeOwner(gateway, claimed.id, await createUser(gateway, `policy-${store}`));
    const changed = await call(gateway, `PATCH /v1/keys/${textAt(limited.body, "id")}`, {
      key: claimed.key,
      body: { allowed_models: null },
    });
    expectError(changed, { status: 403, code: "forbidden" });
  });

  test("fires an event once when the spend reaches each percentage of the limit", async () => {
    const { id, key } = await keyWith({ limit_usd: 0.001, alert_percents: [1, 5] });
    for (let sent = 0; sent < 5; sent++) await chatWith(key);
    const { body } = await call(gateway, "GET /v1/events?type=key.limit_reached", {
      key: account.key,
    });
    const events = listAt(body, "data").map((event) => event["data"]);
    expect(events).toMatchObject([
      { key_id: id, percent: 5, limit_usd: 0.001, resets_at: null },
      { key_id: id, percent: 1 },
    ]);
  });
});

describe.each(STORE_KINDS)("a key's rate beside the gateway's on %s", (store) => {
  test.each([
    ["a slower key", 6, [200, 429]],
    ["a faster key", 6_000, [...Array.from({ length: 10 }, () => 200), 429]],
  ])("the lower one applies: %s", async (_which, perMinute, expected) => {
    const now = Date.now();
    const env = { POSTERN_REQUESTS_PER_MINUTE: "60" };
    const gateway = await startGateway({ store, env, now: () => now });
    const account = await registerAccount(gateway);
    const created = await call(gateway, "POST /v1/keys", {
      key: account.key,
      body: { requests_per_minute: perMinute },
    });
    const statuses: number[] = [];
    // The clock stands still, so the burst does not refill: ten seconds' worth of calls, as the gateway's own.
    for (const _call of expected) {
      const { status } = await call(gateway, "POST /v1/chat/completions", {
        key: textAt(created.body, "api_key"),
        body: { model: "sim/echo", max_tokens: 8, messages: [{ role: "user", content: "hi" }] },
      });
      statuses.push(status);
    }
    await gateway.stop();
    expect(statuses).toEqual(expected);
  });
});
