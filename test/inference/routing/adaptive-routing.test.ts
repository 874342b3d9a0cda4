// Routing by earlier calls: sticky conversations, provider statistics, and providers that are down.

import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { MINUTE_MS } from "../../../src/base/time.ts";
import { OPEN_MS } from "../../../src/inference/routing/circuit-breaker.ts";
import { type TestAccount, registerAccount } from "../../support/gateway.ts";
import {
  addPaidCredits,
  bodyOf,
  grantCredits,
  type Json,
  postCall,
  USD,
} from "../support/harness.ts";
import { type ProviderId, startRoutingHarness } from "../support/routing-harness.ts";

const ANY = { provider: { allow_fallbacks: true } };
const LONG_PROMPT = "A long rule that every provider keeps in its cache. ".repeat(120);

let account: TestAccount;

const harness = await startRoutingHarness();
afterAll(() => harness.stop());
beforeEach(async () => {
  await harness.resetProviders();
  // After half an hour the statistics and conversations of the previous test have expired.
  harness.advanceClock(31 * MINUTE_MS);
  account = await registerAccount(harness.gateway);
  await addPaidCredits(harness.gateway, account, 5n * USD);
});

interface ChatResult {
  readonly provider: string | null;
  readonly cached: number;
}

async function chat(
  messages: readonly Json[],
  more: Json = ANY,
  caller = account,
): Promise<ChatResult> {
  const response = await postCall(harness.gateway, caller, "chat", {
    model: "alpha/echo",
    messages,
    max_tokens: 50,
    ...more,
  });
  expect(response.status).toBe(200);
  const { usage } = (await response.json()) as {
    usage: { prompt_tokens_details?: { cached_tokens?: number } };
  };
  return {
    provider: response.headers.get("x-postern-provider"),
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
  };
}

interface Endpoint {
  readonly provider: string;
  readonly model: string;
  readonly available: boolean;
  readonly status: string;
  readonly latency_ms: number | null;
  readonly reply_ms: number | null;
  readonly throughput: number | null;
  readonly uptime: number | null;
  readonly pricing: { readonly prompt: string };
}

async function endpointsOf(id: string): Promise<readonly Endpoint[]> {
  const response = await fetch(`${harness.gateway.url}/v1/models/${id}/endpoints`);
  expect(response.status).toBe(200);
  const { data } = (await response.json()) as { data: readonly Endpoint[] };
  return data;
}

describe("sticky routing", () => {
  const opening = [
    { role: "system", content: LONG_PROMPT },
    { role: "user", content: "first" },
  ];
  const later = [
    ...opening,
    { role: "assistant", content: "one" },
    { role: "user", content: "second" },
  ];

  test("keeps a conversation at the provider that answered it, where its prompt is cached", async () => {
    harness.providers.alpha.failure = { status: 503 };
    expect(await chat(opening)).toEqual({ provider: "beta", cached: 0 });
    harness.providers.alpha.failure = undefined;
    const second = await chat(later);
    expect(second.provider).toBe("beta");
    expect(second.cached).toBeGreaterThan(1_000);
  });

  test("does not apply to another account, another conversation, or after half an hour", async () => {
    harness.providers.alpha.failure = { status: 503 };
    await chat(opening);
    harness.providers.alpha.failure = undefined;
    const other = await registerAccount(harness.gateway);
    await grantCredits(harness.gateway, other, USD);
    expect((await chat(later, ANY, other)).provider).toBe("alpha");
    expect((await chat([{ role: "user", content: "first" }])).provider).toBe("alpha");
    harness.advanceClock(31 * MINUTE_MS);
    expect((await chat(later)).provider).toBe("alpha");
  });

  test("yields to `order`", async () => {
    harness.providers.alpha.failure = { status: 503 };
    await chat(opening);
    harness.providers.alpha.failure = undefined;
    const order = { provider: { order: ["gamma"] } };
    expect((await chat(later, order)).provider).toBe("gamma");
    expect((await chat(later)).provider).toBe("gamma");
  });

  test("moves to the next provider after a failure, and stays there", async () => {
    harness.providers.alpha.failure = { status: 503 };
    await chat(opening);
    harness.providers.alpha.failure = undefined;
    harness.providers.beta.failure = { status: 503 };
    expect((await chat(later)).provider).toBe("alpha");
    harness.providers.beta.failure = undefined;
    expect((await chat(later)).provider).toBe("alpha");
  });

  test("does not apply without preferences: the call goes to the model's own provider", async () => {
    harness.providers.alpha.failure = { status: 503 };
    await chat(opening);
    harness.providers.alpha.failure = undefined;
    expect((await chat(later, {})).provider).toBe("alpha");
  });
});

