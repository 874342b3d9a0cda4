// Translation between Chat Completions and Messages: what is mapped, and what is a loss under which path.

import { describe, expect, test } from "bun:test";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import { clampEffort, decodeBlob, encodeBlob } from "../../src/canonical/reasoning-blobs.ts";
import { createCallIds, decodeCallId, encodeCallId } from "../../src/canonical/tools/call-ids.ts";
import type { Abilities } from "../../src/canonical/wire-interfaces.ts";
import { chatWire } from "../../src/chat/chat-wire.ts";
import { InvalidRequest } from "../../src/invalid-request.ts";
import { messagesWire } from "../../src/messages/messages-wire.ts";
import { getAt, readContext, writeContext } from "../stream-helpers.ts";

const userMessage = { role: "user", content: "hi" };
const weather = {
  type: "function",
  function: { name: "weather", parameters: { type: "object", properties: {} } },
};
const weatherTool = { name: "weather", input_schema: { type: "object", properties: {} } };

function toMessages(body: object, abilities: Abilities = {}, maxOutputTokens = 64_000) {
  const written = messagesWire.writeRequest(
    chatWire.readRequest({ model: "m", messages: [userMessage], ...body }),
    { provider: "p", model: "claude", maxOutputTokens, abilities },
  );
  return {
    ...written,
    body: JSON.parse(JSON.stringify(written.body)) as Readonly<Record<string, unknown>>,
    paths: written.losses.filter((loss) => loss.tolerated !== true).map((loss) => loss.path),
    rules: written.losses.filter((loss) => loss.tolerated === true).map((loss) => loss.path),
  };
}

function toChat(body: object, abilities: Abilities = {}) {
  const written = chatWire.writeRequest(
    messagesWire.readRequest({ model: "m", max_tokens: 100, messages: [userMessage], ...body }),
    { provider: "p", model: "gpt", abilities },
  );
  return {
    ...written,
    body: JSON.parse(JSON.stringify(written.body)) as Readonly<Record<string, unknown>>,
    paths: written.losses.filter((loss) => loss.tolerated !== true).map((loss) => loss.path),
  };
}

function rejectedPath(read: () => unknown): string | undefined {
  try {
    read();
  } catch (error) {
    if (error instanceof InvalidRequest) return error.path;
    throw error;
  }
  return "nothing was refused";
}

