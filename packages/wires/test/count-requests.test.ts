// The requests that count the tokens of a call, and their replies.

import { describe, expect, test } from "bun:test";
import { readCount, writeCountRequest } from "../wires.ts";

describe("writeCountRequest", () => {
  test("keeps what is input, and leaves out what only a call has", () => {
    const body = { model: "m", input: "a", max_output_tokens: 5, store: false, user: "u" };
    expect(writeCountRequest("responses", { body, path: "", isVertex: false })).toEqual({
      wire: "responses",
      path: "/input_tokens",
      body: { model: "m", input: "a" },
    });
    const messages = { model: "m", messages: [], max_tokens: 5, metadata: { user_id: "u" } };
    expect(writeCountRequest("messages", { body: messages, path: "", isVertex: false })).toEqual({
      wire: "count_tokens",
      path: "",
      body: { model: "m", messages: [] },
    });
  });

  test("wraps the contents for Gemini's API, and not for Vertex AI", () => {
    const body = { contents: [{ parts: [] }], safetySettings: [] };
    const path = "/models/gemini-4-carbon:streamGenerateContent?alt=sse";
    const counted = { contents: body.contents };
    expect(writeCountRequest("gemini", { body, path, isVertex: false })).toEqual({
      wire: "gemini",
      path: "/models/gemini-4-carbon:countTokens",
      body: { generateContentRequest: { model: "models/gemini-4-carbon", ...counted } },
    });
    expect(writeCountRequest("gemini", { body, path, isVertex: true })?.body).toEqual(counted);
  });

  test("wraps a Converse request", () => {
    const body = { messages: [], inferenceConfig: { maxTokens: 5 }, system: [] };
    const path = "/model/us.anthropic.claude/converse-stream";
    expect(writeCountRequest("converse", { body, path, isVertex: false })).toEqual({
      wire: "converse",
      path: "/model/us.anthropic.claude/count-tokens",
      body: { input: { converse: { messages: [], system: [] } } },
    });
  });

  test("has none for Chat Completions", () => {
    expect(writeCountRequest("chat", { body: {}, path: "", isVertex: false })).toBeUndefined();
  });
});

test.each([
  [{ input_tokens: 5 }, 5],
  [{ totalTokens: 0 }, 0],
  [{ inputTokens: 7 }, 7],
  [{ input_tokens: -1 }, undefined],
  [{ totalTokens: 1.5 }, undefined],
  [{ inputTokens: "7" }, undefined],
  [{}, undefined],
])("readCount of %j is %p", (reply, tokens) => {
  expect(readCount(reply)).toBe(tokens as number);
});
