import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI, {
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  NotFoundError,
  RateLimitError,
} from "openai";
import { expectSettledLedger, simStats } from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import {
  caughtError,
  expectNoOpenStreams,
  type SdkHarness,
  startSdkHarness,
  WEATHER_SCHEMA,
} from "./harness.ts";

let harness: SdkHarness;
let client: OpenAI;

beforeAll(async () => {
  harness = await startSdkHarness();
  client = clientFor(harness.account.key);
});
afterAll(async () => {
  await expectSettledLedger(harness.gateway.server.db);
  await harness.stop();
});

function clientFor(apiKey: string): OpenAI {
  return new OpenAI({ apiKey, baseURL: `${harness.gateway.url}/v1`, maxRetries: 0 });
}

const MODELS = ["sim/echo", "openai/gpt-5-mini"] as const;

for (const model of MODELS) {
  describe(`the openai package with ${model}`, () => {
    test("creates a chat completion with usage and cost", async () => {
      const { data, response } = await client.chat.completions
        .create({
          model,
          messages: [
            { role: "system", content: "Be brief." },
            { role: "user", content: "hello" },
          ],
          max_completion_tokens: 100,
        })
        .withResponse();
      expect(data.choices[0]?.message.content).toContain("hello");
      expect(data.usage?.total_tokens).toBe(
        (data.usage?.prompt_tokens ?? 0) + (data.usage?.completion_tokens ?? 0),
      );
      expect(Number((data.usage as { cost?: number } | undefined)?.cost)).toBeGreaterThan(0);
      expect(Number(response.headers.get("x-postern-cost-usd"))).toBeGreaterThan(0);
      expect(response.headers.get("x-request-id")).toStartWith("req_");
    });

    test("streams a chat completion with usage", async () => {
      const stream = await client.chat.completions.create({
        model,
        messages: [{ role: "user", content: "[[sim: tokens=30 chunks=10]] hello" }],
        stream: true,
        stream_options: { include_usage: true },
      });
      let text = "";
      let usage: OpenAI.CompletionUsage | null | undefined;
      for await (const chunk of stream) {
        text += chunk.choices[0]?.delta.content ?? "";
        usage = chunk.usage ?? usage;
      }
      expect(text.length).toBeGreaterThan(50);
      expect(usage?.completion_tokens).toBe(30);
      expect(Number((usage as { cost?: number } | undefined)?.cost)).toBeGreaterThan(0);
    });

    test("accumulates a streamed tool call and continues with its result", async () => {
      const tools: OpenAI.ChatCompletionTool[] = [
        { type: "function", function: { name: "weather", parameters: WEATHER_SCHEMA } },
      ];
      const first = await client.chat.completions
        .stream({
          model,
          messages: [{ role: "user", content: "use the weather tool" }],
          tools,
          tool_choice: "required",
        })
        .finalChatCompletion();
      const message = first.choices[0]?.message;
      const call = message?.tool_calls?.[0];
      if (message === undefined || call?.type !== "function") throw new Error("no tool call");
      expect(JSON.parse(call.function.arguments)).toMatchObject({ days: expect.any(Number) });
      const second = await client.chat.completions.create({
        model,
        tools,
        messages: [
          { role: "user", content: "use the weather tool" },
          message,
          { role: "tool", tool_call_id: call.id, content: "sunny" },
        ],
      });
      expect(second.choices[0]?.message.content).toContain("sunny");
    });

    test("parses structured output", async () => {
      const parsed = await client.chat.completions.parse({
        model,
        messages: [{ role: "user", content: "weather" }],
        response_format: {
          type: "json_schema",
          json_schema: { name: "weather", schema: WEATHER_SCHEMA, strict: true },
        },
      });
      expect(parsed.choices[0]?.message.parsed).toMatchObject({
        city: expect.any(String),
        days: expect.any(Number),
      });
    });

    test("creates and streams responses, with tools", async () => {
      const response = await client.responses.create({ model, input: "hello" });
      expect(response.output_text).toContain("hello");
      expect(response.usage?.output_tokens).toBeGreaterThan(0);
      const stream = client.responses.stream({ model, input: "[[sim: tokens=20 chunks=5]] hello" });
      const kinds = new Set<string>();
      for await (const event of stream) kinds.add(event.type);
      expect([...kinds]).toContain("response.output_text.delta");
      expect([...kinds]).toContain("response.completed");
      expect((await stream.finalResponse()).status).toBe("completed");
      const called = await client.responses.create({
        model,
        input: "use the weather tool",
        tool_choice: "required",
        tools: [{ type: "function", name: "weather", parameters: WEATHER_SCHEMA, strict: true }],
      });
      expect(
        called.output.some((item) => item.type === "function_call" && item.name === "weather"),
      ).toBe(true);
    });

    test("aborts a stream at the provider", async () => {
      const stream = await client.chat.completions.create({
        model,
        messages: [{ role: "user", content: "[[sim: tokens=200 chunks=200 pace=20]] hello" }],
        stream: true,
      });
      let chunks = 0;
      for await (const _ of stream) if (++chunks === 3) stream.controller.abort();
      await expectNoOpenStreams(harness.gateway);
    });
  });
}