describe("chat → messages", () => {
  test("writes leading instructions to system and later ones in place", () => {
    const messages = [
      { role: "system", content: "one" },
      {
        role: "developer",
        content: [{ type: "text", text: "two", cache_control: { type: "ephemeral" } }],
      },
      userMessage,
      { role: "assistant", content: "yes" },
      { role: "system", content: "three" },
      userMessage,
    ];
    const { body, paths } = toMessages({ messages });
    expect(body["system"]).toEqual([
      { type: "text", text: "one" },
      { type: "text", text: "two", cache_control: { type: "ephemeral" } },
    ]);
    expect(body["messages"]).toEqual([
      { role: "user", content: "hi" },
      { role: "assistant", content: "yes" },
      {
        role: "user",
        content: [
          { type: "text", text: "three" },
          { type: "text", text: "hi" },
        ],
      },
    ]);
    expect(paths).toEqual([]);
    expect(
      getAt(toMessages({ messages }, { midConversationInstructions: true }).body, "messages", 2),
    ).toEqual({
      role: "system",
      content: "three",
    });
  });

  test("writes all tool results first in one user message, whatever their order", () => {
    const call = (id: string) => ({
      id,
      type: "function",
      function: { name: "weather", arguments: "" },
    });
    const { body } = toMessages({
      tools: [weather],
      messages: [
        userMessage,
        { role: "assistant", content: null, tool_calls: [call("functions.a:0"), call("b")] },
        { role: "tool", tool_call_id: "b", content: "B" },
        { role: "user", content: "and" },
        { role: "tool", tool_call_id: "functions.a:0", content: "A" },
      ],
    });
    const encoded = encodeCallId("functions.a:0");
    expect(encoded).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
    expect((body["messages"] as readonly unknown[]).slice(1)).toEqual([
      {
        role: "assistant",
        content: [
          { type: "tool_use", id: encoded, name: "weather", input: {} },
          { type: "tool_use", id: "b", name: "weather", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "b", content: "B" },
          { type: "tool_result", tool_use_id: encoded, content: "A" },
          { type: "text", text: "and" },
        ],
      },
    ]);
  });

  test("makes call ids unique that a model reuses in each turn", () => {
    const turn = [
      {
        role: "assistant",
        tool_calls: [
          { id: "call_0", type: "function", function: { name: "weather", arguments: "{}" } },
        ],
      },
      { role: "tool", tool_call_id: "call_0", content: "x" },
    ];
    const { body } = toMessages({ tools: [weather], messages: [userMessage, ...turn, ...turn] });
    expect(
      [1, 2, 3, 4].map(
        (at) =>
          getAt(body, "messages", at, "content", 0, "id") ??
          getAt(body, "messages", at, "content", 0, "tool_use_id"),
      ),
    ).toEqual(["call_0", "call_0", "call_0_1", "call_0_1"]);
  });

  test("sets max_tokens to the model's limit", () => {
    expect(toMessages({}).body["max_tokens"]).toBe(64_000);
    expect(toMessages({ max_tokens: 5 }).body["max_tokens"]).toBe(5);
  });

  test("maps tool choice and parallel calls", () => {
    expect(toMessages({ tools: [weather], tool_choice: "required" }).body["tool_choice"]).toEqual({
      type: "any",
    });
    expect(
      toMessages({
        tools: [weather],
        tool_choice: { type: "function", function: { name: "weather" } },
        parallel_tool_calls: false,
      }).body["tool_choice"],
    ).toEqual({ type: "tool", name: "weather", disable_parallel_tool_use: true });
    expect(
      toMessages({ tools: [weather], parallel_tool_calls: false }).body["tool_choice"],
    ).toEqual({ type: "auto", disable_parallel_tool_use: true });
    const other = { type: "function", function: { name: "other" } };
    const allowed = toMessages({
      tools: [weather, other],
      tool_choice: { type: "allowed_tools", allowed_tools: { mode: "required", tools: [weather] } },
    });
    expect([getAt(allowed.body, "tools", "length"), allowed.body["tool_choice"]]).toEqual([
      1,
      { type: "any" },
    ]);
  });

  test("maps effort to thinking, keeps the budget below max_tokens, and drops thinking with a forced tool", () => {
    expect(toMessages({ reasoning_effort: "high" }).body).toMatchObject({
      thinking: { type: "adaptive" },
      output_config: { effort: "high" },
    });
    expect(toMessages({ reasoning_effort: "minimal" })).toMatchObject({
      body: { output_config: { effort: "low" } },
      rules: ["reasoning_effort"],
    });
    expect(toMessages({ reasoning_effort: "none" }).body["thinking"]).toEqual({ type: "disabled" });
    expect(
      toMessages({ reasoning_effort: "high", max_tokens: 4_000 }, { reasoning: "budget" }).body[
        "thinking"
      ],
    ).toEqual({ type: "enabled", budget_tokens: 3_999 });
    expect(
      toMessages({ reasoning_effort: "high", max_tokens: 1_000 }, { reasoning: "budget" }),
    ).toMatchObject({ rules: ["reasoning_effort"] });
    expect(
      toMessages({ reasoning_effort: "high", tools: [weather], tool_choice: "required" }),
    ).toMatchObject({ rules: ["reasoning_effort"], paths: [] });
    expect(toMessages({ reasoning_effort: "high" }, { reasoning: "none" }).paths).toEqual([
      "reasoning_effort",
    ]);
  });

  test("sends no budget after a tool call without thinking", () => {
    const messages = [
      userMessage,
      {
        role: "assistant",
        tool_calls: [{ id: "a", type: "function", function: { name: "weather", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "a", content: "x" },
    ];
    const { body, rules } = toMessages(
      { messages, tools: [weather], reasoning_effort: "high" },
      { reasoning: "budget" },
    );
    expect([body["thinking"], rules]).toEqual([undefined, ["reasoning_effort"]]);
  });

  test("writes a JSON schema to output_config, or as a forced tool whose call is the output", () => {
    const schema = { type: "object", properties: {}, additionalProperties: false };
    const response_format = {
      type: "json_schema",
      json_schema: { name: "person", schema, strict: true },
    };
    expect(toMessages({ response_format }).body["output_config"]).toEqual({
      format: { type: "json_schema", schema },
    });
    const { body, emulation } = toMessages({ response_format }, { jsonSchema: false });
    expect([body["tool_choice"], getAt(body, "tools", 0, "name"), emulation]).toEqual([
      { type: "tool", name: "person" },
      "person",
      { outputTool: "person" },
    ]);
    const reply = messagesWire.readReply(
      {
        content: [{ type: "tool_use", id: "t", name: "person", input: { a: 1 } }],
        stop_reason: "tool_use",
      },
      { ...readContext("messages"), emulation },
    );
    expect(reply.choices[0]).toMatchObject({
      parts: [{ type: "text", text: '{"a":1}' }],
      finish: { reason: "stop" },
    });
  });

  test("returns a call's signature unchanged to the provider that produced it", () => {
    const origin = { provider: "p", model: "gpt" };
    const signature = { wire: "chat", kind: "call", data: "c2ln", origin } as const;
    const calls = (target: typeof origin) =>
      chatWire.writeRequest(
        {
          model: "m",
          turns: [
            { role: "user", parts: [{ type: "text", text: "hi" }] },
            {
              role: "assistant",
              parts: [{ type: "tool_call", id: "t", name: "f", arguments: "{}", signature }],
            },
          ],
        },
        target,
      );
    const signed = { extra_content: { google: { thought_signature: "c2ln" } } };
    expect(getAt(calls(origin).body, "messages", 1, "tool_calls", 0)).toMatchObject(signed);
    const other = calls({ provider: "q", model: "gpt" });
    expect(getAt(other.body, "messages", 1, "tool_calls", 0)).not.toHaveProperty("extra_content");
    expect(other.losses).toMatchObject([{ tolerated: true }]);
  });

  test("adds an instruction for JSON mode and lists the loss", () => {
    const { body, losses, paths } = toMessages({
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "hello" },
      ],
      response_format: { type: "json_object" },
    });
    expect(paths).toEqual([]);
    expect(losses).toMatchObject([{ path: "response_format", tolerated: true }]);
    expect(body["system"]).toMatchObject([
      { text: "Be brief." },
      { text: expect.stringContaining("one JSON object") },
    ]);
    expect(body["output_config"]).toBeUndefined();
  });

  test("names losses by the caller's fields", () => {
    expect(
      toMessages({
        seed: 1,
        frequency_penalty: 0.5,
        presence_penalty: 0,
        logit_bias: { "1": 1 },
        logprobs: true,
        n: 2,
        verbosity: "low",
        metadata: { a: "b" },
        store: true,
        temperature: 1.5,
        service_tier: "flex",
        web_search_options: {},
      }).paths.toSorted(),
    ).toEqual(
      [
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "metadata",
        "n",
        "seed",
        "service_tier",
        "store",
        "temperature",
        "verbosity",
        "web_search_options",
      ].toSorted(),
    );
    const content = [
      { type: "text", text: "x" },
      { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } },
      { type: "image_url", image_url: { url: "data:image/tiff;base64,AAAA" } },
      { type: "file", file: { file_id: "file-1" } },
    ];
    expect(toMessages({ messages: [{ role: "user", content, name: "ann" }] }).paths).toEqual([
      "messages[0].content[1]",
      "messages[0].content[2]",
      "messages[0].content[3]",
      "messages[0].name",
    ]);
    expect(
      toMessages({
        tools: [{ type: "custom", custom: { name: "sql" } }, { type: "openrouter:web_search" }],
      }).paths,
    ).toEqual(["tools[0]", "tools[1]"]);
    expect(
      toMessages({ messages: [{ role: "assistant", content: "hello" }, userMessage] }).paths,
    ).toEqual(["messages[0]"]);
  });

  test("has all of the reasoning texts of a reply, and no empty ones", () => {
    const reply: CanonicalReply = {
      choices: [
        {
          parts: [
            { type: "reasoning", text: "first" },
            { type: "reasoning", text: "" },
            { type: "reasoning", text: "second" },
            { type: "text", text: "so" },
          ],
          finish: { reason: "stop" },
        },
      ],
    };
    const written = getAt(chatWire.writeReply(reply, writeContext()).body, "choices", 0, "message");
    expect(written).toMatchObject({ content: "so", reasoning_content: "first\n\nsecond" });
  });

  test("maps legacy functions to tools, and their call to function_call", () => {
    const functions = [{ name: "weather", parameters: { type: "object" } }];
    const { body } = toMessages({
      functions,
      function_call: { name: "weather" },
      messages: [
        userMessage,
        { role: "assistant", content: null, function_call: { name: "weather", arguments: "{}" } },
        { role: "function", name: "weather", content: "sun" },
      ],
    });
    expect(body["tools"]).toEqual([{ name: "weather", input_schema: { type: "object" } }]);
    expect(getAt(body, "messages", 2, "content", 0)).toMatchObject({
      type: "tool_result",
      content: "sun",
    });
    const reply: CanonicalReply = {
      choices: [
        {
          parts: [{ type: "tool_call", id: "a", name: "weather", arguments: "{}" }],
          finish: { reason: "tool_calls" },
        },
      ],
    };
    expect(chatWire.writeReply(reply, writeContext({ legacyFunctions: true })).body).toMatchObject({
      choices: [
        {
          message: { function_call: { name: "weather", arguments: "{}" } },
          finish_reason: "function_call",
        },
      ],
    });
  });
});

