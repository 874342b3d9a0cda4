// Log probabilities of tokens, read with the official clients of OpenAI and Google.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { type SimulatorServer, serveSimulator } from "../simulator-harness.ts";

const TEXT = "You said: Hello there";
let simulator: SimulatorServer;
let openai: OpenAI;
let google: GoogleGenAI;

beforeAll(() => {
  simulator = serveSimulator();
  openai = new OpenAI({ apiKey: "k", baseURL: `${simulator.url}/v1`, maxRetries: 0 });
  google = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: simulator.url } });
});
afterAll(() => simulator.stop());

const responsesRequest = {
  model: "sim/echo",
  input: "Hello there",
  include: ["message.output_text.logprobs" as const],
  top_logprobs: 2,
};

test("Responses returns logprobs of the text if they are included", async () => {
  const { output } = await openai.responses.create(responsesRequest);
  const [part] = output.flatMap((item) => (item.type === "message" ? item.content : []));
  const logprobs = part?.type === "output_text" ? (part.logprobs ?? []) : [];
  expect(logprobs.map(({ token }) => token).join("")).toBe(TEXT);
  expect(logprobs.every(({ top_logprobs }) => top_logprobs.length === 2)).toBe(true);
  const { include: _include, ...without } = responsesRequest;
  const plain = await openai.responses.create(without);
  expect(JSON.stringify(plain.output)).toContain('"logprobs":[]');
});

test("Responses streams logprobs with each delta and all at the end", async () => {
  const deltas: string[] = [];
  let done = "";
  for await (const event of await openai.responses.create({ ...responsesRequest, stream: true })) {
    if (event.type === "response.output_text.delta")
      deltas.push(...event.logprobs.map(({ token }) => token));
    if (event.type === "response.output_text.done")
      done = event.logprobs.map(({ token }) => token).join("");
  }
  expect(deltas.join("")).toBe(TEXT);
  expect(done).toBe(TEXT);
});

test("Gemini returns and streams the chosen and the most likely tokens", async () => {
  const request = {
    model: "sim/echo",
    contents: "Hello there",
    config: { responseLogprobs: true, logprobs: 2 },
  };
  const [candidate] = (await google.models.generateContent(request)).candidates ?? [];
  const chosen = candidate?.logprobsResult?.chosenCandidates ?? [];
  expect(chosen.map(({ token }) => token).join("")).toBe(TEXT);
  expect(candidate?.logprobsResult?.topCandidates?.[0]?.candidates).toHaveLength(2);
  expect(candidate?.avgLogprobs).toBeLessThan(0);
  let streamed = "";
  for await (const chunk of await google.models.generateContentStream(request))
    for (const { token } of chunk.candidates?.[0]?.logprobsResult?.chosenCandidates ?? [])
      streamed += token ?? "";
  expect(streamed).toBe(TEXT);
});
