import { afterAll, describe, expect, test } from "bun:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, embedMany, generateText, jsonSchema, Output, streamText, tool } from "ai";
import { expectSettledLedger } from "../inference/support/harness.ts";
import { caughtError, expectNoOpenStreams, startSdkHarness, WEATHER_SCHEMA } from "./harness.ts";

const harness = await startSdkHarness();
afterAll(async () => {
  await expectSettledLedger(harness.gateway.server.db);
  await harness.stop();
});

const openai = (apiKey = harness.account.key) =>
  createOpenAI({ apiKey, baseURL: `${harness.gateway.url}/v1` });
const anthropic = () =>
  createAnthropic({ apiKey: harness.account.key, baseURL: `${harness.gateway.url}/v1` });

const MODELS = {
  "chat, simulated": () => openai().chat("sim/echo"),
  "responses, simulated": () => openai().responses("sim/echo"),
  "messages, simulated": () => anthropic()("sim/echo"),
  "chat, openai": () => openai().chat("openai/gpt-5-mini"),
  "responses, openai": () => openai().responses("openai/gpt-5-mini"),
  "messages, anthropic": () => anthropic()("anthropic/claude-haiku-4-5"),
} as const;

for (const [name, model] of Object.entries(MODELS)) {
  describe(`the ai package (${name})`, () => {
    test("generates text", async () => {
      const result = await generateText({ model: model(), prompt: "hello", maxRetries: 0 });
      expect(result.text).toContain("hello");
      expect(result.usage.outputTokens).toBeGreaterThan(0);
    });

    test("streams text", async () => {
      const result = streamText({
        model: model(),
        prompt: "[[sim: tokens=30 chunks=10]] hello",
        maxRetries: 0,
      });
      let chunks = 0;
      for await (const _ of result.textStream) chunks += 1;
      expect(chunks).toBeGreaterThan(3);
      expect(await result.finishReason).toBe("stop");
      expect((await result.usage).outputTokens).toBe(30);
    });

    test("calls a tool", async () => {
      const result = await generateText({
        model: model(),
        prompt: "use the weather tool",
        toolChoice: "required",
        tools: {
          weather: tool({
            description: "the weather",
            inputSchema: jsonSchema<{ city: string; days: number }>({
              ...WEATHER_SCHEMA,
              required: [...WEATHER_SCHEMA.required],
            }),
          }),
        },
        maxRetries: 0,
      });
      expect(result.toolCalls[0]).toMatchObject({
        toolName: "weather",
        input: { days: expect.any(Number) },
      });
    });

    test("generates an object", async () => {
      const result = await generateText({
        model: model(),
        prompt: "weather",
        output: Output.object({
          schema: jsonSchema<{ city: string; days: number }>({
            ...WEATHER_SCHEMA,
            required: [...WEATHER_SCHEMA.required],
          }),
        }),
        maxRetries: 0,
      });
      expect(result.output).toMatchObject({ city: expect.any(String), days: expect.any(Number) });
    });
  });
}

describe("the ai package", () => {
  test("creates embeddings", async () => {
    const { embeddings } = await embedMany({
      model: openai().embedding("sim/embed"),
      values: ["one", "two"],
    });
    expect(embeddings.length).toBe(2);
  });

  test("throws APICallError for 401, 402, 404 and 429", async () => {
    const statusOf = async (promise: PromiseLike<unknown>): Promise<unknown> => {
      const error = await caughtError(promise);
      expect(APICallError.isInstance(error)).toBe(true);
      return (error as APICallError).statusCode;
    };
    expect(
      await statusOf(
        generateText({
          model: openai("pst-rt-nonsense").chat("sim/echo"),
          prompt: "x",
          maxRetries: 0,
        }),
      ),
    ).toBe(401);
    expect(
      await statusOf(
        generateText({
          model: openai(harness.unfundedAccount.key).chat("openai/gpt-5-mini"),
          prompt: "x",
          maxOutputTokens: 60_000,
          headers: { "x-postern-hold": "full" },
          maxRetries: 0,
        }),
      ),
    ).toBe(402);
    expect(
      await statusOf(
        generateText({ model: openai().chat("sim/unknown"), prompt: "x", maxRetries: 0 }),
      ),
    ).toBe(404);
    expect(
      await statusOf(
        generateText({
          model: openai().chat("sim/echo"),
          prompt: "[[sim: status=429 retry-after=30]] x",
          maxRetries: 0,
        }),
      ),
    ).toBe(429);
  });

  test("aborts a stream at the provider", async () => {
    const abort = new AbortController();
    const result = streamText({
      model: openai().chat("sim/echo"),
      prompt: "[[sim: tokens=200 chunks=200 pace=20]] hello",
      abortSignal: abort.signal,
      maxRetries: 0,
      onError: () => {},
    });
    let isAborted = false;
    for await (const part of result.fullStream) {
      if (part.type === "text-delta") abort.abort();
      if (part.type === "abort") isAborted = true;
    }
    expect(isAborted).toBe(true);
    await expectNoOpenStreams(harness.gateway);
  });
});
