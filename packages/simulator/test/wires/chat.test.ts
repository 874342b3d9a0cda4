import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI, {
  AuthenticationError,
  BadRequestError,
  NotFoundError,
  RateLimitError,
} from "openai";
import {
  createClient,
  chatBody,
  chatTool,
  eventData,
  json,
  rejectionReason,
  serveSimulator,
  type SimulatorServer,
} from "../simulator-harness.ts";

let simulator: SimulatorServer;
let client: OpenAI;
beforeAll(() => {
  simulator = serveSimulator({ requireKey: "right-key" });
  client = new OpenAI({ apiKey: "right-key", baseURL: `${simulator.url}/v1`, maxRetries: 0 });
});
afterAll(() => simulator.stop());

describe("Chat Completions with the OpenAI SDK", () => {
  test("returns a completion", async () => {
    const reply = await client.chat.completions.create({
      model: "sim/echo",
      messages: [{ role: "user", content: "Hello there" }],
    });
    expect(reply.choices[0]?.message.content).toBe("You said: Hello there");
    expect(reply.choices[0]?.finish_reason).toBe("stop");
    expect(reply.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 6, total_tokens: 9 });
    expect(reply.model).toBe("sim/echo");
    expect(reply._request_id).toMatch(/^req_/);
  });

  test("streams the same completion", async () => {
    const body = {
      model: "sim/echo",
      messages: [{ role: "user" as const, content: "Hello there" }],
    };
    const stream = client.chat.completions.stream({
      ...body,
      stream_options: { include_usage: true },
    });
    const gathered = await stream.finalChatCompletion();
    const whole = await client.chat.completions.create(body);
    expect(gathered.choices[0]?.message.content).toBe(whole.choices[0]?.message.content ?? "");
    expect(gathered.usage).toEqual(whole.usage);
  });

  test("streams tool calls that the SDK runs", async () => {
    const inputs: unknown[] = [];
    const runner = client.chat.completions.runTools({
      model: "sim/echo",
      stream: true,
      messages: [{ role: "user", content: "Please call get_weather" }],
      tools: [
        {
          type: "function",
          function: {
            name: "get_weather",
            parse: (text: string): object => JSON.parse(text),
            function: (input: object) => (inputs.push(input), "It is 17 degrees"),
            description: "The weather of a city",
            parameters: {
              type: "object",
              properties: { city: { type: "string" } },
              required: ["city"],
            },
          },
        },
      ],
    });
    expect(await runner.finalContent()).toBe("The tool answered: It is 17 degrees");
    expect(inputs).toEqual([{ city: "example city" }]);
  });

  test("throws the SDK's typed errors", async () => {
    const wrongKey = new OpenAI({ apiKey: "wrong", baseURL: `${simulator.url}/v1`, maxRetries: 0 });
    const body = { model: "sim/echo", messages: [{ role: "user" as const, content: "hi" }] };
    expect(await rejectionReason(wrongKey.chat.completions.create(body))).toBeInstanceOf(
      AuthenticationError,
    );
    expect(
      await rejectionReason(client.chat.completions.create({ ...body, model: "nope" })),
    ).toBeInstanceOf(NotFoundError);
    expect(
      await rejectionReason(client.chat.completions.create({ ...body, messages: [] })),
    ).toBeInstanceOf(BadRequestError);
    const limited = await rejectionReason(
      client.chat.completions.create({
        ...body,
        messages: [{ role: "user", content: "[[sim: status=429 retry-after=3]]" }],
      }),
    );
    if (!(limited instanceof RateLimitError)) throw new Error("not limited");
    expect(limited.headers.get("retry-after")).toBe("3");
    expect(limited.headers.get("x-ratelimit-remaining-requests")).toBe("0");
  });

  test("returns structured output", async () => {
    const schema = {
      type: "object",
      properties: { steps: { type: "array", minItems: 2, items: { type: "integer" } } },
      required: ["steps"],
      additionalProperties: false,
    };
    const reply = await client.chat.completions.create({
      model: "sim/echo",
      messages: [{ role: "user", content: "Steps" }],
      response_format: { type: "json_schema", json_schema: { name: "s", schema, strict: true } },
    });
    expect(JSON.parse(reply.choices[0]?.message.content ?? "")).toEqual({ steps: [1, 2] });
  });

  test("lists the models", async () => {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    expect(ids).toEqual([
      "sim/echo",
      "sim/reason",
      "sim/tiny",
      "sim/embed",
      "sim/image",
      "sim/image-each",
      "sim/image-each-size",
      "sim/image-each-pixel",
      "sim/speech",
      "sim/speech-tokens",
      "sim/transcribe",
      "sim/transcribe-tokens",
      "sim/rerank",
      "sim/rerank-tokens",
      "sim/moderation",
    ]);
    expect((await client.models.retrieve("sim/echo")).id).toBe("sim/echo");
  });
});

