import { describe, expect, test } from "bun:test";
import { createClient, eventData, json } from "../simulator-harness.ts";

const send = createClient();
const path = (verb: string, model = "sim/echo") => `/v1beta/models/${model}:${verb}`;
const body = (text: string, more: Record<string, unknown> = {}) => ({
  contents: [{ role: "user", parts: [{ text }] }],
  ...more,
});
const tools = [
  {
    functionDeclarations: [
      {
        name: "get_weather",
        parameters: {
          type: "OBJECT",
          properties: { city: { type: "STRING" } },
          required: ["city"],
        },
      },
    ],
  },
];

test("generateContent returns text, finish reason and usage", async () => {
  expect(await json(send(path("generateContent"), body("Hello there")))).toEqual({
    candidates: [
      {
        content: { parts: [{ text: "You said: Hello there" }], role: "model" },
        finishReason: "STOP",
        index: 0,
      },
    ],
    usageMetadata: {
      promptTokenCount: 3,
      candidatesTokenCount: 6,
      totalTokenCount: 9,
      promptTokensDetails: [{ modality: "TEXT", tokenCount: 3 }],
      serviceTier: "standard",
    },
    modelVersion: "sim/echo",
    responseId: expect.any(String),
  });
});

test("streams events with CRLF line endings and usage in every chunk", async () => {
  const response = await send(`${path("streamGenerateContent")}?alt=sse`, body("Hello there"));
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  const text = await response.text();
  expect(text.replaceAll("\r\n", "")).not.toContain("\n");
  const chunks = eventData(text);
  expect(chunks.map((chunk) => chunk.candidates[0].content.parts[0].text).join("")).toBe(
    "You said: Hello there",
  );
  expect(chunks.every((chunk) => chunk.usageMetadata.promptTokenCount === 3)).toBe(true);
  expect(chunks.at(-1)).toMatchObject({
    candidates: [{ finishReason: "STOP" }],
    usageMetadata: { candidatesTokenCount: 6, totalTokenCount: 9 },
  });
  expect(chunks.slice(0, -1).some((chunk) => "finishReason" in chunk.candidates[0])).toBe(false);
});

test("streams a JSON array without alt=sse", async () => {
  const response = await send(path("streamGenerateContent"), body("Hello there"));
  expect(response.headers.get("content-type")).toBe("application/json");
  const chunks = await json(response);
  expect(chunks.at(-1).candidates[0].finishReason).toBe("STOP");
});

describe("function calling", () => {
  test("calls a function with a signature and replies to its result", async () => {
    const first = await json(
      send(path("generateContent", "sim/reason"), body("call get_weather", { tools })),
    );
    const [part] = first.candidates[0].content.parts;
    expect(part.functionCall).toMatchObject({
      name: "get_weather",
      args: { city: "example city" },
    });
    expect(part.thoughtSignature).toHaveLength(160);
    expect(first.candidates[0].finishReason).toBe("STOP");
    const contents = [
      ...body("call get_weather").contents,
      first.candidates[0].content,
      {
        role: "user",
        parts: [{ functionResponse: { name: "get_weather", response: { degrees: 17 } } }],
      },
    ];
    const second = await json(send(path("generateContent"), { contents, tools }));
    expect(second.candidates[0].content.parts[0].text).toBe('The tool answered: {"degrees":17}');
  });

  test("follows the function calling mode", async () => {
    const calls = async (config: Record<string, unknown>) =>
      (
        await json(
          send(
            path("generateContent"),
            body("hi", { tools, toolConfig: { functionCallingConfig: config } }),
          ),
        )
      ).candidates[0].content.parts.filter((part: object) => "functionCall" in part).length;
    expect(await calls({ mode: "ANY" })).toBe(1);
    expect(await calls({ mode: "ANY", allowedFunctionNames: ["get_weather"] })).toBe(1);
    expect(await calls({ mode: "AUTO" })).toBe(0);
    expect(await calls({ mode: "NONE" })).toBe(0);
  });
});

test("signs a streamed text in an empty part after it", async () => {
  const response = await send(`${path("streamGenerateContent", "sim/reason")}?alt=sse`, body("Hi"));
  const chunks = eventData(await response.text());
  const [last] = chunks.at(-1).candidates[0].content.parts;
  expect(last).toEqual({ text: "", thoughtSignature: expect.any(String) });
});

