// Streams that the gateway itself ends: their caller has read them, so they are charged as abandoned calls.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { integer, type Row } from "../../../src/store/db.ts";
import { testOn } from "../../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  type Api,
  expectSettledLedger,
  grantCredits,
  type Json,
  postCall,
  readWallet,
  USD,
  usageRecordsOf,
  waitUntil,
} from "../support/harness.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";
import { openSocketClient } from "../support/socket-client.ts";

const INPUT_NANO = 2_000n;
const OUTPUT_NANO = 8_000n;
const MIB = 1_048_576;
const MODEL = "openai/gpt-4.1";
const CLAUDE = "anthropic/claude-haiku-4-5";

const sse = (event: Json): string =>
  `${typeof event["type"] === "string" ? `event: ${event["type"]}\n` : ""}data: ${JSON.stringify(event)}\n\n`;
const response = (more: Json): Json => ({ id: "resp_1", model: "gpt-4.1", ...more });
const textDelta = (delta: string): string =>
  sse({ type: "response.output_text.delta", item_id: "msg_1", output_index: 0, delta });
const created = sse({ type: "response.created", response: response({ status: "in_progress" }) });
const chatDelta = (content: string, more: Json = {}): string =>
  sse({
    object: "chat.completion.chunk",
    model: "gpt-4.1",
    choices: [{ index: 0, delta: { content }, finish_reason: null, ...more }],
  });
const chatEnd = (usage: Json): string =>
  sse({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage }) + "data: [DONE]\n\n";

const REQUESTS: Readonly<Record<"chat" | "responses", Json>> = {
  chat: { model: MODEL, max_tokens: 30_000, messages: [{ role: "user", content: "Write." }] },
  responses: { model: MODEL, max_output_tokens: 30_000, input: "Write.", store: false },
};

/** The last event repeats all of the output, with its log probabilities, and then has the usage. */
function longTerminalEvent(usage: Json): string {
  const logprobs = Array.from({ length: 33 }, () => ({ token: "x".repeat(MIB) }));
  const content = [{ type: "output_text", text: "word", logprobs }];
  const decoy = { type: "function", name: "f", parameters: { usage: { total_tokens: 1 } } };
  return sse({
    type: "response.completed",
    response: response({
      status: "completed",
      output: [{ type: "message", content }],
      tools: [decoy],
      usage,
      metadata: { note: '"usage":{"input_tokens":1,"output_tokens":1}' },
    }),
  });
}

const headers = { "content-type": "text/event-stream" };