describe("messages → chat", () => {
  test("writes tool results as tool messages before the rest of the user's message", () => {
    const messages = [
      userMessage,
      {
        role: "assistant",
        content: [
          { type: "text", text: "let me see" },
          { type: "tool_use", id: "a", name: "weather", input: { x: 1 } },
        ],
      },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "a",
            content: [{ type: "text", text: "sun" }],
            is_error: true,
          },
          { type: "text", text: "thanks" },
        ],
      },
    ];
    const { body, paths } = toChat({ messages, tools: [weatherTool], system: "be brief" });
    expect(body["messages"]).toEqual([
      { role: "system", content: "be brief" },
      { role: "user", content: "hi" },
      {
        role: "assistant",
        content: "let me see",
        tool_calls: [
          { id: "a", type: "function", function: { name: "weather", arguments: '{"x":1}' } },
        ],
      },
      { role: "tool", tool_call_id: "a", content: "sun" },
      { role: "user", content: "thanks" },
    ]);
    expect(paths).toEqual([]);
  });

  test("rejects server tools, their results and unknown fields by name", () => {
    expect(
      toChat({
        tools: [{ type: "web_search_20250305", name: "web_search" }],
        container: "c",
        mcp_servers: [],
      }).paths,
    ).toEqual(["tools[0]", "container", "mcp_servers"]);
    expect(
      toChat({
        messages: [
          userMessage,
          {
            role: "assistant",
            content: [
              { type: "server_tool_use", id: "s", name: "web_search", input: {} },
              { type: "text", text: "x" },
            ],
          },
          userMessage,
        ],
      }).paths,
    ).toEqual(["messages[1].content[0]"]);
    expect(toChat({ top_k: 5 }).paths).toEqual(["top_k"]);
  });

  test("sends thinking as plain text only to a provider that accepts it", () => {
    const messages = [
      userMessage,
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "hm", signature: "" },
          { type: "text", text: "x" },
        ],
      },
      userMessage,
    ];
    expect(
      getAt(toChat({ messages }, { reasoningField: "reasoning_content" }).body, "messages", 1),
    ).toEqual({ role: "assistant", content: "x", reasoning_content: "hm" });
    const { body, losses } = toChat(
      {
        messages: [
          userMessage,
          {
            role: "assistant",
            content: [
              { type: "thinking", thinking: "hm", signature: "sig" },
              { type: "text", text: "x" },
            ],
          },
          userMessage,
        ],
      },
      { reasoningField: "reasoning_content" },
    );
    expect([getAt(body, "messages", 1), losses.map((loss) => loss.tolerated)]).toEqual([
      { role: "assistant", content: "x" },
      [true],
    ]);
  });

  test("writes matching ids of nine letters and digits", () => {
    const messages = [
      userMessage,
      {
        role: "assistant",
        content: [{ type: "tool_use", id: "toolu_01ABC", name: "weather", input: {} }],
      },
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: "toolu_01ABC", content: "x" }],
      },
    ];
    const { body } = toChat({ messages, tools: [weatherTool] }, { callIdFormat: "alphanumeric9" });
    const id = getAt(body, "messages", 1, "tool_calls", 0, "id");
    expect(id).toMatch(/^[A-Za-z0-9]{9}$/);
    expect(getAt(body, "messages", 2, "tool_call_id")).toBe(id);
  });
});

