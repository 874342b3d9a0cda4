// POST /v1/quote: what a call can cost, and the signed offer by which a call costs no more than that.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { OFFER_LIFETIME_MS } from "../../../src/inference/lifecycle/offer.ts";
import { runs } from "../../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { migratedPostgres } from "../../support/stores/postgres.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  bodyOf,
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  postCall,
  STREAMED_APIS,
  USD,
  usageRecordOf,
  withHeaders,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";

const model = (id: string, pricing: Json | Json[]): Json => ({
  id,
  wires: ["chat", "responses", "messages"],
  context_length: 128_000,
  max_output_tokens: 16_384,
  pricing,
});
const CHEAP = { tokens: { input: "1", output: "2" } };
const DEAR = { tokens: { input: "10", output: "20" } };
const CHANGE_DAY = "2026-12-01";
const BEFORE_CHANGE = Date.parse(`${CHANGE_DAY}T00:00:00Z`) - 60_000;
const MODELS = [
  model("sim/cheap", CHEAP),
  model("sim/dear", DEAR),
  model("sim/rises", [CHEAP, { ...DEAR, from: CHANGE_DAY }]),
];
const STARTING_CREDITS = 50_000;
const BASE_URL = "http://localhost:8787";
const LIMIT_OF = {
  chat: "max_tokens",
  messages: "max_tokens",
  responses: "max_output_tokens",
} as const;

const nanoOf = (usd: unknown): number => Math.round(Number(usd) * 1e9);

interface QuoteReply extends Json {
  readonly offer: string;
  readonly cost_usd_max: string;
}

async function quote(
  gateway: Gateway,
  account: TestAccount,
  body: Json,
  query = "",
): Promise<QuoteReply> {
  const response = await fetch(`${gateway.url}/v1/quote${query}`, {
    method: "POST",
    headers: account.headers,
    body: JSON.stringify(body),
  });
  const reply = (await response.json()) as QuoteReply;
  expect([response.status, reply["error"]]).toEqual([200, undefined]);
  return reply;
}

