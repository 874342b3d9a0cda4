// Google's SDK, unmodified: at Google's own wire, and at those of three other providers.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  ApiError,
  type Content,
  FunctionCallingConfigMode,
  type GenerateContentResponse,
  GoogleGenAI,
} from "@google/genai";
import { expectSettledLedger, lastSimulatorRequest } from "../inference/support/harness.ts";
import { startRawProvider } from "../inference/support/raw-provider.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import {
  caughtError,
  expectNoOpenStreams,
  type SdkHarness,
  startSdkHarness,
  WEATHER_SCHEMA,
} from "./harness.ts";

let harness: SdkHarness;
let client: GoogleGenAI;

beforeAll(async () => {
  harness = await startSdkHarness(["sim", "openai", "anthropic", "google"]);
  client = clientFor(harness.account.key);
});
afterAll(async () => {
  await expectSettledLedger(harness.gateway.server.db);
  await harness.stop();
});

function clientFor(apiKey: string, apiVersion?: string): GoogleGenAI {
  return new GoogleGenAI({
    apiKey,
    ...(apiVersion === undefined ? {} : { apiVersion }),
    httpOptions: { baseUrl: harness.gateway.url, retryOptions: { attempts: 1 } },
  });
}

const tools = [
  { functionDeclarations: [{ name: "weather", parametersJsonSchema: WEATHER_SCHEMA }] },
];
const costOf = ({ usageMetadata }: GenerateContentResponse): number =>
  Number((usageMetadata as { readonly cost?: number } | undefined)?.cost);

async function collect(
  stream: AsyncGenerator<GenerateContentResponse>,
): Promise<readonly GenerateContentResponse[]> {
  const chunks: GenerateContentResponse[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

for (const model of [
  "google/gemini-2.5-flash",
  "sim/echo",
  "anthropic/claude-haiku-4-5",
  "openai/gpt-5.4-mini",
]) {
  describe(`the @google/genai package with ${model}`, () => {
    test("generates content with usage and cost", async () => {
      const reply = await client.models.generateContent({
        model,
        contents: "hello",
        config: { systemInstruction: "Be brief.", maxOutputTokens: 100 },
      });
      expect(reply.text).toContain("hello");
      expect(reply.candidates?.[0]?.finishReason).toBe("STOP" as never);
      expect(reply.modelVersion).toBe(model);
      expect(reply.usageMetadata?.candidatesTokenCount).toBeGreaterThan(0);
      expect(costOf(reply)).toBeGreaterThan(0);
    });

    test("streams content", async () => {
      const chunks = await collect(
        await client.models.generateContentStream({
          model,
          contents: "[[sim: tokens=30 chunks=10]] hello",
          config: { maxOutputTokens: 100 },
        }),
      );
      expect(chunks.filter(({ text }) => text !== undefined && text !== "").length).toBe(10);
      const last = chunks.at(-1);
      if (last === undefined) throw new Error("no chunks");
      expect(last.candidates?.[0]?.finishReason).toBe("STOP" as never);
      expect(last.usageMetadata?.candidatesTokenCount).toBe(30);
      expect(costOf(last)).toBeGreaterThan(0);
    });

    test("keeps a streamed reply in the history of a chat", async () => {
      const chat = client.chats.create({ model, config: { maxOutputTokens: 100 } });
      await collect(await chat.sendMessageStream({ message: "first" }));
      const { text } = await chat.sendMessage({ message: "second" });
      expect(text).toContain("second");
      const history = chat.getHistory();
      expect(history.some(({ role, parts = [] }) => role === "model" && parts.length === 0)).toBe(
        false,
      );
      // At Google's own wire, every chunk is sent back as it came.
      expect((await lastSimulatorRequest(harness.gateway)).body).toMatch(/You .*said.*: f.*irst/);
    });

    test("calls a function and continues with its result", async () => {
      const contents: Content[] = [{ role: "user", parts: [{ text: "use the weather tool" }] }];
      const config = {
        tools,
        maxOutputTokens: 300,
        toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } },
      };
      const chunks = await collect(
        await client.models.generateContentStream({ model, contents, config }),
      );
      const [call] = chunks.flatMap(({ functionCalls = [] }) => functionCalls);
      if (call?.name === undefined) throw new Error("no function call");
      expect(call.args).toMatchObject({ days: expect.any(Number) });
      const spoken = chunks.flatMap(({ candidates }) => candidates?.[0]?.content ?? []);
      const functionResponse = {
        id: call.id ?? "",
        name: call.name,
        response: { output: "sunny" },
      };
      const second = await client.models.generateContent({
        model,
        contents: [...contents, ...spoken, { role: "user", parts: [{ functionResponse }] }],
        config: { tools, maxOutputTokens: 300 },
      });
      expect(second.text).toContain("sunny");
    });

    test("counts tokens", async () => {
      const { totalTokens } = await client.models.countTokens({ model, contents: "hello there" });
      expect(totalTokens).toBeGreaterThan(0);
    });

    test("aborts a stream", async () => {
      const abort = new AbortController();
      const stream = await client.models.generateContentStream({
        model,
        contents: "[[sim: tokens=200 chunks=200 pace=20]] hello",
        config: { maxOutputTokens: 300, abortSignal: abort.signal },
      });
      const read = async () => {
        for await (const _chunk of stream) abort.abort();
      };
      expect(await caughtError(read())).toMatchObject({ name: "AbortError" });
      await expectNoOpenStreams(harness.gateway);
    });
  });
}

