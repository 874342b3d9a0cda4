// A prompt beyond the model's context, or that of the `context` directive, is refused in the words of each provider.

import { expect, test } from "bun:test";
import { createClient, json } from "../simulator-harness.ts";

const send = createClient();
const LONG = `${"word ".repeat(400)} [[sim: context=200]]`;
const SHORT = "Hello [[sim: context=200]]";

type Body = Readonly<Record<string, unknown>>;

const WIRES: readonly (readonly [
  wire: string,
  path: string,
  bodyOf: (text: string, maxTokens: number) => Body,
  message: string,
])[] = [
  [
    "chat",
    "/v1/chat/completions",
    (content, max_tokens) => ({
      model: "sim/echo",
      max_tokens,
      messages: [{ role: "user", content }],
    }),
    "maximum context length is 200 tokens",
  ],
  [
    "responses",
    "/v1/responses",
    (input, max_output_tokens) => ({ model: "sim/echo", input, max_output_tokens }),
    "exceeds the context window",
  ],
  [
    "messages",
    "/v1/messages",
    (content, max_tokens) => ({
      model: "sim/echo",
      max_tokens,
      messages: [{ role: "user", content }],
    }),
    "tokens > 200 maximum",
  ],
  [
    "gemini",
    "/v1beta/models/echo:generateContent",
    (text, maxOutputTokens) => ({
      contents: [{ role: "user", parts: [{ text }] }],
      generationConfig: { maxOutputTokens },
    }),
    "exceeds the maximum number of tokens allowed (200)",
  ],
  [
    "converse",
    "/model/sim%2Fecho/converse",
    (text, maxTokens) => ({
      messages: [{ role: "user", content: [{ text }] }],
      inferenceConfig: { maxTokens },
    }),
    "Input is too long for requested model",
  ],
];

test.each(WIRES)("%s refuses a prompt beyond the context", async (_wire, path, bodyOf, message) => {
  const refused = await send(path, bodyOf(LONG, 16));
  expect(refused.status).toBe(400);
  expect(JSON.stringify(await json(refused))).toContain(message);
  expect((await send(path, bodyOf(SHORT, 16))).status).toBe(200);
});

test.each(WIRES)("%s counts the output limit as its provider does", async (wire, path, bodyOf) => {
  const { status } = await send(path, bodyOf(SHORT, 300));
  expect(status).toBe(wire === "chat" || wire === "messages" ? 400 : 200);
});

test("OpenAI's APIs name the error code", async () => {
  for (const [, path, bodyOf] of WIRES.slice(0, 2))
    expect(await json(send(path, bodyOf(LONG, 16)))).toMatchObject({
      error: { code: "context_length_exceeded" },
    });
});

test.each(WIRES)(
  "%s refuses a prompt beyond the context of the model",
  async (wire, path, bodyOf) => {
    const model = (tokens: number) => bodyOf("word".repeat(tokens), 16);
    const onTiny = (body: Body): Body => ("model" in body ? { ...body, model: "sim/tiny" } : body);
    const tinyPath = path.replace("echo", "tiny");
    expect((await send(tinyPath, onTiny(model(2_040)))).status).toBe(
      wire === "chat" || wire === "messages" ? 400 : 200,
    );
    expect((await send(tinyPath, onTiny(model(1_000)))).status).toBe(200);
    const refused = await send(tinyPath, onTiny(model(2_049)));
    expect(refused.status).toBe(400);
    expect(JSON.stringify(await json(refused))).toMatch(/2048|context window|too long/);
  },
);
