import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import Anthropic, {
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  NotFoundError,
  RateLimitError,
} from "@anthropic-ai/sdk";
import { expectSettledLedger, lastSimulatorRequest } from "../inference/support/harness.ts";
import {
  caughtError,
  expectNoOpenStreams,
  type SdkHarness,
  startSdkHarness,
  WEATHER_SCHEMA,
} from "./harness.ts";

let harness: SdkHarness;
let client: Anthropic;

beforeAll(async () => {
  harness = await startSdkHarness();
  client = clientFor(harness.account.key);
});
afterAll(async () => {
  await expectSettledLedger(harness.gateway.server.db);
  await harness.stop();
});

function clientFor(apiKey: string): Anthropic {
  return new Anthropic({ apiKey, baseURL: harness.gateway.url, maxRetries: 0 });
}

const helloMessages = (content: string): Anthropic.MessageParam[] => [{ role: "user", content }];

for (const model of ["sim/echo", "anthropic/claude-haiku-4-5"]) {
  describe(`the @anthropic-ai/sdk package with ${model}`, () => {
    test("creates a message with usage and cost", async () => {
      const message = await client.messages.create({
        model,
        max_tokens: 100,
        messages: helloMessages("hello"),
      });
      expect(message.content[0]).toMatchObject({
        type: "text",
        text: expect.stringContaining("hello"),
      });
      expect(message.usage.output_tokens).toBeGreaterThan(0);
      expect(Number((message.usage as { cost?: number }).cost)).toBeGreaterThan(0);
    });

    test("runs tools with the tool runner, without provider-side state", async () => {
      const runner = client.beta.messages.toolRunner({
        model,
        max_tokens: 200,
        messages: [{ role: "user", content: "use a tool" }],
        tools: [
          {
            type: "custom",
            name: "weather",
            input_schema: WEATHER_SCHEMA,
            parse: (input: unknown) => input,
            run: () => "it rains",
          },
        ],
      });
      const last = await runner.runUntilDone();
      expect(last.content[0]).toMatchObject({ text: expect.stringContaining("it rains") });
      expect((await lastSimulatorRequest(harness.gateway)).body).not.toContain('"thread"');
    });

    test("streams a message", async () => {
      const stream = client.messages.stream({
        model,
        max_tokens: 100,
        messages: helloMessages("[[sim: tokens=30 chunks=10]] hello"),
      });
      let deltas = 0;
      stream.on("text", () => (deltas += 1));
      const message = await stream.finalMessage();
      expect(deltas).toBe(10);
      expect(message.stop_reason).toBe("end_turn");
      expect(message.usage.output_tokens).toBe(30);
    });

    test("streams a tool call and continues with its result", async () => {
      const tools = [
        { name: "weather", input_schema: WEATHER_SCHEMA as unknown as Anthropic.Tool.InputSchema },
      ];
      const first = await client.messages
        .stream({
          model,
          max_tokens: 200,
          tools,
          tool_choice: { type: "any" },
          messages: helloMessages("use the weather tool"),
        })
        .finalMessage();
      const call = first.content.find((block) => block.type === "tool_use");
      if (call === undefined) throw new Error("no tool call");
      expect(call.input).toMatchObject({ days: expect.any(Number) });
      const second = await client.messages.create({
        model,
        max_tokens: 200,
        tools,
        messages: [
          ...helloMessages("use the weather tool"),
          { role: "assistant", content: first.content },
          {
            role: "user",
            content: [{ type: "tool_result", tool_use_id: call.id, content: "sunny" }],
          },
        ],
      });
      expect(JSON.stringify(second.content)).toContain("sunny");
    });

    test("counts tokens", async () => {
      const { input_tokens: count } = await client.messages.countTokens({
        model,
        messages: helloMessages("hello there"),
      });
      expect(count).toBeGreaterThan(0);
    });

    test("aborts a stream at the provider", async () => {
      const stream = client.messages.stream({
        model,
        max_tokens: 300,
        messages: helloMessages("[[sim: tokens=200 chunks=200 pace=20]] hello"),
      });
      stream.on("text", () => stream.abort());
      expect(await caughtError(stream.finalMessage())).toBeInstanceOf(APIUserAbortError);
      await expectNoOpenStreams(harness.gateway);
    });
  });
}

describe("the @anthropic-ai/sdk package", () => {
  test("passes beta headers to the provider", async () => {
    await client.beta.messages.create({
      model: "anthropic/claude-haiku-4-5",
      max_tokens: 50,
      messages: helloMessages("hello"),
      betas: ["context-1m-2025-08-07"],
    });
    expect((await lastSimulatorRequest(harness.gateway)).headers["anthropic-beta"]).toContain(
      "context-1m-2025-08-07",
    );
  });

  test("lists models in Anthropic's format", async () => {
    const page = await client.models.list({ limit: 10 });
    expect(page.data[0]).toMatchObject({
      type: "model",
      id: expect.any(String),
      display_name: expect.any(String),
    });
    expect((await client.models.retrieve("sim/echo")).id).toBe("sim/echo");
  });

  test("throws its typed errors for 400, 401, 402, 404, 429 and 529", async () => {
    const params = { model: "sim/echo", max_tokens: 100, messages: helloMessages("hello") };
    const unauthorized = await caughtError(clientFor("pst-rt-nonsense").messages.create(params));
    expect(unauthorized).toBeInstanceOf(AuthenticationError);
    const unfunded = await caughtError(
      clientFor(harness.unfundedAccount.key).messages.create(
        { ...params, model: "anthropic/claude-haiku-4-5", max_tokens: 60_000, stream: true },
        { headers: { "x-postern-hold": "full" } },
      ),
    );
    expect(unfunded).toBeInstanceOf(APIError);
    expect(unfunded).toMatchObject({
      status: 402,
      error: {
        type: "error",
        error: {
          type: "billing_error",
          code: "insufficient_credits",
          affordable_max_tokens: expect.any(Number),
        },
      },
    });
    expect(
      await caughtError(client.messages.create({ ...params, model: "sim/unknown" })),
    ).toBeInstanceOf(NotFoundError);
    const limited = await caughtError(
      client.messages.create({
        ...params,
        messages: helloMessages("[[sim: status=429 retry-after=30]] x"),
      }),
    );
    expect(limited).toBeInstanceOf(RateLimitError);
    const overloaded = await caughtError(
      client.messages.create({ ...params, messages: helloMessages("[[sim: status=529]] x") }),
    );
    expect(overloaded).toMatchObject({
      status: 529,
      error: { error: { type: "overloaded_error" } },
    });
    expect(await caughtError(client.messages.create({ ...params, max_tokens: 0 }))).toBeInstanceOf(
      BadRequestError,
    );
  });

  test("throws APIError for a truncated stream", async () => {
    const error = await caughtError(
      client.messages
        .stream({
          model: "sim/reason",
          max_tokens: 100,
          messages: helloMessages("[[sim: cut=3 pace=20 reasoning=0]] one two three four five six"),
        })
        .finalMessage(),
    );
    expect(error).toBeInstanceOf(APIError);
  });
});

test("returns an empty list of citations for models of other providers, because clients cannot parse null", async () => {
  const params = { model: "openai/gpt-5-mini", max_tokens: 100, messages: helloMessages("hello") };
  for (const message of [
    await client.messages.create(params),
    await client.messages.stream(params).finalMessage(),
  ])
    expect(message.content).toEqual([
      { type: "text", text: expect.stringContaining("hello"), citations: [] },
    ]);
});
