// Fallbacks between providers within one hold: the hold covers the most expensive candidate, the candidate that answered is
// charged at its own price, and the usage record lists every attempt.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { nanoFromUsd } from "../../../src/base/money/money.ts";
import { casesOn } from "../../support/full.ts";
import { type TestAccount, registerAccount } from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  bodyOf,
  errorOf,
  expectSettledLedger,
  grantCredits,
  isCompleteStream,
  type Json,
  postCall,
  usageRecordOf,
  usageRecordsOf,
  STREAMED_APIS,
  waitUntil,
  USD,
  readWallet,
} from "../support/harness.ts";
import {
  type ProviderId,
  PRICES,
  startRoutingHarness,
  type RoutingHarness,
} from "../support/routing-harness.ts";

const ORDER = { provider: { order: ["alpha", "beta", "gamma"] } };
const UNAVAILABLE = { status: 503 };

interface Detail {
  readonly attempts: readonly { provider: string; model: string; status: number }[];
}

for (const store of STORE_KINDS)
  describe(`on ${store}`, () => {
    let harness: RoutingHarness;
    let account: TestAccount;

    beforeAll(async () => {
      harness = await startRoutingHarness({ store });
    });
    afterAll(() => harness.stop());
    beforeEach(async () => {
      await harness.resetProviders();
      account = await registerAccount(harness.gateway);
      await grantCredits(harness.gateway, account, USD);
    });
    afterEach(() => expectSettledLedger(harness.gateway.server.db));

    function call(more: Json, api: (typeof STREAMED_APIS)[number] = "chat"): Promise<Response> {
      return postCall(
        harness.gateway,
        account,
        api,
        bodyOf(api, "hello", { model: "alpha/echo", ...more }),
      );
    }

    async function mintKey(usd: number): Promise<TestAccount> {
      const minted = await fetch(`${harness.gateway.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ limit_usd: usd }),
      });
      const { api_key: key } = (await minted.json()) as { api_key: string };
      return { ...account, key, headers: { ...account.headers, authorization: `Bearer ${key}` } };
    }

    async function detailOf(id: string | null): Promise<Detail> {
      const row = await usageRecordOf(harness.gateway.server.db, id);
      return JSON.parse(String(row["detail"])) as Detail;
    }

    /** The charge is the reported usage at the price of the provider that answered. */
    async function expectCharged(id: string | null, name: ProviderId): Promise<void> {
      const { db } = harness.gateway.server;
      const row = await usageRecordOf(db, id);
      const [input, output] = PRICES[name].map(BigInt);
      const pico =
        BigInt(String(row["input_tokens"])) * (input ?? 0n) +
        BigInt(String(row["output_tokens"])) * (output ?? 0n);
      expect([row["provider"], row["model"], BigInt(String(row["cost_nano"]))]).toEqual([
        name,
        `${name}/echo`,
        pico * 1_000n,
      ]);
      const wallet = await readWallet(db, account.id);
      expect(wallet.promo + wallet.paid).toBe(USD + (nanoFromUsd("0.05") ?? 0n) - pico * 1_000n);
      expect(wallet.held).toBe(0n);
    }

    for (const api of casesOn(store, STREAMED_APIS))
      for (const stream of [false, true])
        test(`${api}${stream ? ", streamed" : ""}: the second provider answers and is charged`, async () => {
          harness.providers.alpha.failure = UNAVAILABLE;
          const response = await call({ ...ORDER, stream }, api);
          const text = await response.text();
          expect([response.status, response.headers.get("x-postern-provider")]).toEqual([
            200,
            "beta",
          ]);
          if (stream) expect(isCompleteStream(api, text)).toBe(true);
          const id = response.headers.get("x-request-id");
          expect(
            (await detailOf(id)).attempts.map(({ provider, status }) => [provider, status]),
          ).toEqual([
            ["alpha", 503],
            ["beta", 200],
          ]);
          await expectCharged(id, "beta");
          // With another candidate left, a failed attempt is not retried.
          expect(harness.providers.alpha.requests).toHaveLength(1);
        });

    test("the hold covers the most expensive candidate, even if a cheaper one answers", async () => {
      const gate = Promise.withResolvers<void>();
      harness.providers.beta.gate = gate.promise;
      const pending = call({ provider: { order: ["beta", "gamma", "alpha"] } });
      const { held } = await waitUntil(
        () => readWallet(harness.gateway.server.db, account.id),
        (wallet) => wallet.held > 0n,
      );
      gate.resolve();
      const response = await pending;
      await response.text();
      // Mainly 200 output tokens at $20 per million.
      expect(held).toBeGreaterThan(200n * 20n * 1_000n);
      expect(held).toBeLessThan(2n * 200n * 20n * 1_000n);
      await expectCharged(response.headers.get("x-request-id"), "beta");
    });

    test("without preferences, only the model's own provider is tried", async () => {
      harness.providers.alpha.failure = UNAVAILABLE;
      const response = await call({});
      expect([response.status, errorOf(await response.json())["provider"]]).toEqual([503, "alpha"]);
      expect(harness.providers.alpha.requests).toHaveLength(2);
      expect([...harness.providers.beta.requests, ...harness.providers.gamma.requests]).toEqual([]);
    });

    test("rejects a call whose most expensive candidate the balance does not cover, before any request", async () => {
      const poor = await registerAccount(harness.gateway);
      // A balance of $0.05: enough for 3,600 output tokens at $8 per million, but not at $20.
      const body = bodyOf("chat", "hello", { model: "gamma/other", max_tokens: 40_000 });
      const alone = await postCall(harness.gateway, poor, "chat", body);
      expect(alone.status).toBe(200);
      const model = { model: "alpha/echo", max_tokens: 900, n: 4 };
      const both = await postCall(
        harness.gateway,
        poor,
        "chat",
        bodyOf("chat", "hello", { ...model, ...ORDER }),
      );
      expect([both.status, errorOf(await both.json())["code"]]).toEqual([
        402,
        "insufficient_credits",
      ]);
      expect(harness.providers.alpha.requests).toEqual([]);
      const one = await postCall(
        harness.gateway,
        poor,
        "chat",
        bodyOf("chat", "hello", { ...model, provider: { only: ["alpha"] } }),
      );
      expect(one.status).toBe(200);
    });

    test("an open output limit becomes what the balance covers at each candidate's price", async () => {
      const poor = await registerAccount(harness.gateway);
      harness.providers.alpha.failure = UNAVAILABLE;
      const { max_tokens: _, ...open } = bodyOf("chat", "hello ".repeat(1_000), {
        model: "alpha/echo",
        n: 4,
        ...ORDER,
      });
      const response = await postCall(harness.gateway, poor, "chat", open);
      expect([response.status, response.headers.get("x-postern-provider")]).toEqual([200, "beta"]);
      await response.text();
      const sent = (name: ProviderId): Json =>
        JSON.parse(harness.providers[name].requests[0]?.body ?? "") as Json;
      // $0.05 less the input, at $8 per million for each of four choices. At beta's price it covers the maximum.
      expect(Number(sent("alpha")["max_tokens"])).toBeGreaterThan(700);
      expect(Number(sent("alpha")["max_tokens"])).toBeLessThan(850);
      expect(sent("beta")["max_tokens"]).toBeUndefined();
      expect(response.headers.get("x-postern-max-tokens")).toBeNull();
    });

    test("tries `models` in order, each at its own provider", async () => {
      harness.providers.alpha.failure = UNAVAILABLE;
      const response = await call({ models: ["beta/echo", "gamma/other"] });
      expect([response.status, response.headers.get("x-postern-model")]).toEqual([
        200,
        "beta/echo",
      ]);
      harness.providers.beta.failure = { status: 429 };
      const third = await call({ models: ["beta/echo", "gamma/other"] });
      expect([third.status, third.headers.get("x-postern-model")]).toEqual([200, "gamma/other"]);
      const { attempts } = await detailOf(third.headers.get("x-request-id"));
      expect(attempts.map(({ model, status }) => `${model} ${status}`)).toEqual([
        "alpha/echo 503",
        "beta/echo 429",
        "gamma/other 200",
      ]);
    });

    const fallbackFailures: readonly (readonly [title: string, status: number, body?: unknown])[] =
      [
        ["a rate limit", 429],
        ["a timeout", 408],
        ["a server error", 500],
        ["an overload", 529],
        ["a rejected gateway account", 401],
        ["an unknown model", 404],
        [
          "an unknown model with status 400",
          400,
          { error: { message: "no such model", code: "model_not_found" } },
        ],
      ];
    for (const [title, status, body] of casesOn(store, fallbackFailures))
      test(`falls back after ${title}`, async () => {
        harness.providers.alpha.failure = body === undefined ? { status } : { status, body };
        const response = await call(ORDER);
        expect([response.status, response.headers.get("x-postern-provider")]).toEqual([
          200,
          "beta",
        ]);
      });

    for (const status of casesOn(store, [400, 413, 422]))
      test(`does not fall back after ${status}, an error in the request`, async () => {
        harness.providers.alpha.failure = { status };
        const response = await call(ORDER);
        expect(response.status).toBe(status);
        expect(harness.providers.beta.requests).toEqual([]);
        const [record] = await usageRecordsOf(harness.gateway.server.db, account.id);
        expect([record?.["provider"], String(record?.["cost_nano"])]).toEqual(["alpha", "0"]);
      });

    test("a stream does not fall back to a provider whose input its hold cannot be raised to", async () => {
      const limited = await mintKey(0.25);
      harness.providers.beta.failure = UNAVAILABLE;
      harness.providers.gamma.failure = UNAVAILABLE;
      const text = "word ".repeat(20_000);
      const response = await postCall(
        harness.gateway,
        limited,
        "chat",
        bodyOf("chat", text, {
          model: "beta/echo",
          stream: true,
          provider: { order: ["beta", "gamma", "alpha"] },
        }),
      );
      const error = errorOf(await response.json());
      expect([response.status, error["code"]]).toEqual([503, "overloaded"]);
      expect(harness.providers.beta.requests.length).toBeGreaterThan(0);
      expect(harness.providers.alpha.requests).toEqual([]);
    });

    test("with `allow_fallbacks: false`, only the first provider is tried", async () => {
      harness.providers.alpha.failure = UNAVAILABLE;
      const response = await call({ provider: { allow_fallbacks: false } });
      expect(response.status).toBe(503);
      expect(harness.providers.beta.requests).toEqual([]);
      const listed = await call({
        provider: { order: ["alpha", "gamma"], allow_fallbacks: false },
      });
      expect(listed.headers.get("x-postern-provider")).toBe("gamma");
      const text = "another conversation";
      const open = await postCall(
        harness.gateway,
        account,
        "chat",
        bodyOf("chat", text, { model: "alpha/echo", provider: { allow_fallbacks: true } }),
      );
      expect(open.headers.get("x-postern-provider")).toBe("beta");
    });

    test("if all candidates fail, returns the last error, charges nothing and records every attempt", async () => {
      for (const provider of Object.values(harness.providers)) provider.failure = UNAVAILABLE;
      const response = await call(ORDER);
      const id = response.headers.get("x-request-id");
      expect([response.status, errorOf(await response.json())["provider"]]).toEqual([503, "gamma"]);
      const { attempts } = await detailOf(id);
      expect(attempts.map(({ provider }) => provider)).toEqual(["alpha", "beta", "gamma", "gamma"]);
      expect((await readWallet(harness.gateway.server.db, account.id)).held).toBe(0n);
    });

    test("does not fall back after a stream has begun", async () => {
      const response = await postCall(
        harness.gateway,
        account,
        "chat",
        bodyOf("chat", "[[sim: tokens=20 chunks=20 cut=3]] go", {
          model: "alpha/echo",
          stream: true,
          ...ORDER,
        }),
      );
      const text = await response.text();
      expect([response.status, isCompleteStream("chat", text)]).toEqual([200, false]);
      expect(harness.providers.beta.requests).toEqual([]);
    });

    test("falls back after an error with status 200", async () => {
      const failing = { model: "alpha/echo", ...ORDER };
      const response = await postCall(
        harness.gateway,
        account,
        "chat",
        bodyOf("chat", "[[sim: error-body]] go", failing),
      );
      await response.text();
      const { attempts } = await detailOf(response.headers.get("x-request-id"));
      expect(attempts.map(({ provider }) => provider)).toEqual(["alpha", "beta", "gamma", "gamma"]);
    });
  });
