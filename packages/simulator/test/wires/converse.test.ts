import { describe, expect, test } from "bun:test";
import { createEventFrameParser } from "@postern/wires";
import { createClient, json, type Json } from "../simulator-harness.ts";

const send = createClient();
const path = (verb: string, model = "sim%2Fecho") => `/model/${model}/${verb}`;
const body = (text: string, more: Record<string, unknown> = {}) => ({
  messages: [{ role: "user", content: [{ text }] }],
  ...more,
});
const toolConfig = {
  tools: [
    {
      toolSpec: {
        name: "get_weather",
        inputSchema: {
          json: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
        },
      },
    },
  ],
};

async function frames(
  response: Response,
): Promise<{ readonly type: string; readonly value: Json }[]> {
  const parser = createEventFrameParser();
  const list = parser.push(new Uint8Array(await response.arrayBuffer()));
  expect(parser.end()).toBe(0);
  return list.map((frame) => ({
    type: frame.headers.get(":event-type") ?? frame.headers.get(":exception-type") ?? "",
    value: JSON.parse(new TextDecoder().decode(frame.payload)),
  }));
}

test("returns text, stop reason and usage", async () => {
  const response = await send(path("converse"), body("Hello there"));
  expect(response.headers.get("x-amzn-requestid")).toBeString();
  expect(await json(response)).toEqual({
    output: { message: { role: "assistant", content: [{ text: "You said: Hello there" }] } },
    stopReason: "end_turn",
    usage: {
      inputTokens: 3,
      outputTokens: 6,
      totalTokens: 9,
      cacheReadInputTokens: 0,
      cacheWriteInputTokens: 0,
    },
    metrics: { latencyMs: 100 },
  });
});

test("streams frames with valid checksums", async () => {
  const response = await send(
    path("converse-stream"),
    body("call get_weather [[sim: preamble]]", {
      toolConfig,
      additionalModelRequestFields: { reasoning_config: { type: "enabled", budget_tokens: 1_024 } },
    }),
  );
  expect(response.headers.get("content-type")).toBe("application/vnd.amazon.eventstream");
  const list = await frames(response);
  const types = list.map((frame) => frame.type);
  expect(types.filter((type, index) => type !== types[index - 1])).toEqual([
    "messageStart",
    "contentBlockDelta",
    "contentBlockStop",
    "contentBlockDelta",
    "contentBlockStop",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
    "metadata",
  ]);
  const deltas = list
    .filter((frame) => frame.type === "contentBlockDelta")
    .map((frame) => frame.value.delta);
  expect(deltas.filter((delta) => delta.reasoningContent?.signature).length).toBe(1);
  expect(deltas.map((delta) => delta.text ?? "").join("")).toBe("I will use get_weather.");
  expect(JSON.parse(deltas.map((delta) => delta.toolUse?.input ?? "").join(""))).toEqual({
    city: "example city",
  });
  expect(list.at(-2)?.value.stopReason).toBe("tool_use");
  const usage = list.at(-1)?.value.usage;
  expect(usage.totalTokens).toBe(usage.inputTokens + usage.outputTokens);
});

test("calls tools by tool choice and replies to results", async () => {
  const first = await json(
    send(path("converse"), body("go", { toolConfig: { ...toolConfig, toolChoice: { any: {} } } })),
  );
  const { toolUse } = first.output.message.content[0];
  expect(toolUse).toMatchObject({
    name: "get_weather",
    input: { city: "example city" },
    toolUseId: expect.stringMatching(/^tooluse_\w{22}$/),
  });
  const messages = [
    ...body("go").messages,
    first.output.message,
    {
      role: "user",
      content: [
        { toolResult: { toolUseId: toolUse.toolUseId, content: [{ json: { degrees: 17 } }] } },
      ],
    },
  ];
  const second = await json(send(path("converse"), { messages, toolConfig }));
  expect(second.output.message.content[0].text).toBe('The tool answered: {"degrees":17}');
});

test("writes and reads the cache at cache points", async () => {
  const system = [{ text: "a".repeat(400) }, { cachePoint: { type: "default", ttl: "1h" } }];
  const usage = async () => (await json(send(path("converse"), body("hi", { system })))).usage;
  expect(await usage()).toMatchObject({
    inputTokens: 1,
    cacheReadInputTokens: 0,
    cacheWriteInputTokens: 100,
    cacheDetails: [{ inputTokens: 100, ttl: "1h" }],
    totalTokens: 104,
  });
  expect(await usage()).toMatchObject({
    inputTokens: 1,
    cacheReadInputTokens: 100,
    cacheWriteInputTokens: 0,
    totalTokens: 104,
  });
});