describe("rejects invalid input with a 400 that names the path", () => {
  const chat = (body: object) =>
    rejectedPath(() => chatWire.readRequest({ model: "m", messages: [userMessage], ...body }));
  const messages = (body: object) =>
    rejectedPath(() =>
      messagesWire.readRequest({ model: "m", max_tokens: 10, messages: [userMessage], ...body }),
    );
  const call = {
    role: "assistant",
    tool_calls: [{ id: "a", type: "function", function: { name: "weather", arguments: "{}" } }],
  };

  test("chat", () => {
    expect(chat({ model: 3 })).toBe("model");
    expect(chat({ messages: "hi" })).toBe("messages");
    expect(chat({ messages: [] })).toBe("messages");
    expect(chat({ messages: [{ role: "system", content: "x" }] })).toBe("messages");
    expect(chat({ messages: [{ role: "king", content: "x" }] })).toBe("messages[0].role");
    expect(chat({ messages: [{ role: "user", content: "" }] })).toBe("messages[0]");
    expect(chat({ messages: [{ role: "user", content: [{ type: "text" }] }] })).toBe(
      "messages[0].content[0].text",
    );
    expect(
      chat({ messages: [userMessage, { role: "tool", tool_call_id: "a", content: "x" }] }),
    ).toBe("messages[1]");
    expect(chat({ messages: [userMessage, call] })).toBe("messages[1].tool_calls[0]");
    expect(chat({ messages: [userMessage, call, userMessage] })).toBe("messages[1].tool_calls[0]");
    expect(
      chat({ messages: [userMessage, call, { role: "tool", tool_call_id: "zz", content: "x" }] }),
    ).toBe("messages[2]");
    expect(
      chat({
        messages: [
          userMessage,
          call,
          { role: "tool", tool_call_id: "a", content: "x" },
          { role: "tool", tool_call_id: "a", content: "x" },
        ],
      }),
    ).toBe("messages[3]");
    expect(
      chat({
        messages: [userMessage, { ...call, tool_calls: [...call.tool_calls, ...call.tool_calls] }],
      }),
    ).toBe("messages[1].tool_calls[1]");
    expect(
      chat({
        messages: [
          {
            role: "user",
            content: [{ type: "image_url", image_url: { url: "data:text/html;base64,AAAA" } }],
          },
        ],
      }),
    ).toBe("messages[0].content[0].image_url.url");
    expect(
      chat({
        messages: [
          { role: "user", content: [{ type: "image_url", image_url: { url: "ftp://x" } }] },
        ],
      }),
    ).toBe("messages[0].content[0].image_url.url");
    expect(chat({ temperature: 1e300 })).toBe("temperature");
    expect(chat({ max_tokens: -1 })).toBe("max_tokens");
    expect(chat({ n: 1e9 })).toBe("n");
    expect(chat({ top_logprobs: 0.5 })).toBe("top_logprobs");
    expect(chat({ reasoning_effort: "hard" })).toBe("reasoning_effort");
    expect(
      chat({
        tools: [{ type: "function", function: { name: "a", parameters: { type: "objekt" } } }],
      }),
    ).toBe("tools[0].function.parameters.type");
    expect(chat({ tools: [weather, weather] })).toBe("tools[1].function");
    expect(chat({ tool_choice: "required" })).toBe("tool_choice");
    expect(
      chat({ tools: [weather], tool_choice: { type: "function", function: { name: "nope" } } }),
    ).toBe("tool_choice");
    expect(
      chat({
        response_format: {
          type: "json_schema",
          json_schema: { name: "x", schema: { type: "object", required: "a" } },
        },
      }),
    ).toBe("response_format.json_schema.schema.required");
  });

  test("messages", () => {
    expect(messages({ messages: [{ role: "user" }] })).toBe("messages[0].content");
    expect(messages({ messages: [{ role: "user", content: [] }] })).toBe("messages[0]");
    expect(messages({ temperature: 2 })).toBe("temperature");
    expect(messages({ max_tokens: 0 })).toBe("max_tokens");
    expect(messages({ thinking: { type: "enabled" } })).toBe("thinking.budget_tokens");
    expect(messages({ tools: [{ name: "a", input_schema: { type: "string" } }] })).toBe(
      "tools[0].input_schema.type",
    );
    expect(
      messages({
        messages: [
          userMessage,
          { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "x" }] },
        ],
      }),
    ).toBe("messages[1].content[0]");
    expect(
      messages({
        messages: [
          {
            role: "user",
            content: [
              { type: "image", source: { type: "base64", media_type: "image/bmp", data: "AA" } },
            ],
          },
        ],
      }),
    ).toBe("messages[0].content[0].source.media_type");
    let deep: object = { type: "string" };
    for (let level = 0; level < 100; level++) deep = { type: "object", properties: { a: deep } };
    expect(messages({ tools: [{ name: "a", input_schema: deep }] })).toStartWith(
      "tools[0].input_schema.properties.a",
    );
  });
});

