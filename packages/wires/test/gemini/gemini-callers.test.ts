// Callers' requests in Gemini's form: the names that Google takes, what its SDKs and Gemini CLI send back, and what is refused.

import { describe, expect, test } from "bun:test";
import { encodeBlob } from "../../src/canonical/reasoning-blobs.ts";
import { geminiWire } from "../../src/gemini/gemini-wire.ts";
import { normalizeGeminiRequest } from "../../src/gemini/request/normalize-gemini-request.ts";
import { InvalidRequest } from "../../src/invalid-request.ts";
import type { JsonObject } from "../../src/json-fields.ts";
import { translateRequest } from "../../src/passes/translate-request.ts";
import { sseEvents, writeContext, writeEvents } from "../stream-helpers.ts";

const read = (body: JsonObject) => geminiWire.readRequest({ model: "m", ...body });
const HELLO = [{ role: "user", parts: [{ text: "Hello" }] }];
const ORIGIN = { provider: "anthropic", model: "claude-sonnet-5" };

function problemOf(body: JsonObject): { path: string | undefined; message: string } {
  try {
    read(body);
  } catch (error) {
    if (error instanceof InvalidRequest) return { path: error.path, message: error.message };
    throw error;
  }
  throw new Error("the request was read");
}

test("reads snake_case names as camelCase, and leaves the caller's own data alone", () => {
  const snake = {
    system_instruction: { parts: { text: "Be brief." } },
    contents: { parts: [{ inline_data: { mime_type: "image/png", data: "aGk-_w" } }] },
    tools: {
      function_declarations: [
        { name: "f", parameters: { type: "OBJECT", properties: { my_name: { type: "STRING" } } } },
      ],
    },
    tool_config: { function_calling_config: { mode: "ANY", allowed_function_names: ["f"] } },
    generation_config: {
      max_output_tokens: 9,
      top_p: 0.5,
      stop_sequences: ["END"],
      thinking_config: { thinking_budget: 512, include_thoughts: true },
    },
    postern: { max_cost_usd: "1" },
  };
  const camel = {
    systemInstruction: { parts: [{ text: "Be brief." }] },
    contents: [
      { role: "user", parts: [{ inlineData: { mimeType: "image/png", data: "aGk+/w" } }] },
    ],
    tools: [{ functionDeclarations: snake.tools.function_declarations }],
    toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["f"] } },
    generationConfig: {
      maxOutputTokens: 9,
      topP: 0.5,
      stopSequences: ["END"],
      thinkingConfig: { thinkingBudget: 512, includeThoughts: true },
    },
    postern: { max_cost_usd: "1" },
  };
  expect(read(snake)).toEqual(read(camel));
  expect(normalizeGeminiRequest(camel)).toBe(camel);
  expect(normalizeGeminiRequest(snake)["postern"]).toEqual({ max_cost_usd: "1" });
  expect(read(snake)).toMatchObject({
    maxOutputTokens: 9,
    stop: ["END"],
    reasoning: { budgetTokens: 512, summary: "auto" },
    toolChoice: { type: "tool", name: "f" },
    tools: [{ parameters: { type: "object", properties: { my_name: { type: "string" } } } }],
  });
});

test("refuses one field under both of its names", () => {
  const contents = [{ parts: [{ text: "a", inlineData: {}, inline_data: {} }] }];
  expect(problemOf({ contents }).path).toBe("contents[0].parts[0].inlineData");
  expect(
    problemOf({ contents: HELLO, generationConfig: { maxOutputTokens: 1, max_output_tokens: 9 } }),
  ).toEqual({
    path: "generationConfig.maxOutputTokens",
    message:
      "`generationConfig.maxOutputTokens` is also sent as `max_output_tokens`. Send it once.",
  });
});

test("writes Google's schemas as JSON Schema for other providers", () => {
  const parameters = {
    type: "OBJECT",
    properties: {
      tags: { type: "ARRAY", items: { type: "STRING" }, min_items: "1" },
      note: { type: "STRING", nullable: true },
      either: { anyOf: [{ type: "INTEGER" }, { type: "NUMBER" }] },
    },
    required: ["tags"],
    propertyOrdering: ["tags", "note"],
  };
  const request = read({
    contents: HELLO,
    tools: [{ functionDeclarations: [{ name: "f", parameters }] }],
  });
  const { written } = translateRequest(
    request,
    { caller: "gemini", provider: "messages" },
    {
      ...ORIGIN,
      maxOutputTokens: 100,
    },
  );
  expect(written.body["tools"]).toMatchObject([
    {
      name: "f",
      input_schema: {
        type: "object",
        properties: {
          tags: { type: "array", items: { type: "string" }, minItems: 1 },
          note: { type: ["string", "null"] },
          either: { anyOf: [{ type: "integer" }, { type: "number" }] },
        },
        required: ["tags"],
      },
    },
  ]);
});