describe("stream chunks", () => {
  const send = createClient();

  test("have a usage chunk before [DONE] only with include_usage", async () => {
    const text = await (
      await send(
        "/v1/chat/completions",
        chatBody("hi", { stream: true, stream_options: { include_usage: true } }),
      )
    ).text();
    const chunks = eventData(text);
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 1, completion_tokens: 3 },
    });
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
    expect(text.endsWith("\n\ndata: [DONE]\n\n")).toBe(true);
    expect(chunks[0].choices[0].delta).toEqual({ role: "assistant", content: "", refusal: null });
    const withoutUsage = eventData(
      await (await send("/v1/chat/completions", chatBody("hi", { stream: true }))).text(),
    );
    expect(withoutUsage.some((chunk) => "usage" in chunk)).toBe(false);
  });

  test("interleave the choices", async () => {
    const chunks = eventData(
      await (await send("/v1/chat/completions", chatBody("hi", { stream: true, n: 2 }))).text(),
    );
    expect(chunks.slice(0, 4).map((chunk) => chunk.choices[0].index)).toEqual([0, 1, 0, 1]);
    const texts = ["", ""];
    for (const chunk of chunks)
      texts[chunk.choices[0].index] += chunk.choices[0].delta.content ?? "";
    expect(texts).toEqual(["You said: hi", "You said: hi (choice 2)"]);
  });
});

describe("request settings", () => {
  const send = createClient();
  const reply = async (text: string, more: Record<string, unknown> = {}) =>
    json(send("/v1/chat/completions", chatBody(text, more)));

  test("max_tokens truncates the reply", async () => {
    const { choices, usage } = await reply("Hello there", { max_tokens: 2 });
    expect(choices[0]).toMatchObject({ message: { content: "You said" }, finish_reason: "length" });
    expect(usage.completion_tokens).toBe(2);
  });

  test("stop sequences end the text", async () => {
    const { choices } = await reply("one STOP two", { stop: ["never", "STOP"] });
    expect(choices[0]).toMatchObject({
      message: { content: "You said: one " },
      finish_reason: "stop",
    });
  });

  test("n returns several choices and counts all of them", async () => {
    const { choices, usage } = await reply("hi", { n: 3 });
    expect(choices).toHaveLength(3);
    expect(usage.completion_tokens).toBe(3 + 6 + 6);
  });

  test("logprobs cover the whole text", async () => {
    const { choices } = await reply("hi", { logprobs: true, top_logprobs: 2 });
    const tokens = choices[0].logprobs.content;
    expect(tokens.map((entry: { token: string }) => entry.token).join("")).toBe("You said: hi");
    expect(tokens[0].top_logprobs).toHaveLength(2);
  });

  test("reasoning is returned and counts against the limit", async () => {
    const thought = await reply("hi", { model: "sim/reason" });
    expect(thought.choices[0].message.reasoning_content).toStartWith("The user asks");
    expect(thought.usage.completion_tokens_details.reasoning_tokens).toBe(32);
    expect(thought.usage.completion_tokens).toBe(35);
    expect(
      (await reply("hi", { model: "sim/reason", reasoning_effort: "none" })).usage
        .completion_tokens,
    ).toBe(3);
    expect(
      (await reply("hi", { reasoning_effort: "high" })).usage.completion_tokens_details
        .reasoning_tokens,
    ).toBe(64);
    const cut = await reply("hi", { reasoning_effort: "high", max_completion_tokens: 10 });
    expect(cut.choices[0]).toMatchObject({ message: { content: "" }, finish_reason: "length" });
  });

  test("images, audio and files are counted", async () => {
    const content = [
      { type: "text", text: "Look" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
      { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } },
      { type: "file", file: { file_data: "data:application/pdf;base64,AAAA" } },
    ];
    const { choices, usage } = await json(
      send("/v1/chat/completions", { model: "sim/echo", messages: [{ role: "user", content }] }),
    );
    expect(choices[0].message.content).toBe("You said: Look (with 1 image, 1 audio clip, 1 file)");
    expect(usage.prompt_tokens).toBe(1 + 256 + 128 + 512);
    expect(usage.prompt_tokens_details.audio_tokens).toBe(128);
  });

  test("service_tier is returned", async () => {
    expect((await reply("hi", { service_tier: "flex" })).service_tier).toBe("flex");
    expect((await reply("hi", { service_tier: "auto" })).service_tier).toBe("default");
  });

  test("the same request gets the same reply", async () => {
    expect(await reply("same")).toEqual(await reply("same"));
    expect((await reply("same")).id).not.toBe((await reply("other")).id);
    expect(
      (await reply("same", { tools: [chatTool("f")], tool_choice: "required" })).choices[0].message
        .tool_calls[0].id,
    ).toMatch(/^call_[A-Za-z0-9]{24}$/);
  });

  test("a long prefix is cached until it expires", async () => {
    let now = 1_000_000;
    const timed = createClient({ now: () => now });
    const long = {
      model: "sim/echo",
      messages: [
        { role: "system", content: "x".repeat(8_000) },
        { role: "user", content: "hi" },
      ],
    };
    const cached = async () =>
      (await json(timed("/v1/chat/completions", long))).usage.prompt_tokens_details.cached_tokens;
    expect(await cached()).toBe(0);
    expect(await cached()).toBe(1_920);
    now += 301_000;
    expect(await cached()).toBe(0);
  });

  test("custom tools take free-form text", async () => {
    const { choices } = await reply("call it", {
      tools: [{ type: "custom", custom: { name: "shell" } }],
      tool_choice: "required",
    });
    expect(choices[0].message.tool_calls[0]).toMatchObject({
      type: "custom",
      custom: { name: "shell", input: "input for shell" },
    });
  });
});

