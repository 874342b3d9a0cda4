// Conversations between a caller of one API and a model on the other wire: the second request contains the first reply, and
// the provider receives its own reasoning unchanged.

import { describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { chatWire } from "../../src/chat/chat-wire.ts";
import { messagesWire } from "../../src/messages/messages-wire.ts";
import {
  collectReply,
  getAt,
  ORIGIN,
  readContext,
  readEvents,
  sseEvents,
  writeContext,
  writeEvents,
} from "../stream-helpers.ts";

const thinking = { type: "thinking", thinking: "I need the weather.", signature: "Eq4BCkYIBxgC==" };
const toolUse = { type: "tool_use", id: "toolu_01", name: "weather", input: { city: "Oslo" } };
const tools = [
  {
    type: "function" as const,
    function: {
      name: "weather",
      parameters: { type: "object", properties: { city: { type: "string" } } },
    },
  },
];
const userMessage = { role: "user" as const, content: "Weather in Oslo?" };
const reply = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "deep-1",
  content: [thinking, toolUse],
  stop_reason: "tool_use",
  stop_sequence: null,
  usage: { input_tokens: 1, output_tokens: 2 },
};
const TARGET = { ...ORIGIN, maxOutputTokens: 32_000, abilities: { reasoning: "budget" } } as const;

function streamResponse(text: string): () => Promise<Response> {
  return () =>
    Promise.resolve(new Response(text, { headers: { "content-type": "text/event-stream" } }));
}

describe("a Chat Completions caller with Claude", () => {
  const second = (
    message: unknown,
    target: Parameters<typeof messagesWire.writeRequest>[1] = TARGET,
  ) => {
    const body = {
      model: "m",
      messages: [userMessage, message, { role: "tool", tool_call_id: "toolu_01", content: "rain" }],
      tools,
      reasoning_effort: "medium",
    };
    return messagesWire.writeRequest(
      chatWire.readRequest(JSON.parse(JSON.stringify(body))),
      target,
    );
  };

  test("returns the reasoning of a reply", () => {
    const written = chatWire.writeReply(
      messagesWire.readReply(reply, readContext("messages")),
      writeContext(),
    ).body;
    const message = getAt(written, "choices", 0, "message");
    expect(message).toMatchObject({
      reasoning_content: "I need the weather.",
      tool_calls: [{ id: "toolu_01" }],
    });
    const { body, losses } = second(message);
    expect(getAt(body, "messages", 1, "content")).toEqual([thinking, toolUse]);
    expect([getAt(body, "thinking", "type"), losses]).toEqual(["enabled", []]);
  });

  test("joins all texts of the reasoning, without empty ones", () => {
    const texts = ["First.", "", "Then."];
    const content = texts.map((text) => ({ type: "thinking", thinking: text, signature: "s" }));
    const written = chatWire.writeReply(
      messagesWire.readReply({ ...reply, content }, readContext("messages")),
      writeContext(),
    ).body;
    expect(getAt(written, "choices", 0, "message", "reasoning_content")).toBe("First.\n\nThen.");
  });

  test("drops and lists the thinking if the model changed", () => {
    const written = chatWire.writeReply(
      messagesWire.readReply(reply, readContext("messages")),
      writeContext(),
    ).body;
    const { body, losses } = second(getAt(written, "choices", 0, "message"), {
      ...TARGET,
      model: "deep-2",
    });
    expect(getAt(body, "messages", 1, "content")).toEqual([toolUse]);
    expect(body["thinking"]).toBeUndefined();
    expect(losses.map((loss) => [loss.path, loss.tolerated])).toEqual([
      ["reasoning_effort", true],
      ["messages[1].reasoning_details[0]", true],
    ]);
  });

  test("continues without thinking if the caller drops unknown fields", () => {
    const { body } = second({
      role: "assistant",
      content: null,
      tool_calls: [
        {
          id: "toolu_01",
          type: "function",
          function: { name: "weather", arguments: '{"city":"Oslo"}' },
        },
      ],
    });
    expect([getAt(body, "messages", 1, "content"), body["thinking"]]).toEqual([
      [toolUse],
      undefined,
    ]);
  });

  test("returns the reasoning of a stream read by the official SDK", async () => {
    const upstream = writeEvents(
      messagesWire,
      [
        ...readEvents(messagesWire, [], readContext("messages")).slice(1),
        { type: "start", id: "msg_1", model: "deep-1" },
        {
          type: "part_start",
          choice: 0,
          part: 0,
          head: { type: "tool_call", id: "toolu_01", name: "weather" },
        },
        { type: "delta", choice: 0, part: 0, text: '{"city":"Oslo"}' },
        { type: "part_end", choice: 0, part: 0 },
        { type: "finish", choice: 0, finish: { reason: "tool_calls" } },
      ],
      writeContext(),
    );
    const text = writeEvents(
      chatWire,
      readEvents(messagesWire, sseEvents(upstream), readContext("messages")),
      writeContext(),
    );
    const client = new OpenAI({
      apiKey: "x",
      baseURL: "http://test/v1",
      fetch: streamResponse(text),
    });
    const done = await client.chat.completions
      .stream({ model: "m", messages: [userMessage], tools })
      .finalChatCompletion();
    expect(getAt(second(done.choices[0]?.message).body, "messages", 1, "content")).toEqual([
      toolUse,
    ]);
  });
});