describe("a reply that is sent back", () => {
  const blob = { wire: "messages", kind: "signature", data: "c2ln", origin: ORIGIN } as const;
  const signature = encodeBlob(blob, "gemini");
  const call = { functionCall: { id: "call_1", name: "f", args: { a: 1 } } };
  const answer = {
    role: "user",
    parts: [{ functionResponse: { id: "call_1", name: "f", response: { output: "rain" } } }],
  };

  test("as one content for each chunk is one turn", () => {
    const { turns } = read({
      contents: [
        ...HELLO,
        { role: "model", parts: [{ text: "Let me ", thought: true }] },
        { role: "model", parts: [{ text: "think.", thought: true }] },
        { role: "model", parts: [{ text: "", thought: true, thoughtSignature: signature }] },
        { role: "model", parts: [{ text: "I " }] },
        { role: "model", parts: [{ text: "ask." }] },
        { role: "model", parts: [call] },
        { role: "model", parts: [{ text: "" }] },
        answer,
      ],
    });
    expect(turns.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
    expect(turns[1]?.parts).toMatchObject([
      { type: "reasoning", text: "Let me think.", blob },
      { type: "text", text: "I ask." },
      { type: "tool_call", id: "call_1", arguments: '{"a":1}' },
    ]);
  });

  test("has hidden reasoning at the call that it led to", () => {
    const hidden = { ...blob, kind: "encrypted" as const };
    const finish = { reason: "tool_calls" } as const;
    const reply = {
      choices: [
        {
          parts: [
            { type: "reasoning", text: "", blob: hidden },
            { type: "tool_call", id: "call_1", name: "f", arguments: '{"a":1}' },
          ],
          finish,
        },
      ],
    } as const;
    const { body } = geminiWire.writeReply(reply, writeContext());
    expect(body["candidates"]).toMatchObject([
      { content: { parts: [{ ...call, thoughtSignature: encodeBlob(hidden, "gemini") }] } },
    ]);
    const [{ content }] = body["candidates"] as readonly [{ content: object }];
    const { turns } = read({ contents: [...HELLO, content, answer] });
    expect(turns[1]?.parts).toMatchObject(reply.choices[0].parts);
  });

  test("does not show thoughts to a caller that did not ask for them", () => {
    const reply = {
      choices: [
        {
          parts: [
            { type: "reasoning", text: "Secret.", blob },
            { type: "text", text: "Hi" },
          ],
          finish: { reason: "stop" },
        },
      ],
    } as const;
    const partsFor = (summary: "auto" | "none") =>
      (
        geminiWire.writeReply(reply, writeContext({ reasoning: { summary } })).body[
          "candidates"
        ] as readonly { content: { parts: object[] } }[]
      )[0]?.content.parts;
    expect(partsFor("none")).toEqual([{ text: "Hi" }]);
    expect(partsFor("auto")).toEqual([
      { text: "Secret.", thought: true, thoughtSignature: signature },
      { text: "Hi" },
    ]);
  });

  test("matches results without ids by name and order", () => {
    const { turns } = read({
      contents: [
        ...HELLO,
        {
          role: "model",
          parts: ["x", "y"].map((a) => ({ functionCall: { name: "f", args: { a } } })),
        },
        {
          role: "user",
          parts: ["one", "two"].map((output) => ({
            functionResponse: { id: "client-made", name: "f", response: { output } },
          })),
        },
      ],
    });
    const calls = turns[1]?.parts.map((part) => part.type === "tool_call" && part.id);
    expect(new Set(calls).size).toBe(2);
    expect(turns[2]?.parts).toMatchObject([
      { callId: calls?.[0], content: [{ text: "one" }] },
      { callId: calls?.[1], content: [{ text: "two" }] },
    ]);
  });

  test("ignores Google's text for a call without a signature", () => {
    const thoughtSignature = "skip_thought_signature_validator";
    const { turns } = read({
      contents: [...HELLO, { role: "model", parts: [{ ...call, thoughtSignature }] }, answer],
    });
    expect(turns[1]?.parts).toMatchObject([{ type: "tool_call" }]);
    expect(turns[1]?.parts[0]).not.toHaveProperty("signature");
  });

  test("with results that are not text is read as JSON, errors as errors, media as media", () => {
    const image = { inlineData: { mimeType: "image/png", data: "aGk=" } };
    const responses = [
      { response: { temperature: 4 } },
      { response: { error: "No such place." } },
      { response: { output: "See:" }, parts: [image] },
    ];
    const { turns } = read({
      contents: [
        ...HELLO,
        { role: "model", parts: responses.map(() => ({ functionCall: { name: "f" } })) },
        {
          role: "user",
          parts: responses.map((one) => ({ functionResponse: { name: "f", ...one } })),
        },
      ],
    });
    expect(turns[2]?.parts).toMatchObject([
      { content: [{ text: '{"temperature":4}' }] },
      { content: [{ text: "No such place." }], isError: true },
      { content: [{ text: "See:" }, { type: "image" }] },
    ]);
  });
});

test("names the caller's own field in errors", () => {
  expect(problemOf({ contents: "Hello" }).path).toBe("contents");
  expect(problemOf({ contents: [{ role: "assistant", parts: [] }] }).path).toBe("contents[0].role");
  expect(problemOf({ contents: [{ parts: [{}] }] }).path).toBe("contents[0].parts[0]");
  expect(problemOf({ contents: HELLO, generationConfig: { temperature: 3 } }).path).toBe(
    "generationConfig.temperature",
  );
  expect(
    problemOf({
      contents: HELLO,
      generationConfig: { thinkingConfig: { thinkingLevel: "HUGE" } },
    }).path,
  ).toBe("generationConfig.thinkingConfig.thinkingLevel");
  const result = { functionResponse: { name: "f", response: {} } };
  expect(problemOf({ contents: [{ role: "user", parts: [result] }] }).path).toBe(
    "contents[0].parts[0].functionResponse",
  );
  expect(
    problemOf({ contents: HELLO, toolConfig: { functionCallingConfig: { mode: "SOME" } } }).path,
  ).toBe("toolConfig.functionCallingConfig.mode");
});

test("lists what other providers do not have by its path, and refuses what changes the reply", () => {
  const request = read({
    contents: HELLO,
    safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
    cachedContent: "cachedContents/1",
    generationConfig: { mediaResolution: "MEDIA_RESOLUTION_LOW", speechConfig: { a: 1 } },
  });
  const { written } = translateRequest(
    request,
    { caller: "gemini", provider: "chat" },
    { provider: "openai", model: "gpt-5.2" },
  );
  const byPath = Object.fromEntries(written.losses.map((loss) => [loss.path, loss.hint === true]));
  expect(byPath).toEqual({
    safetySettings: true,
    cachedContent: false,
    "generationConfig.mediaResolution": true,
    "generationConfig.speechConfig": false,
  });
});

describe("tools that Google runs", () => {
  const request = read({
    contents: HELLO,
    tools: [{ googleSearch: {} }, { codeExecution: {} }],
  });

  test("are those of other providers", () => {
    const { written } = translateRequest(
      request,
      { caller: "gemini", provider: "messages" },
      { ...ORIGIN, maxOutputTokens: 100 },
    );
    expect(written.body["tools"]).toMatchObject([
      { type: "web_search_20250305" },
      { type: "code_execution_20250825" },
    ]);
    expect(written.losses).toEqual([]);
  });

  test("are part of the reply as Google's are", () => {
    const translated = translateRequest(
      request,
      { caller: "gemini", provider: "messages" },
      { ...ORIGIN, maxOutputTokens: 100 },
    );
    const use = (id: string, name: string, input: object) => ({
      type: "server_tool_use",
      id,
      name,
      input,
    });
    const reply = translated.readReply(
      {
        content: [
          use("s1", "web_search", { query: "weather" }),
          {
            type: "web_search_tool_result",
            tool_use_id: "s1",
            content: [{ type: "web_search_result", url: "https://a.example/", title: "A" }],
          },
          use("s2", "code_execution", { code: "print(1)" }),
          {
            type: "code_execution_tool_result",
            tool_use_id: "s2",
            content: { type: "code_execution_result", stdout: "1", return_code: 0 },
          },
          { type: "text", text: "Done." },
        ],
        stop_reason: "end_turn",
      },
      "r1",
    );
    const { body, losses } = geminiWire.writeReply(reply, writeContext());
    expect(losses).toEqual([]);
    expect(body["candidates"]).toMatchObject([
      {
        content: {
          parts: [
            { executableCode: { code: "print(1)" } },
            { codeExecutionResult: { outcome: "OUTCOME_OK", output: "1" } },
            { text: "Done." },
          ],
        },
        finishReason: "STOP",
        groundingMetadata: {
          webSearchQueries: ["weather"],
          groundingChunks: [{ web: { uri: "https://a.example/", title: "A" } }],
        },
      },
    ]);
  });
});

test("cites sources by the bytes of the text", () => {
  const position = { choice: 0, part: 0 };
  const text = writeEvents(
    geminiWire,
    [
      { type: "part_start", ...position, head: { type: "text" } },
      { type: "delta", ...position, text: "Ünï is cold." },
      {
        type: "citation",
        ...position,
        citation: { url: "https://a.example/", title: "A", start: 0, end: 3 },
      },
      { type: "part_end", ...position },
      { type: "finish", choice: 0, finish: { reason: "stop" } },
    ],
    writeContext(),
  );
  expect(JSON.parse(sseEvents(text).at(-1)?.data ?? "")).toMatchObject({
    candidates: [
      {
        groundingMetadata: {
          groundingChunks: [{ web: { uri: "https://a.example/", title: "A" } }],
          groundingSupports: [
            {
              segment: { startIndex: 0, endIndex: 5, text: "Ünï" },
              groundingChunkIndices: [0],
            },
          ],
        },
      },
    ],
  });
});