test("applies limit, stop sequences, media, structured output and service tier", async () => {
  const reply = async (text: string, more: Record<string, unknown>) =>
    json(send(path("converse"), body(text, more)));
  expect(await reply("Hello there", { inferenceConfig: { maxTokens: 2 } })).toMatchObject({
    stopReason: "max_tokens",
  });
  expect(await reply("a STOP b", { inferenceConfig: { stopSequences: ["STOP"] } })).toMatchObject({
    stopReason: "stop_sequence",
    output: { message: { content: [{ text: "You said: a " }] } },
  });
  const content = [
    { text: "Look" },
    { image: { format: "png", source: { bytes: "AA" } } },
    { document: { format: "pdf", name: "d", source: { bytes: "AA" } } },
  ];
  expect(
    (await json(send(path("converse"), { messages: [{ role: "user", content }] }))).output.message
      .content[0].text,
  ).toBe("You said: Look (with 1 image, 1 file)");
  const structure = {
    jsonSchema: {
      name: "s",
      schema: '{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}',
    },
  };
  expect(
    (await reply("x", { outputConfig: { textFormat: { type: "json_schema", structure } } })).output
      .message.content[0].text,
  ).toBe('{"ok":true}');
  expect(await reply("x", { serviceTier: { type: "flex" } })).toMatchObject({
    serviceTier: { type: "flex" },
  });
});

describe("errors", () => {
  test.each([
    [400, "ValidationException", path("converse"), {}],
    [400, "ValidationException", path("converse", "nope"), body("x")],
    [
      400,
      "ValidationException",
      path("converse"),
      { messages: [{ role: "assistant", content: [{ text: "x" }] }] },
    ],
    [
      400,
      "ValidationException",
      path("converse"),
      { messages: [...body("x").messages, ...body("y").messages] },
    ],
    [429, "ThrottlingException", path("converse"), body("[[sim: status=429]]")],
    [503, "ServiceUnavailableException", path("converse-stream"), body("[[sim: status=503]]")],
  ])("%d %s", async (status, type, to, sent) => {
    const response = await send(to, sent);
    expect(response.status).toBe(status);
    expect(response.headers.get("x-amzn-errortype")).toStartWith(type);
    expect(Object.keys(await json(response))).toEqual(["message"]);
  });

  test("are exception frames in a stream", async () => {
    const list = await frames(
      await send(path("converse-stream"), body("Hello there [[sim: fail=2]]")),
    );
    expect(list.at(-1)).toEqual({
      type: "modelStreamErrorException",
      value: { message: "Overloaded" },
    });
  });

  test("a malformed frame has a wrong checksum", async () => {
    const response = await send(path("converse-stream"), body("Hello there [[sim: garble=2]]"));
    const bytes = new Uint8Array(await response.arrayBuffer());
    expect(() => createEventFrameParser().push(bytes)).toThrow("checksum");
  });
});

test("counts tokens", async () => {
  expect(await json(send(path("count-tokens"), { input: { converse: body("12345") } }))).toEqual({
    inputTokens: 2,
  });
});

describe("Claude's rules on sampling and thinking", () => {
  const sendAny = createClient({ acceptsAnyModel: true });
  const thinking = { type: "enabled", budget_tokens: 1_024 };
  const haiku = "us.anthropic.claude-haiku-4-5-20251001-v1%3A0";
  const REJECTED: readonly (readonly [message: string, model: string, settings: object])[] = [
    ["cannot both be specified", haiku, { inferenceConfig: { temperature: 0.5, topP: 0.9 } }],
    [
      "may only be set to 1",
      haiku,
      { inferenceConfig: { temperature: 0.5 }, additionalModelRequestFields: { thinking } },
    ],
    ["`top_k` must be unset", haiku, { additionalModelRequestFields: { thinking, top_k: 5 } }],
    [
      "The model returned the following errors: Thinking may not be enabled when tool_choice",
      haiku,
      {
        additionalModelRequestFields: { thinking },
        toolConfig: {
          tools: [{ toolSpec: { name: "look", inputSchema: { json: { type: "object" } } } }],
          toolChoice: { tool: { name: "look" } },
        },
      },
    ],
  ];
  test.each(REJECTED)("rejects with %j", async (message, model, settings) => {
    const response = await sendAny(path("converse", model), body("Hello", { ...settings }));
    expect(response.status).toBe(400);
    expect((await json(response)).message).toContain(message);
  });

  test("do not apply to other models", async () => {
    const settings = { inferenceConfig: { temperature: 0.5, topP: 0.9 } };
    for (const model of ["sim%2Fecho", "amazon.nova-lite-v1%3A0"])
      expect((await sendAny(path("converse", model), body("Hello", settings))).status).toBe(200);
  });
});
