import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import Anthropic, { AuthenticationError, BadRequestError, NotFoundError } from "@anthropic-ai/sdk";
import {
  createClient,
  eventData,
  json,
  rejectionReason,
  serveSimulator,
  type SimulatorServer,
} from "../simulator-harness.ts";

let simulator: SimulatorServer;
let client: Anthropic;
beforeAll(() => {
  simulator = serveSimulator({ requireKey: "right-key" });
  client = new Anthropic({ apiKey: "right-key", baseURL: simulator.url, maxRetries: 0 });
});
afterAll(() => simulator.stop());

const base = { model: "sim/echo", max_tokens: 2_048 };
const helloBody = { ...base, messages: [{ role: "user" as const, content: "Hello there" }] };
const tool = {
  name: "get_weather",
  input_schema: {
    type: "object" as const,
    properties: { city: { type: "string" } },
    required: ["city"],
  },
};
const thinking = { type: "enabled" as const, budget_tokens: 1_024 };

describe("Messages with the Anthropic SDK", () => {
  test("returns a message", async () => {
    const reply = await client.messages.create(helloBody);
    const text = { type: "text", text: "You said: Hello there", citations: [] };
    expect(reply.content).toEqual([text] as never);
    expect(reply).toMatchObject({
      stop_reason: "end_turn",
      stop_sequence: null,
      role: "assistant",
    });
    expect(reply.usage).toMatchObject({
      input_tokens: 3,
      output_tokens: 6,
      cache_read_input_tokens: 0,
      service_tier: "standard",
    });
  });

  test("streams the same message", async () => {
    const body = {
      ...helloBody,
      thinking,
      tools: [tool],
      messages: [{ role: "user" as const, content: "call get_weather twice [[sim: preamble]]" }],
    };
    const gathered = await client.messages.stream(body).finalMessage();
    const whole = await client.messages.create(body);
    expect(gathered.content.map((block) => block.type)).toEqual([
      "thinking",
      "text",
      "tool_use",
      "tool_use",
    ]);
    const shown = (message: Anthropic.Message) =>
      message.content.map((block) =>
        block.type === "tool_use"
          ? { name: block.name, input: block.input }
          : { ...block, signature: "" },
      );
    expect(shown(gathered)).toEqual(shown(whole));
    expect(gathered.stop_reason).toBe("tool_use");
    expect(gathered.usage.output_tokens).toBe(whole.usage.output_tokens);
    expect(gathered.usage.input_tokens).toBe(whole.usage.input_tokens);
  });

  test("calls a tool and replies to its result", async () => {
    const messages: Anthropic.MessageParam[] = [
      { role: "user", content: "Please use get_weather" },
    ];
    const first = await client.messages.create({ ...base, messages, tools: [tool] });
    const call = first.content.find((block) => block.type === "tool_use");
    expect(call).toMatchObject({ name: "get_weather", input: { city: "example city" } });
    expect(call?.id).toMatch(/^toolu_[A-Za-z0-9]{24}$/);
    messages.push({ role: "assistant", content: first.content as Anthropic.ContentBlockParam[] });
    messages.push({
      role: "user",
      content: [{ type: "tool_result", tool_use_id: call?.id ?? "", content: "17 degrees" }],
    });
    const second = await client.messages.create({ ...base, messages, tools: [tool] });
    expect(second.content[0]).toMatchObject({ text: "The tool answered: 17 degrees" });
  });

  test("counts tokens", async () => {
    expect(
      await client.messages.countTokens({ model: "sim/echo", messages: helloBody.messages }),
    ).toMatchObject({ input_tokens: 3 });
  });

  test("throws the SDK's typed errors", async () => {
    const wrongKey = new Anthropic({ apiKey: "wrong", baseURL: simulator.url, maxRetries: 0 });
    expect(await rejectionReason(wrongKey.messages.create(helloBody))).toBeInstanceOf(
      AuthenticationError,
    );
    expect(
      await rejectionReason(client.messages.create({ ...helloBody, model: "nope" })),
    ).toBeInstanceOf(NotFoundError);
    expect(
      await rejectionReason(client.messages.create({ ...helloBody, messages: [] })),
    ).toBeInstanceOf(BadRequestError);
    const busy = {
      ...helloBody,
      messages: [{ role: "user" as const, content: "[[sim: status=529]]" }],
    };
    expect(await rejectionReason(client.messages.create(busy))).toMatchObject({
      status: 529,
      error: { error: { type: "overloaded_error" } },
    });
  });

  test("lists the models", async () => {
    const page = await client.models.list();
    expect(page.data.map((model) => model.id)).toEqual(["sim/echo", "sim/reason", "sim/tiny"]);
  });
});

