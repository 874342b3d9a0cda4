// Media in requests: the hold covers the most tokens that they can count for, and a call that the client aborted is charged
// for typical tokens, never for the encoded bytes.

import { afterEach, describe, expect, test } from "bun:test";
import { inputBound, audioSecondsBound } from "../../../src/inference/metering/input-bound.ts";
import { toolBounds } from "../../../src/inference/request/tool-bounds.ts";
import {
  type TestAccount,
  type Gateway,
  type GatewayOptions,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import {
  grantCredits,
  type Json,
  postCall,
  usageRecordsOf,
  waitUntil,
  USD,
  readWallet,
} from "../support/harness.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";
import { openSocketClient } from "../support/socket-client.ts";

let gateway: Gateway | undefined;
let provider: RawProvider | undefined;

async function open(
  prefix: string,
  reply: RawReply,
  timeouts?: GatewayOptions["timeouts"],
): Promise<[Gateway, TestAccount]> {
  provider = await startRawProvider(() => reply);
  const env = {
    [`${prefix}_BASE_URL`]: provider.url,
    [`${prefix}_API_KEY`]: "test-key-0123456789",
  };
  gateway = await startGateway({ providers: [], env, ...(timeouts && { timeouts }) });
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
  return [gateway, account];
}

afterEach(async () => {
  await gateway?.stop();
  await provider?.stop();
  gateway = provider = undefined;
});

async function spent({ server }: Gateway, { id }: TestAccount): Promise<bigint> {
  const { promo, paid } = await readWallet(server.db, id);
  return 100n * USD + 50_000_000n - promo - paid;
}

const user = (...content: Json[]): Json[] => [{ role: "user", content }];
const replyWithUsage = (prompt_tokens: number): RawReply => ({
  body: JSON.stringify({
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" }],
    usage: { prompt_tokens, completion_tokens: 1 },
  }),
});

test("charges an image as one, regardless of its size, if the usage of an abandoned call never comes", async () => {
  const chunk = (content: string): string =>
    `data: ${JSON.stringify({ object: "chat.completion.chunk", model: "gpt-4.1", choices: [{ index: 0, delta: { content } }] })}\n\n`;
  const [first, last] = [chunk("It is "), chunk("42.")];
  const [target, account] = await open(
    "OPENAI",
    {
      headers: { "content-type": "text/event-stream" },
      body: first + last,
      cuts: [first.length],
      ending: "silence",
    },
    { drainMs: 2_000 },
  );
  const url = `data:image/png;base64,${"A".repeat(1_000_000)}`;
  const client = openSocketClient(target, account, "chat", {
    model: "openai/gpt-4.1",
    stream: true,
    max_tokens: 1_000,
    messages: user({ type: "image_url", image_url: { url } }),
  });
  await client.waitForText("42.");
  client.disconnect();
  const [record] = await waitUntil(
    () => usageRecordsOf(target.server.db, account.id),
    (records) => records.length === 1,
  );
  expect(record).toMatchObject({ outcome: "client_aborted", exact: 0 });
  expect(await spent(target, account)).toBeGreaterThan(1_000n * 2_000n);
  expect(await spent(target, account)).toBeLessThan(2_000n * 2_000n);
});

test.each([
  [
    "a document URL",
    { prefix: "MISTRAL", model: "mistral/mistral-large-latest", tokens: 100_000, unitPrice: 500n },
    { type: "document_url", document_url: "https://x.test/a.pdf" },
  ],
  [
    "a file URL",
    { prefix: "PERPLEXITY", model: "perplexity/sonar-pro", tokens: 100_000, unitPrice: 3_000n },
    { type: "file_url", file_url: { url: "https://x.test/a.pdf" } },
  ],
  [
    "an image to an OpenAI model at OpenRouter",
    {
      prefix: "OPENROUTER",
      model: "openrouter/openai/gpt-4o-mini",
      tokens: 48_200,
      unitPrice: 150n,
    },
    { type: "image_url", image_url: { url: "https://x.test/a.png" } },
  ],
] as const)("charges %s as reported", async (_, { prefix, model, tokens, unitPrice }, part) => {
  const [target, account] = await open(prefix, replyWithUsage(tokens));
  const response = await postCall(target, account, "chat", {
    model,
    max_tokens: 10,
    messages: user(part),
  });
  expect(response.status).toBe(200);
  expect(await spent(target, account)).toBeGreaterThanOrEqual(BigInt(tokens) * unitPrice);
  expect((await usageRecordsOf(target.server.db, account.id))[0]).toMatchObject({ exact: 1 });
});

test("holds and charges audio by the second if the model does", async () => {
  const usage = {
    prompt_audio_seconds: 60,
    prompt_tokens: 9,
    completion_tokens: 1,
    total_tokens: 760,
    prompt_tokens_details: { audio_tokens: 750 },
  };
  const reply = JSON.stringify({ ...JSON.parse(String(replyWithUsage(9).body)), usage });
  const [target, account] = await open("MISTRAL", { body: reply });
  const body = {
    model: "mistral/voxtral-small-latest",
    max_tokens: 10,
    messages: user({ type: "input_audio", input_audio: "https://x.test/a.mp3" }),
  };
  expect((await postCall(target, account, "chat", body)).status).toBe(200);
  // 60 seconds at $0.004 per minute, 9 input tokens at $0.10 and 1 output token at $0.40 per million.
  expect(await spent(target, account)).toBe(4_001_301n);
  const poor = await registerAccount(target);
  const rejected = await postCall(target, poor, "chat", body);
  expect(rejected.status).toBe(402);
  // The hold covers as much audio as fits the context, which costs more than the balance of $0.05.
  expect(await rejected.json()).toMatchObject({
    error: { required_credits: expect.any(Number), affordable_max_tokens: 0 },
  });
});

describe("input bound", () => {
  const CONTEXT = 1_000_000;
  const IMAGE = 5_000;
  const bound = (...parts: Json[]): number => {
    const json = { messages: user(...parts) };
    return inputBound(JSON.stringify(json), json, {
      imageTokensMax: IMAGE,
      contextTokens: CONTEXT,
    });
  };
  const base64 = (bytes: Buffer): string => bytes.toString("base64");
  const wav = (rate: number, format = 1): string => {
    const head = Buffer.alloc(44);
    head.write("RIFF", 0);
    head.write("WAVEfmt ", 8);
    head.writeUInt16LE(format, 20);
    head.writeUInt32LE(rate, 24);
    head.writeUInt16LE(2, 32);
    return base64(Buffer.concat([head, Buffer.alloc(32_000)]));
  };
  const audio = (data: string, format: string): Json => ({
    type: "input_audio",
    input_audio: { data, format },
  });

  test("counts MP3 and plain WAV by their bytes, and other audio as the whole context", () => {
    const mp3 = base64(Buffer.concat([Buffer.from("ID3"), Buffer.alloc(30_000)]));
    const bare = base64(Buffer.concat([Buffer.from([0xff, 0xfb]), Buffer.alloc(30_000)]));
    for (const bounded of [audio(wav(16_000), "wav"), audio(mp3, "mp3"), audio(bare, "mp3")])
      expect(bound(bounded)).toBeLessThan(3_000);
    const silence = base64(Buffer.concat([Buffer.from("fLaC"), Buffer.alloc(3_000)]));
    for (const unbounded of [
      audio(silence, "flac"),
      audio(silence, "wav"),
      audio(wav(1), "wav"),
      audio(wav(16_000, 85), "wav"),
      { type: "input_audio", input_audio: "https://x.test/a.mp3" },
      { type: "audio_url", audio_url: { url: "https://x.test/a.mp3" } },
    ])
      expect(bound(unbounded)).toBe(CONTEXT);
    const seconds = (part: Json): number => audioSecondsBound({ messages: user(part) }, CONTEXT);
    expect(seconds(audio(mp3, "mp3"))).toBe(Math.ceil(mp3.length / 1_333));
    expect(seconds(audio(silence, "flac"))).toBe(CONTEXT / 10);
  });

  test("bounds generated images by image, and adds nothing for the standard reasoning mode", () => {
    const image_generation = { tools: [{ type: "image_generation", quality: "low" }] };
    const image = { toolTokens: 4_000, tokensPerToolCall: 4_000 };
    expect(toolBounds(image_generation)).toMatchObject({ ...image, toolCalls: 10 });
    const limited = toolBounds({ ...image_generation, max_tool_calls: 1 });
    expect(limited).toMatchObject({ ...image, toolCalls: 1, openToolLimit: undefined });
    expect(toolBounds({ reasoning: { mode: "standard" } }).toolCalls).toBe(0);
    expect(toolBounds({ reasoning: { mode: "pro" } })).toMatchObject({
      toolCalls: 1,
      tokensPerToolCall: undefined,
      openToolLimit: undefined,
    });
  });

  test("counts an image as an image, unless the URL is a document or video", () => {
    const image = (url: string): Json => ({ type: "image_url", image_url: { url } });
    const bytes = "A".repeat(2_000);
    for (const imageUrl of [
      "https://x.test/a.png",
      "https://x.test/pdf",
      `data:image/png;base64,${bytes}`,
    ])
      expect(bound(image(imageUrl))).toBeLessThan(IMAGE + 500);
    for (const otherUrl of [
      "https://x.test/a.mp4?t=1",
      "https://www.youtube.com/watch?v=abc",
      "https://youtu.be/abc",
      `data:application/pdf;base64,${bytes}`,
      `data:video/mp4;base64,${bytes}`,
    ])
      expect(bound(image(otherUrl))).toBe(CONTEXT);
    const screen = { type: "computer_screenshot", image_url: "https://x.test/a.png" };
    const json = { input: [{ type: "computer_call_output", output: screen }] };
    const bounds = { imageTokensMax: IMAGE, contextTokens: CONTEXT };
    expect(inputBound(JSON.stringify(json), json, bounds)).toBeGreaterThan(IMAGE);
  });

  test("counts an inline text document as text", () => {
    const document = (source: Json): Json => ({ type: "document", source });
    const data = "word ".repeat(1_000);
    expect(bound(document({ type: "text", media_type: "text/plain", data }))).toBeLessThan(6_000);
    const picture = { type: "image", source: { type: "url", url: "https://x.test/a.png" } };
    const parts = { type: "content", content: [{ type: "text", text: data }, picture] };
    expect(bound(document(parts))).toBeLessThan(IMAGE + 6_000);
    expect(bound(document(parts))).toBeGreaterThan(IMAGE + 5_000);
    expect(bound(document({ type: "url", url: "https://x.test/a.pdf" }))).toBe(CONTEXT);
  });

  test("does not subtract the bytes of a nested source from the text", () => {
    const words = "some words ".repeat(20_000);
    const inner = { type: "image", data: "A".repeat(100_000) };
    const image = { type: "image", source: inner };
    expect(bound({ type: "text", text: words }, image)).toBeGreaterThan(words.length);
  });
});