describe("invalid requests", () => {
  const send = createClient();
  const cases: [string, unknown, number, Record<string, unknown>][] = [
    ["broken JSON", "{", 400, {}],
    ["no model", { messages: [] }, 400, {}],
    [
      "no messages",
      { model: "sim/echo" },
      400,
      { param: "messages", code: "missing_required_parameter" },
    ],
    ["unknown model", chatBody("x", { model: "gpt-9" }), 404, { code: "model_not_found" }],
    [
      "unknown role",
      { model: "sim/echo", messages: [{ role: "robot", content: "x" }] },
      400,
      { param: "messages[0].role", code: "invalid_value" },
    ],
    [
      "temperature out of range",
      chatBody("x", { temperature: 99 }),
      400,
      { param: "temperature", code: "decimal_above_max_value" },
    ],
    [
      "max_tokens of 0",
      chatBody("x", { max_tokens: 0 }),
      400,
      { param: "max_tokens", code: "integer_below_min_value" },
    ],
    [
      "tool message without a call",
      { model: "sim/echo", messages: [{ role: "tool", tool_call_id: "a", content: "x" }] },
      400,
      {},
    ],
    [
      "tool call without a result",
      {
        model: "sim/echo",
        messages: [
          { role: "assistant", tool_calls: [{ id: "a" }] },
          { role: "user", content: "x" },
        ],
      },
      400,
      {},
    ],
    [
      "unknown part",
      { model: "sim/echo", messages: [{ role: "user", content: [{ type: "smell" }] }] },
      400,
      { code: "invalid_value" },
    ],
    [
      "content of another type",
      { model: "sim/echo", messages: [{ role: "user", content: 5 }] },
      400,
      { param: "messages[0].content", code: "invalid_type" },
    ],
    [
      "unknown response format",
      chatBody("x", { response_format: { type: "json" } }),
      400,
      { param: "response_format.type", code: "invalid_value" },
    ],
    [
      "unknown effort",
      chatBody("x", { reasoning_effort: "huge" }),
      400,
      { param: "reasoning_effort", code: "invalid_value" },
    ],
    [
      "choice without tools",
      chatBody("x", { tool_choice: "required" }),
      400,
      { param: "tool_choice" },
    ],
  ];
  test.each(cases)("%s", async (_, body, status, error) => {
    const response = await send("/v1/chat/completions", body);
    expect(response.status).toBe(status);
    expect((await json(response)).error).toMatchObject({ type: "invalid_request_error", ...error });
  });

  test("acceptsAnyModel accepts every model under every path prefix", async () => {
    const any = createClient({ acceptsAnyModel: true });
    const { model } = await json(
      any("/openai/v1/chat/completions", chatBody("x", { model: "llama-9" })),
    );
    expect(model).toBe("llama-9");
    expect((await any("/nothing", {})).status).toBe(404);
  });
});
