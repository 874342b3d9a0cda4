// OpenAI charges twice as much for what it keeps in its cache for 12 hours. Responses report it; Chat Completions do not.

import { afterEach, expect, test } from "bun:test";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { grantCredits, type Json, PATHS, readWallet, USD } from "../support/harness.ts";
import { type RawProvider, startRawProvider } from "../support/raw-provider.ts";

const MODEL = "openai/gpt-6.1-terra";
/** 1,000 tokens written for 30 minutes at $1.25, or for 12 hours at $2.5 a million, and 10 of output at $5. */
const SHORT = 1_250_000n + 50_000n;
const LONG = 2_500_000n + 50_000n;

let gateway: Gateway;
let provider: RawProvider;
let account: TestAccount;

async function open(reply: Json): Promise<void> {
  provider = await startRawProvider(() => ({ body: JSON.stringify(reply) }));
  const env = {
    OPENAI_BASE_URL: `${provider.url}/v1`,
    OPENAI_API_KEY: "test-key-0123456789",
  };
  gateway = await startGateway({ providers: [], env });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
}

afterEach(async () => {
  await gateway.stop();
  await provider.stop();
});

/** What a call costs. */
async function costOf(api: "chat" | "responses", body: Json): Promise<bigint> {
  const before = await readWallet(gateway.server.db, account.id);
  const response = await fetch(gateway.url + PATHS[api], {
    method: "POST",
    headers: account.headers,
    body: JSON.stringify({ model: MODEL, ...body }),
  });
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  const after = await readWallet(gateway.server.db, account.id);
  return before.promo + before.paid - after.promo - after.paid;
}

test("Chat Completions: charges the retention that the request asks for", async () => {
  const message = { role: "assistant", content: "hi" };
  await open({
    id: "c",
    object: "chat.completion",
    model: "gpt-6.1-terra",
    choices: [{ index: 0, message, finish_reason: "stop" }],
    usage: {
      prompt_tokens: 1_000,
      completion_tokens: 10,
      total_tokens: 1_010,
      prompt_tokens_details: { cache_write_tokens: 1_000 },
    },
  });
  const call = { messages: [{ role: "user", content: "hi" }], max_completion_tokens: 100 };
  expect(await costOf("chat", call)).toBe(SHORT);
  const options = (ttl: string) => ({ ...call, prompt_cache_options: { ttl } });
  expect(await costOf("chat", options("30m"))).toBe(SHORT);
  expect(await costOf("chat", options("12h"))).toBe(LONG);
});

test("Responses: charges the retention that the reply reports", async () => {
  const details = { ttl_12h_tokens: 1_000, ttl_30m_tokens: 0 };
  await open({
    id: "resp_1",
    object: "response",
    status: "completed",
    model: "gpt-6.1-terra",
    output: [],
    usage: {
      input_tokens: 1_000,
      output_tokens: 10,
      total_tokens: 1_010,
      input_tokens_details: {
        cached_tokens: 0,
        cache_write_tokens: 1_000,
        cache_write_tokens_details: details,
      },
    },
  });
  const call = { input: "hi", max_output_tokens: 100, store: false };
  expect(await costOf("responses", call)).toBe(LONG);
});
