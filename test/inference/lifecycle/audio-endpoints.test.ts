// Speech, transcription and translation: what is held, charged, recorded, refused and sent.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { testOn } from "../../support/full.ts";
import { startGateway, registerAccount } from "../../support/gateway.ts";
import type { Gateway, TestAccount } from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { balance, post } from "../support/endpoint-calls.ts";
import { type GatedSimulator, startGatedSimulator } from "../support/gated-simulator.ts";
import {
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  simStats,
  USD,
  usageRecordsOf,
  waitUntil,
} from "../support/harness.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";

const START_CREDITS = 50_000_000n;
const SPEECH = "/v1/audio/speech";
const TRANSCRIPTIONS = "/v1/audio/transcriptions";
const TRANSLATIONS = "/v1/audio/translations";
const SPOKEN = { model: "sim/speech", input: "Hello, world.", voice: "alloy" };

/** 16-bit samples, 16,000 a second. */
function recording(seconds: number, byteRate = 32_000): File {
  const head = Buffer.alloc(44);
  head.write("RIFF\0\0\0\0WAVEfmt ", 0, "latin1");
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(16_000, 24);
  head.writeUInt32LE(byteRate, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36, "latin1");
  const samples = Buffer.alloc(Math.max(0, seconds * 32_000 - head.length));
  return new File([head, samples], "speech.wav", { type: "audio/wav" });
}

type Fields = Readonly<Record<string, string | File | readonly string[]>>;

function formOf(fields: Fields): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields))
    if (typeof value === "string" || value instanceof File) form.append(name, value);
    else for (const item of value) form.append(`${name}[]`, item);
  return form;
}

function eventsIn(text: string): readonly Json[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => JSON.parse(data) as Json);
}

