// A stream whose usage has arrived when its connection is lost: the provider has stated what it bills, so that is charged, on
// every wire, whatever the caller's API.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { encodeEventFrame } from "@postern/simulator";
import { integer, type Row } from "../../../src/store/db.ts";
import { casesOn } from "../../support/full.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  bodyOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  postCall,
  STREAMED_APIS,
  USD,
  usageRecordsOf,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";

const INPUT = 100;
const OUTPUT = 40;
const COST = INPUT * 2_000 + OUTPUT * 8_000;

const data = (event: Json): string => `data: ${JSON.stringify(event)}\n\n`;
const named = (type: string, more: Json): string => `event: ${type}\n${data({ type, ...more })}`;
const frame = (type: string, payload: Json): string =>
  Buffer.from(
    encodeEventFrame(
      { ":event-type": type, ":content-type": "application/json", ":message-type": "event" },
      new TextEncoder().encode(JSON.stringify(payload)),
    ),
  ).toString("latin1");

const chatChunk = (more: Json): string =>
  data({ id: "c", object: "chat.completion.chunk", model: "m", choices: [], ...more });
const choice = (delta: Json, finish_reason: string | null = null): Json => ({
  choices: [{ index: 0, delta, finish_reason }],
});
const CHAT_USAGE = { usage: { prompt_tokens: INPUT, completion_tokens: OUTPUT } };
const MESSAGE_START = named("message_start", {
  message: {
    id: "m",
    type: "message",
    role: "assistant",
    model: "m",
    content: [],
    usage: { input_tokens: INPUT, output_tokens: 1 },
  },
});
const TEXT_BLOCK =
  named("content_block_start", { index: 0, content_block: { type: "text", text: "" } }) +
  named("content_block_delta", { index: 0, delta: { type: "text_delta", text: "Hello" } });
const gemini = (more: Json, finishReason?: string): string =>
  data({
    modelVersion: "m",
    candidates: [
      {
        index: 0,
        content: { role: "model", parts: [{ text: "Hello" }] },
        ...(finishReason !== undefined && { finishReason }),
      },
    ],
    ...more,
  });
const GEMINI_USAGE = {
  usageMetadata: { promptTokenCount: INPUT, candidatesTokenCount: OUTPUT },
};
const RESPONSES_START =
  named("response.created", { response: { id: "r", model: "m", status: "in_progress" } }) +
  named("response.output_text.delta", { item_id: "i", output_index: 0, delta: "Hello" });
const RESPONSES_USAGE = { usage: { input_tokens: INPUT, output_tokens: OUTPUT } };

/** By wire: the events up to the usage, after which the connection is lost. */
const STREAMS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  chat: {
    "after the stop reason": [
      chatChunk(choice({ content: "Hello" })),
      chatChunk(choice({}, "stop")),
      chatChunk(CHAT_USAGE),
    ],
    "with the stop reason": [
      chatChunk(choice({ content: "Hello" })),
      chatChunk({ ...choice({}, "stop"), ...CHAT_USAGE }),
    ],
    "before the stop reason": [chatChunk(choice({ content: "Hello" })), chatChunk(CHAT_USAGE)],
    "without a blank line": [
      chatChunk(choice({ content: "Hello" })),
      chatChunk(choice({}, "stop")),
      chatChunk(CHAT_USAGE).trimEnd(),
    ],
  },
  responses: {
    "in the last event": [
      RESPONSES_START,
      named("response.completed", {
        response: { id: "r", model: "m", status: "completed", output: [], ...RESPONSES_USAGE },
      }),
    ],
    "in an incomplete response": [
      RESPONSES_START,
      named("response.incomplete", {
        response: { id: "r", model: "m", status: "incomplete", output: [], ...RESPONSES_USAGE },
      }),
    ],
  },
  messages: {
    "before the last event": [
      MESSAGE_START,
      TEXT_BLOCK,
      named("message_delta", {
        delta: { stop_reason: "end_turn" },
        usage: { output_tokens: OUTPUT },
      }),
    ],
    "before the stop reason": [
      MESSAGE_START,
      TEXT_BLOCK,
      named("message_delta", { delta: {}, usage: { output_tokens: OUTPUT } }),
    ],
  },
  gemini: {
    "with the stop reason": [gemini({}), gemini(GEMINI_USAGE, "STOP")],
  },
  converse: {
    "in the last event": [
      frame("messageStart", { role: "assistant" }),
      frame("contentBlockDelta", { contentBlockIndex: 0, delta: { text: "Hello" } }),
      frame("messageStop", { stopReason: "end_turn" }),
      frame("metadata", { usage: { inputTokens: INPUT, outputTokens: OUTPUT } }),
    ],
    "before the stop reason": [
      frame("messageStart", { role: "assistant" }),
      frame("contentBlockDelta", { contentBlockIndex: 0, delta: { text: "Hello" } }),
      frame("metadata", { usage: { inputTokens: INPUT, outputTokens: OUTPUT } }),
    ],
  },
};

