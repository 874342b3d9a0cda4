// Unusual streams of real servers, and what clients require of written streams.

import { describe, expect, test } from "bun:test";
import type { CanonicalEvent } from "../../src/canonical/canonical-events.ts";
import { chatWire } from "../../src/chat/chat-wire.ts";
import { messagesWire } from "../../src/messages/messages-wire.ts";
import { replyToEvents } from "../reply-to-events.ts";
import {
  collectReply,
  readContext,
  readEvents,
  readPieces,
  sseEvents,
  validateCanonicalStream,
  writeContext,
  writeEvents,
} from "../stream-helpers.ts";
import { validateChatStream } from "../validate-chat-stream.ts";
import { validateMessagesStream } from "../validate-messages-stream.ts";

const chunk = (delta: object, rest: object = {}, top: object = {}) => ({
  name: "",
  data: JSON.stringify({
    id: "chatcmpl-9",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta, finish_reason: null, ...rest }],
    ...top,
  }),
});
const finish = (word: string) => chunk({}, { finish_reason: word });
const done = { name: "", data: "[DONE]" };
const call = (fields: object) => chunk({ tool_calls: [fields] });

function readChat(...events: { name: string; data: string }[]): CanonicalEvent[] {
  const read = readEvents(chatWire, events, readContext("chat"));
  expect(validateCanonicalStream(read)).toEqual([]);
  return read;
}

function translateToMessages(events: readonly CanonicalEvent[]): {
  type: string;
  index?: number;
  content_block?: { type: string };
  delta?: Record<string, unknown>;
}[] {
  const frames = sseEvents(writeEvents(messagesWire, events, writeContext()));
  expect(validateMessagesStream(frames)).toEqual([]);
  return frames.map((frame) => JSON.parse(frame.data));
}