describe.each(STORE_KINDS)("audio, on %s", (store) => {
  const testOnce = testOn(store);
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    account = await registerAccount(gateway);
    await grantCredits(gateway, account, 100n * USD);
  });
  afterAll(async () => {
    await expectSettledLedger(gateway.server.db);
    await gateway.stop();
  });

  async function call(path: string, body: Json | FormData) {
    const before = await balance(gateway, account);
    const response = await post(gateway, account, path, body);
    const bytes = new Uint8Array(await response.arrayBuffer());
    const paid = before - (await balance(gateway, account));
    const id = response.headers.get("x-request-id");
    const records = await usageRecordsOf(gateway.server.db, account.id);
    const record = records.find((one) => one["id"] === id);
    return { response, bytes, text: new TextDecoder().decode(bytes), paid, record };
  }

  function transcribe(fields: Fields, path = TRANSCRIPTIONS) {
    return call(path, formOf({ model: "sim/transcribe", file: recording(10), ...fields }));
  }

  test("speech costs its characters, which the header says before the audio", async () => {
    const { response, bytes, paid, record } = await call(SPEECH, { ...SPOKEN, input: "Grüße 👋" });
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "audio/mpeg"]);
    expect(bytes.length).toBe(7 * 64);
    expect(paid).toBe(7n * 15_000n);
    expect(response.headers.get("x-postern-cost-usd")).toBe("0.000105");
    expect(record).toMatchObject({ api: "speech", outcome: "completed", model: "sim/speech" });
    expect(Number(record?.["exact"])).toBe(1);
  });

  test("speech of a model that is priced by token costs what its events report", async () => {
    const body = { ...SPOKEN, model: "sim/speech-tokens", response_format: "wav" };
    const { response, bytes, paid, record } = await call(SPEECH, body);
    expect(response.headers.get("content-type")).toBe("audio/wav");
    expect([...new Set(bytes)]).toEqual([1, 2, 3, 4]);
    const input = BigInt(Number(record?.["input_tokens"]));
    expect([input > 0n, paid]).toEqual([true, input * 1_000n + 26n * 12_000n]);
    const events = await call(SPEECH, { ...body, stream_format: "sse" });
    expect(events.paid).toBe(paid);
    const { usage } = eventsIn(events.text).at(-1) as { usage: Json };
    expect(usage).toMatchObject({ cost: Number(paid) / 1e9, output_tokens: 26 });
  });

  testOnce("a recording costs its seconds or its tokens, in each format", async () => {
    const plain = await transcribe({});
    expect(JSON.parse(plain.text)).toEqual({
      text: "A recording of 10 seconds.",
      usage: { cost: 0.001, type: "duration", seconds: 10 },
    });
    expect(plain.paid).toBe(1_000_000n);
    expect(plain.record).toMatchObject({ api: "transcriptions", outcome: "completed" });
    const text = await transcribe({ response_format: "text" });
    expect([text.text, text.paid, text.response.headers.get("content-type")]).toEqual([
      "A recording of 10 seconds.\n",
      1_000_000n,
      "text/plain; charset=utf-8",
    ]);
    const srt = await transcribe({ response_format: "srt" });
    expect([srt.text, srt.paid]).toEqual([
      "1\n00:00:00,000 --> 00:00:10,000\nA recording of 10 seconds.\n\n",
      1_000_000n,
    ]);
    const vtt = await transcribe({ response_format: "vtt" });
    expect(vtt.text).toBe(
      "WEBVTT\n\n00:00:00.000 --> 00:00:10.000\nA recording of 10 seconds.\n\n",
    );
    const verbose = await transcribe({
      response_format: "verbose_json",
      timestamp_granularities: ["word", "segment"],
    });
    expect(JSON.parse(verbose.text)).toMatchObject({ duration: 10, usage: { cost: 0.001 } });
    const tokens = await transcribe({ model: "sim/transcribe-tokens" });
    const { usage } = JSON.parse(tokens.text) as { usage: Record<string, number> };
    expect(tokens.paid).toBe(100n * 3_000n + BigInt(usage["output_tokens"] ?? 0) * 2_000n);
    const diarized = await transcribe({
      model: "sim/transcribe-tokens",
      response_format: "diarized_json",
    });
    expect(JSON.parse(diarized.text)).toMatchObject({ usage: { cost: Number(tokens.paid) / 1e9 } });
  });

  testOnce("a transcript can be streamed, and a model without streams replies whole", async () => {
    const streamed = await transcribe({ model: "sim/transcribe-tokens", stream: "true" });
    expect(streamed.response.headers.get("content-type")).toContain("text/event-stream");
    const events = eventsIn(streamed.text);
    expect(events.map(({ type }) => type)).toEqual([
      ...Array.from({ length: 5 }, () => "transcript.text.delta"),
      "transcript.text.done",
    ]);
    expect(events.at(-1)?.["usage"]).toMatchObject({ cost: Number(streamed.paid) / 1e9 });
    const whole = await transcribe({ stream: "true" });
    expect([JSON.parse(whole.text).text, whole.paid]).toEqual([
      "A recording of 10 seconds.",
      1_000_000n,
    ]);
  });

  test("a translation is recorded as one", async () => {
    const { record, paid } = await transcribe({}, TRANSLATIONS);
    expect([record?.["api"], paid]).toEqual(["translations", 1_000_000n]);
  });

  testOnce("the hold covers the charge, whatever the file and the text", async () => {
    const cases = fc.record({
      seconds: fc.integer({ min: 1, max: 40 }),
      byteRate: fc.constantFrom(100, 16_000, 32_000, 4_000_000_000),
      model: fc.constantFrom("sim/transcribe", "sim/transcribe-tokens"),
      input: fc.string({ minLength: 1, maxLength: 200, unit: "binary" }),
      speech: fc.constantFrom("sim/speech", "sim/speech-tokens"),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ seconds, byteRate, model, input, speech }) => {
        const form = (): FormData => formOf({ model, file: recording(seconds, byteRate) });
        const text = input.replaceAll(/[\ud800-\udfff\0[]/g, "x");
        for (const [path, api, body] of [
          [TRANSCRIPTIONS, "transcriptions", form()],
          [SPEECH, "speech", { ...SPOKEN, model: speech, input: text }],
        ] as const) {
          const quoted = await post(gateway, account, `/v1/quote?api=${api}`, body);
          const { cost_usd_max: most } = (await quoted.json()) as { cost_usd_max: string };
          const { paid, response } = await call(path, body instanceof FormData ? form() : body);
          expect(response.status).toBe(200);
          expect(Number(paid) / 1e9).toBeLessThanOrEqual(Number(most));
        }
      }),
      { numRuns: 8 },
    );
  });

  test("a repetition with the same key returns the same audio and text, once paid", async () => {
    const once = { "idempotency-key": `audio-${store}-1` };
    const twice = { "idempotency-key": `audio-${store}-2` };
    const sender = (more: object): TestAccount => ({
      ...account,
      headers: { ...account.headers, ...more },
    });
    const before = await balance(gateway, account);
    const speech = await post(gateway, sender(once), SPEECH, SPOKEN);
    const heard = await speech.bytes();
    const again = await post(gateway, sender(once), SPEECH, SPOKEN);
    expect([again.headers.get("idempotent-replayed"), again.headers.get("content-type")]).toEqual([
      "true",
      "audio/mpeg",
    ]);
    expect(await again.bytes()).toEqual(heard);
    const form = (seconds: number): FormData =>
      formOf({ model: "sim/transcribe", file: recording(seconds), response_format: "text" });
    const text = await (await post(gateway, sender(twice), TRANSCRIPTIONS, form(3))).text();
    const repeated = await post(gateway, sender(twice), TRANSCRIPTIONS, form(3));
    expect([await repeated.text(), repeated.headers.get("content-type")]).toEqual([
      text,
      "text/plain; charset=utf-8",
    ]);
    expect(before - (await balance(gateway, account))).toBe(13n * 15_000n + 300_000n);
    // Another recording is another request.
    expect((await post(gateway, sender(twice), TRANSCRIPTIONS, form(4))).status).toBe(409);
  });

  test("a cached reply is the same audio and text, and costs nothing", async () => {
    const cached = { ...account, headers: { ...account.headers, "x-postern-cache": "60" } };
    const form = (): FormData =>
      formOf({ model: "sim/transcribe", file: recording(5), response_format: "vtt" });
    for (const [path, body] of [
      [SPEECH, (): Json => ({ ...SPOKEN, input: `Cached on ${store}` })],
      [TRANSCRIPTIONS, form],
    ] as const) {
      const first = await post(gateway, cached, path, body());
      const heard = await first.bytes();
      const before = await balance(gateway, account);
      const second = await post(gateway, cached, path, body());
      expect(second.headers.get("x-postern-cache")).toBe("hit");
      expect(second.headers.get("age")).toMatch(/^\d+$/);
      expect(second.headers.get("idempotent-replayed")).toBeNull();
      expect(second.headers.get("content-type")).toBe(first.headers.get("content-type"));
      expect(await second.bytes()).toEqual(heard);
      expect(await balance(gateway, account)).toBe(before);
    }
  });

  test("a provider's error costs nothing, and one in the middle breaks the audio off", async () => {
    const broken = await call(SPEECH, { ...SPOKEN, input: "[[sim: status=400]] Hello" });
    expect([broken.response.status, broken.paid]).toEqual([400, 0n]);
    expect(broken.record).toMatchObject({ outcome: "upstream_error" });
    for (const model of ["sim/speech", "sim/speech-tokens"]) {
      const before = await balance(gateway, account);
      const body = { ...SPOKEN, model, input: `[[sim: cut=2]] Hello from ${model}` };
      const reading = post(gateway, account, SPEECH, body).then((response) => response.bytes());
      expect(await reading.then(() => "whole").catch(() => "broken off")).toBe("broken off");
      await waitUntil(
        () => usageRecordsOf(gateway.server.db, account.id),
        (records) =>
          records.some((one) => one["model"] === model && one["outcome"] === "upstream_error"),
      );
      expect(await balance(gateway, account)).toBe(before);
    }
  });

  test("a call beyond the balance, the ceiling or the key's models is not sent", async () => {
    const poor = await registerAccount(gateway);
    const sent = (await simStats(gateway)).requests;
    const long = formOf({ model: "sim/transcribe", file: recording(600) });
    expect((await post(gateway, poor, TRANSCRIPTIONS, long)).status).toBe(402);
    const ceiling = { headers: { ...account.headers, "x-postern-max-cost-usd": "0.00001" } };
    const refused = await post(gateway, { ...account, ...ceiling }, SPEECH, SPOKEN);
    expect([refused.status, errorOf(await refused.json())["param"]]).toEqual([
      400,
      "postern.max_cost_usd",
    ]);
    expect((await simStats(gateway)).requests).toBe(sent);
  });
});