describe("the @google/genai package", () => {
  for (const version of [undefined, "v1beta", "v1alpha"])
    test(`lists models that it can call, in version ${version ?? "v1, its own"}`, async () => {
      const versioned = clientFor(harness.account.key, version);
      const names: string[] = [];
      for await (const { name, supportedActions } of await versioned.models.list({
        config: { pageSize: 40 },
      }))
        if (supportedActions?.includes("generateContent") === true) names.push(name ?? "");
      expect(names).toContain("models/google/gemini-2.5-flash");
      expect(names).toContain("models/sim/echo");
      expect(new Set(names).size).toBe(names.length);
      const [first = ""] = names;
      const { name } = await versioned.models.get({ model: first });
      expect(name).toBe(first);
      const model = "models/sim/echo";
      const { text } = await versioned.models.generateContent({ model, contents: "hi" });
      expect(text).toContain("hi");
    });

  test("creates embeddings", async () => {
    const { embeddings = [] } = await client.models.embedContent({
      model: "sim/embed",
      contents: ["one", "two"],
      config: { taskType: "RETRIEVAL_QUERY" },
    });
    expect(embeddings.length).toBe(2);
    expect(embeddings[0]?.values?.length).toBeGreaterThan(0);
  });

  test("creates an image, which costs its image tokens", async () => {
    const image = { inlineData: { mimeType: "image/png", data: "AAAA" } };
    const provider = await startRawProvider(() => ({
      body: JSON.stringify({
        candidates: [{ content: { role: "model", parts: [image] }, finishReason: "STOP" }],
        usageMetadata: {
          promptTokenCount: 10,
          candidatesTokenCount: 1_120,
          totalTokenCount: 1_130,
          candidatesTokensDetails: [{ modality: "IMAGE", tokenCount: 1_120 }],
        },
      }),
    }));
    const env = { GOOGLE_BASE_URL: provider.url, GOOGLE_API_KEY: "test-key-0123456789" };
    const gateway = await startGateway({ providers: [], env });
    const { key } = await registerAccount(gateway);
    const painter = new GoogleGenAI({
      apiKey: key,
      httpOptions: { baseUrl: gateway.url, retryOptions: { attempts: 1 } },
    });
    const reply = await painter.models.generateContent({
      model: "google/gemini-nano-banana-2.1",
      contents: "a lighthouse at night",
      config: { responseModalities: ["IMAGE"], imageConfig: { aspectRatio: "16:9" } },
    });
    expect(reply.candidates?.[0]?.content?.parts?.[0]).toMatchObject(image);
    expect(costOf(reply)).toBeCloseTo((10 * 1.5 + 1_120 * 30) / 1e6, 9);
    await gateway.stop();
    await provider.stop();
  });

  test("gets errors in Google's form", async () => {
    const generate = (model: string, apiKey = harness.account.key) =>
      caughtError(
        clientFor(apiKey).models.generateContent({
          model,
          contents: "hi",
          config: { maxOutputTokens: 16_000, candidateCount: 100 },
        }),
      );
    const errors = [
      [await generate("sim/no-such-model"), 404, "NOT_FOUND", "MODEL_NOT_FOUND"],
      [await generate("sim/echo", "wrong"), 401, "UNAUTHENTICATED", "INVALID_API_KEY"],
      [
        await generate("sim/echo", harness.unfundedAccount.key),
        402,
        "FAILED_PRECONDITION",
        "INSUFFICIENT_CREDITS",
      ],
    ] as const;
    for (const [error, code, status, reason] of errors) {
      if (!(error instanceof ApiError)) throw new Error(`no API error but ${String(error)}`);
      expect(error.status).toBe(code);
      expect(JSON.parse(error.message)).toMatchObject({
        error: { code, status, details: [{ reason }], next: expect.any(Array) },
      });
    }
  });

  test("gets an error within a stream", async () => {
    const stream = await client.models.generateContentStream({
      model: "sim/echo",
      contents: "[[sim: fail=3 tokens=20 chunks=10]] hello",
    });
    expect(await caughtError(collect(stream))).toBeInstanceOf(Error);
  });
});
