// What a request carries beside its text is held at the most that it can count for, and where its reader leaves it is charged
// as what it is: never by the bytes that it takes to send it.

import { afterEach, describe, expect, test } from "bun:test";
import { inputBound, audioSecondsBound } from "../../../src/inference/metering/input-bound.ts";
import { maxToolTokens } from "../../../src/inference/request/tool-bounds.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { openSocketClient } from "../support/socket-client.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";
import {
  grantCredits,
  type Json,
  postCall,
  usageRecordsOf,
  waitUntil,
  USD,
  readWallet,
} from "../support/harness.ts";

let gateway: Gateway | undefined;
let provider: RawProvider | undefined;

async function open(stem: string, reply: RawReply): Promise<[Gateway, TestAccount]> {
  provider = await startRawProvider(() => reply);
  const env = { [`${stem}_BASE_URL`]: provider.url, [`${stem}_API_KEY`]: "test-key-0123456789" };
  gateway = await startGateway({ providers: [], env });
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
const counted = (prompt_tokens: number): RawReply => ({
  body: JSON.stringify({
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" }],
    usage: { prompt_tokens, completion_tokens: 1 },
  }),
});

test("who leaves before the provider has counted pays for an image as one, however many bytes it has", async () => {
  const chunk = (content: string): string =>
    `data: ${JSON.stringify({ object: "chat.completion.chunk", model: "gpt-4.1", choices: [{ index: 0, delta: { content } }] })}\n\n`;
  const [first, last] = [chunk("It is "), chunk("42.")];
  const [target, account] = await open("OPENAI", {
    headers: { "content-type": "text/event-stream" },
    body: first + last,
    cuts: [first.length],
    pauseMs: 60,
    ending: "silence",
  });
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
    "a document by its address",
    { stem: "MISTRAL", model: "mistral/mistral-large-latest", tokens: 100_000, each: 500n },
    { type: "document_url", document_url: "https://x.test/a.pdf" },
  ],
  [
    "a file by its address",
    { stem: "PERPLEXITY", model: "perplexity/sonar-pro", tokens: 100_000, each: 3_000n },
    { type: "file_url", file_url: { url: "https://x.test/a.pdf" } },
  ],
  [
    "an image of a model that OpenRouter sells for OpenAI",
    { stem: "OPENROUTER", model: "openrouter/openai/gpt-4o-mini", tokens: 48_200, each: 150n },
    { type: "image_url", image_url: { url: "https://x.test/a.png" } },
  ],
] as const)("%s is charged as it is counted", async (_, { stem, model, tokens, each }, part) => {
  const [target, account] = await open(stem, counted(tokens));
  const answer = await postCall(target, account, "chat", {
    model,
    max_tokens: 10,
    messages: user(part),
  });
  expect(answer.status).toBe(200);
  expect(await spent(target, account)).toBeGreaterThanOrEqual(BigInt(tokens) * each);
  expect((await usageRecordsOf(target.server.db, account.id))[0]).toMatchObject({ exact: 1 });
});

test("sound that is sold by the second is held and charged by the second", async () => {
  const usage = {
    prompt_audio_seconds: 60,
    prompt_tokens: 9,
    completion_tokens: 1,
    total_tokens: 760,
    prompt_tokens_details: { audio_tokens: 750 },
  };
  const reply = JSON.stringify({ ...JSON.parse(String(counted(9).body)), usage });
  const [target, account] = await open("MISTRAL", { body: reply });
  const heard = {
    model: "mistral/voxtral-small-latest",
    max_tokens: 10,
    messages: user({ type: "input_audio", input_audio: "https://x.test/a.mp3" }),
  };
  expect((await postCall(target, account, "chat", heard)).status).toBe(200);
  // 60 seconds at 0.004 USD a minute, 9 tokens at 0.1 and one at 0.4 USD a million.
  expect(await spent(target, account)).toBe(4_001_301n);
  const poor = await registerAccount(target);
  const refused = await postCall(target, poor, "chat", heard);
  expect(refused.status).toBe(402);
  // As long as its context can hear, and not the 0.05 USD that there are.
  expect(await refused.json()).toMatchObject({
    error: { required_credits: expect.any(Number), affordable_max_tokens: 0 },
  });
});

