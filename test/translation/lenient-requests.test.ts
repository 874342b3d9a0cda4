// Forms of requests that providers accept and clients send, though no published schema has them.

import { describe, expect, test } from "bun:test";
import {
  type CanonicalEvent,
  type CanonicalRequest,
  createCallSplitter,
  splitCalls,
  type Target,
  INBOUND_WIRES,
  OUTBOUND_WIRES,
} from "@postern/wires";
import { sseEvents, writeContext, writeEvents } from "../../packages/wires/test/stream-helpers.ts";
import { isRejected } from "../../src/inference/translate/losses.ts";
import { expectLinearCpuTime } from "../support/cpu-time.ts";
import type { Json } from "./support/harness.ts";

const CLAUDE: Target = { provider: "bedrock", model: "anthropic.claude-haiku-4-5-20251001-v1:0" };

function readChat(more: Json): CanonicalRequest {
  return INBOUND_WIRES.chat.readRequest({
    model: "m",
    messages: [{ role: "user", content: "hi" }],
    ...more,
  });
}

function readResponses(more: Json): CanonicalRequest {
  return INBOUND_WIRES.responses.readRequest({ model: "m", input: "hi", ...more });
}

const PARAMETERS = { type: "object", properties: {} };

describe("a tool", () => {
  const expected = { type: "function", name: "f", description: "d", parameters: PARAMETERS };
  const definition = { name: "f", description: "d", parameters: PARAMETERS };
  const forms: readonly (readonly [title: string, tool: Json])[] = [
    ["nested", { type: "function", function: definition }],
    ["nested without a type", { function: definition }],
    ["flat", { type: "function", ...definition }],
    ["flat without a type", definition],
    ["flat and nested in one", { type: "function", ...definition, function: definition }],
  ];
  for (const [title, tool] of forms)
    test(`accepts ${title} on Chat Completions and Responses`, () => {
      expect(readChat({ tools: [tool] }).tools).toMatchObject([expected]);
      expect(JSON.stringify(readChat({ tools: [tool] }).tools)).not.toContain("native");
      expect(readResponses({ tools: [tool] }).tools).toMatchObject([expected]);
    });

  test("without a name gets a 400", () => {
    expect(() => readChat({ tools: [{ parameters: PARAMETERS }] })).toThrow("tools[0]");
  });

  test("is chosen without the type of the choice, nested or flat", () => {
    const tools = [{ type: "function", function: definition }];
    for (const choice of [
      { function: { name: "f" } },
      { name: "f" },
      { type: "function", name: "f" },
    ])
      expect(readChat({ tools, tool_choice: choice }).toolChoice).toMatchObject({
        type: "tool",
        name: "f",
      });
    expect(
      readResponses({ tools, tool_choice: { function: { name: "f" } } }).toolChoice,
    ).toMatchObject({ type: "tool", name: "f" });
  });
});

describe("reasoning", () => {
  test("of DeepSeek, Z.ai, Qwen and vLLM is read", () => {
    for (const off of [
      { thinking: { type: "disabled" } },
      { enable_thinking: false },
      { chat_template_kwargs: { enable_thinking: false } },
    ]) {
      const request = readChat(off);
      expect(request.reasoning).toMatchObject({ mode: "off" });
      const written = OUTBOUND_WIRES.messages.writeRequest(request, {
        provider: "anthropic",
        model: "claude-sonnet-4-6",
      });
      expect([written.body["thinking"], written.losses]).toEqual([{ type: "disabled" }, []]);
    }
    expect(readChat({ thinking: { type: "enabled" } }).reasoning?.mode).toBe("adaptive");
    expect(readChat({ enable_thinking: true, thinking_budget: 2_048 }).reasoning).toMatchObject({
      budgetTokens: 2_048,
    });
  });

  test("stays in the provider's form on its own wire", () => {
    const { body } = OUTBOUND_WIRES.chat.writeRequest(
      readChat({ thinking: { type: "disabled" } }),
      {
        provider: "deepseek",
        model: "deepseek-flash",
      },
    );
    expect(body["thinking"]).toEqual({ type: "disabled" });
    expect(body["reasoning_effort"]).toBeUndefined();
  });

  test("that is disabled wins over an effort on Responses", () => {
    const request = INBOUND_WIRES.messages.readRequest({
      model: "m",
      max_tokens: 100,
      messages: [{ role: "user", content: "hi" }],
      thinking: { type: "disabled" },
      output_config: { effort: "high" },
    });
    const { body } = OUTBOUND_WIRES.responses.writeRequest(request, {
      provider: "openai",
      model: "gpt-5.5",
      abilities: { efforts: ["none", "low", "medium", "high"], reasoning: "effort" },
    });
    expect(body["reasoning"]).toEqual({ effort: "none" });
  });
});