describe("reading chat streams", () => {
  test("reads complete calls in one chunk with repeated, null or missing indices", () => {
    const read = readChat(
      chunk({ role: "assistant", content: null, tool_calls: null }),
      call({ index: 0, id: "a", function: { name: "f", arguments: '{"x":1}' } }),
      call({ index: 0, id: "b", function: { name: "g", arguments: "" } }),
      call({ id: "c", function: { name: "h", arguments: { y: 2 } } }),
      finish("stop"),
      done,
    );
    expect(collectReply(read).choices[0]).toMatchObject({
      parts: [
        { id: "a", arguments: '{"x":1}' },
        { id: "b", arguments: "{}" },
        { id: "c", arguments: '{"y":2}' },
      ],
      finish: { reason: "tool_calls" },
    });
  });

  test("separates the arguments of interleaved calls, which Messages writes one after another", () => {
    const read = readChat(
      call({ index: 0, id: "a", function: { name: "f", arguments: '{"x"' } }),
      call({ index: 1, id: "b", function: { name: "g", arguments: '{"y"' } }),
      call({ index: 0, function: { arguments: ":1}" } }),
      call({ index: 1, function: { arguments: ":2}" } }),
      finish("tool_calls"),
      done,
    );
    expect(collectReply(read).choices[0]?.parts).toMatchObject([
      { arguments: '{"x":1}' },
      { arguments: '{"y":2}' },
    ]);
    const blocks = translateToMessages(read).filter(
      (event) => event.type === "content_block_delta",
    );
    expect(blocks.map((event) => [event.index, event.delta?.["partial_json"]])).toEqual([
      [0, '{"x"'],
      [0, ":1}"],
      [1, '{"y"'],
      [1, ":2}"],
    ]);
  });

  test.each([
    ["one text that is cut anywhere", ["AQ", "IDB", "AU="]],
    ["pieces that are encoded one by one", ["AQ==", "AgM=", "BAU="]],
    ["pieces of whole groups", ["AQID", "BAU="]],
  ])("joins the base64 of audio: %s", (_title, pieces) => {
    const read = readChat(
      chunk({ role: "assistant", audio: { id: "audio_1" } }),
      ...pieces.map((data) => chunk({ audio: { data } })),
      finish("stop"),
      done,
    );
    expect(collectReply(read).choices[0]?.parts).toMatchObject([
      { type: "audio", id: "audio_1", source: { kind: "base64", data: "AQIDBAU=" } },
    ]);
  });

  test("reads an id that is sent once and a late name, and mints missing ids", () => {
    const read = readChat(
      call({ index: 0, id: "a", function: {} }),
      call({ index: 0, function: { name: "f", arguments: "{" } }),
      call({ index: 0, function: { arguments: "}" } }),
      call({ index: 1, function: { name: "g", arguments: "{}" } }),
      finish("tool_calls"),
      done,
    );
    expect(collectReply(read).choices[0]?.parts).toMatchObject([
      { id: "a", name: "f", arguments: "{}" },
      { id: "call_chatcmpl9_1", name: "g" },
    ]);
  });

  test("opens a new block for text after a call, and one block for interleaved reasoning", () => {
    const read = readChat(
      chunk({ content: "one" }),
      call({ index: 0, id: "a", function: { name: "f", arguments: "{}" } }),
      chunk({ content: "two" }),
      finish("tool_calls"),
      done,
    );
    expect(translateToMessages(read).flatMap((event) => event.content_block?.type ?? [])).toEqual([
      "text",
      "tool_use",
      "text",
    ]);
    const mixed = readChat(
      ...Array.from({ length: 10 }, (_, at) => [
        chunk({ content: `t${at}`, reasoning_content: "" }),
        chunk({ content: "", reasoning: `r${at}` }),
      ]).flat(),
      finish("stop"),
      done,
    );
    expect(translateToMessages(mixed).flatMap((event) => event.content_block?.type ?? [])).toEqual([
      "text",
      "thinking",
    ]);
  });

  test("reads Mistral's arrays, refusals, a first chunk without choices, and chunks after the finish", () => {
    const first = {
      name: "",
      data: JSON.stringify({
        id: "",
        object: "",
        model: "",
        choices: [],
        prompt_filter_results: [],
      }),
    };
    const late = {
      name: "",
      data: JSON.stringify({
        id: "chatcmpl-9",
        model: "m",
        choices: [],
        usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
      }),
    };
    const read = readChat(
      first,
      chunk({ content: [{ type: "thinking", thinking: [{ type: "text", text: "hm" }] }] }),
      chunk({ content: [{ type: "text", text: "x" }] }),
      finish("stop"),
      late,
      finish("stop"),
      done,
    );
    expect(collectReply(read)).toMatchObject({
      id: "chatcmpl-9",
      choices: [
        {
          parts: [
            { type: "reasoning", text: "hm" },
            { type: "text", text: "x" },
          ],
        },
      ],
      usage: { usage: { tokens: { input: 3, output: 2 } } },
    });
    expect(
      collectReply(readChat(chunk({ refusal: "no" }), finish("stop"), done)).choices[0],
    ).toMatchObject({ parts: [{ type: "refusal", text: "no" }], finish: { reason: "refusal" } });
  });

  test("ends with [DONE] without a finish_reason; reports truncation and errors", () => {
    expect(collectReply(readChat(chunk({ content: "x" }), done)).choices[0]?.finish.reason).toBe(
      "stop",
    );
    expect(
      collectReply(readChat(chunk({ content: "x" }), finish("stop"))).choices[0]?.finish.reason,
    ).toBe("stop");
    expect(readChat(chunk({ content: "x" })).at(-1)).toMatchObject({
      type: "error",
      error: { code: "upstream_error" },
    });
    expect(readChat().at(-1)).toMatchObject({ type: "error" });
    expect(
      readChat(chunk({ content: "x" }), {
        name: "error",
        data: '{"error":{"message":"boom","status_code":429}}',
      }).at(-1),
    ).toMatchObject({ type: "error", error: { status: 429, message: "boom" } });
  });

  test("reads the output tool's call as text", () => {
    const read = readEvents(
      chatWire,
      [
        call({ index: 0, id: "a", function: { name: "person", arguments: '{"a":' } }),
        call({ index: 0, function: { arguments: "1}" } }),
        finish("tool_calls"),
        done,
      ],
      { ...readContext("chat"), emulation: { outputTool: "person" } },
    );
    expect(collectReply(read).choices[0]).toMatchObject({
      parts: [{ type: "text", text: '{"a":1}' }],
      finish: { reason: "stop" },
    });
  });
});