describe("replies", () => {
  const reply = (
    finish: CanonicalReply["choices"][number]["finish"],
    parts: CanonicalReply["choices"][number]["parts"] = [{ type: "text", text: "x" }],
  ): CanonicalReply => ({ choices: [{ parts, finish }] });

  test("maps finish reasons in both directions", () => {
    const chat = (body: CanonicalReply) =>
      getAt(chatWire.writeReply(body, writeContext()).body, "choices", 0);
    const messages = (body: CanonicalReply) => messagesWire.writeReply(body, writeContext()).body;
    expect(
      chat(reply({ reason: "stop_sequence", stopSequence: "END", nativeReason: "stop_sequence" })),
    ).toMatchObject({
      finish_reason: "stop",
      stop_reason: "END",
      native_finish_reason: "stop_sequence",
    });
    expect(messages(reply({ reason: "stop_sequence", stopSequence: "END" }))).toMatchObject({
      stop_reason: "stop_sequence",
      stop_sequence: "END",
    });
    expect(messages(reply({ reason: "content_filter" }))).toMatchObject({ stop_reason: "refusal" });
    expect(chat(reply({ reason: "refusal", detail: "no" }))).toMatchObject({
      finish_reason: "content_filter",
      message: { refusal: "no" },
    });
    expect(
      messages(reply({ reason: "refusal" }, [{ type: "refusal", text: "I cannot" }])),
    ).toMatchObject({ stop_reason: "refusal", content: [{ type: "text", text: "I cannot" }] });
    // Gemini and many servers send `stop` after a tool call; `length` takes precedence over a call.
    expect(
      chatWire.readReply(
        {
          choices: [
            {
              message: { tool_calls: [{ id: "a", function: { name: "f", arguments: "" } }] },
              finish_reason: "stop",
            },
          ],
        },
        readContext("chat"),
      ).choices[0],
    ).toMatchObject({
      parts: [{ arguments: "{}" }],
      finish: { reason: "tool_calls", nativeReason: "stop" },
    });
    expect(
      chatWire.readReply(
        {
          choices: [
            {
              message: { tool_calls: [{ id: "a", function: { name: "f", arguments: '{"a' } }] },
              finish_reason: "length",
            },
          ],
        },
        readContext("chat"),
      ).choices[0],
    ).toMatchObject({ finish: { reason: "length" } });
    expect(chatWire.readReply({ choices: [] }, readContext("chat")).choices).toHaveLength(1);
  });

  test("writes a valid block for a call that was cut off, and lists the loss", () => {
    const written = messagesWire.writeReply(
      reply({ reason: "length" }, [{ type: "tool_call", id: "a", name: "f", arguments: '{"a' }]),
      writeContext(),
    );
    expect(written).toMatchObject({
      body: { content: [{ type: "tool_use", input: {} }], stop_reason: "max_tokens" },
      losses: [{ path: "content[0].input" }],
    });
  });

  test("writes a call's signature as reasoning before it", () => {
    const signature = {
      wire: "gemini",
      kind: "call",
      data: "SIG",
      origin: { provider: "google", model: "g" },
    } as const;
    const parts = [
      { type: "tool_call", id: "a", name: "weather", arguments: "{}", signature } as const,
    ];
    const message = getAt(
      messagesWire.writeReply(reply({ reason: "tool_calls" }, parts), writeContext()).body,
      "content",
    );
    const again = messagesWire.readRequest({
      model: "m",
      messages: [
        userMessage,
        { role: "assistant", content: message },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a" }] },
      ],
      tools: [weatherTool],
    });
    expect(again.turns[1]?.parts).toMatchObject([{ type: "tool_call", signature }]);
    const chat = getAt(
      chatWire.writeReply(reply({ reason: "tool_calls" }, parts), writeContext()).body,
      "choices",
      0,
      "message",
    );
    expect(
      chatWire.readRequest({
        model: "m",
        messages: [userMessage, chat, { role: "tool", tool_call_id: "a", content: "x" }],
      }).turns[1]?.parts,
    ).toMatchObject([{ signature }]);
  });

  test("translates URL citations", () => {
    const location = {
      type: "web_search_result_location",
      url: "https://x.test",
      title: "X",
      cited_text: "c",
      encrypted_index: "e",
    };
    const read = messagesWire.readReply(
      {
        content: [
          { type: "text", text: "abc" },
          { type: "text", text: "def", citations: [location] },
        ],
        stop_reason: "end_turn",
      },
      readContext("messages"),
    );
    expect(chatWire.writeReply(read, writeContext()).body).toMatchObject({
      choices: [
        {
          message: {
            content: "abcdef",
            annotations: [
              {
                type: "url_citation",
                url_citation: { url: "https://x.test", title: "X", start_index: 3, end_index: 6 },
              },
            ],
          },
        },
      ],
    });
    expect(messagesWire.writeReply(read, writeContext()).body).toMatchObject({
      content: [{}, { citations: [location] }],
    });
  });
});