describe("what is held for", () => {
  const CONTEXT = 1_000_000;
  const IMAGE = 5_000;
  const held = (...parts: Json[]): number => {
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
  const sound = (data: string, format: string): Json => ({
    type: "input_audio",
    input_audio: { data, format },
  });

  test("sound goes by its length where its bytes tell that, and is a whole context elsewhere", () => {
    const mp3 = base64(Buffer.concat([Buffer.from("ID3"), Buffer.alloc(30_000)]));
    const bare = base64(Buffer.concat([Buffer.from([0xff, 0xfb]), Buffer.alloc(30_000)]));
    for (const steady of [sound(wav(16_000), "wav"), sound(mp3, "mp3"), sound(bare, "mp3")])
      expect(held(steady)).toBeLessThan(3_000);
    const silence = base64(Buffer.concat([Buffer.from("fLaC"), Buffer.alloc(3_000)]));
    for (const open of [
      sound(silence, "flac"),
      sound(silence, "wav"),
      sound(wav(1), "wav"),
      sound(wav(16_000, 85), "wav"),
      { type: "input_audio", input_audio: "https://x.test/a.mp3" },
      { type: "audio_url", audio_url: { url: "https://x.test/a.mp3" } },
    ])
      expect(held(open)).toBe(CONTEXT);
    const seconds = (part: Json): number => audioSecondsBound({ messages: user(part) }, CONTEXT);
    expect(seconds(sound(mp3, "mp3"))).toBe(Math.ceil(mp3.length / 1_333));
    expect(seconds(sound(silence, "flac"))).toBe(CONTEXT / 10);
  });

  test("an image that is made is an image's, and a mode that is the usual one is nothing", () => {
    const image_generation = { tools: [{ type: "image_generation", quality: "low" }] };
    expect(maxToolTokens(image_generation)).toBe(44_000);
    expect(maxToolTokens({ ...image_generation, max_tool_calls: 1 })).toBe(8_000);
    expect(maxToolTokens({ reasoning: { mode: "standard" } })).toBe(0);
    expect(maxToolTokens({ reasoning: { mode: "pro" } })).toBe(200_000);
  });

  test("an image is an image's, unless it is none", () => {
    const image = (url: string): Json => ({ type: "image_url", image_url: { url } });
    const bytes = "A".repeat(2_000);
    for (const one of [
      "https://x.test/a.png",
      "https://x.test/pdf",
      `data:image/png;base64,${bytes}`,
    ])
      expect(held(image(one))).toBeLessThan(IMAGE + 500);
    for (const other of [
      "https://x.test/a.mp4?t=1",
      "https://www.youtube.com/watch?v=abc",
      "https://youtu.be/abc",
      `data:application/pdf;base64,${bytes}`,
      `data:video/mp4;base64,${bytes}`,
    ])
      expect(held(image(other))).toBe(CONTEXT);
    const screen = { type: "computer_screenshot", image_url: "https://x.test/a.png" };
    const json = { input: [{ type: "computer_call_output", output: screen }] };
    const bounds = { imageTokensMax: IMAGE, contextTokens: CONTEXT };
    expect(inputBound(JSON.stringify(json), json, bounds)).toBeGreaterThan(IMAGE);
  });

  test("a document whose text stands in the request is its text", () => {
    const document = (source: Json): Json => ({ type: "document", source });
    const data = "word ".repeat(1_000);
    expect(held(document({ type: "text", media_type: "text/plain", data }))).toBeLessThan(6_000);
    const picture = { type: "image", source: { type: "url", url: "https://x.test/a.png" } };
    const parts = { type: "content", content: [{ type: "text", text: data }, picture] };
    expect(held(document(parts))).toBeLessThan(IMAGE + 6_000);
    expect(held(document(parts))).toBeGreaterThan(IMAGE + 5_000);
    expect(held(document({ type: "url", url: "https://x.test/a.pdf" }))).toBe(CONTEXT);
  });

  test("text is not lowered by bytes that stand in a source within a source", () => {
    const words = "some words ".repeat(20_000);
    const inner = { type: "image", data: "A".repeat(100_000) };
    const image = { type: "image", source: inner };
    expect(held({ type: "text", text: words }, image)).toBeGreaterThan(words.length);
  });
});