describe("writing streams", () => {
  const error: CanonicalEvent = {
    type: "error",
    error: { code: "upstream_error", status: 502, message: "gone" },
  };
  const begun: CanonicalEvent[] = [
    { type: "start" },
    { type: "part_start", choice: 0, part: 0, head: { type: "text" } },
    { type: "delta", choice: 0, part: 0, text: "x" },
  ];

  test("writes an error in the API's format and nothing after it", () => {
    const chat = sseEvents(writeEvents(chatWire, [...begun, error], writeContext()));
    expect(validateChatStream(chat, { usage: false })).toEqual([]);
    expect(JSON.parse(chat.at(-1)?.data ?? "")).toMatchObject({
      error: { message: "gone", code: "upstream_error" },
    });
    const messages = sseEvents(writeEvents(messagesWire, [...begun, error], writeContext()));
    expect(validateMessagesStream(messages)).toEqual([]);
    expect(messages.at(-1)?.name).toBe("error");
  });

  test("writes text at once, and usage only if requested", () => {
    for (const wire of [chatWire, messagesWire]) {
      const writer = wire.createStreamWriter(writeContext({ includeUsage: false }));
      const frames = begun.map((event) => writer.push(event));
      expect(frames.at(-1)).toContain('"x"');
    }
    const events = replyToEvents({
      choices: [{ parts: [{ type: "text", text: "x" }], finish: { reason: "stop" } }],
      usage: { usage: { tokens: { input: 1 }, fees: {} }, extras: { cost: 0.5 } },
    });
    expect(
      validateChatStream(
        sseEvents(writeEvents(chatWire, events, writeContext({ includeUsage: false }))),
        { usage: false },
      ),
    ).toEqual([]);
    expect(writeEvents(chatWire, events, writeContext())).toContain('"cost":0.5');
    expect(writeEvents(messagesWire, events, writeContext())).toContain('"cost":0.5');
  });

  test("writes a delta for a call without arguments, and a complete stream for an empty reply", () => {
    const head = { type: "tool_call", id: "a", name: "f" } as const;
    const events = translateToMessages([
      { type: "start" },
      { type: "part_start", choice: 0, part: 0, head },
      { type: "part_end", choice: 0, part: 0 },
      { type: "finish", choice: 0, finish: { reason: "tool_calls" } },
    ]);
    expect(events.filter((event) => event.type === "content_block_delta")).toHaveLength(1);
    expect(
      translateToMessages(
        replyToEvents({ choices: [{ parts: [], finish: { reason: "content_filter" } }] }),
      ).map((event) => event.type),
    ).toEqual(["message_start", "message_delta", "message_stop"]);
  });
});

const MESSAGES_STREAM = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"cache_read_input_tokens":2,"output_tokens":1}}   }

event: ping
data: {"type": "ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Ünïcode 🏴‍☠️"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"SIG=="}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"query\\":\\"x\\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\\"a\\":1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9,"input_tokens":null}}

event: message_stop
data: {"type":"message_stop"}

`;

describe("streams cut at any byte", () => {
  const chat = [
    chunk({ role: "assistant", content: "" }),
    chunk({ reasoning_content: "Ünïcode 🏴‍☠️" }),
    chunk({ content: "x\n\ny" }),
    call({ index: 0, id: "a", function: { name: "f", arguments: '{"é":1}' } }),
    finish("tool_calls"),
    done,
  ];
  const streams = [
    ["messages", messagesWire, MESSAGES_STREAM],
    ["messages, CRLF", messagesWire, MESSAGES_STREAM.replaceAll("\n", "\r\n")],
    ["chat", chatWire, chat.map(({ data }) => `data: ${data}\n\n`).join("")],
    [
      "chat, without spaces, with comments and CR",
      chatWire,
      chat.map(({ data }) => `: ping\rdata:${data}\r\r`).join(""),
    ],
  ] as const;

  for (const [name, wire, text] of streams) {
    test(name, () => {
      const bytes = new TextEncoder().encode(text);
      const context = readContext(wire.name === "chat" ? "chat" : "messages");
      const whole = readPieces(wire.createStreamReader(context), [bytes]);
      expect(validateCanonicalStream(whole)).toEqual([]);
      expect(whole.at(-1)?.type === "error").toBe(false);
      for (let at = 1; at < bytes.length; at++)
        expect(
          readPieces(wire.createStreamReader(context), [bytes.subarray(0, at), bytes.subarray(at)]),
        ).toEqual(whole);
      const single = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
      expect(readPieces(wire.createStreamReader(context), single)).toEqual(whole);
    });
  }

  test("reads the Messages stream", () => {
    const reply = collectReply(
      readPieces(messagesWire.createStreamReader(readContext("messages")), [
        new TextEncoder().encode(MESSAGES_STREAM),
      ]),
    );
    expect(reply).toMatchObject({
      id: "msg_1",
      choices: [
        {
          parts: [
            {
              type: "reasoning",
              text: "Ünïcode 🏴‍☠️",
              blob: { kind: "signature", data: "SIG==", origin: { provider: "acme" } },
            },
            {
              type: "native",
              wire: "messages",
              value: { name: "web_search", input: { query: "x" } },
            },
            { type: "tool_call", id: "toolu_1", arguments: '{"a":1}' },
          ],
          finish: { reason: "tool_calls" },
        },
      ],
      usage: { usage: { tokens: { input: 5, cache_read: 2, output: 9 } } },
    });
  });
});
