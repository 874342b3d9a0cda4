import { afterAll, beforeAll, expect, test } from "bun:test";
import OpenAI from "openai";
import { createClient, json, serveSimulator, type SimulatorServer } from "../simulator-harness.ts";

let simulator: SimulatorServer;
let client: OpenAI;
beforeAll(() => {
  simulator = serveSimulator();
  client = new OpenAI({ apiKey: "k", baseURL: `${simulator.url}/v1`, maxRetries: 0 });
});
afterAll(() => simulator.stop());

test("returns the same unit vectors as floats and base64", async () => {
  const floats = await client.embeddings.create({
    model: "sim/embed",
    input: ["one", "two"],
    encoding_format: "float",
  });
  // By default the SDK requests base64 and decodes it.
  const packed = await client.embeddings.create({ model: "sim/embed", input: ["one", "two"] });
  expect(floats.data.map((entry) => entry.index)).toEqual([0, 1]);
  const [first, second] = floats.data.map((entry) => entry.embedding);
  expect(first).toHaveLength(1_536);
  expect(first).not.toEqual(second ?? []);
  expect(packed.data[0]?.embedding).toEqual(first ?? []);
  expect(first?.reduce((sum, value) => sum + value * value, 0)).toBeCloseTo(1, 5);
  expect(floats.usage).toEqual({ prompt_tokens: 2, total_tokens: 2 });
});

test("accepts dimensions and token arrays", async () => {
  const reply = await client.embeddings.create({
    model: "sim/embed",
    input: [[1, 2, 3], [4]],
    dimensions: 8,
    encoding_format: "float",
  });
  expect(reply.data.map((entry) => entry.embedding.length)).toEqual([8, 8]);
  expect(reply.usage.total_tokens).toBe(4);
});

test("rejects invalid input and applies directives", async () => {
  const send = createClient();
  for (const body of [
    { model: "sim/embed" },
    { model: "sim/embed", input: "" },
    { model: "sim/embed", input: [] },
    { input: "x" },
    { model: "sim/embed", input: "x", dimensions: 0 },
    { model: "sim/embed", input: "x", encoding_format: "hex" },
  ]) {
    expect((await send("/v1/embeddings", body)).status).toBe(400);
  }
  expect((await send("/v1/embeddings", { model: "nope", input: "x" })).status).toBe(404);
  expect(
    (await send("/v1/embeddings", { model: "sim/embed", input: "x [[sim: status=503]]" })).status,
  ).toBe(503);
});

test("serves Gemini's embedContent and batchEmbedContents", async () => {
  const send = createClient();
  const content = { parts: [{ text: "hello" }] };
  const one = await json(
    send("/v1beta/models/embed:embedContent", { content, outputDimensionality: 4 }),
  );
  expect(one.embedding.values).toHaveLength(4);
  const many = await json(
    send("/v1beta/models/embed:batchEmbedContents", {
      requests: [{ content, outputDimensionality: 4 }, { content }],
    }),
  );
  expect(many.embeddings[0]).toEqual(one.embedding);
  expect(many.embeddings[1].values).toHaveLength(1_536);
});