test("counts thoughts separately and returns them on request", async () => {
  const thinkingConfig = { thinkingBudget: 20, includeThoughts: true };
  const reply = await json(
    send(path("generateContent"), body("hi", { generationConfig: { thinkingConfig } })),
  );
  expect(reply.candidates[0].content.parts[0]).toMatchObject({ thought: true });
  expect(reply.usageMetadata).toMatchObject({
    promptTokenCount: 1,
    candidatesTokenCount: 3,
    thoughtsTokenCount: 20,
    totalTokenCount: 24,
  });
  const hidden = await json(
    send(
      path("generateContent"),
      body("hi", { generationConfig: { thinkingConfig: { thinkingLevel: "HIGH" } } }),
    ),
  );
  expect(hidden.candidates[0].content.parts).toHaveLength(1);
  expect(hidden.usageMetadata.thoughtsTokenCount).toBe(64);
});

test("applies limit, stop sequences, candidates, structured output and media", async () => {
  const generate = async (text: string, generationConfig: Record<string, unknown>) =>
    json(send(path("generateContent"), body(text, { generationConfig })));
  expect((await generate("Hello there", { maxOutputTokens: 2 })).candidates[0]).toMatchObject({
    content: { parts: [{ text: "You said" }] },
    finishReason: "MAX_TOKENS",
  });
  expect(
    (await generate("a STOP b", { stopSequences: ["STOP"] })).candidates[0].content.parts[0].text,
  ).toBe("You said: a ");
  expect(
    (await generate("hi", { candidateCount: 2 })).candidates.map(
      (entry: { index: number }) => entry.index,
    ),
  ).toEqual([0, 1]);
  const schema = {
    type: "OBJECT",
    properties: { n: { type: "INTEGER", minimum: 5 } },
    required: ["n"],
  };
  expect(
    JSON.parse(
      (await generate("x", { responseMimeType: "application/json", responseSchema: schema }))
        .candidates[0].content.parts[0].text,
    ),
  ).toEqual({ n: 5 });
  const parts = [
    { text: "Look" },
    { inlineData: { mimeType: "image/png", data: "AA" } },
    { inlineData: { mimeType: "audio/wav", data: "AA" } },
    { fileData: { mimeType: "application/pdf", fileUri: "u" } },
  ];
  const seen = await json(send(path("generateContent"), { contents: [{ role: "user", parts }] }));
  expect(seen.candidates[0].content.parts[0].text).toBe(
    "You said: Look (with 1 image, 1 audio clip, 1 file)",
  );
  expect(seen.usageMetadata.promptTokensDetails).toContainEqual({
    modality: "AUDIO",
    tokenCount: 128,
  });
});

test("returns no candidates for a refusal", async () => {
  expect(await json(send(path("generateContent"), body("x [[sim: refusal]]")))).toMatchObject({
    promptFeedback: { blockReason: "SAFETY" },
  });
  const chunks = eventData(
    await (
      await send(`${path("streamGenerateContent")}?alt=sse`, body("x [[sim: refusal]]"))
    ).text(),
  );
  expect(chunks).toHaveLength(1);
});

test("counts tokens and lists models", async () => {
  expect(await json(send(path("countTokens"), body("12345")))).toMatchObject({ totalTokens: 2 });
  expect((await json(send("/v1beta/models", undefined))).models[0].name).toBe("models/sim/echo");
  expect((await json(send("/v1beta/models/echo", undefined))).name).toBe("models/echo");
});

test("returns Google's errors", async () => {
  const error = async (response: Promise<Response>) => (await json(response)).error;
  expect(await error(send(path("generateContent", "nope"), body("x")))).toMatchObject({
    code: 404,
    status: "NOT_FOUND",
  });
  expect(await error(send(path("generateContent"), {}))).toMatchObject({
    code: 400,
    status: "INVALID_ARGUMENT",
  });
  expect(
    await error(
      send(path("generateContent"), { contents: [{ role: "robot", parts: [{ text: "x" }] }] }),
    ),
  ).toMatchObject({ message: "Please use a valid role: user, model." });
  expect(await error(send(path("generateContent"), body("[[sim: status=429]]")))).toMatchObject({
    code: 429,
    status: "RESOURCE_EXHAUSTED",
  });
  const locked = createClient({ requireKey: "right" });
  expect(await error(locked(path("generateContent"), body("x")))).toMatchObject({
    code: 403,
    status: "PERMISSION_DENIED",
  });
  expect(
    await error(locked(path("generateContent"), body("x"), { "x-goog-api-key": "wrong" })),
  ).toMatchObject({ code: 400, details: [{ reason: "API_KEY_INVALID" }] });
  expect((await locked(`${path("generateContent")}?key=right`, body("x"))).status).toBe(200);
});