const PROVIDER_OF: Readonly<Record<string, string>> = {
  chat: "deepseek",
  responses: "openai",
  messages: "anthropic",
  gemini: "google",
  converse: "bedrock",
};

describe.each(STORE_KINDS)("a stream that is cut once its usage has arrived, on %s", (store) => {
  let gateway: Gateway;
  let provider: RawProvider;
  let reply: RawReply;

  beforeAll(async () => {
    provider = await startRawProvider(() => reply);
    const env: Record<string, string> = {};
    for (const id of Object.values(PROVIDER_OF)) {
      env[`${id.toUpperCase()}_BASE_URL`] = provider.url;
      env[`${id.toUpperCase()}_API_KEY`] = "test-key-0123456789";
    }
    const models = Object.entries(PROVIDER_OF).map(([wire, id]) => ({
      id: `${id}/on-${wire}`,
      wires: [wire],
      context_length: 100_000,
      max_output_tokens: 8_000,
      pricing: { tokens: { input: "2", output: "8" } },
    }));
    gateway = await startGateway({
      store,
      providers: [],
      logLevel: "warn",
      env: { ...env, ...withModels(models) },
    });
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
  });

  async function recordOf(
    api: (typeof STREAMED_APIS)[number],
    wire: string,
    events: readonly string[],
    isOneChunk: boolean,
  ): Promise<Row | undefined> {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
    const isBinary = wire === "converse";
    const encoded = events.map((event) => Buffer.from(event, isBinary ? "latin1" : "utf8"));
    const cuts = encoded
      .slice(1)
      .map((_, index) => Buffer.concat(encoded.slice(0, index + 1)).length);
    reply = {
      headers: {
        "content-type": isBinary ? "application/vnd.amazon.eventstream" : "text/event-stream",
      },
      body: Buffer.concat(encoded),
      cuts: isOneChunk ? [] : cuts,
      beforeNext: () => new Promise((resolve) => setImmediate(resolve)),
      ending: "cut",
    };
    const model = `${PROVIDER_OF[wire]}/on-${wire}`;
    const response = await postCall(gateway, account, api, {
      ...bodyOf(api, "Hello."),
      model,
      stream: true,
    });
    await response.text().catch(() => "");
    await expectSettledLedger(gateway.server.db);
    const [record] = await usageRecordsOf(gateway.server.db, account.id);
    return record;
  }

  for (const [wire, streams] of casesOn(store, Object.entries(STREAMS)))
    for (const [where, events] of Object.entries(streams))
      for (const api of casesOn(store, STREAMED_APIS))
        test.each([true, false])(
          `costs its usage: ${wire}, ${where}, over ${api}, in one chunk: %p`,
          async (isOneChunk) => {
            const record = await recordOf(api, wire, events, isOneChunk);
            expect(record && integer(record, "cost_nano")).toBe(COST);
          },
        );

  test("a whole reply whose connection is lost after its last byte costs its usage, once", async () => {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
    const message = { role: "assistant", content: "Hello" };
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    reply = {
      body: JSON.stringify({ object: "chat.completion", model: "m", choices, ...CHAT_USAGE }),
      cuts: [60],
      beforeNext: () => new Promise((resolve) => setImmediate(resolve)),
      ending: "cut",
    };
    const sent = provider.requests.length;
    const body = { ...bodyOf("chat", "Hello."), model: "deepseek/on-chat" };
    const response = await postCall(gateway, account, "chat", body);
    expect([response.status, provider.requests.length]).toEqual([200, sent + 1]);
    expect(await response.json()).toMatchObject({ choices });
    const [record] = await usageRecordsOf(gateway.server.db, account.id);
    expect(record && integer(record, "cost_nano")).toBe(COST);
  });

  test.each([
    ["chat", [chatChunk(choice({ content: "Hello" }))]],
    ["messages", [MESSAGE_START, TEXT_BLOCK]],
    ["responses", [RESPONSES_START]],
    ["gemini", [gemini(GEMINI_USAGE)]],
    // Running totals.
    ["chat", [chatChunk({ ...choice({ content: "Hello" }), ...CHAT_USAGE })]],
  ])("costs nothing before that, on %s", async (wire, events) => {
    const record = await recordOf("chat", wire, events, false);
    expect(record && [record["outcome"], integer(record, "cost_nano")]).toEqual([
      "upstream_error",
      0,
    ]);
  });
});
