// Streams that the provider itself ends with a failure: they cost nothing, unless the reported usage has output or fees.

import { afterEach, expect, test } from "bun:test";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { grantCredits, type Json, postCall, USD, usageRecordsOf } from "../support/harness.ts";
import { type RawProvider, startRawProvider } from "../support/raw-provider.ts";

const INPUT_PRICE = 1_250n;
const OUTPUT_PRICE = 10_000n;
const WEB_SEARCH_FEE = 10_000_000n;

let gateway: Gateway;
let provider: RawProvider;
let account: TestAccount;

afterEach(async () => {
  await gateway.stop();
  await provider.stop();
});

/** A Responses stream that begins, and fails with this usage and these output items once the returned promise resolves. */
async function startFailingProvider(
  usage: Json,
  output: readonly Json[],
): Promise<PromiseWithResolvers<void>> {
  const begun = Promise.withResolvers<void>();
  const events = [
    { type: "response.created", response: { id: "resp_1", model: "gpt-5", status: "in_progress" } },
    { type: "response.output_text.delta", item_id: "msg_1", output_index: 0, delta: "Hello" },
    {
      type: "response.failed",
      response: { id: "resp_1", model: "gpt-5", status: "failed", usage, output },
    },
  ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  provider = await startRawProvider(() => ({
    headers: { "content-type": "text/event-stream" },
    body: events.join(""),
    cuts: [events.slice(0, 2).join("").length],
    beforeNext: (sentChunks) => (sentChunks === 1 ? begun.promise : undefined),
  }));
  gateway = await startGateway({
    providers: [],
    env: { OPENAI_BASE_URL: `${provider.url}/v1`, OPENAI_API_KEY: "test-key-0123456789" },
  });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, USD);
  return begun;
}

test.each([
  ["nothing without output and fees", { input_tokens: 50, output_tokens: 0 }, [], 0n],
  [
    "everything reported if there is output",
    { input_tokens: 50, output_tokens: 10 },
    [],
    50n * INPUT_PRICE + 10n * OUTPUT_PRICE,
  ],
  [
    "everything reported if there is a fee",
    { input_tokens: 50, output_tokens: 0 },
    [{ type: "web_search_call", status: "completed", action: { type: "search" } }],
    50n * INPUT_PRICE + WEB_SEARCH_FEE,
  ],
])("charges %s", async (_, usage, output, cost) => {
  const begun = await startFailingProvider(usage, output);
  const response = await postCall(gateway, account, "responses", {
    model: "openai/gpt-5",
    input: "hello",
    stream: true,
    tools: [{ type: "web_search" }],
    max_output_tokens: 100,
    max_tool_calls: 1,
  });
  begun.resolve();
  await response.text();
  const [record] = await usageRecordsOf(gateway.server.db, account.id);
  expect([record?.["outcome"], BigInt(String(record?.["cost_nano"]))]).toEqual([
    "upstream_error",
    cost,
  ]);
});