describe("a provider that is down", () => {
  async function breakAlpha(): Promise<void> {
    harness.providers.alpha.failure = { status: 503 };
    // With another candidate left, a failed attempt is not retried.
    const next = { model: "alpha/echo", provider: { order: ["alpha", "gamma"] } };
    for (let call = 0; call < 5; call++)
      await postCall(harness.gateway, account, "chat", bodyOf("chat", `fail ${call}`, next));
    harness.providers.alpha.failure = undefined;
    harness.providers.alpha.requests.length = 0;
  }

  test("is not called while its circuit is open, and is called again afterwards", async () => {
    await breakAlpha();
    expect((await chat([{ role: "user", content: "a" }])).provider).toBe("beta");
    expect(harness.providers.alpha.requests).toEqual([]);
    harness.advanceClock(OPEN_MS);
    expect((await chat([{ role: "user", content: "b" }])).provider).toBe("alpha");
  });

  test("is not chosen for a call without fallbacks", async () => {
    await breakAlpha();
    const alone = { provider: { allow_fallbacks: false, ignore: ["gamma"] } };
    expect((await chat([{ role: "user", content: "c" }], alone)).provider).toBe("beta");
  });

  test("is skipped without a request if it is first in `order`", async () => {
    await breakAlpha();
    const order = { provider: { order: ["alpha", "gamma"] } };
    expect((await chat([{ role: "user", content: "d" }], order)).provider).toBe("gamma");
    expect(harness.providers.alpha.requests).toEqual([]);
  });

  test("is listed as down, later as degraded, with its uptime", async () => {
    await breakAlpha();
    const [alpha, beta] = await endpointsOf("alpha/echo");
    expect([alpha?.status, alpha?.uptime]).toEqual(["down", 0]);
    expect([beta?.status, beta?.uptime]).toEqual(["up", null]);
    harness.advanceClock(OPEN_MS);
    await chat([{ role: "user", content: "e" }], {});
    const [after] = await endpointsOf("alpha/echo");
    expect([after?.status, after?.uptime]).toEqual(["degraded", 0.1667]);
  });
});