describe("a Messages caller with a Chat Completions server", () => {
  test("returns the reasoning of a stream in the field that the server reads", async () => {
    const deltas = [
      { role: "assistant", reasoning_content: "Hm." },
      { content: "Let me see." },
      {
        tool_calls: [
          {
            index: 0,
            id: "functions.weather:0",
            type: "function",
            function: { name: "weather", arguments: '{"city":"Oslo"}' },
          },
        ],
      },
    ];
    const chunks = [
      ...deltas.map((delta) => ({ delta, finish_reason: null })),
      { delta: {}, finish_reason: "tool_calls" },
    ];
    const upstream = [
      ...chunks.map((choice) => ({
        name: "",
        data: JSON.stringify({ id: "c", model: "k", choices: [{ index: 0, ...choice }] }),
      })),
      { name: "", data: "[DONE]" },
    ];
    const text = writeEvents(
      messagesWire,
      readEvents(chatWire, upstream, readContext("chat")),
      writeContext(),
    );
    const client = new Anthropic({
      apiKey: "x",
      baseURL: "http://test",
      fetch: streamResponse(text),
    });
    const message = await client.messages
      .stream({ model: "m", max_tokens: 9, messages: [userMessage] })
      .finalMessage();
    const id = message.content.find((block) => block.type === "tool_use")?.id;
    const request = messagesWire.readRequest({
      model: "m",
      max_tokens: 9,
      messages: [
        userMessage,
        { role: "assistant", content: message.content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "rain" }] },
      ],
      tools: [{ name: "weather", input_schema: { type: "object" } }],
    });
    const { body, losses } = chatWire.writeRequest(request, {
      ...ORIGIN,
      abilities: { reasoningField: "reasoning_content" },
    });
    expect(losses).toEqual([]);
    expect(JSON.parse(JSON.stringify(getAt(body, "messages")))).toEqual([
      { role: "user", content: "Weather in Oslo?" },
      {
        role: "assistant",
        content: "Let me see.",
        reasoning_content: "Hm.",
        tool_calls: [
          {
            id: "functions.weather:0",
            type: "function",
            function: { name: "weather", arguments: '{"city":"Oslo"}' },
          },
        ],
      },
      { role: "tool", tool_call_id: "functions.weather:0", content: "rain" },
    ]);
    expect(
      collectReply(readEvents(chatWire, upstream, readContext("chat"))).choices[0]?.parts,
    ).toHaveLength(3);
  });
});