let shared: Promise<{ gateway: Gateway; account: TestAccount }> | undefined;

function sharedGateway(): Promise<{ gateway: Gateway; account: TestAccount }> {
  shared ??= startGateway().then(async (gateway) => ({
    gateway,
    account: await registerAccount(gateway),
  }));
  return shared;
}

afterAll(async () => (await shared)?.gateway.stop());

test.each<[string, Json, string, number]>([
  [SPEECH, { model: "sim/speech", voice: "alloy" }, "input", 400],
  [SPEECH, { model: "sim/speech", input: "x" }, "voice", 400],
  [SPEECH, { ...SPOKEN, speed: 9 }, "speed", 400],
  [SPEECH, { ...SPOKEN, input: "x".repeat(20_001) }, "input", 400],
  [SPEECH, { ...SPOKEN, stream_format: "wav" }, "stream_format", 400],
  [SPEECH, { ...SPOKEN, model: "sim/echo" }, "model", 400],
  [TRANSCRIPTIONS, { model: "sim/transcribe", input: "x" }, "content-type", 415],
])("rejects a body for %s: %j", async (path, body, param, status) => {
  const { gateway, account } = await sharedGateway();
  const response = await post(gateway, account, path, body);
  expect([response.status, errorOf(await response.json())["param"]]).toEqual([status, param]);
});