describe("errors", () => {
  test("maps provider errors; a provider's 401 is never the caller's", () => {
    expect(
      messagesWire.readError(401, {
        type: "error",
        error: { type: "authentication_error", message: "invalid x-api-key" },
      }),
    ).toMatchObject({ code: "provider_not_configured", status: 503 });
    expect(
      messagesWire.readError(529, { error: { type: "overloaded_error", message: "Overloaded" } }),
    ).toMatchObject({ code: "overloaded", status: 529 });
    expect(
      messagesWire.readError(400, {
        error: {
          type: "invalid_request_error",
          message: "prompt is too long: 3 tokens > 2 maximum",
        },
      }),
    ).toMatchObject({ code: "invalid_request", nativeCode: "context_length_exceeded" });
    expect(
      chatWire.readError(404, { error: { message: "no", code: "model_not_found" } }),
    ).toMatchObject({ code: "model_not_found", status: 404 });
    expect(
      chatWire.readError(400, { message: "Invalid model: x", type: "invalid_model" }),
    ).toMatchObject({ code: "model_not_found", status: 404 });
    expect(
      chatWire.readError(429, { error: { message: "quota", code: "insufficient_quota" } }),
    ).toMatchObject({ code: "provider_not_configured", status: 503 });
    expect(chatWire.readError(401, { detail: "Unauthorized" })).toMatchObject({
      code: "provider_not_configured",
      message: "Unauthorized",
    });
    expect(chatWire.readError(502, "<html>bad gateway</html>")).toMatchObject({
      code: "upstream_error",
      status: 502,
    });
    expect(
      chatWire.readError(500, [{ error: { code: 500, message: "x", status: "INTERNAL" } }]),
    ).toMatchObject({ code: "upstream_error", message: "x" });
  });
});

