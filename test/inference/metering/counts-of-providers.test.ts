// Counts by the provider of the model, on either endpoint that counts: what it is asked, and what happens without its count.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { parseObject } from "../../../src/base/json.ts";
import { call } from "../../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import type { Json } from "../support/harness.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";

const TOKENS = 4_321;
const KEY = "test-key-0123456789";
const TOOL = { name: "weather", description: "Tells the weather.", schema: { type: "object" } };
const MESSAGES = {
  messages: [{ role: "user", content: "How is the weather in Rome?" }],
  system: "Be short.",
  tools: [{ name: TOOL.name, description: TOOL.description, input_schema: TOOL.schema }],
  stream: true,
};
const RESPONSE = {
  input: "How is the weather in Rome?",
  instructions: "Be short.",
  tools: [
    {
      type: "function",
      name: TOOL.name,
      description: TOOL.description,
      parameters: TOOL.schema,
      strict: false,
    },
  ],
  stream: true,
  metadata: { team: "a" },
};

let reply: RawReply;
let provider: RawProvider;
let gateway: Gateway;
let account: TestAccount;
beforeAll(async () => {
  provider = await startRawProvider(() => reply);
  const url = provider.url;
  gateway = await startGateway({
    providers: [],
    logLevel: "warn",
    env: {
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: KEY,
      OPENAI_BASE_URL: url,
      OPENAI_API_KEY: KEY,
      GOOGLE_BASE_URL: url,
      GOOGLE_API_KEY: KEY,
      MISTRAL_BASE_URL: url,
      MISTRAL_API_KEY: KEY,
    },
  });
  account = await registerAccount(gateway);
});
afterAll(async () => {
  await gateway.stop();
  await provider.stop();
});

function json(body: Json, status = 200): RawReply {
  return { status, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

async function count(endpoint: string, body: Json) {
  provider.requests.length = 0;
  const counted = await call(gateway, `POST ${endpoint}`, { key: account.key, body });
  const [asked] = provider.requests;
  return {
    status: counted.status,
    method: counted.headers.get("x-postern-count"),
    tokens: parseObject(counted.text)?.["input_tokens"],
    path: asked?.path,
    sent: parseObject(asked?.body ?? "") ?? {},
  };
}

const COUNTED = [
  {
    endpoint: "/v1/messages/count_tokens",
    body: MESSAGES,
    model: "openai/gpt-5-mini",
    answer: { object: "response.input_tokens", input_tokens: TOKENS },
    asked: "/responses/input_tokens",
    members: "model input tools",
  },
  {
    endpoint: "/v1/messages/count_tokens",
    body: MESSAGES,
    model: "google/gemini-2.5-flash",
    answer: { totalTokens: TOKENS },
    asked: "/models/gemini-2.5-flash:countTokens",
    members: "generateContentRequest",
  },
  {
    endpoint: "/v1/messages/count_tokens",
    body: MESSAGES,
    model: "anthropic/claude-haiku-4-5",
    answer: { input_tokens: TOKENS },
    asked: "/v1/messages/count_tokens",
    members: "messages system tools model",
  },
  {
    endpoint: "/v1/responses/input_tokens",
    body: RESPONSE,
    model: "openai/gpt-5-mini",
    answer: { object: "response.input_tokens", input_tokens: TOKENS },
    asked: "/responses/input_tokens",
    members: "input instructions tools model",
  },
  {
    endpoint: "/v1/responses/input_tokens",
    body: RESPONSE,
    model: "google/gemini-2.5-flash",
    answer: { totalTokens: TOKENS },
    asked: "/models/gemini-2.5-flash:countTokens",
    members: "generateContentRequest",
  },
  {
    endpoint: "/v1/responses/input_tokens",
    body: RESPONSE,
    model: "anthropic/claude-haiku-4-5",
    answer: { input_tokens: TOKENS },
    asked: "/v1/messages/count_tokens",
    members: "model messages system tools",
  },
] as const;

describe("counts of the provider", () => {
  test.each(COUNTED)("on $endpoint for $model asks $asked", async (counting) => {
    const { endpoint, body, model, answer, asked, members } = counting;
    reply = json(answer);
    const counted = await count(endpoint, { model, ...body });
    expect(counted).toMatchObject({ status: 200, method: "provider", tokens: TOKENS, path: asked });
    expect(Object.keys(counted.sent).toSorted()).toEqual(members.split(" ").toSorted());
    expect(JSON.stringify(counted.sent)).toContain("How is the weather in Rome?");
    expect(JSON.stringify(counted.sent)).toContain(TOOL.description);
  });

  test.each([
    ["without the endpoint", json({ error: { message: "Not found" } }, 404)],
    ["that fails", json({ error: { message: "Overloaded" } }, 503)],
    ["whose answer has no count", json({ totals: "many" })],
    ["whose count is no number", json({ totalTokens: "9", input_tokens: -1 })],
  ])("of a provider %s are replaced by the gateway's", async (_, answer) => {
    reply = answer;
    const body = { model: "openai/gpt-5-mini", ...MESSAGES };
    const counted = await count("/v1/messages/count_tokens", body);
    expect(counted).toMatchObject({ status: 200, method: "tokenizer" });
    expect(Number(counted.tokens)).toBeGreaterThan(20);
    expect(provider.requests).toHaveLength(1);
    const gemini = { ...body, model: "google/gemini-2.5-flash" };
    expect((await count("/v1/messages/count_tokens", gemini)).method).toBe("estimate");
  });

  test("are not asked of a provider that counts nothing", async () => {
    reply = json({ input_tokens: TOKENS });
    const body = { model: "mistral/mistral-large-latest", ...MESSAGES };
    const counted = await count("/v1/messages/count_tokens", body);
    expect(counted).toMatchObject({ status: 200, method: "estimate", path: undefined });
  });

  test("show no file of the gateway's account to the provider", async () => {
    reply = json({ input_tokens: TOKENS });
    const content = [{ type: "input_file", file_id: "file-abc123def456" }];
    const body = { model: "openai/gpt-5-mini", input: [{ role: "user", content }] };
    const counted = await count("/v1/responses/input_tokens", body);
    expect(counted.method).not.toBe("provider");
    expect(provider.requests).toEqual([]);
  });

  test("of failures leave calls of the model to the provider", async () => {
    reply = json({ error: { message: "Overloaded" } }, 503);
    const body = { model: "openai/gpt-4.1", ...MESSAGES };
    for (let failure = 0; failure < 5; failure++) await count("/v1/messages/count_tokens", body);
    const health = await call(gateway, "GET /v1/models/openai/gpt-4.1/endpoints");
    expect(health.text).not.toContain('"down"');
  });
});