test.each<[string, Fields, string]>([
  ["no file", { model: "sim/transcribe" }, "file"],
  ["a file that is text", { model: "sim/transcribe", file: "file-abc123" }, "file"],
  ["two models", { model: "sim/transcribe", models: "x", "model[]": "sim/echo" }, "model"],
  ["an unknown format", { model: "sim/transcribe", response_format: "docx" }, "response_format"],
  ["no model", {}, "model"],
])("rejects a form with %s", async (name, fields, param) => {
  const { gateway, account } = await sharedGateway();
  const file = name.includes("file") ? {} : { file: recording(1) };
  const response = await post(gateway, account, TRANSCRIPTIONS, formOf({ ...file, ...fields }));
  expect([response.status, errorOf(await response.json())["param"]]).toEqual([400, param]);
});

test("rejects a form that parsers could read differently", async () => {
  const { gateway, account } = await sharedGateway();
  const part = 'content-disposition: form-data; name="model"';
  for (const body of [
    "no boundary at all",
    `--b\r\n${part}\r\n\r\nsim/transcribe\r\n`,
    `--b\r\ncontent-disposition: form-data\r\n\r\nx\r\n--b--\r\n`,
    `--b\r\n${part}\r\n${part}\r\n\r\nx\r\n--b--\r\n`,
    `--b\r\n${part}\r\ncontent-transfer-encoding: base64\r\n\r\nx\r\n--b--\r\n`,
  ]) {
    const headers = { ...account.headers, "content-type": "multipart/form-data; boundary=b" };
    const response = await fetch(gateway.url + TRANSCRIPTIONS, { method: "POST", headers, body });
    expect([body, response.status]).toEqual([body, 400]);
    expect(errorOf(await response.json())["message"]).toContain("multipart/form-data");
  }
});

