// What a provider bills beyond the hold of a call: it ignores the output limit, or its tools read more than was held. The
// account is charged what it has and owes the rest, on both stores and all APIs.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { casesOn } from "../../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  type Api,
  errorOf,
  grantCredits,
  type Json,
  postCall,
  STREAMED_APIS,
  USD,
  usageRecordsOf,
} from "../support/harness.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";

const MODEL = "openrouter/openai/gpt-4o-mini";
const HELLO = [{ role: "user", content: "Hello." }];

function callOf(api: Api, more: Json = {}): Json {
  return api === "responses"
    ? { model: MODEL, input: "Hello.", max_output_tokens: 16, ...more }
    : { model: MODEL, messages: HELLO, max_tokens: 16, ...more };
}

/** A chat reply of far more tokens than were asked for. */
function replyWith(usage: Json, isStream: boolean): RawReply {
  if (!isStream)
    return {
      body: JSON.stringify({
        object: "chat.completion",
        model: "openai/gpt-4o-mini",
        choices: [
          { index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" },
        ],
        usage,
      }),
    };
  const chunk = (more: Json): string =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "openai/gpt-4o-mini", ...more })}\n\n`;
  return {
    headers: { "content-type": "text/event-stream" },
    body:
      chunk({
        choices: [{ index: 0, delta: { role: "assistant", content: "a" }, finish_reason: null }],
      }) +
      chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }) +
      chunk({ choices: [], usage }) +
      "data: [DONE]\n\n",
  };
}

const usageOf = (completion: number, more: Json = {}): Json => ({
  prompt_tokens: 20,
  completion_tokens: completion,
  total_tokens: 20 + completion,
  ...more,
});

describe.each(STORE_KINDS)("a provider that ignores the output limit, on %s", (store) => {
  let gateway: Gateway;
  let provider: RawProvider;
  let usage: Json;
  beforeAll(async () => {
    provider = await startRawProvider(({ body }) =>
      // A provider key is checked with a request without a body.
      body === ""
        ? { body: '{"data":[]}' }
        : replyWith(usage, (JSON.parse(body) as Json)["stream"] === true),
    );
    const env = {
      OPENROUTER_BASE_URL: `${provider.url}/v1`,
      OPENROUTER_API_KEY: "test-key-0123456789",
    };
    gateway = await startGateway({ store, providers: [], env });
  });
  afterEach(async () => {
    expect((await verifyLedger(gateway.server.db)).problems).toEqual([]);
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
  });

  const stateOf = async ({ id }: TestAccount) => {
    const { db } = gateway.server;
    const row = await db.get("select * from wallet where account_id = ?", [id]);
    const [record] = await usageRecordsOf(db, id);
    return {
      left: Number(row?.["promo"]) + Number(row?.["paid"]),
      held: Number(row?.["held"]),
      owed: Number(row?.["owed"]),
      cost: Number(record?.["cost_nano"]),
    };
  };

  for (const api of casesOn(store, STREAMED_APIS))
    for (const stream of [false, true]) {
      const title = `over ${api}${stream ? ", streamed" : ""}`;
      test(`is charged as it states its cost: ${title}`, async () => {
        usage = usageOf(200_000, { cost: 0.0278 });
        const account = await registerAccount(gateway);
        const response = await postCall(gateway, account, api, callOf(api, { stream }));
        expect([response.status, (await response.text()).length > 0]).toEqual([200, true]);
        expect(await stateOf(account)).toEqual({
          left: 50_000_000 - 27_800_000,
          held: 0,
          owed: 0,
          cost: 27_800_000,
        });
      });

      test(`is charged as it reports its tokens, up to the output limit of the model: ${title}`, async () => {
        usage = usageOf(3_000);
        const account = await registerAccount(gateway);
        await (await postCall(gateway, account, api, callOf(api, { stream }))).text();
        expect((await stateOf(account)).cost).toBe(20 * 150 + 3_000 * 600);
        usage = usageOf(1_000_000);
        const other = await registerAccount(gateway);
        await (await postCall(gateway, other, api, callOf(api, { stream }))).text();
        expect((await stateOf(other)).cost).toBeLessThan(100_000);
      });

      test(`leaves a debt beyond the credits, which a 402 tells and a purchase pays: ${title}`, async () => {
        usage = usageOf(200_000, { cost: 0.2 });
        const account = await registerAccount(gateway);
        await (await postCall(gateway, account, api, callOf(api, { stream }))).text();
        expect(await stateOf(account)).toEqual({
          left: 0,
          held: 0,
          owed: 150_000_000,
          cost: 200_000_000,
        });
        const read = async (path: string): Promise<Json> =>
          (await (await fetch(gateway.url + path, { headers: account.headers })).json()) as Json;
        const [record] = (await read("/v1/usage"))["data"] as [Json];
        expect(record).toMatchObject({ cost_usd: "0.2", owed_usd: "0.15" });
        expect(await read("/v1/account")).toMatchObject({ owed_usd: 0.15, balance: { usd: 0 } });

        const blocked = await postCall(gateway, account, api, callOf(api, { stream }));
        const error = errorOf(await blocked.json());
        expect([blocked.status, error["code"], error["owed_usd"]]).toEqual([
          402,
          "insufficient_credits",
          "0.15",
        ]);
        const [step] = error["next"] as [{ method: string; url: string; body: Json }];
        const { method, url, body } = step;
        const invoice = await fetch(gateway.url + url, {
          method,
          headers: account.headers,
          body: JSON.stringify(body),
        });
        expect([method, url, invoice.status]).toEqual(["POST", "/v1/billing/invoice", 201]);
        expect(Number(body["amount_usd"])).toBeGreaterThan(0.15);

        await grantCredits(gateway, account, USD);
        usage = usageOf(1);
        expect((await postCall(gateway, account, api, callOf(api))).status).toBe(200);
        expect(await stateOf(account)).toMatchObject({ owed: 0 });
      });
    }

  test.each([
    ["infinite", '{"prompt_tokens":20,"completion_tokens":1,"cost":1e999}'],
    ["negative", '{"prompt_tokens":20,"completion_tokens":1,"cost":-5}'],
    ["text", '{"prompt_tokens":20,"completion_tokens":1,"cost":"9"}'],
    ["beyond a million dollars", '{"prompt_tokens":20,"completion_tokens":1,"cost":1000001}'],
  ])("ignores a stated cost that is %s: the list price decides", async (_, json) => {
    // JSON that `JSON.stringify` cannot write.
    const custom = await startRawProvider(() => ({
      body: `{"object":"chat.completion","model":"openai/gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":${json}}`,
    }));
    const env = {
      OPENROUTER_BASE_URL: `${custom.url}/v1`,
      OPENROUTER_API_KEY: "test-key-0123456789",
    };
    const other = await startGateway({ store, providers: [], env });
    const owner = await registerAccount(other);
    expect((await postCall(other, owner, "chat", callOf("chat"))).status).toBe(200);
    const [record] = await usageRecordsOf(other.server.db, owner.id);
    expect(Number(record?.["cost_nano"])).toBe(20 * 150 + 600);
    await other.stop();
    await custom.stop();
  });

  test("moves no money of a caller who uses an own provider key, whatever the provider states", async () => {
    usage = usageOf(200_000, { cost: 900 });
    const account = await registerAccount(gateway);
    const added = await fetch(`${gateway.url}/v1/provider-keys`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({ provider: "openrouter", api_key: "sk-or-own-0123456789" }),
    });
    expect(added.status).toBe(201);
    const response = await postCall(gateway, account, "chat", callOf("chat"));
    expect([response.status, response.headers.get("x-postern-cost-usd")]).toEqual([200, "0"]);
    expect(await stateOf(account)).toEqual({ left: 50_000_000, held: 0, owed: 0, cost: 0 });
  });
});