describe("sort", () => {
  const call = (id: ProviderId, stream: boolean): Promise<Response> =>
    postCall(
      harness.gateway,
      account,
      "chat",
      bodyOf("chat", "hi", { model: `${id}/echo`, stream, max_tokens: 50 }),
    );

  /** The gateway's clock advances by these times while the providers have the request. */
  async function measure(stream: boolean): Promise<void> {
    for (const [id, ms] of [
      ["alpha", 600],
      ["beta", 50],
      ["gamma", 300],
    ] as const) {
      harness.providers[id].onRequest = () => harness.advanceClock(ms);
      await (await call(id, stream)).text();
    }
  }

  test("by latency calls the fastest provider first", async () => {
    await measure(false);
    const sorted = { provider: { sort: "latency" } };
    expect((await chat([{ role: "user", content: "q1" }], sorted)).provider).toBe("beta");
    const left = { provider: { sort: "latency", ignore: ["beta"] } };
    expect((await chat([{ role: "user", content: "q2" }], left)).provider).toBe("gamma");
  });

  test("by latency calls a provider without recent samples first", async () => {
    await measure(false);
    harness.advanceClock(31 * MINUTE_MS);
    const sorted = { provider: { sort: "latency" } };
    const answeredBy: (string | null)[] = [];
    for (const name of ["r1", "r2", "r3"])
      answeredBy.push((await chat([{ role: "user", content: name }], sorted)).provider);
    expect(answeredBy).toEqual(["alpha", "beta", "gamma"]);
  });

  test("by throughput calls the fastest provider first", async () => {
    for (const [id, ms] of [
      ["alpha", 6_000],
      ["beta", 1_000],
      ["gamma", 2_000],
    ] as const) {
      const rest = Promise.withResolvers<void>();
      harness.providers[id].restGate = rest.promise;
      const reader = (await call(id, true)).body?.getReader();
      // The gateway has the first chunk once its client has it.
      await reader?.read();
      harness.advanceClock(ms);
      rest.resolve();
      while ((await reader?.read())?.done === false);
      harness.providers[id].restGate = undefined;
    }
    const measured = (await endpointsOf("alpha/echo")).map(({ throughput }) => throughput ?? 0);
    const [alpha = 0, beta = 0, gamma = 0] = measured;
    expect([beta / alpha, beta / gamma]).toEqual([6, 2]);
    const sorted = { provider: { sort: "throughput" } };
    const result = await chat([{ role: "user", content: "t1" }], sorted);
    expect(result.provider).toBe("beta");
  });

  test("ignores what accounts without paid credit measured", async () => {
    const paying = account;
    account = await registerAccount(harness.gateway);
    await grantCredits(harness.gateway, account, USD);
    await measure(false);
    account = paying;
    for (const { reply_ms: ms, throughput, uptime } of await endpointsOf("alpha/echo"))
      expect([ms, throughput, uptime]).toEqual([null, null, null]);
    const sorted = { provider: { sort: "latency" } };
    expect((await chat([{ role: "user", content: "u1" }], sorted)).provider).toBe("alpha");
  });

  test("measures the first byte of a stream, and the complete reply without streaming", async () => {
    await measure(true);
    expect((await endpointsOf("alpha/echo"))[0]).toMatchObject({ latency_ms: 600, reply_ms: null });
    await measure(false);
    expect((await endpointsOf("alpha/echo"))[0]).toMatchObject({ reply_ms: 600 });
  });
});

describe("GET /v1/models/{id}/endpoints", () => {
  test("lists every provider of a model without an API key, the model's own provider first", async () => {
    const listed = await endpointsOf("gamma/echo");
    expect(listed.map(({ provider, model }) => [provider, model])).toEqual([
      ["gamma", "gamma/echo"],
      ["beta", "beta/echo"],
      ["alpha", "alpha/echo"],
    ]);
    expect(listed.map(({ pricing }) => pricing.prompt)).toEqual([
      "0.000001",
      "0.000002",
      "0.000004",
    ]);
    expect(listed.every(({ available }) => available)).toBe(true);
  });

  test("lists providers without an account as unavailable, and accepts a name without a provider", async () => {
    const listed = await endpointsOf("claude-sonnet-4-5");
    expect(listed.map(({ provider }) => provider)).toEqual([
      "anthropic",
      "bedrock",
      "openrouter",
      "vertex",
    ]);
    expect(listed.some(({ available }) => available)).toBe(false);
    expect(
      (await endpointsOf("anthropic/claude-sonnet-4-5-20250929")).map(({ provider }) => provider),
    ).toEqual(["anthropic", "bedrock", "openrouter", "vertex"]);
  });

  test("returns 404 for an unknown id", async () => {
    const response = await fetch(`${harness.gateway.url}/v1/models/alpha/ekko/endpoints`);
    expect(response.status).toBe(404);
  });
});