describe("Messages API", () => {
  const send = createClient();
  const reply = async (text: string, more: Record<string, unknown> = {}) =>
    json(send("/v1/messages", { ...base, messages: [{ role: "user", content: text }], ...more }));

  test("sends stream events in order", async () => {
    const text = await (await send("/v1/messages", { ...helloBody, stream: true })).text();
    const types = eventData(text).map((event) => event.type);
    expect(types.filter((type, index) => type !== types[index - 1])).toEqual([
      "message_start",
      "content_block_start",
      "ping",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
    expect(text).not.toContain("[DONE]");
    expect(text.split("\n\n")[0]).toStartWith("event: message_start\ndata: {");
    expect(eventData(text)[0].message).toMatchObject({
      content: [],
      stop_reason: null,
      usage: { input_tokens: 3, output_tokens: 1 },
    });
  });

  test("ends thinking with a signature even if it is omitted", async () => {
    const shown = await reply("hi", { thinking });
    expect(shown.content[0]).toMatchObject({
      type: "thinking",
      thinking: expect.stringContaining("Let me think"),
    });
    expect(shown.usage.output_tokens_details.thinking_tokens).toBe(32);
    const omitted = await reply("hi", { thinking: { type: "adaptive", display: "omitted" } });
    expect(omitted.content[0]).toMatchObject({ type: "thinking", thinking: "" });
    expect(omitted.content[0].signature.length).toBe(200);
    expect(
      (await reply("hi", { model: "sim/reason", thinking: { type: "disabled" } })).content,
    ).toHaveLength(1);
  });

  test.each(["summarized", "omitted"])("streams a signature after %s thinking", async (display) => {
    const body = { ...helloBody, thinking: { type: "adaptive", display }, stream: true };
    const events = eventData(await (await send("/v1/messages", body)).text());
    const deltas = events.flatMap(({ index, delta }) => (index === 0 && delta ? [delta] : []));
    expect(deltas.at(-1)).toEqual({
      type: "signature_delta",
      signature: expect.stringMatching(/^.{200}$/),
    });
    const shown = deltas.filter(({ type }) => type === "thinking_delta");
    expect(shown.length > 0).toBe(display === "summarized");
  });

  test("applies stop sequences and limits", async () => {
    expect(await reply("one STOP two", { stop_sequences: ["STOP"] })).toMatchObject({
      content: [{ text: "You said: one " }],
      stop_reason: "stop_sequence",
      stop_sequence: "STOP",
    });
    expect(await reply("Hello there", { max_tokens: 2 })).toMatchObject({
      content: [{ text: "You said" }],
      stop_reason: "max_tokens",
    });
    const cut = await reply("call get_weather", { max_tokens: 5, tools: [tool] });
    expect(cut).toMatchObject({
      content: [{ type: "tool_use", input: {} }],
      stop_reason: "max_tokens",
    });
  });

  test("caches at markers until they expire", async () => {
    const system = [
      { type: "text", text: "a".repeat(400), cache_control: { type: "ephemeral", ttl: "1h" } },
    ];
    const content = [
      { type: "text", text: "b".repeat(40), cache_control: { type: "ephemeral" } },
      { type: "text", text: "c" },
    ];
    const body = { ...base, system, messages: [{ role: "user", content }] };
    const first = (await json(send("/v1/messages", body))).usage;
    expect(first).toMatchObject({
      input_tokens: 1,
      cache_read_input_tokens: 0,
      cache_creation_input_tokens: 110,
      cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 100 },
    });
    const second = (await json(send("/v1/messages", body))).usage;
    expect(second).toMatchObject({
      input_tokens: 1,
      cache_read_input_tokens: 110,
      cache_creation_input_tokens: 0,
    });
    const other = { ...base, system, messages: [{ role: "user", content: "new" }] };
    expect((await json(send("/v1/messages", other))).usage).toMatchObject({
      input_tokens: 1,
      cache_read_input_tokens: 100,
    });
  });

  test("accepts images and documents and returns structured output and refusals", async () => {
    const content = [
      { type: "text", text: "Look" },
      { type: "image", source: { type: "url", url: "x" } },
      { type: "document", source: { type: "url", url: "x" } },
    ];
    expect(
      (await json(send("/v1/messages", { ...base, messages: [{ role: "user", content }] })))
        .content[0].text,
    ).toBe("You said: Look (with 1 image, 1 file)");
    const schema = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] };
    const structured = await reply("x", {
      output_config: { format: { type: "json_schema", schema } },
    });
    expect(JSON.parse(structured.content[0].text)).toEqual({ ok: true });
    expect(await reply("x [[sim: refusal]]")).toMatchObject({
      content: [],
      stop_reason: "refusal",
      stop_details: { type: "refusal" },
    });
  });

  test.each([
    ["max_tokens: Field required", { model: "sim/echo", messages: [] }],
    ["model: Field required", { max_tokens: 1 }],
    ["messages: Field required", { ...base }],
    ["messages: at least one message is required", { ...base, messages: [] }],
    ["temperature: range: 0..1", { ...helloBody, temperature: 1.5 }],
    [
      "messages.0.role: Input should be 'user' or 'assistant'",
      { ...base, messages: [{ role: "robot", content: "x" }] },
    ],
    [
      "messages: text content blocks must be non-empty",
      { ...base, messages: [{ role: "user", content: "" }] },
    ],
    [
      "`max_tokens` must be greater than `thinking.budget_tokens`.",
      { ...helloBody, max_tokens: 1_024, thinking },
    ],
    [
      "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
      { ...helloBody, thinking: { type: "enabled", budget_tokens: 1 } },
    ],
    [
      "messages.0.content.0: unexpected",
      {
        ...base,
        messages: [
          { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "x" }] },
        ],
      },
    ],
    [
      "messages.1: `tool_use` ids were found",
      {
        ...base,
        messages: [
          { role: "assistant", content: [{ type: "tool_use", id: "a", name: "f", input: {} }] },
          { role: "user", content: "x" },
        ],
      },
    ],
    [
      "A maximum of 4 blocks with cache_control",
      {
        ...helloBody,
        system: [1, 2, 3, 4, 5].map((n) => ({
          type: "text",
          text: `${n}`,
          cache_control: { type: "ephemeral" },
        })),
      },
    ],
  ])("%s", async (message, body) => {
    const response = await send("/v1/messages", body);
    expect(response.status).toBe(400);
    expect(await json(response)).toMatchObject({
      type: "error",
      error: { type: "invalid_request_error", message: expect.stringContaining(message) },
    });
  });

  test("requires the anthropic-version header", async () => {
    const response = await fetch(`${simulator.url}/v1/messages`, {
      method: "POST",
      headers: { "x-api-key": "right-key" },
      body: JSON.stringify(helloBody),
    });
    expect(await json(response)).toMatchObject({
      error: { message: "anthropic-version: header is required" },
    });
  });
});

