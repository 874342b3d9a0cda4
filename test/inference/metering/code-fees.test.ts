// Code that Anthropic runs: the minutes of the call are held, and charged if code ran and nothing includes it.

import { afterEach, expect, test } from "bun:test";
import { formatSse } from "../../support/format-sse.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { errorOf, grantCredits, type Json, readWallet, USD } from "../support/harness.ts";
import { type RawProvider, startRawProvider } from "../support/raw-provider.ts";

let gateway: Gateway;
let provider: RawProvider;
let account: TestAccount;

const CODE = { type: "code_execution_20250825", name: "code_execution" };
const RUN = { type: "server_tool_use", id: "srvtoolu_1", name: "bash_code_execution", input: {} };
const TEXT = { type: "text", text: "4" };
const MESSAGE = { id: "msg_1", type: "message", role: "assistant", model: "claude-sonnet-4-5" };
const USAGE = { input_tokens: 1_000, output_tokens: 10 };
const END = { stop_reason: "end_turn", stop_sequence: null };

async function open(content: readonly Json[], stream = false): Promise<void> {
  const whole = { ...MESSAGE, content, ...END, usage: USAGE };
  provider = await startRawProvider(() =>
    stream
      ? { body: streamOf(content), headers: { "content-type": "text/event-stream" } }
      : { body: JSON.stringify(whole) },
  );
  const env = { ANTHROPIC_BASE_URL: provider.url, ANTHROPIC_API_KEY: "test-key-0123456789" };
  gateway = await startGateway({ providers: [], env });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
}

function streamOf(content: readonly Json[]): string {
  const events = [
    { type: "message_start", message: { ...MESSAGE, content: [], usage: USAGE } },
    ...content.flatMap((block, index) => [
      { type: "content_block_start", index, content_block: block },
      { type: "content_block_stop", index },
    ]),
    { type: "message_delta", delta: END, usage: USAGE },
    { type: "message_stop" },
  ];
  return events
    .map((event) => formatSse({ event: event.type, data: JSON.stringify(event) }))
    .join("");
}

afterEach(async () => {
  await gateway.stop();
  await provider.stop();
});

async function send(tools: readonly Json[], more: Json = {}): Promise<number> {
  const isResponses = more["input"] !== undefined;
  const response = await fetch(`${gateway.url}/v1/${isResponses ? "responses" : "messages"}`, {
    method: "POST",
    headers: account.headers,
    body: JSON.stringify({
      model: "anthropic/claude-sonnet-4-5",
      ...(isResponses
        ? { store: false, max_output_tokens: 100 }
        : { messages: [{ role: "user", content: "hi" }], max_tokens: 100 }),
      tools,
      ...more,
    }),
  });
  await response.text();
  return response.status;
}

async function spent(): Promise<bigint> {
  const { promo, paid } = await readWallet(gateway.server.db, account.id);
  return 100n * USD + 50_000_000n - promo - paid;
}

/** 1,000 tokens at $3 and 10 at $15 a million. */
const TOKENS = 3_000_000n + 150_000n;
/** Five minutes at 0.05 USD an hour, rounded up. */
const FIVE_MINUTES = 4_166_700n;

test.each([false, true])("charges five minutes if code ran (streamed: %p)", async (stream) => {
  await open([RUN, TEXT], stream);
  expect(await send([CODE], { stream })).toBe(200);
  expect(await spent()).toBe(TOKENS + FIVE_MINUTES);
});

test("charges one container for several runs", async () => {
  await open([RUN, RUN, TEXT]);
  expect(await send([CODE])).toBe(200);
  expect(await spent()).toBe(TOKENS + FIVE_MINUTES);
});

test("charges nothing if no code ran", async () => {
  await open([TEXT]);
  expect(await send([CODE])).toBe(200);
  expect(await spent()).toBe(TOKENS);
});

test("charges nothing beside a search or fetch that includes code", async () => {
  await open([RUN, TEXT]);
  expect(await send([CODE, { type: "web_fetch_20260209", name: "web_fetch" }])).toBe(200);
  expect(await spent()).toBe(TOKENS);
  expect(await send([CODE, { type: "web_fetch_20250910", name: "web_fetch" }])).toBe(200);
  expect(await spent()).toBe(2n * TOKENS + FIVE_MINUTES);
});

test("charges the same for OpenAI's code interpreter, which Anthropic runs", async () => {
  await open([RUN, TEXT]);
  const interpreter = { type: "code_interpreter", container: { type: "auto" } };
  expect(await send([interpreter], { input: "hi" })).toBe(200);
  expect(JSON.parse(provider.requests.at(-1)?.body ?? "")).toMatchObject({ tools: [CODE] });
  expect(await spent()).toBe(TOKENS + FIVE_MINUTES);
});

test("holds the fee of 20 minutes", async () => {
  await open([RUN, TEXT]);
  const price = async (tools: readonly Json[]): Promise<unknown> => {
    await gateway.server.db.write((tx) =>
      tx.run("update wallet set promo = 0, paid = 1 where account_id = ?", [account.id]),
    );
    const response = await fetch(`${gateway.url}/v1/messages`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({
        model: "anthropic/claude-sonnet-4-5",
        messages: [{ role: "user", content: "hi" }],
        max_tokens: 100,
        tools,
      }),
    });
    expect(response.status).toBe(402);
    return errorOf(await response.json())["required_credits"];
  };
  // Of the same length, so that the prompts cost the same.
  const including = await price([CODE, { type: "web_fetch_20260209", name: "web_fetch" }]);
  const charged = await price([CODE, { type: "web_fetch_20250910", name: "web_fetch" }]);
  const credits = Number(4n * FIVE_MINUTES) / 1_000;
  expect(Math.abs(Number(charged) - Number(including) - credits)).toBeLessThan(1);
});
