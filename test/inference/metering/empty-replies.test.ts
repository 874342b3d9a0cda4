// A complete reply without output, tool call or finish reason is the provider's failure: it costs nothing, whatever usage it
// reports, and its record says so. With a finish reason, the same reply is charged.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { integer, type Row } from "../../../src/store/db.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  expectSettledLedger,
  grantCredits,
  type Json,
  postCall,
  STREAMED_APIS,
  USD,
  usageRecordsOf,
} from "../support/harness.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";

type EmptyApi = (typeof STREAMED_APIS)[number];

/** The price of the input that the replies report, in nano-USD. */
const INPUT_TOKENS = 50;
const COST: Readonly<Record<EmptyApi, number>> = {
  chat: INPUT_TOKENS * 2_000,
  responses: INPUT_TOKENS * 2_000,
  messages: INPUT_TOKENS * 1_000,
};

const REQUESTS: Readonly<Record<EmptyApi, Json>> = {
  chat: { model: "openai/gpt-4.1", max_tokens: 100, messages: [{ role: "user", content: "Go." }] },
  responses: { model: "openai/gpt-4.1", max_output_tokens: 100, input: "Go.", store: false },
  messages: {
    model: "anthropic/claude-haiku-4-5",
    max_tokens: 100,
    messages: [{ role: "user", content: "Go." }],
  },
};

const CHAT_USAGE = { prompt_tokens: INPUT_TOKENS, completion_tokens: 0 };
const USAGE = { input_tokens: INPUT_TOKENS, output_tokens: 0 };

/** `reason`: why the reply ended, which no empty reply has. */
const WHOLE: Readonly<Record<EmptyApi, (reason: string | undefined) => Json>> = {
  chat: (reason) => ({
    object: "chat.completion",
    model: "gpt-4.1",
    choices: [
      { index: 0, message: { role: "assistant", content: "" }, finish_reason: reason ?? null },
    ],
    usage: CHAT_USAGE,
  }),
  responses: (reason) => ({
    id: "resp_1",
    object: "response",
    model: "gpt-4.1",
    ...(reason !== undefined && { status: "completed" }),
    output: [],
    usage: USAGE,
  }),
  messages: (reason) => ({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "claude-haiku-4-5",
    content: [],
    stop_reason: reason ?? null,
    usage: USAGE,
  }),
};

const STREAMED: Readonly<Record<EmptyApi, (reason: string | undefined) => readonly Json[]>> = {
  chat: (reason) => [
    { model: "gpt-4.1", choices: [{ index: 0, delta: { content: "" }, finish_reason: null }] },
    {
      model: "gpt-4.1",
      choices: [{ index: 0, delta: {}, finish_reason: reason ?? null }],
      usage: CHAT_USAGE,
    },
  ],
  responses: (reason) => [
    { type: "response.created", response: { model: "gpt-4.1" } },
    { type: "response.completed", response: WHOLE.responses(reason) },
  ],
  messages: (reason) => [
    { type: "message_start", message: { model: "claude-haiku-4-5", usage: USAGE } },
    { type: "message_delta", delta: { stop_reason: reason ?? null }, usage: { output_tokens: 0 } },
    { type: "message_stop" },
  ],
};

function sse(api: EmptyApi, events: readonly Json[]): string {
  const text = events.map((event) => {
    const name = typeof event["type"] === "string" ? `event: ${event["type"]}\n` : "";
    return `${name}data: ${JSON.stringify(event)}\n\n`;
  });
  return text.join("") + (api === "chat" ? "data: [DONE]\n\n" : "");
}

function replyOf(api: EmptyApi, isStreamed: boolean, reason: string | undefined): RawReply {
  return isStreamed
    ? {
        headers: { "content-type": "text/event-stream" },
        body: sse(api, STREAMED[api](reason)),
      }
    : { body: JSON.stringify(WHOLE[api](reason)) };
}

describe.each(STORE_KINDS)("an empty reply, on %s", (store) => {
  let gateway: Gateway;
  let provider: RawProvider;
  let reply: RawReply;

  beforeAll(async () => {
    provider = await startRawProvider(() => reply);
    gateway = await startGateway({
      store,
      providers: [],
      env: {
        OPENAI_BASE_URL: provider.url,
        OPENAI_API_KEY: "test-key-0123456789",
        ANTHROPIC_BASE_URL: provider.url,
        ANTHROPIC_API_KEY: "test-key-0123456789",
      },
    });
  });
  afterAll(async () => {
    await expectSettledLedger(gateway.server.db);
    await gateway.stop();
    await provider.stop();
  });

  async function call(api: EmptyApi, isStreamed: boolean): Promise<Row> {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
    const body = { ...REQUESTS[api], ...(isStreamed && { stream: true }) };
    const response = await postCall(gateway, account, api, body);
    const text = await response.text();
    expect([response.status, text]).toEqual([200, text]);
    const [record] = await usageRecordsOf(gateway.server.db, account.id);
    if (record === undefined) throw new Error("no record");
    if (!isStreamed) {
      const stated = Number(response.headers.get("x-postern-cost-usd"));
      expect(Math.round(stated * 1e9)).toBe(integer(record, "cost_nano"));
    }
    return record;
  }

  for (const api of STREAMED_APIS)
    for (const isStreamed of [false, true]) {
      const how = `${api}, ${isStreamed ? "streamed" : "whole"}`;
      test(`costs nothing, and the record says why (${how})`, async () => {
        reply = replyOf(api, isStreamed, undefined);
        const record = await call(api, isStreamed);
        expect([record["outcome"], integer(record, "cost_nano")]).toEqual(["empty_reply", 0]);
      });

      test(`is charged if it has a finish reason (${how})`, async () => {
        reply = replyOf(api, isStreamed, api === "messages" ? "end_turn" : "stop");
        const record = await call(api, isStreamed);
        expect([record["outcome"], integer(record, "cost_nano")]).toEqual(["completed", COST[api]]);
      });
    }
});
