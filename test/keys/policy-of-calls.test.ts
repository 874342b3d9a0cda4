// A policy covers all of a call: models that a tool names, and every price that the call can have.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { grantCredits, USD } from "../inference/support/harness.ts";
import { withModels } from "../inference/support/models-file.ts";
import {
  type ApiResponse,
  call,
  expectError,
  type Json,
  textAt,
  valueAt,
} from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const LONG = "word ".repeat(2_000);

function simModel(name: string, pricing: Json): Json {
  return {
    id: `sim/${name}`,
    wires: ["chat", "responses", "messages"],
    context_length: 128_000,
    max_output_tokens: 16_384,
    pricing,
  };
}

const TOKENS = { input: "1", output: "2" };
const MODELS = [
  simModel("plain", { tokens: TOKENS }),
  simModel("tiered", {
    tokens: TOKENS,
    tiers: [{ above_input_tokens: 1_000, tokens: { input: "2", output: "4" } }],
  }),
  simModel("priority", { tokens: TOKENS, service_tiers: { priority: "2" }, speeds: { fast: "3" } }),
  simModel("per-request", { tokens: TOKENS, fees: { request: "0.01" } }),
  simModel("searching", { tokens: TOKENS, fees: { web_search: "0.01" } }),
  simModel("speaking", { tokens: { ...TOKENS, output_audio: "40", input_audio: "30" } }),
];

interface Case {
  readonly title: string;
  readonly model: string;
  readonly content?: unknown;
  readonly more?: Json;
  readonly isAllowed: boolean;
}

const CHAT_CASES: readonly Case[] = [
  { title: "a model at the highest price", model: "plain", isAllowed: true },
  { title: "a short prompt", model: "tiered", isAllowed: true },
  { title: "a prompt above a context tier", model: "tiered", content: LONG, isAllowed: false },
  { title: "the standard service tier", model: "priority", isAllowed: true },
  {
    title: "a service tier above the price",
    model: "priority",
    more: { service_tier: "priority" },
    isAllowed: false,
  },
  { title: "a fee per request", model: "per-request", isAllowed: false },
  { title: "a model without its tool", model: "searching", isAllowed: true },
  {
    title: "a fee per use of a tool",
    model: "searching",
    more: { web_search_options: {} },
    isAllowed: false,
  },
  { title: "audio output above the price", model: "speaking", isAllowed: false },
];

const ADVISOR = { type: "advisor_20260301", name: "advisor", model: "claude-opus-4-6" };
const HAIKU = "anthropic/claude-haiku-4-5";

describe.each(STORE_KINDS)("the policy of a key on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({
      store,
      providers: ["sim", "anthropic"],
      env: withModels(MODELS),
    });
    account = await registerAccount(gateway);
    await grantCredits(gateway, account, 100n * USD);
  });
  afterAll(() => gateway.stop());

  const createKey = async (body: Json): Promise<string> =>
    textAt((await call(gateway, "POST /v1/keys", { key: account.key, body })).body, "api_key");
  const post = (key: string, path: string, body: Json): Promise<ApiResponse> =>
    call(gateway, `POST ${path}`, { key, body });
  const expectPolicy = (response: ApiResponse, field: string): void => {
    expectError(response, { status: 403, code: "forbidden" });
    expect(valueAt(response.body, "error.policy")).toBe(field);
  };

  test.each(CHAT_CASES)(
    "max_price_per_million_usd compares $title",
    async ({ model, content = "hello", more = {}, isAllowed }) => {
      const key = await createKey({ max_price_per_million_usd: 2 });
      const messages = [{ role: "user", content }];
      for (const stream of [false, true]) {
        const body = { model: `sim/${model}`, messages, max_tokens: 8, stream, ...more };
        const unlimited = await post(account.key, "/v1/chat/completions", body);
        expect(unlimited.status).toBe(200);
        const response = await post(key, "/v1/chat/completions", body);
        if (isAllowed) expect(response.status).toBe(200);
        else expectPolicy(response, "max_price_per_million_usd");
      }
      const quote = await post(key, "/v1/quote", {
        model: `sim/${model}`,
        messages,
        max_tokens: 8,
        ...more,
      });
      expect(quote.status).toBe(isAllowed ? 200 : 403);
    },
  );

  test("max_price_per_million_usd covers Messages and Responses", async () => {
    const key = await createKey({ max_price_per_million_usd: 2 });
    const messages = [{ role: "user", content: LONG }];
    const message = { model: "sim/tiered", messages, max_tokens: 8 };
    const refused = await post(key, "/v1/messages", message);
    expect(refused.status).toBe(403);
    expect(refused.text).toContain("max_price_per_million_usd");
    const fast = { ...message, model: "sim/priority", messages: [{ role: "user", content: "x" }] };
    expect((await post(key, "/v1/messages", { ...fast, speed: "fast" })).status).toBe(403);
    const response = { model: "sim/tiered", input: LONG, max_output_tokens: 16 };
    for (const more of [{}, { stream: true }, { background: true }])
      expectPolicy(
        await post(key, "/v1/responses", { ...response, ...more }),
        "max_price_per_million_usd",
      );
  });

  test("allowed_models and the price are asked for the model of an advisor", async () => {
    const message = { model: HAIKU, max_tokens: 64, messages: [{ role: "user", content: "hi" }] };
    const advised = { ...message, tools: [ADVISOR] };
    expect((await post(account.key, "/v1/messages", advised)).status).toBe(200);
    for (const [policy, field] of [
      [{ allowed_models: ["anthropic/claude-haiku-*"] }, "allowed_models"],
      [{ max_price_per_million_usd: 5 }, "max_price_per_million_usd"],
    ] as const) {
      const key = await createKey(policy);
      expect((await post(key, "/v1/messages", message)).status).toBe(200);
      for (const stream of [false, true]) {
        const refused = await post(key, "/v1/messages", { ...advised, stream });
        expect([field, refused.status]).toEqual([field, 403]);
        expect(valueAt(refused.body, "error.policy")).toBe(field);
        expect(textAt(refused.body, "error.message")).toContain("anthropic/claude-opus-4-6");
        expect(valueAt(refused.body, "error.param")).toBe("tools[0].model");
      }
    }
    const both = await createKey({ allowed_models: ["anthropic/claude-*"] });
    expect((await post(both, "/v1/messages", advised)).status).toBe(200);
  });
});