for (const store of STORE_KINDS) {
  describe(`POST /v1/quote on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    let now = BEFORE_CHANGE;
    beforeAll(async () => {
      gateway = await startGateway({ store, env: withModels(MODELS), now: () => now });
      account = await registerAccount(gateway);
      await grantCredits(gateway, account, 100n * USD);
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });
    const callWith = (offer: string, api: (typeof STREAMED_APIS)[number], body: Json) =>
      postCall(gateway, withHeaders(account, { "x-postern-quote": offer }), api, body);
    const costOf = async (response: Response): Promise<number> => {
      await response.text();
      const record = await usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
      return Number(record["cost_nano"]);
    };

    for (const api of STREAMED_APIS)
      test(`binds a call of the same body, streamed or not (${api})`, async () => {
        now = BEFORE_CHANGE;
        const body = bodyOf(api, "[[sim: tokens=50]] count", {
          model: "sim/rises",
          [LIMIT_OF[api]]: 200,
        });
        const quoted = await quote(gateway, account, body, `?api=${api}`);
        expect([quoted["api"], quoted["model"]]).toEqual([api, "sim/rises"]);
        now = BEFORE_CHANGE + 120_000;
        for (const stream of [false, true]) {
          const bound = await callWith(quoted.offer, api, { ...body, stream });
          expect(bound.status).toBe(200);
          expect(bound.headers.get("x-postern-max-tokens")).toBeNull();
          const cost = await costOf(bound);
          const free = await postCall(gateway, account, api, { ...body, stream });
          expect(await costOf(free)).toBe(cost * 10);
          expect(cost).toBeLessThanOrEqual(nanoOf(quoted.cost_usd_max));
        }
      });

    test("of a restricted key does not lower the price of models that this key may not call", async () => {
      const created = await fetch(`${gateway.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ name: "cheap", allowed_models: ["sim/cheap"] }),
      });
      const { api_key: key } = (await created.json()) as { api_key: string };
      const body = bodyOf("chat", "[[sim: tokens=150]] count", {
        model: "sim/dear",
        models: ["sim/dear", "sim/cheap"],
        max_tokens: 200,
      });
      const restricted = withHeaders(account, { authorization: `Bearer ${key}` });
      const quoted = await quote(gateway, restricted, body);
      expect(quoted["model"]).toBe("sim/cheap");
      for (const stream of [false, true]) {
        const bound = await callWith(quoted.offer, "chat", { ...body, stream });
        expect([bound.status, bound.headers.get("x-postern-model")]).toEqual([200, "sim/cheap"]);
        await bound.text();
      }
    });

    test("of a call on the caller's own provider key does not make calls of the gateway's account free", async () => {
      const owner = await registerAccount(gateway);
      const post = (path: string, body: Json): Promise<Response> =>
        fetch(gateway.url + path, {
          method: "POST",
          headers: owner.headers,
          body: JSON.stringify(body),
        });
      const added = await post("/v1/provider-keys", {
        provider: "sim",
        api_key: "a-key-of-my-own-0123",
      });
      const { id } = (await added.json()) as { id: string };
      const body = bodyOf("chat", "hello", { model: "sim/cheap", max_tokens: 20 });
      const quoted = await quote(gateway, owner, body);
      expect([quoted["byok"], quoted.cost_usd_max]).toEqual([true, "0"]);
      const carried = { ...body, postern: { quote: quoted.offer } };
      const own = await postCall(gateway, owner, "chat", carried);
      expect([own.status, own.headers.get("x-postern-byok")]).toEqual([200, "true"]);
      await own.text();
      await fetch(`${gateway.url}/v1/provider-keys/${id}`, {
        method: "DELETE",
        headers: owner.headers,
      });
      const shared = await postCall(gateway, owner, "chat", carried);
      expect(shared.status).toBe(400);
      expect(errorOf(await shared.json())).toMatchObject({ param: "postern.quote" });
    });

    test("names the body field, too, and is not sent to the provider", async () => {
      const body = bodyOf("chat", "hello", { model: "sim/cheap", max_tokens: 20 });
      const { offer } = await quote(gateway, account, body);
      const response = await postCall(gateway, account, "chat", {
        ...body,
        postern: { quote: offer },
      });
      expect(response.status).toBe(200);
    });

    test("quotes several models at once, and says which cannot serve the request", async () => {
      const body = bodyOf("chat", "hello", { model: "sim/cheap", max_tokens: 100 });
      const { data } = (await quote(
        gateway,
        account,
        body,
        "?models=sim/dear,sim/none,sim/cheap",
      )) as unknown as { data: readonly QuoteReply[] };
      expect(data.map(({ object, model: id }) => [object, id])).toEqual([
        ["quote", "sim/dear"],
        ["quote_error", "sim/none"],
        ["quote", "sim/cheap"],
      ]);
      const [dear, none, cheap] = data;
      expect(nanoOf(dear?.cost_usd_max)).toBeGreaterThan(nanoOf(cheap?.cost_usd_max));
      expect(none?.["error"]).toMatchObject({ code: "model_not_found" });
      const chosen = await callWith(cheap?.offer ?? "", "chat", body);
      expect(chosen.status).toBe(200);
      const other = await callWith(dear?.offer ?? "", "chat", body);
      expect(other.status).toBe(400);
    });

    test("can be used again until it expires", async () => {
      now = BEFORE_CHANGE;
      const body = bodyOf("chat", "hello", { model: "sim/cheap", max_tokens: 20 });
      const { offer, expires_at } = await quote(gateway, account, body);
      expect(Date.parse(String(expires_at))).toBe(now + OFFER_LIFETIME_MS);
      now += OFFER_LIFETIME_MS;
      for (let calls = 0; calls < 2; calls++)
        expect((await callWith(offer, "chat", body)).status).toBe(200);
      now += 1;
      const expired = await callWith(offer, "chat", body);
      const error = errorOf(await expired.json());
      expect([expired.status, error["param"]]).toEqual([400, "x-postern-quote"]);
      expect(error["message"]).toContain("expired");
    });

    test("does not bind another account, request or API, or a text that was changed", async () => {
      const body = bodyOf("chat", "hello", { model: "sim/cheap", max_tokens: 20 });
      const { offer } = await quote(gateway, account, body);
      const stranger = await registerAccount(gateway);
      const [head = "", payload = "", signature = ""] = offer.split(".");
      const forged = Buffer.from(
        Buffer.from(payload, "base64url").toString().replace('"amount":"', '"amount":"0'),
      ).toString("base64url");
      const receipt = await postCall(
        gateway,
        withHeaders(account, { "x-postern-receipt": "1" }),
        "chat",
        body,
      );
      const attempts: readonly [string, Promise<Response>][] = [
        [
          "another account",
          postCall(gateway, withHeaders(stranger, { "x-postern-quote": offer }), "chat", body),
        ],
        ["another request", callWith(offer, "chat", { ...body, max_tokens: 2_000 })],
        ["another request", callWith(offer, "chat", { ...body, model: "sim/dear" })],
        ["another request", callWith(offer, "chat", { ...body, models: ["sim/dear"] })],
        [
          "another request",
          callWith(
            offer,
            "messages",
            bodyOf("messages", "hello", { model: "sim/cheap", max_tokens: 20 }),
          ),
        ],
        ["is not an `offer`", callWith(`${head}.${forged}.${signature}`, "chat", body)],
        [
          "is not an `offer`",
          callWith(receipt.headers.get("x-postern-receipt") ?? "", "chat", body),
        ],
        ["is not an `offer`", callWith("quo_01kah5t3mq7d2c9w4e6r8t0yax", "chat", body)],
      ];
      for (const [reason, sent] of attempts) {
        const response = await sent;
        const error = errorOf(await response.json());
        expect([response.status, error["code"]]).toEqual([400, "invalid_request"]);
        expect(error["message"]).toContain(reason);
      }
    });

    test("of a preset binds the settings that it had then, and no later ones", async () => {
      now = BEFORE_CHANGE;
      const save = (settings: Json) =>
        fetch(`${gateway.url}/v1/presets/bound`, {
          method: "POST",
          headers: account.headers,
          body: JSON.stringify(settings),
        });
      await save({ model: "sim/cheap", max_output_tokens: 40 });
      const { model: _, ...plain } = bodyOf("chat", "hello");
      const body = { ...plain, model: "@preset/bound", max_tokens: undefined };
      const { offer, model: quoted } = await quote(gateway, account, body);
      expect(quoted).toBe("sim/cheap");
      expect((await callWith(offer, "chat", body)).status).toBe(200);
      for (const settings of [
        { model: "sim/dear", max_output_tokens: 40 },
        { model: "sim/cheap", max_output_tokens: 4_000 },
        { model: "sim/cheap", max_output_tokens: 40, fields: { chat: { n: 5 } } },
      ]) {
        await save(settings);
        const refused = await callWith(offer, "chat", body);
        const { message } = errorOf(await refused.json());
        expect([refused.status, message]).toEqual([
          400,
          expect.stringContaining("another request"),
        ]);
      }
    });

    test("of a response that continues another one binds all its turns, or is refused", async () => {
      const first = await postCall(gateway, account, "responses", {
        model: "sim/cheap",
        input: "[[sim: tokens=600]] a long story",
        store: true,
      });
      const { id } = (await first.json()) as { id: string };
      const body = { model: "sim/cheap", input: "go on", max_output_tokens: 20 };
      const plain = await quote(gateway, account, body, "?api=responses");
      const moved = await callWith(plain.offer, "responses", { ...body, previous_response_id: id });
      expect(moved.status).toBe(400);
      const whole = await fetch(`${gateway.url}/v1/quote?api=responses`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ ...body, previous_response_id: id }),
      });
      const reply = (await whole.json()) as QuoteReply;
      if (whole.status === 200) {
        expect(nanoOf(reply.cost_usd_max)).toBeGreaterThan(nanoOf(plain.cost_usd_max));
        const bound = await callWith(reply.offer, "responses", {
          ...body,
          previous_response_id: id,
        });
        expect([bound.status, await bound.text()]).toEqual([200, expect.any(String)]);
        return;
      }
      expect([whole.status, errorOf(reply)["param"]]).toEqual([400, "previous_response_id"]);
    });

    test("keeps a lower ceiling of the caller", async () => {
      const body = bodyOf("chat", "[[sim: tokens=3000]] count", {
        model: "sim/cheap",
        max_tokens: 4_000,
      });
      const { offer } = await quote(gateway, account, body);
      const response = await callWith(offer, "chat", { ...body, postern: { max_cost_usd: 0.001 } });
      expect(response.headers.get("x-postern-budget-cut")).toBe("true");
      expect(await costOf(response)).toBeLessThanOrEqual(1_000_000);
    });

    test("names the quote in the receipt", async () => {
      const body = bodyOf("chat", "hello", { model: "sim/cheap", max_tokens: 20 });
      const { offer, id } = await quote(gateway, account, body);
      const response = await callWith(offer, "chat", { ...body, postern: { receipt: true } });
      const [, payload = ""] = (response.headers.get("x-postern-receipt") ?? "").split(".");
      expect(JSON.parse(Buffer.from(payload, "base64url").toString())).toMatchObject({
        quote_id: id,
      });
    });

    test("agrees with the call about what the key can pay for", async () => {
      now = BEFORE_CHANGE;
      const credits = fc.option(fc.integer({ min: 100, max: 100_000 }));
      await fc.assert(
        fc.asyncProperty(credits, credits, async (keyLimit, budget) => {
          const payer = await registerAccount(gateway);
          if (budget !== null)
            await send(payer, "PATCH", "/v1/account/budgets", { daily_usd: budget / 1e6 });
          const headers =
            keyLimit === null ? payer.headers : await limitedKey(payer, keyLimit / 1e6);
          const body = bodyOf("chat", "hello", { model: "sim/dear", max_tokens: 8_000 });
          const quoted = await quote(gateway, { ...payer, headers }, body);
          const least = Math.min(STARTING_CREDITS, keyLimit ?? Infinity, budget ?? Infinity);
          expect(quoted["available_credits"]).toBe(least);
          const affordable = Number(quoted["affordable_output_tokens"]);
          const call = (limit: number) =>
            postCall(gateway, { ...payer, headers }, "chat", { ...body, max_tokens: limit });
          expect((await call(affordable + 200)).ok).toBe(false);
          if (affordable > 0) expect((await call(affordable)).status).toBe(200);
        }),
        { numRuns: runs(15) },
      );
    });

    test("agrees with the call about what the key's policy and scopes allow", async () => {
      now = BEFORE_CHANGE;
      const POLICIES: readonly Json[] = [
        {},
        { allowed_models: ["sim/cheap"] },
        { allowed_models: ["sim/*"] },
        { allowed_providers: ["sim"] },
        { allowed_providers: ["openai"] },
        { max_price_per_million_usd: 5 },
        { max_price_per_million_usd: 50 },
        { limit_usd: 1 },
        { scopes: ["models:write"] },
        { scopes: ["usage:read"] },
      ];
      const keys = await Promise.all(
        POLICIES.map(async (policy) => {
          const { api_key: key } = await send(account, "POST", "/v1/keys", policy);
          return withHeaders(account, { authorization: `Bearer ${String(key)}` });
        }),
      );
      await fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...keys),
          fc.constantFrom(...STREAMED_APIS),
          fc.constantFrom("sim/cheap", "sim/dear", "sim/no-such"),
          async (key, api, requested) => {
            const body = bodyOf(api, "hello", { model: requested });
            const called = await postCall(gateway, key, api, body);
            const quoted = await fetch(`${gateway.url}/v1/quote?api=${api}`, {
              method: "POST",
              headers: key.headers,
              body: JSON.stringify(body),
            });
            const codeOf = async (response: Response): Promise<unknown> => {
              const text = await response.text();
              return response.ok ? "allowed" : errorOf(JSON.parse(text))["code"];
            };
            expect([quoted.status, await codeOf(quoted)]).toEqual([
              called.status,
              await codeOf(called),
            ]);
          },
        ),
        { numRuns: runs(60) },
      );
    });

    const send = async (payer: TestAccount, method: string, path: string, body: Json) => {
      const response = await fetch(gateway.url + path, {
        method,
        headers: payer.headers,
        body: JSON.stringify(body),
      });
      const reply = (await response.json()) as Json;
      expect([response.ok, reply["error"]]).toEqual([true, undefined]);
      return reply;
    };
    const limitedKey = async (payer: TestAccount, limit: number) => {
      const { api_key: key } = await send(payer, "POST", "/v1/keys", { limit_usd: limit });
      return { ...payer.headers, authorization: `Bearer ${String(key)}` };
    };

    test("is never exceeded by what the provider reports", async () => {
      now = BEFORE_CHANGE;
      await fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...STREAMED_APIS),
          fc.integer({ min: 1, max: 400 }),
          fc.integer({ min: 1, max: 2_000 }),
          fc.boolean(),
          async (api, limit, tokens, stream) => {
            const body = bodyOf(api, `[[sim: tokens=${tokens}]] count`, {
              model: "sim/rises",
              [LIMIT_OF[api]]: limit,
              stream,
            });
            now = BEFORE_CHANGE;
            const quoted = await quote(gateway, account, body, `?api=${api}`);
            now = BEFORE_CHANGE + 180_000;
            const cost = await costOf(await callWith(quoted.offer, api, body));
            expect(cost).toBeLessThanOrEqual(nanoOf(quoted.cost_usd_max));
          },
        ),
        { numRuns: runs(20) },
      );
    });
  });
}

