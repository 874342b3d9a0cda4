// The response cache: an identical request of the workspace gets the stored reply, free of charge.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { describeEachStore } from "../../support/stores/stores.ts";
import {
  type Api,
  bodyOf,
  type Caller,
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  postCall,
  releaseReplies,
  simStats,
  STREAMED_APIS,
  USD,
  usageRecordsOf,
  waitUntil,
  withHeaders,
} from "../support/harness.ts";

const MODEL = "sim/echo";
const HOUR = { "x-postern-cache": "3600" };
const TOOL = {
  type: "function",
  function: { name: "look_up", parameters: { type: "object", properties: {} } },
};

describeEachStore((store) => {
  describe(`x-postern-cache on ${store}`, () => {
    let gateway: Gateway;
    let account: Caller;
    let later = 0;
    let texts = 0;

    beforeAll(async () => {
      gateway = await startGateway({ store, now: () => Date.now() + later });
      account = await funded();
    });
    afterAll(() => gateway.stop());

    async function funded(): Promise<Caller> {
      const caller = await registerAccount(gateway);
      await grantCredits(gateway, caller, USD);
      return caller;
    }
    const newText = (): string => `text ${(texts += 1)}`;
    async function call(
      body: Json,
      headers: Readonly<Record<string, string>> = HOUR,
      { api = "chat", caller = account }: { api?: Api; caller?: Caller } = {},
    ) {
      const stored = api === "responses" ? { store: false } : {};
      const request = { ...bodyOf(api, "text", { model: MODEL, ...stored }), ...body };
      const response = await postCall(gateway, withHeaders(caller, headers), api, request);
      const text = await response.text();
      return {
        status: response.status,
        cache: response.headers.get("x-postern-cache"),
        headers: response.headers,
        text,
        json: text.startsWith("{") ? (JSON.parse(text) as Json) : {},
      };
    }
    const inputOf = (api: Api, text: string): Json =>
      api === "responses" || api === "embeddings"
        ? { input: text }
        : { messages: [{ role: "user", content: text }] };
    const ask = (text: string, more: Json = {}): Json => ({ ...inputOf("chat", text), ...more });
    const requests = async (): Promise<number> => (await simStats(gateway)).requests;

    for (const api of [...STREAMED_APIS, "embeddings"] as const)
      for (const stream of api === "embeddings" ? [false] : [false, true])
        test(`returns the same bytes without a call, a record or a charge: ${api}${stream ? " streamed" : ""}`, async () => {
          const body = { ...inputOf(api, newText()), ...(stream ? { stream } : {}) };
          if (api === "embeddings") Object.assign(body, { model: "sim/embed" });
          const first = await call(body, HOUR, { api });
          expect([first.status, first.cache]).toEqual([200, "miss"]);
          await expectSettledLedger(gateway.server.db);
          const [made, records] = [
            await requests(),
            (await usageRecordsOf(gateway.server.db, account.id)).length,
          ];
          const second = await call(body, HOUR, { api });
          expect([second.status, second.cache]).toEqual([200, "hit"]);
          expect(second.text).toBe(first.text);
          expect(second.headers.get("x-postern-cost-usd")).toBe("0");
          expect(Number(second.headers.get("age"))).toBeGreaterThanOrEqual(0);
          expect(second.headers.get("content-type")).toBe(first.headers.get("content-type"));
          expect(second.headers.get("x-postern-model")).toBe(first.headers.get("x-postern-model"));
          expect(await requests()).toBe(made);
          expect(await usageRecordsOf(gateway.server.db, account.id)).toHaveLength(records);
        });

    test("takes the option in the body, too, and ignores the order of keys and its own options", async () => {
      const text = newText();
      const first = await call(ask(text, { temperature: 0, seed: 1, postern: { cache: 600 } }), {});
      expect(first.cache).toBe("miss");
      const { messages, ...rest } = ask(text);
      const reordered = { seed: 1, ...rest, temperature: 0, messages };
      expect((await call(reordered)).cache).toBe("hit");
    });

    test("does not serve a request that differs in a value, in the API or in `stream`", async () => {
      const text = newText();
      await call(ask(text));
      expect((await call(ask(text, { temperature: 1 }))).cache).toBe("miss");
      expect((await call(ask(text, { stream: true }))).cache).toBe("miss");
      expect((await call({ ...ask(text), max_tokens: 60 }, HOUR, { api: "messages" })).cache).toBe(
        "miss",
      );
      expect((await call(ask(text, { model: "sim/tiny" }))).cache).toBe("miss");
    });

    test("says nothing without the option, and keeps nothing", async () => {
      const text = newText();
      expect((await call(ask(text), {})).cache).toBeNull();
      expect((await call(ask(text), { "x-postern-cache": "off" })).cache).toBeNull();
      expect((await call(ask(text))).cache).toBe("miss");
    });

    test("never serves another account, nor a key with other restrictions", async () => {
      const text = newText();
      await call(ask(text));
      expect((await call(ask(text), HOUR, { caller: await funded() })).cache).toBe("miss");
      const created = await fetch(`${gateway.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ name: "narrow", allowed_models: ["sim/tiny"] }),
      });
      const { api_key: key } = (await created.json()) as { api_key: string };
      const narrow = withHeaders(account, { authorization: `Bearer ${key}` });
      const refused = await call(ask(text), HOUR, { caller: narrow });
      expect([refused.status, refused.cache]).toEqual([403, null]);
    });

    test("serves the other keys of the workspace with the same restrictions, and none that was revoked", async () => {
      const text = newText();
      const create = async (): Promise<{ id: string; key: string }> => {
        const response = await fetch(`${gateway.url}/v1/keys`, {
          method: "POST",
          headers: account.headers,
          body: JSON.stringify({ name: "equal", allowed_models: ["sim/*"] }),
        });
        const { id, api_key: key } = (await response.json()) as { id: string; api_key: string };
        return { id, key };
      };
      const [one, other] = [await create(), await create()];
      const withKey = (key: string) => withHeaders(account, { authorization: `Bearer ${key}` });
      expect((await call(ask(text), HOUR, { caller: withKey(one.key) })).cache).toBe("miss");
      expect((await call(ask(text), HOUR, { caller: withKey(other.key) })).cache).toBe("hit");
      await fetch(`${gateway.url}/v1/keys/${other.id}`, {
        method: "DELETE",
        headers: account.headers,
      });
      expect((await call(ask(text), HOUR, { caller: withKey(other.key) })).status).toBe(401);
    });

    test("serves nothing to a key that was narrowed a moment ago", async () => {
      const text = newText();
      const created = await fetch(`${gateway.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ allowed_models: ["sim/*"] }),
      });
      const { id, api_key: key } = (await created.json()) as { id: string; api_key: string };
      const caller = withHeaders(account, { authorization: `Bearer ${key}` });
      expect((await call(ask(text), HOUR, { caller })).cache).toBe("miss");
      expect((await call(ask(text), HOUR, { caller })).cache).toBe("hit");
      await fetch(`${gateway.url}/v1/keys/${id}`, {
        method: "PATCH",
        headers: account.headers,
        body: JSON.stringify({ allowed_models: ["sim/tiny"] }),
      });
      expect((await call(ask(text), HOUR, { caller })).status).toBe(403);
    });

    test("serves no reply that is older than the request allows, or than it was kept for", async () => {
      const text = newText();
      await call(ask(text), { "x-postern-cache": "600" });
      later += 61_000;
      expect((await call(ask(text), { "x-postern-cache": "600" })).headers.get("age")).toMatch(
        /^6[1-9]|[7-9]\d$/,
      );
      expect((await call(ask(text), { "x-postern-cache": "60" })).cache).toBe("miss");
      expect((await call(ask(text))).cache).toBe("hit");
      later += 61_000;
      expect((await call(ask(text))).cache).toBe("miss");
    });

    test("leaves out requests with tools and stored responses, unless asked", async () => {
      const text = newText();
      const withTools = ask(text, { tools: [TOOL] });
      expect((await call(withTools)).cache).toBe("bypass");
      expect((await call(withTools)).cache).toBe("bypass");
      const tools = { "x-postern-cache": "3600, tools" };
      expect((await call(withTools, tools)).cache).toBe("miss");
      expect((await call(withTools, tools)).cache).toBe("hit");
      const stored = { input: text, store: true };
      expect((await call(stored, HOUR, { api: "responses" })).cache).toBe("bypass");
      const both = { "x-postern-cache": "3600, stored" };
      const first = await call(stored, both, { api: "responses" });
      const second = await call(stored, both, { api: "responses" });
      expect([first.cache, second.cache]).toEqual(["miss", "hit"]);
      expect(second.json["id"]).toBe(first.json["id"]);
    });

    test("keeps no failed, empty or shortened reply", async () => {
      for (const text of [`[[sim: status=500]] ${newText()}`, `[[sim: cut=2]] ${newText()}`]) {
        // Failures open the circuit of their own account.
        const caller = await funded();
        const body = ask(text, { stream: text.includes("cut") });
        const before = await requests();
        await call(body, HOUR, { caller });
        expect(await requests()).toBeGreaterThan(before);
        const between = await requests();
        expect((await call(body, HOUR, { caller })).cache).not.toBe("hit");
        expect(await requests()).toBeGreaterThan(between);
      }
      const long = ask(newText(), { max_tokens: 16_000 });
      const shortened = await call({ ...long, postern: { max_cost_usd: 0.001 } });
      expect(shortened.headers.get("x-postern-max-tokens")).not.toBeNull();
      expect((await call(long)).cache).toBe("miss");
    });

    test("does not wait for an identical call that runs", async () => {
      const text = `[[sim: wait=both]] ${newText()}`;
      const before = await requests();
      const first = call(ask(text));
      await waitUntil(requests, (count) => count > before);
      const second = call(ask(text));
      await waitUntil(requests, (count) => count > before + 1);
      await releaseReplies(gateway, "both");
      expect([(await first).cache, (await second).cache]).toEqual(["miss", "bypass"]);
      expect((await call(ask(text))).cache).toBe("hit");
    });

    test("is used by all calls of a key with cache_ttl, for no longer than that", async () => {
      const newKey = async (body: Json): Promise<Caller> => {
        const response = await fetch(`${gateway.url}/v1/keys`, {
          method: "POST",
          headers: account.headers,
          body: JSON.stringify(body),
        });
        const created: Json = await response.json();
        expect(response.status).toBe(201);
        return {
          ...account,
          headers: { ...account.headers, authorization: `Bearer ${String(created["api_key"])}` },
        };
      };
      const caller = await newKey({ name: "cached", cache_ttl: 600 });
      const text = newText();
      const cacheOf = async (headers: Readonly<Record<string, string>>) =>
        (await call(ask(text), headers, { caller })).cache;
      expect([await cacheOf({}), await cacheOf({}), await cacheOf(HOUR)]).toEqual([
        "miss",
        "hit",
        "hit",
      ]);
      expect(await cacheOf({ "x-postern-cache": "off" })).toBeNull();
      later += 300_000;
      expect(await cacheOf({ "x-postern-cache": "60" })).toBe("miss");
      later += 601_000;
      // An hour is more than the key allows, so the reply is too old.
      expect([await cacheOf(HOUR), await cacheOf({})]).toEqual(["miss", "hit"]);
      const child = await newKey({ name: "other", cache_ttl: 86_401 }).catch(() => undefined);
      expect(child).toBeUndefined();
    });

    test("is left out if the request has an Idempotency-Key", async () => {
      const text = newText();
      await call(ask(text));
      const keyed = await call(ask(text), { ...HOUR, "idempotency-key": "a-key-of-its-own" });
      expect([keyed.status, keyed.cache]).toEqual([200, null]);
    });

    test("does not serve a request with another integer that no double has", async () => {
      const askFor = async (seed: string) => {
        const response = await fetch(`${gateway.url}/v1/chat/completions`, {
          method: "POST",
          headers: withHeaders(account, HOUR).headers,
          body: `{"model":"${MODEL}","messages":[{"role":"user","content":"Roll"}],"seed":${seed}}`,
        });
        await response.text();
        return [response.status, response.headers.get("x-postern-cache")];
      };
      expect(await askFor("9007199254740992")).toEqual([200, "miss"]);
      expect(await askFor("9007199254740993")).toEqual([200, "miss"]);
      expect(await askFor("9007199254740993")).toEqual([200, "hit"]);
    });

    test("is a 400 for a body that is nested too deeply", async () => {
      const nested = "[".repeat(50_000) + "]".repeat(50_000);
      const response = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: withHeaders(account, HOUR).headers,
        body: `{"model":"${MODEL}","messages":[{"role":"user","content":"Hi"}],"x":${nested}}`,
      });
      expect([response.status, await response.text()]).toEqual([
        400,
        expect.stringContaining("nesting levels"),
      ]);
    });

    test("is a 400 with another value, which names the option", async () => {
      for (const value of ["0", "86401", "1h", "3600, everything", "-1", ""]) {
        const refused = await call(ask(newText()), { "x-postern-cache": value });
        expect([value, refused.status]).toEqual([value, 400]);
        expect(errorOf(refused.json)).toMatchObject({ param: "x-postern-cache" });
      }
      const refused = await call(ask(newText(), { postern: { cache: { ttl: 5 } } }), {});
      expect(errorOf(refused.json)).toMatchObject({ param: "postern.cache" });
    });

    test("the store has neither the reply nor what it is sealed with", async () => {
      const text = `a phrase that only this test has ${newText()}`;
      expect((await call(ask(text))).text).toContain("a phrase that only this test has");
      const rows = await gateway.server.db.all("select * from idempotent_answer");
      expect(rows.length).toBeGreaterThan(0);
      for (const row of rows) expect(Object.values(row).join(" ")).not.toContain("a phrase");
    });
  });
});
