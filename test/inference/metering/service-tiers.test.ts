// Service tiers with a price of their own, at a provider whose replies do not name the tier.

import { afterEach, expect, test } from "bun:test";
import { formatSse } from "../../support/format-sse.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { grantCredits, type Json, readWallet, USD } from "../support/harness.ts";
import { type RawProvider, startRawProvider } from "../support/raw-provider.ts";

let gateway: Gateway;
let provider: RawProvider;
let account: TestAccount;

async function open(more: Json = {}): Promise<void> {
  const reply = { id: "c1", created: 1, model: "m", ...more };
  const usage = { prompt_tokens: 1_000, completion_tokens: 10, total_tokens: 1_010 };
  const message = { role: "assistant", content: "a" };
  const end = { index: 0, finish_reason: "stop" };
  provider = await startRawProvider(({ body }) =>
    (JSON.parse(body) as Json)["stream"] === true
      ? {
          headers: { "content-type": "text/event-stream" },
          body: [
            { ...reply, object: "chat.completion.chunk", choices: [{ ...end, delta: message }] },
            { ...reply, object: "chat.completion.chunk", choices: [], usage },
          ]
            .map((chunk) => formatSse({ data: JSON.stringify(chunk) }))
            .join(""),
        }
      : {
          body: JSON.stringify({
            ...reply,
            object: "chat.completion",
            choices: [{ ...end, message }],
            usage,
          }),
        },
  );
  gateway = await startGateway({
    providers: [],
    env: { FIREWORKS_BASE_URL: provider.url, FIREWORKS_API_KEY: "test-key-0123456789" },
  });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 10n * USD);
}

afterEach(async () => {
  await gateway.stop();
  await provider.stop();
});

const send = (model: string, more: Json): Promise<Response> =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: account.headers,
    body: JSON.stringify({ model, messages: [{ role: "user", content: "hi" }], ...more }),
  });

async function spent(): Promise<bigint> {
  const { promo, paid } = await readWallet(gateway.server.db, account.id);
  return 10n * USD + 50_000_000n - promo - paid;
}

/** 1,000 tokens at $3 and 10 at $15 a million. */
const STANDARD = 3_000_000n + 150_000n;

test.each([false, true])("charges the requested tier (streamed: %p)", async (stream) => {
  await open();
  const response = await send("fireworks/kimi-k3", { service_tier: "priority", stream });
  await response.text();
  expect([response.status, response.headers.get("x-postern-dropped")]).toEqual([200, null]);
  expect(JSON.parse(provider.requests[0]?.body ?? "{}")).toHaveProperty("service_tier", "priority");
  expect(await spent()).toBe((STANDARD * 5n) / 4n);
});

test("charges the tier that the reply names, and the standard one without a tier", async () => {
  await open({ service_tier: "default" });
  await (await send("fireworks/kimi-k3", { service_tier: "priority" })).text();
  expect(await spent()).toBe(STANDARD);
  await (await send("fireworks/kimi-k3", {})).text();
  expect(await spent()).toBe(2n * STANDARD);
});

test("is called without a tier that has no price", async () => {
  await open();
  const response = await send("fireworks/kimi-k2p5", { service_tier: "priority" });
  expect([response.status, response.headers.get("x-postern-dropped")]).toEqual([
    200,
    "service_tier",
  ]);
  // 1,000 tokens at $0.60 and 10 at $3 a million.
  expect(await spent()).toBe(600_000n + 30_000n);
});
