// Chat Completions with functions at OpenAI's newer models: their chat endpoint refuses functions while the model reasons, so
// the call goes over the Responses API.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import {
  errorOf,
  grantCredits,
  type Json,
  lastSimulatorRequest,
  postCall,
  usageRecordOf,
  USD,
} from "../../inference/support/harness.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";

let gateway: Gateway;
let account: TestAccount;
beforeAll(async () => {
  gateway = await startGateway({ providers: ["openai", "azure"] });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 10n * USD);
});
afterAll(() => gateway.stop());

const WEATHER = {
  type: "function",
  function: {
    name: "weather",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
} as const;
const TOOLS = { tools: [WEATHER], max_completion_tokens: 400 };
const chat = (model: string, more: Json) =>
  postCall(gateway, account, "chat", {
    model,
    messages: [{ role: "user", content: "[[sim: calls=1]] What is the weather?" }],
    ...more,
  });
const pathOf = async () => (await lastSimulatorRequest(gateway)).path;

const REASONING = [
  "openai/gpt-5.6-sol",
  "openai/gpt-6-astra",
  "openai/gpt-6.1-terra",
  "azure/gpt-5.6-luna",
  "azure/gpt-6-sol",
];
const WITH_EFFORT = ["openai/gpt-5.4", "openai/gpt-5.5", "azure/gpt-5.5"];

describe("functions at a model that reasons by default", () => {
  test.each(REASONING)("go over the Responses API (%s)", async (model) => {
    const response = await chat(model, TOOLS);
    const reply = (await response.json()) as OpenAI.ChatCompletion;
    expect([response.status, reply.object]).toEqual([200, "chat.completion"]);
    expect(reply.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: { tool_calls: [{ type: "function", function: { name: "weather" } }] },
    });
    expect(await pathOf()).toEndWith("/responses");
    const record = await usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
    expect(Number(record["cost_nano"])).toBeGreaterThan(0);
  });

  test("go over the Responses API with an effort, too, and in OpenAI's older field", async () => {
    expect((await chat("openai/gpt-6-sol", { ...TOOLS, reasoning_effort: "high" })).status).toBe(
      200,
    );
    expect(await pathOf()).toEndWith("/responses");
    const { name, parameters } = WEATHER.function;
    const older = await chat("openai/gpt-6-sol", { functions: [{ name, parameters }] });
    expect(older.status).toBe(200);
    expect(await pathOf()).toEndWith("/responses");
  });

  test("stay on Chat Completions with the effort `none`, where the provider takes them", async () => {
    const response = await chat("openai/gpt-5.6-sol", { ...TOOLS, reasoning_effort: "none" });
    expect([response.status, await pathOf()]).toEqual([
      200,
      expect.stringMatching(/chat\/completions$/),
    ]);
  });

  test("are not sent without need: a call without tools stays on Chat Completions", async () => {
    expect((await chat("openai/gpt-6-sol", {})).status).toBe(200);
    expect(await pathOf()).toEndWith("/chat/completions");
  });

  test("work in two turns with the official SDK, streamed", async () => {
    const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: account.key });
    const first = await client.chat.completions
      .stream({
        model: "openai/gpt-6-astra",
        messages: [{ role: "user", content: "[[sim: calls=1]] What is the weather?" }],
        tools: [WEATHER],
        stream_options: { include_usage: true },
      })
      .finalChatCompletion();
    expect(first.usage?.completion_tokens).toBeGreaterThan(0);
    const message = first.choices[0]?.message;
    const call = message?.tool_calls?.[0];
    if (message === undefined || call === undefined) throw new Error("no tool call");
    const second = await client.chat.completions.create({
      model: "openai/gpt-6-astra",
      messages: [
        { role: "user", content: "What is the weather?" },
        message,
        { role: "tool", tool_call_id: call.id, content: "sunny" },
      ],
      tools: [WEATHER],
      tool_choice: "none",
    });
    expect(second.choices[0]?.message.content).toBeString();
    expect(await pathOf()).toEndWith("/responses");
  });
});

describe("functions at a model that reasons on request", () => {
  test.each(WITH_EFFORT)("go over the Responses API with an effort only (%s)", async (model) => {
    expect((await chat(model, TOOLS)).status).toBe(200);
    expect(await pathOf()).toEndWith("/chat/completions");
    expect((await chat(model, { ...TOOLS, reasoning_effort: "low" })).status).toBe(200);
    expect(await pathOf()).toEndWith("/responses");
  });
});

test("the simulator refuses what OpenAI refuses", async () => {
  const response = await fetch(`${gateway.simulatorUrl}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer k" },
    body: JSON.stringify({
      model: "gpt-6-sol",
      messages: [{ role: "user", content: "hi" }],
      tools: [WEATHER],
    }),
  });
  expect(response.status).toBe(400);
  expect(errorOf(await response.json())["message"]).toStartWith(
    "Function tools with reasoning_effort",
  );
});
