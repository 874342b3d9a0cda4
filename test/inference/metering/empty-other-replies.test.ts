// Empty replies of Google's API, of text completions and of images: they cost nothing, and their record says so.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { integer, type Row } from "../../../src/store/db.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import {
  expectSettledLedger,
  grantCredits,
  type Json,
  USD,
  usageRecordsOf,
} from "../support/harness.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";

let gateway: Gateway;
let provider: RawProvider;
let reply: RawReply;

beforeAll(async () => {
  provider = await startRawProvider(() => reply);
  const names = ["GOOGLE", "TOGETHER", "OPENAI", "FIREWORKS", "BEDROCK"];
  gateway = await startGateway({
    providers: [],
    env: Object.fromEntries(
      names.flatMap((name) => [
        [`${name}_BASE_URL`, provider.url],
        [`${name}_API_KEY`, "test-key-0123456789"],
      ]),
    ),
  });
});
afterAll(async () => {
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
  await provider.stop();
});

async function recordOf(path: string, body: Json): Promise<Row> {
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, USD);
  const response = await fetch(gateway.url + path, {
    method: "POST",
    headers: account.headers,
    body: JSON.stringify(body),
  });
  const text = await response.text();
  expect([response.status, text]).toEqual([200, text]);
  const [record] = await usageRecordsOf(gateway.server.db, account.id);
  if (record === undefined) throw new Error("no record");
  return record;
}

function sent(events: readonly Json[], end = ""): RawReply {
  const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
  return { headers: { "content-type": "text/event-stream" }, body: text + end };
}

const GEMINI = "/v1beta/models/google/gemini-2.5-flash";
const CONTENTS = { contents: [{ role: "user", parts: [{ text: "Go." }] }] };
const TOGETHER = { model: "together/meta-llama/Llama-3.3-70B-Instruct-Turbo", prompt: "Go." };
const usageMetadata = { promptTokenCount: 50, totalTokenCount: 50 };
const usage = { prompt_tokens: 50, completion_tokens: 0, total_tokens: 50 };

const generated = (reason: string | undefined): Json => ({
  candidates: [{ content: { role: "model", parts: [] }, ...(reason && { finishReason: reason }) }],
  usageMetadata,
});
const completed = (reason: string | null): Json => ({
  choices: [{ index: 0, text: "", finish_reason: reason }],
  usage,
});

test.each([
  [undefined, "empty_reply", false],
  ["STOP", "completed", true],
] as const)("Google's API with the finish reason %p is %s", async (reason, outcome, isCharged) => {
  for (const path of [`${GEMINI}:generateContent`, `${GEMINI}:streamGenerateContent?alt=sse`]) {
    reply = path.includes("stream")
      ? sent([generated(reason)])
      : { body: JSON.stringify(generated(reason)) };
    const record = await recordOf(path, CONTENTS);
    // A stream of Google has no end but its reason: without one it was cut off.
    const isCut = path.includes("stream") && reason === undefined;
    expect([path, record["outcome"], integer(record, "cost_nano") > 0]).toEqual([
      path,
      isCut ? "upstream_error" : outcome,
      isCharged,
    ]);
  }
});

test.each([
  [null, "empty_reply", false],
  ["stop", "completed", true],
] as const)(
  "a text completion with the finish reason %p is %s",
  async (reason, outcome, isCharged) => {
    for (const stream of [false, true]) {
      const { usage: _, ...delta } = completed(reason);
      reply = stream
        ? sent([delta, { choices: [], usage }], "data: [DONE]\n\n")
        : { body: JSON.stringify(completed(reason)) };
      const record = await recordOf("/v1/completions", { ...TOGETHER, stream });
      expect([stream, record["outcome"], integer(record, "cost_nano") > 0]).toEqual([
        stream,
        outcome,
        isCharged,
      ]);
    }
  },
);

test.each([
  ["openai/gpt-image-2", { data: [], usage: { input_tokens: 50, output_tokens: 0 } }],
  ["together/black-forest-labs/FLUX.1-schnell", { data: [] }],
  ["fireworks/flux-1-schnell-fp8", { base64: [] }],
  [
    "bedrock/stability.stable-image-core-v1:1",
    { images: [], finish_reasons: ["Filter reason: prompt"] },
  ],
])("%s without an image", async (model, body) => {
  reply = { body: JSON.stringify(body) };
  const record = await recordOf("/v1/images/generations", { model, prompt: "x" });
  expect([record["outcome"], integer(record, "cost_nano")]).toEqual(["empty_reply", 0]);
});

test("an image request that reports output is charged, with or without images", async () => {
  reply = { body: JSON.stringify({ data: [], usage: { input_tokens: 50, output_tokens: 100 } }) };
  const record = await recordOf("/v1/images/generations", {
    model: "openai/gpt-image-2",
    prompt: "x",
  });
  expect([record["outcome"], integer(record, "cost_nano")]).toEqual([
    "completed",
    50 * 5_000 + 100 * 30_000,
  ]);
});