describe("Claude's rules on sampling and thinking", () => {
  let claude: SimulatorServer;
  beforeAll(() => {
    claude = serveSimulator({ acceptsAnyModel: true });
  });
  afterAll(() => claude.stop());

  async function errorOf(body: object): Promise<string | undefined> {
    const reply = await fetch(`${claude.url}/v1/messages`, {
      method: "POST",
      headers: { "anthropic-version": "2023-06-01", "x-api-key": "k" },
      body: JSON.stringify({ ...helloBody, ...body }),
    });
    return ((await reply.json()) as { error?: { message: string } }).error?.message;
  }

  const forcedTool = {
    tools: [{ name: "look", input_schema: { type: "object" } }],
    tool_choice: { type: "any" },
  };
  test.each([
    ["cannot both be specified", { model: "claude-haiku-4-5", temperature: 0.5, top_p: 0.9 }],
    ["may only be set to 1", { model: "claude-opus-4-6", thinking, temperature: 0.5 }],
    ["`top_p` must be", { model: "claude-opus-4-6", thinking, top_p: 0.5 }],
    ["`top_k` must be unset", { model: "claude-opus-4-6", thinking, top_k: 5 }],
    ["Forced tool use is not", { model: "claude-opus-5-5", ...forcedTool }],
    ['"thinking.type.enabled" is not', { model: "claude-opus-5", thinking }],
    [
      '"thinking.type.disabled" is not',
      { model: "claude-sonnet-5-5", thinking: { type: "disabled" } },
    ],
    [
      "tool_choice forces tool use",
      { model: "claude-sonnet-4-6", thinking: { type: "adaptive" }, ...forcedTool },
    ],
  ])("rejects with %j: %j", async (message, body) => {
    expect(await errorOf(body)).toContain(message);
  });

  test.each([
    { model: "claude-sonnet-4-20250514", temperature: 0.5, top_p: 0.9 },
    { model: "claude-haiku-4-5", thinking, temperature: 1 },
    { model: "claude-haiku-4-5", thinking: { type: "disabled" }, ...forcedTool },
    { model: "sim/echo", thinking, temperature: 0.5, top_p: 0.9 },
  ])("accepts %j", async (body) => {
    expect(await errorOf(body)).toBeUndefined();
  });
});