describe("a conversation", () => {
  const call = (id: string): Json => ({
    role: "assistant",
    tool_calls: [{ id, type: "function", function: { name: "f", arguments: "null" } }],
  });
  const result = (id: string | undefined): Json => ({
    role: "tool",
    tool_call_id: id,
    content: id ?? "x",
  });
  const user = { role: "user", content: "hi" };

  test("may have parallel calls in two messages with both results after", () => {
    const { turns } = readChat({
      messages: [user, call("a"), call("b"), result("b"), result("a")],
    });
    expect(turns.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
    expect(turns[1]?.parts).toMatchObject([{ id: "a", arguments: "{}" }, { id: "b" }]);
    expect(turns[2]?.parts).toMatchObject([{ callId: "b" }, { callId: "a" }]);
    expect(() => readChat({ messages: [user, call("a"), call("b"), result("a")] })).toThrow(
      "has no result",
    );
  });

  test("may have an assistant message with `prefix: false`, which asks for nothing", () => {
    const answered = { role: "assistant", content: "Hello.", prefix: false };
    const request = readChat({ messages: [user, answered, user] });
    for (const wire of Object.values(OUTBOUND_WIRES)) {
      const { body, losses } = wire.writeRequest(request, CLAUDE);
      expect([wire.name, losses.filter(isRejected)]).toEqual([wire.name, []]);
      if (wire.name !== "chat") expect(JSON.stringify(body)).not.toContain("prefix");
    }
  });

  test("may have results without an id, in the order of the calls", () => {
    const { turns } = readChat({
      messages: [user, call("a"), result(undefined), call("b"), result(undefined), user],
    });
    expect(
      turns.flatMap(({ parts }) =>
        parts.flatMap((part) => ("callId" in part ? [part.callId] : [])),
      ),
    ).toEqual(["a", "b"]);
  });

  test("may have empty messages, which are left out", () => {
    const { turns } = readChat({
      messages: [{ role: "system", content: "" }, user, { role: "assistant", content: "" }, user],
    });
    expect(turns.map(({ role }) => role)).toEqual(["user", "user"]);
  });

  test("that the assistant starts gets a neutral user message where one is required", () => {
    const request = readChat({ messages: [call("a"), result("a"), user] });
    for (const wire of ["messages", "converse", "gemini"] as const) {
      const { body, losses } = OUTBOUND_WIRES[wire].writeRequest(request, CLAUDE);
      const [first] = (body["messages"] ?? body["contents"]) as readonly Json[]; // Both are arrays of messages.
      expect([wire, JSON.stringify(first)]).toEqual([wire, expect.stringContaining("Continue.")]);
      expect(losses).toMatchObject([{ path: "messages[0]", hint: true }]);
    }
    const { body, losses } = OUTBOUND_WIRES.chat.writeRequest(request, CLAUDE);
    expect([JSON.stringify(body).includes("Continue."), losses]).toEqual([false, []]);
  });
});

describe("parallel calls on Bedrock", () => {
  const tools = [{ type: "function", function: { name: "f", parameters: PARAMETERS } }];
  const written = (more: Json): Json => {
    const request = readChat({ tools, parallel_tool_calls: false, ...more });
    const { body, losses } = OUTBOUND_WIRES.converse.writeRequest(request, CLAUDE);
    expect(losses).toEqual([]);
    return { ...body };
  };

  test("are forbidden by Claude's own field", () => {
    expect(written({})["additionalModelRequestFields"]).toEqual({
      tool_choice: { type: "auto", disable_parallel_tool_use: true },
    });
    const forced = written({ tool_choice: "required" });
    expect(forced["toolConfig"]).toMatchObject({ toolChoice: { any: {} } });
    expect(forced["additionalModelRequestFields"]).toEqual({
      tool_choice: { disable_parallel_tool_use: true },
    });
  });

  test("are a hint at other models", () => {
    const nova = { provider: "bedrock", model: "amazon.nova-pro-v1:0" };
    const request = readChat({ tools, parallel_tool_calls: false });
    const { losses } = OUTBOUND_WIRES.converse.writeRequest(request, nova);
    expect(losses).toMatchObject([{ path: "parallel_tool_calls", hint: true }]);
  });
});

test("a safety identifier is the user of a Messages request, and is dropped beside another user", () => {
  const written = (more: Json) =>
    OUTBOUND_WIRES.messages.writeRequest(readChat({ safety_identifier: "u1", ...more }), CLAUDE);
  expect(written({}).body["metadata"]).toEqual({ user_id: "u1" });
  expect(written({ user: "u2" }).body["metadata"]).toEqual({ user_id: "u2" });
  expect(written({ user: "u2" }).losses).toMatchObject([{ path: "safety_identifier", hint: true }]);
});

describe("arguments of several calls in one text", () => {
  const ARGUMENTS = `{"a":"}{"}{"b":[1,{"c":2}]} {"d":3}`;
  const SPLIT = [`{"a":"}{"}`, `{"b":[1,{"c":2}]}`, `{"d":3}`];

  test("become several calls of a whole reply", () => {
    const call = { type: "tool_call", id: "x", name: "f", arguments: ARGUMENTS } as const;
    const finish = { reason: "tool_calls" } as const;
    const [choice] = splitCalls({ choices: [{ parts: [call], finish }] }).choices;
    expect(choice?.parts).toMatchObject(
      SPLIT.map((text, index) => ({ id: index === 0 ? "x" : `x_${index + 1}`, arguments: text })),
    );
  });

  test("are split in linear time", () => {
    expectLinearCpuTime((count) => {
      const call = {
        type: "tool_call",
        id: "x",
        name: "f",
        arguments: "{}".repeat(count),
      } as const;
      const finish = { reason: "tool_calls" } as const;
      const [choice] = splitCalls({ choices: [{ parts: [call], finish }] }).choices;
      expect(choice?.parts).toHaveLength(count);
    }, 40_000);
  });

  test("become several calls of a stream, however it is cut", () => {
    for (const size of [1, 2, 5, 100]) {
      const push = createCallSplitter();
      const head = { type: "tool_call", id: "x", name: "f" } as const;
      const pieces = ARGUMENTS.match(new RegExp(`.{1,${size}}`, "gs")) ?? [];
      const events: CanonicalEvent[] = [
        { type: "part_start", choice: 0, part: 0, head },
        ...pieces.map((text) => ({ type: "delta", choice: 0, part: 0, text }) as const),
        { type: "part_end", choice: 0, part: 0 },
        { type: "part_start", choice: 0, part: 1, head: { type: "text" } },
      ];
      const written = events.flatMap(push);
      const texts = new Map<number, string>();
      for (const event of written)
        if (event.type === "delta")
          texts.set(event.part, (texts.get(event.part) ?? "") + event.text);
      expect([...texts.values()].map((text) => text.trim())).toEqual(SPLIT);
      expect(written.at(-1)).toMatchObject({ type: "part_start", part: 3 });
    }
  });

  test("do not touch arguments of one call, or free text", () => {
    const part = { type: "tool_call", id: "x", name: "f", arguments: `{"a":"}{"}` } as const;
    const reply = { choices: [{ parts: [part], finish: { reason: "stop" } as const }] };
    expect(splitCalls(reply)).toBe(reply);
  });
});

test("a text's signature is before the text in a message, and within its block in a stream", () => {
  const blob = {
    wire: "gemini",
    kind: "text",
    data: "c2ln",
    origin: { provider: "google", model: "g" },
  } as const;
  const finish = { reason: "stop" } as const;
  const text = { type: "text", text: "Hello", signature: blob } as const;
  const { body } = INBOUND_WIRES.messages.writeReply(
    { choices: [{ parts: [text], finish }] },
    writeContext(),
  );
  expect(body["content"]).toMatchObject([{ type: "thinking" }, { type: "text", text: "Hello" }]);
  const back = INBOUND_WIRES.messages.readRequest({
    model: "m",
    max_tokens: 10,
    messages: [
      { role: "user", content: "hi" },
      { role: "assistant", content: body["content"] },
      { role: "user", content: "hi" },
    ],
  });
  expect(back.turns[1]?.parts).toMatchObject([{ type: "text", text: "Hello", signature: blob }]);
  const written: readonly CanonicalEvent[] = [
    { type: "start" },
    { type: "part_start", choice: 0, part: 0, head: { type: "text" } },
    { type: "delta", choice: 0, part: 0, text: "Hello" },
    { type: "blob", choice: 0, part: 0, blob },
    { type: "part_end", choice: 0, part: 0 },
    { type: "finish", choice: 0, finish },
  ];
  const events = sseEvents(writeEvents(INBOUND_WIRES.messages, written, writeContext()));
  const stops = events.flatMap(({ name, data }) =>
    name === "content_block_stop" ? [(JSON.parse(data) as Json)["index"]] : [],
  );
  expect(stops).toEqual([1, 0]);
});

test("a Responses stream may number its content from 1", () => {
  const item = { type: "message", id: "m", role: "assistant" };
  const content = [{ type: "output_text", text: "Hello", annotations: [] }];
  const reader = OUTBOUND_WIRES.responses.createStreamReader({
    origin: { provider: "p", model: "m" },
    readUsage: () => undefined,
  });
  const events = [
    { type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } },
    { type: "response.output_text.delta", output_index: 0, content_index: 1, delta: "Hello" },
    { type: "response.output_text.done", output_index: 0, content_index: 1, text: "Hello" },
    { type: "response.output_item.done", output_index: 0, item: { ...item, content } },
    {
      type: "response.completed",
      response: { id: "r", status: "completed", output: [{ ...item, content }] },
    },
  ].flatMap((data) => reader.push({ name: data.type, data: JSON.stringify(data) }));
  const texts = events.flatMap((event) => (event.type === "delta" ? [event.text] : []));
  expect(texts).toEqual(["Hello"]);
});