describe.each(STORE_KINDS)("a stream that the gateway ends, on %s", (store) => {
  const testOnce = testOn(store);
  let gateway: Gateway;
  let provider: RawProvider;
  let reply: RawReply | undefined;

  beforeAll(async () => {
    provider = await startRawProvider(() => reply);
    gateway = await startGateway({
      store,
      providers: [],
      timeouts: { idleMs: 1_500, drainMs: 20_000, streamMaxBytes: 40 * MIB },
      env: {
        OPENAI_BASE_URL: provider.url,
        OPENAI_API_KEY: "test-key-0123456789",
        ANTHROPIC_BASE_URL: provider.url,
        ANTHROPIC_API_KEY: "test-key-0123456789",
      },
    });
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
  });

  async function call(
    api: Api,
    more: Json = {},
  ): Promise<{ readonly account: TestAccount; readonly text: string }> {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, 10n * USD);
    const body = { ...REQUESTS[api as "chat"], stream: true, ...more };
    const response = await postCall(gateway, account, api, body);
    return { account, text: await response.text() };
  }

  async function recordOf(account: TestAccount): Promise<Row> {
    const [record] = await waitUntil(
      () => usageRecordsOf(gateway.server.db, account.id),
      ({ length }) => length === 1,
    );
    if (record === undefined) throw new Error("no record");
    return record;
  }
  const costOf = (record: Row): bigint => BigInt(integer(record, "cost_nano"));

  test("because an event exceeds its limit costs the usage that this event reports", async () => {
    const usage = { input_tokens: 50, output_tokens: 20_000, total_tokens: 20_050 };
    reply = { headers, body: created + textDelta("word ") + longTerminalEvent(usage) };
    const { account, text } = await call("responses");
    expect(text).toContain("longer than this gateway relays");
    const record = await recordOf(account);
    expect(record).toMatchObject({ outcome: "limit_exceeded" });
    expect(costOf(record)).toBe(50n * INPUT_NANO + 20_000n * OUTPUT_NANO);
  });

  testOnce("because it is longer than its limit costs its usage", async () => {
    const usage = { prompt_tokens: 50, completion_tokens: 9_000, total_tokens: 9_050 };
    const flood = chatDelta("", { logprobs: { content: [{ token: "x".repeat(MIB) }] } });
    reply = { headers, body: chatDelta("word ") + flood.repeat(45) + chatEnd(usage) };
    // This model reasons, so only its usage tells what it costs.
    const { account, text } = await call("chat", { model: "openai/gpt-5" });
    expect(text).toContain("longer than this gateway relays");
    const record = await recordOf(account);
    expect(record).toMatchObject({ outcome: "limit_exceeded" });
    expect(costOf(record)).toBe(50n * INPUT_NANO + 9_000n * OUTPUT_NANO);
  });

  // As while the provider waits for an MCP server of the caller.
  test("because nothing has arrived for too long costs the usage that arrives later", async () => {
    const goOn = Promise.withResolvers<void>();
    const usage = { input_tokens: 50, output_tokens: 700, total_tokens: 750 };
    const text = created + textDelta("word ".repeat(700));
    const end = sse({
      type: "response.completed",
      response: response({ status: "completed", output: [], usage }),
    });
    const tools = [{ type: "mcp", server_label: "own", server_url: "https://mcp.example/x" }];
    reply = {
      headers,
      body: text + end,
      cuts: [text.length],
      beforeNext: (sent) => (sent === 1 ? goOn.promise : undefined),
    };
    const { account, text: received } = await call("responses", { tools, max_tool_calls: 1 });
    expect(received).toContain("did not respond in time");
    goOn.resolve();
    const record = await recordOf(account);
    expect([record["outcome"], integer(record, "exact")]).toEqual(["upstream_timeout", 1]);
    expect(costOf(record)).toBe(50n * INPUT_NANO + 700n * OUTPUT_NANO);
  });

  testOnce(
    "because nothing has arrived for too long costs what was relayed where that ends the bill",
    async () => {
      reply = { headers, body: chatDelta("word ".repeat(700)), ending: "silence" };
      const { account } = await call("chat");
      const record = await recordOf(account);
      expect([record["outcome"], integer(record, "exact")]).toEqual(["upstream_timeout", 0]);
      expect(costOf(record)).toBeGreaterThanOrEqual(700n * OUTPUT_NANO);
    },
  );

  testOnce(
    "that is not read to its usage in time costs the hold where only the usage tells the bill",
    async () => {
      const own = await startGateway({
        store,
        providers: [],
        timeouts: { idleMs: 1_000, drainMs: 1_000 },
        env: { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: "test-key-0123456789" },
      });
      const account = await registerAccount(own);
      await grantCredits(own, account, 10n * USD);
      // A stream that reasons, and is left at once.
      reply = { headers, body: created, ending: "silence" };
      const body = { ...REQUESTS.responses, model: "openai/gpt-5", stream: true };
      const client = openSocketClient(own, account, "responses", body);
      await client.waitForText("response.created");
      const { held } = await readWallet(own.server.db, account.id);
      client.disconnect();
      await expectSettledLedger(own.server.db);
      const [record] = await usageRecordsOf(own.server.db, account.id);
      expect(record?.["outcome"]).toBe("client_aborted");
      expect(held).toBeGreaterThan(0n);
      expect(record && costOf(record)).toBe(held);
      await own.stop();
    },
  );

  testOnce.each(["chat", "responses", "messages"] as const)(
    "as a whole reply above its limit costs its usage (%s)",
    async (api) => {
      const text = "x".repeat(65 * MIB);
      const long: Readonly<Record<typeof api, Json>> = {
        chat: {
          choices: [{ index: 0, message: { content: text }, finish_reason: "stop" }],
          usage: { prompt_tokens: 50, completion_tokens: 700, total_tokens: 750 },
        },
        responses: {
          output: [{ type: "message", content: [{ type: "output_text", text }] }],
          usage: { input_tokens: 50, output_tokens: 700, total_tokens: 750 },
        },
        messages: {
          content: [{ type: "text", text }],
          usage: { input_tokens: 50, output_tokens: 700 },
        },
      };
      reply = { headers: { "x-test": "1" }, body: JSON.stringify({ id: "1", ...long[api] }) };
      const more = api === "messages" ? { ...REQUESTS.chat, model: CLAUDE } : {};
      const { account, text: received } = await call(api, { ...more, stream: false });
      expect(received).toContain("longer than this gateway relays");
      const record = await recordOf(account);
      expect(record).toMatchObject({ outcome: "limit_exceeded" });
      const [input, output] = api === "messages" ? [1_000n, 5_000n] : [INPUT_NANO, OUTPUT_NANO];
      expect(costOf(record)).toBe(50n * input + 700n * output);
    },
  );

  testOnce(
    "as a whole reply that never comes costs the hold if the provider calls the caller's server",
    async () => {
      const own = await startGateway({
        store,
        providers: [],
        timeouts: { replyMs: 1_000 },
        env: { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: "test-key-0123456789" },
      });
      reply = undefined;
      const tools = [{ type: "mcp", server_label: "own", server_url: "https://mcp.example/x" }];
      for (const more of [{}, { tools, max_tool_calls: 1 }]) {
        const account = await registerAccount(own);
        await grantCredits(own, account, 100n * USD);
        const response = await postCall(own, account, "responses", {
          ...REQUESTS.responses,
          ...more,
        });
        expect(response.status).toBe(504);
        const [record] = await usageRecordsOf(own.server.db, account.id);
        const cost = record === undefined ? 0n : costOf(record);
        if ("tools" in more) expect(cost).toBeGreaterThan(USD / 10n);
        else expect(cost).toBe(0n);
      }
      await own.stop();
    },
  );

  testOnce("is free if the provider states an error or its connection is lost", async () => {
    for (const ending of ["end", "cut"] as const) {
      const failed = sse({ error: { message: "Overloaded", type: "server_error" } });
      const body = chatDelta("word ".repeat(700)) + (ending === "end" ? failed : "");
      reply = { headers, body, ending };
      const { account } = await call("chat");
      expect(await recordOf(account)).toMatchObject({ outcome: "upstream_error" });
      expect(costOf(await recordOf(account))).toBe(0n);
    }
  });

  test("counts as abandoned", async () => {
    const own = await startGateway({
      store,
      providers: [],
      timeouts: { idleMs: 1_500 },
      abandonedCallsPerMinute: 1,
      env: { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: "test-key-0123456789" },
    });
    const account = await registerAccount(own);
    await grantCredits(own, account, 10n * USD);
    const body = { ...REQUESTS.chat, stream: true };
    reply = { headers, body: chatDelta("word "), ending: "silence" };
    await (await postCall(own, account, "chat", body)).text();
    await expectSettledLedger(own.server.db);
    expect((await postCall(own, account, "chat", body)).status).toBe(429);
    await own.stop();
  });

  test("leaves nothing held", async () => {
    await expectSettledLedger(gateway.server.db);
  });
});