describe("a provider's own account", () => {
  let gateway: Gateway | undefined;
  let provider: RawProvider | undefined;
  afterEach(async () => {
    await gateway?.stop();
    await provider?.stop();
  });

  async function send(prefix: string, reply: RawReply, path: string, body: Json | FormData) {
    const started = await startRawProvider(() => reply);
    provider = started;
    const env = { [`${prefix}_BASE_URL`]: started.url, [`${prefix}_API_KEY`]: "test-key-01234567" };
    const opened = await startGateway({ providers: [], env });
    gateway = opened;
    const account = await registerAccount(opened);
    await grantCredits(opened, account, 100n * USD);
    const response = await post(opened, account, path, body);
    const text = await response.text();
    const paid = 100n * USD + START_CREDITS - (await balance(opened, account));
    return { response, text, paid, sent: started.requests[0] };
  }

  test("gets the file and the fields of a form, and its own name of the model", async () => {
    const usage = { type: "tokens", input_tokens: 110, output_tokens: 20, total_tokens: 130 };
    const details = { input_token_details: { audio_tokens: 100, text_tokens: 10 } };
    const reply = { body: JSON.stringify({ text: "Hi", usage: { ...usage, ...details } }) };
    const form = formOf({
      file: recording(2),
      model: "openai/gpt-4o-transcribe",
      prompt: "file-abcdef1234",
      include: ["logprobs"],
      temperature: "0.5",
    });
    const { sent, paid, response } = await send("OPENAI", reply, TRANSCRIPTIONS, form);
    expect([response.status, sent?.path]).toEqual([200, "/audio/transcriptions"]);
    const got = await new Response(sent?.body, {
      headers: { "content-type": sent?.headers["content-type"] ?? "" },
    }).formData();
    expect(got.get("model")).toBe("gpt-4o-transcribe");
    expect([got.get("prompt"), got.get("temperature"), got.getAll("include[]")]).toEqual([
      "file-abcdef1234",
      "0.5",
      ["logprobs"],
    ]);
    expect((got.get("file") as File).name).toBe("speech.wav");
    expect(paid).toBe(110n * 2_500n + 20n * 10_000n);
  });

  test.each([
    ["an unknown field", { reference: "file-abcdef1234" }],
    ["a list", { known_speaker_references: ["file-abcdef1234"] }],
  ])("is not sent references to its storage in %s", async (_, more) => {
    const form = formOf({ file: recording(1), model: "openai/gpt-4o-transcribe", ...more });
    const { response, sent, paid } = await send("OPENAI", { body: "{}" }, TRANSCRIPTIONS, form);
    expect([response.status, sent, paid]).toEqual([400, undefined, 0n]);
  });

  test("that states more seconds than the file can have is paid the hold at most", async () => {
    const reply = { body: JSON.stringify({ text: "Hi", usage: { seconds: 900_000 } }) };
    const form = formOf({ file: recording(30), model: "openai/whisper-1" });
    const { paid } = await send("OPENAI", reply, TRANSCRIPTIONS, form);
    expect(paid).toBe(30n * 100_000n);
  });

  test("that states no seconds is paid for those of the file, and ten at least at Groq", async () => {
    const segments = { task: "transcribe", segments: [], text: "Hi" };
    const reply = { body: JSON.stringify(segments) };
    const form = formOf({ file: recording(4), model: "groq/whisper-large-v3" });
    const { paid, sent, text } = await send("GROQ", reply, TRANSCRIPTIONS, form);
    expect(sent?.body).toContain("verbose_json");
    expect(JSON.parse(text)).toMatchObject({ text: "Hi", usage: { seconds: 10 } });
    expect(paid).toBe(308_334n);
  });

  test("of Mistral gets lists by their plain name", async () => {
    const usage = { prompt_audio_seconds: 3, prompt_tokens: 5, completion_tokens: 7 };
    const reply = { body: JSON.stringify({ text: "Hi", usage }) };
    const form = formOf({
      file: recording(3),
      model: "mistral/voxtral-mini-transcribe-3-0",
      timestamp_granularities: ["segment"],
      response_format: "text",
    });
    const { paid, sent, text } = await send("MISTRAL", reply, TRANSCRIPTIONS, form);
    expect(sent?.body).toContain('name="timestamp_granularities"\r\n');
    expect(sent?.body).not.toContain("response_format");
    expect([text, paid]).toEqual(["Hi\n", 175_020n]);
  });

  test("that sends a page in place of audio does not run on this origin", async () => {
    const reply = {
      headers: { "content-type": "text/html" },
      body: "<script>alert(1)</script>",
    };
    const body = { ...SPOKEN, model: "openai/tts-1" };
    const { response } = await send("OPENAI", reply, SPEECH, body);
    expect(response.headers.get("content-type")).toBe("application/octet-stream");
  });
});

describe("a caller that leaves", () => {
  let gate: GatedSimulator;
  let gateway: Gateway;
  beforeEach(async () => {
    gate = startGatedSimulator();
    gateway = await startGateway({ env: { SIM_BASE_URL: gate.url } });
  });
  afterEach(async () => {
    await gateway.stop();
    await gate.stop();
  });

  test.each([
    ["sim/speech", 13 * 15_000],
    ["sim/speech-tokens", 26 * 12_000],
  ])("pays for the speech of %s that the provider makes", async (model, least) => {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, 100n * USD);
    const leaving = new AbortController();
    const { signal } = leaving;
    const body = { ...SPOKEN, model };
    const left = post(gateway, { ...account, signal }, SPEECH, body).catch(() => "left");
    await waitUntil(
      () => gate.waiting(),
      (count) => count === 1,
    );
    leaving.abort();
    expect(await left).toBe("left");
    gate.open();
    const [record] = await waitUntil(
      () => usageRecordsOf(gateway.server.db, account.id),
      (records) => records.length === 1,
    );
    expect(Number(record?.["cost_nano"])).toBeGreaterThanOrEqual(least);
    expect(record).toMatchObject({ outcome: "client_aborted" });
    await expectSettledLedger(gateway.server.db);
  });
});