describe("canonical form", () => {
  test("encodes and decodes call ids", () => {
    for (const id of [
      "functions.add:0",
      "call_-7807251775253113230",
      "pstx_abc",
      "ünïcode",
      "x".repeat(200),
    ]) {
      const encoded = encodeCallId(id);
      expect(encoded).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      if (id.length < 40) expect(decodeCallId(encoded)).toBe(id);
    }
    const ids = createCallIds("alphanumeric9");
    expect(ids.forCall("abcdefghi")).toBe("abcdefghi");
    expect(ids.forCall("call_1")).toBe(ids.forResult("call_1"));
  });

  test("encodes blobs and maps efforts to budgets", () => {
    const blob = {
      wire: "gemini",
      kind: "call",
      data: "a.b.c==",
      origin: { provider: "gøøgle", model: "g/3" },
    } as const;
    expect(decodeBlob(encodeBlob(blob, "chat"), "chat", "signature")).toEqual(blob);
    expect(decodeBlob("pst1.garbage", "messages", "signature")).toEqual({
      wire: "messages",
      kind: "signature",
      data: "pst1.garbage",
    });
    expect([
      clampEffort("max", ["low", "high"]),
      clampEffort("minimal", ["low", "none"]),
      clampEffort("low", undefined),
    ]).toEqual(["high", "none", "low"]);
  });
});

test("names the effort or the thinking in the loss of a model without configurable reasoning", () => {
  const abilities: Abilities = { reasoning: "none" };
  const target = { provider: "acme", model: "deep-1", abilities };
  const lost = (fields: object) => {
    const request = messagesWire.readRequest({
      model: "m",
      max_tokens: 9,
      messages: [{ role: "user", content: "hi" }],
      ...fields,
    });
    return chatWire.writeRequest(request, target).losses.map(({ path }) => path);
  };
  const output_config = { effort: "high" };
  expect(lost({ output_config })).toEqual(["output_config.effort"]);
  expect(lost({ output_config, thinking: { type: "adaptive" } })).toEqual(["thinking"]);
});