describe("the openai package", () => {
  test("creates embeddings as floats and as base64", async () => {
    for (const model of ["sim/embed", "openai/text-embedding-3-small"]) {
      const floats = await client.embeddings.create({
        model,
        input: ["one", "two"],
        encoding_format: "float",
      });
      expect(floats.data.map(({ index }) => index)).toEqual([0, 1]);
      const base64 = await client.embeddings.create({ model, input: ["one", "two"] });
      expect(base64.data[0]?.embedding.length).toBe(floats.data[0]?.embedding.length ?? 0);
      expect(base64.usage.prompt_tokens).toBeGreaterThan(0);
    }
  });

  test("creates images and moderations", async () => {
    const image = await client.images.generate({ model: "sim/image", prompt: "a cat", n: 2 });
    expect(image.data?.map(({ b64_json: data }) => (data ?? "").length > 0)).toEqual([true, true]);
    expect(image.usage?.output_tokens).toBeGreaterThan(0);
    const edited = await client.images.edit({
      model: "sim/image",
      prompt: "a dog",
      image: [new File(["x"], "a.png"), new File(["y"], "b.png")],
      mask: new File(["z"], "mask.png"),
    });
    expect(edited.usage?.input_tokens_details.image_tokens).toBe(3_000);
    const stream = await client.images.generate({
      model: "sim/image",
      prompt: "a cat",
      stream: true,
      partial_images: 1,
    });
    const types: string[] = [];
    for await (const { type } of stream) types.push(type);
    expect(types).toEqual(["image_generation.partial_image", "image_generation.completed"]);
    const { results } = await client.moderations.create({
      model: "sim/moderation",
      input: "pure violence",
    });
    expect([results[0]?.flagged, results[0]?.categories.violence]).toEqual([true, true]);
  });

  test("decides and completes", async () => {
    const { answers } = await client.decisions.create({
      model: "sim/echo",
      input: "I was charged twice.",
      questions: [{ type: "predicate", name: "refund", instructions: "A refund is due." }],
    });
    expect(answers).toEqual([{ type: "predicate", name: "refund", probability: 0.75 }]);
    const stream = await client.completions.create({
      model: "sim/echo",
      prompt: "Once upon a time",
      stream: true,
    });
    let text = "";
    for await (const { choices } of stream) text += choices[0]?.text ?? "";
    expect(text).toBe("Once upon a time");
  });

  test("speaks, transcribes and translates", async () => {
    const speech = { input: "Hello", voice: "alloy" } as const;
    const spoken = await client.audio.speech.create({ ...speech, model: "sim/speech" });
    const bytes = await spoken.bytes();
    expect(bytes.length).toBe(5 * 64);
    const file = new File([new Uint8Array(64_000)], "speech.raw");
    const model = "sim/transcribe";
    const { text } = await client.audio.transcriptions.create({ model, file });
    expect(text).toBe("A recording of 2 seconds.");
    const plain = await client.audio.transcriptions.create({
      model,
      file,
      response_format: "text",
    });
    expect(plain.trim()).toBe(text);
    const translated = await client.audio.translations.create({ model, file });
    expect(translated.text).toBe(text);
    const stream = await client.audio.transcriptions.create({
      model: "sim/transcribe-tokens",
      file,
      stream: true,
    });
    let streamed = "";
    for await (const event of stream)
      if (event.type === "transcript.text.delta") streamed += event.delta;
    expect(streamed).toBe(text);
  });

  test("lists and retrieves models", async () => {
    const ids: string[] = [];
    for await (const model of client.models.list()) ids.push(model.id);
    expect(ids).toContain("sim/echo");
    expect(ids).toContain("openai/gpt-5-mini");
    expect((await client.models.retrieve("openai/gpt-5-mini")).id).toBe("openai/gpt-5-mini");
  });

  test("throws its typed errors for 400, 401, 402, 404 and 429", async () => {
    const params = { model: "sim/echo", messages: [{ role: "user" as const, content: "hello" }] };
    const unauthorized = await caughtError(
      clientFor("pst-rt-nonsense").chat.completions.create(params),
    );
    expect(unauthorized).toBeInstanceOf(AuthenticationError);
    expect(unauthorized).toMatchObject({ status: 401, code: "invalid_api_key" });
    const unfunded = await caughtError(
      clientFor(harness.unfundedAccount.key).chat.completions.create({
        ...params,
        max_tokens: 16_000,
        n: 100,
      }),
    );
    expect(unfunded).toBeInstanceOf(APIError);
    expect(unfunded).toMatchObject({
      status: 402,
      code: "insufficient_credits",
      error: { affordable_max_tokens: expect.any(Number) },
    });
    const missing = await caughtError(
      client.chat.completions.create({ ...params, model: "sim/unknown" }),
    );
    expect(missing).toBeInstanceOf(NotFoundError);
    expect(missing).toMatchObject({ code: "model_not_found", param: "model" });
    const limited = await caughtError(
      client.chat.completions.create({
        ...params,
        messages: [{ role: "user", content: "[[sim: status=429 retry-after=30]] x" }],
      }),
    );
    expect(limited).toBeInstanceOf(RateLimitError);
    expect((limited as RateLimitError).headers?.get("retry-after")).toBe("30");
    const bad = await caughtError(
      client.responses.create({ model: "sim/echo", input: "x", previous_response_id: "resp_1" }),
    );
    expect(bad).toBeInstanceOf(BadRequestError);
    expect(bad).toMatchObject({ param: "previous_response_id" });
  });

  test("throws APIError for a truncated stream", async () => {
    const stream = await client.chat.completions.create({
      model: "sim/reason",
      messages: [
        { role: "user", content: "[[sim: cut=3 pace=20 reasoning=0]] one two three four five six" },
      ],
      stream: true,
    });
    const error = await caughtError(
      (async () => {
        for await (const _ of stream) void _;
      })(),
    );
    expect(error).toBeInstanceOf(APIError);
    expect((error as Error).message).toContain("The connection to Simulator was lost");
  });

  test("aborts a stream before the response", async () => {
    const abort = new AbortController();
    const { requests } = await simStats(harness.gateway);
    const error = caughtError(
      client.chat.completions.create(
        {
          model: "sim/echo",
          messages: [{ role: "user", content: "[[sim: latency=5000]] x" }],
          stream: true,
        },
        { signal: abort.signal },
      ),
    );
    await eventually(async () => (await simStats(harness.gateway)).requests > requests);
    abort.abort();
    expect(await error).toBeInstanceOf(APIUserAbortError);
    await expectNoOpenStreams(harness.gateway);
  });

  test("replays the response for an idempotency key", async () => {
    const params = { model: "sim/echo", messages: [{ role: "user" as const, content: "once" }] };
    const first = await client.chat.completions.create(params, { idempotencyKey: "sdk-1" });
    const again = await client.chat.completions
      .create(params, { idempotencyKey: "sdk-1" })
      .withResponse();
    expect(again.data.id).toBe(first.id);
  });
});