describe("a quote of a process whose prices are lower", () => {
  test("binds every process, without a shorter reply", async () => {
    const databaseUrl = await migratedPostgres();
    const start = (pricing: Json) =>
      startGateway({
        databaseUrl,
        env: { ...withModels([model("sim/priced", pricing)]), POSTERN_BASE_URL: BASE_URL },
      });
    const [before, after] = [await start(CHEAP), await start(DEAR)];
    try {
      const account = await registerAccount(before);
      await grantCredits(before, account, 10n * USD);
      const body = bodyOf("chat", "[[sim: tokens=300]] count", {
        model: "sim/priced",
        max_tokens: 300,
      });
      const quoted = await quote(before, account, body);
      const response = await postCall(
        after,
        withHeaders(account, { "x-postern-quote": quoted.offer }),
        "chat",
        body,
      );
      expect(response.status).toBe(200);
      expect(response.headers.get("x-postern-max-tokens")).toBeNull();
      const reply = (await response.json()) as { usage: { completion_tokens: number } };
      expect(reply.usage.completion_tokens).toBe(300);
      const record = await usageRecordOf(after.server.db, response.headers.get("x-request-id"));
      expect(Number(record["cost_nano"])).toBe(nanoOf(quoted.cost_usd_max));
    } finally {
      await before.stop();
      await after.stop();
    }
  });
});
