// The messages of spans, from a request and a reply of each API, whole or streamed.

import { describe, expect, test } from "bun:test";
import { inputMessages, outputMessages } from "../../src/sinks/sink-worker.ts";

const part = (content: string) => ({ type: "text", content });
const USER = { role: "user", parts: [part("Hi")] };
const SYSTEM = { role: "system", parts: [part("Be brief")] };

describe("messages of a span", () => {
  test.each([
    [
      {
        messages: [
          { role: "system", content: "Be brief" },
          { role: "user", content: "Hi" },
        ],
      },
      [SYSTEM, USER],
    ],
    [
      {
        system: [{ type: "text", text: "Be brief" }],
        messages: [{ role: "user", content: [{ type: "text", text: "Hi" }, { type: "image" }] }],
      },
      [SYSTEM, USER],
    ],
    [{ instructions: "Be brief", input: "Hi" }, [SYSTEM, USER]],
    [
      {
        input: [
          { role: "user", content: [{ type: "input_text", text: "Hi" }] },
          { type: "function_call" },
        ],
      },
      [USER],
    ],
    [
      {
        contents: [
          { role: "model", parts: [{ text: "Yes?" }] },
          { role: "user", parts: [{ text: "Hi" }] },
        ],
      },
      [{ role: "assistant", parts: [part("Yes?")] }, USER],
    ],
    [{ query: "Hi" }, [{ role: "user", parts: [part('{"query":"Hi"}')] }]],
  ])("are read from the request %j", (request, messages) => {
    expect(JSON.parse(inputMessages(JSON.stringify(request)))).toEqual(messages);
  });

  test.each([
    [JSON.stringify({ choices: [{ message: { content: "Hello" } }] }), "Hello"],
    [JSON.stringify({ content: [{ type: "text", text: "Hello" }] }), "Hello"],
    [JSON.stringify({ output: [{ type: "message", content: [{ text: "Hello" }] }] }), "Hello"],
    [JSON.stringify({ candidates: [{ content: { parts: [{ text: "Hello" }] } }] }), "Hello"],
    [
      'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\ndata: {"choices":[{"delta":{"content":"lo"}}]}\n\ndata: [DONE]\n\n',
      "Hello",
    ],
    [
      'event: x\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Hello"}}\n\n',
      "Hello",
    ],
    [
      'data: {"type":"response.output_text.delta","delta":"Hello"}\n\ndata: {"type":"response.completed"}\n\n',
      "Hello",
    ],
    ['data: {"candidates":[{"content":{"parts":[{"text":"Hello"}]}}]}\n\n', "Hello"],
    ["no JSON", "no JSON"],
  ])("are read from the reply %s", (reply, text) => {
    const message = { role: "assistant", parts: [part(text)] };
    expect(JSON.parse(outputMessages(reply))).toEqual([message]);
  });

  test("of a request that was cut are its text", () => {
    expect(JSON.parse(inputMessages('{"messages": [{"ro'))).toEqual([
      { role: "user", parts: [part('{"messages": [{"ro')] },
    ]);
  });
});
