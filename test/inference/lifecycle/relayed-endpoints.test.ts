// Images, rerank and moderation: what is held, charged, recorded, refused and sent.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { testOn } from "../../support/full.ts";
import { startGateway, registerAccount } from "../../support/gateway.ts";
import type { Gateway, TestAccount } from "../../support/gateway.ts";
import { scratchFolder } from "../../support/scratch-folder.ts";
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
const PATHS = {
  images: "/v1/images/generations",
  edits: "/v1/images/edits",
  rerank: "/v1/rerank",
  rerank2: "/v2/rerank",
  moderations: "/v1/moderations",
  decisions: "/v1/decisions",
  completions: "/v1/completions",
} as const;

const IMAGE = { model: "sim/image", prompt: "a lighthouse at night" };
const DOCUMENTS = ["Berlin is in Germany.", "The capital of France is Paris."];
const RERANK = { model: "sim/rerank", query: "What is the capital of France?" };

describe.each(STORE_KINDS)("endpoints without a conversation, on %s", (store) => {
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
    const reply = (await response.json()) as Json;
    const paid = before - (await balance(gateway, account));
    const records = await usageRecordsOf(gateway.server.db, account.id);
    const id = response.headers.get("x-request-id");
    const found = records.find((one) => one["id"] === id);
    const record: Json | undefined = found && {
      ...found,
      cost: Number(found["cost_nano"]),
      exact: Number(found["exact"]),
    };
    return { response, reply, paid, record };
  }

  testOnce("images cost their text and image tokens, by quality and number", async () => {
    for (const [quality, n, tokens] of [
      ["low", 1, 272n],
      ["high", 2, 8_320n],
    ] as const) {
      const { response, reply, paid, record } = await call(PATHS.images, { ...IMAGE, quality, n });
      expect([response.status, (reply["data"] as unknown[]).length]).toEqual([200, n]);
      const input = BigInt((reply["usage"] as { input_tokens: number }).input_tokens);
      expect(paid).toBe(input * 1_000n + tokens * 2_000n);
      expect(Number(response.headers.get("x-postern-cost-usd"))).toBe(Number(paid) / 1e9);
      expect((reply["usage"] as Json)["cost"]).toBe(Number(paid) / 1e9);
      expect(record).toMatchObject({ api: "images", outcome: "completed", exact: 1 });
    }
  });

  test("images of a model that is priced by image cost their number", async () => {
    const { paid, record } = await call(PATHS.images, { ...IMAGE, model: "sim/image-each", n: 3 });
    expect(paid).toBe(60_000_000n);
    expect(JSON.parse(String(record?.["detail"])).price).toEqual([
      expect.objectContaining({ meter: "image_generation", count: 3 }),
    ]);
  });

  test.each([
    ["sim/image-each-size", {}, 20_000_000n],
    ["sim/image-each-size", { size: "1536x1024", quality: "high", n: 2 }, 120_000_000n],
    ["sim/image-each-size", { size: "auto", quality: "low" }, 10_000_000n],
    // What the price list does not name costs its highest price.
    ["sim/image-each-size", { size: "3840x2160", quality: "low" }, 60_000_000n],
    ["sim/image-each-pixel", { n: 3 }, 31_457_280n],
    ["sim/image-each-pixel", { size: "500x1000" }, 5_000_000n],
  ])("images of %s with %j cost what was held", async (model, more, cost) => {
    const body = { ...IMAGE, model, ...more };
    const quoted = await post(gateway, account, "/v1/quote?api=images", body);
    const { cost_usd_max: most } = (await quoted.json()) as { cost_usd_max: string };
    const { paid, record } = await call(PATHS.images, body);
    expect([paid, Math.round(Number(most) * 1e9)]).toEqual([cost, Number(cost)]);
    expect(record).toMatchObject({ outcome: "completed", cost: Number(cost), exact: 1 });
  });

  testOnce("an edit costs the images that it reads, as a form and as JSON", async () => {
    const form = new FormData();
    for (const [name, value] of Object.entries({ ...IMAGE, quality: "low", n: "2" }))
      form.append(name, value);
    for (const name of ["a.png", "b.png"]) form.append("image[]", new File(["x"], name));
    form.append("mask", new File(["x"], "mask.png"));
    const asForm = await call(PATHS.edits, form);
    const url = { image_url: "https://example.com/a.png" };
    const json = { ...IMAGE, quality: "low", n: 2, images: [url, url], mask: url };
    const asJson = await call(PATHS.edits, json);
    for (const { response, reply, paid, record } of [asForm, asJson]) {
      expect([response.status, (reply["data"] as unknown[]).length]).toEqual([200, 2]);
      const { input_tokens: input } = reply["usage"] as { input_tokens: number };
      expect(input).toBeGreaterThan(3_000);
      expect(paid).toBe(BigInt(input) * 1_000n + 544n * 2_000n);
      expect(record).toMatchObject({ api: "image_edits", outcome: "completed", exact: 1 });
    }
  });

  test.each([PATHS.images, PATHS.edits])(
    "streams the images of %s with their cost",
    async (path) => {
      const image = { image_url: "https://example.com/a.png" };
      const body = { ...IMAGE, image, quality: "low", stream: true, partial_images: 2 };
      const { image: _, ...created } = body;
      const before = await balance(gateway, account);
      const response = await post(gateway, account, path, path === PATHS.edits ? body : created);
      const events = [...(await response.text()).matchAll(/^data: (.*)$/gm)].map(
        ([, data = ""]) => JSON.parse(data) as Json,
      );
      const paid = before - (await balance(gateway, account));
      const name = path === PATHS.edits ? "image_edit" : "image_generation";
      expect(events.map(({ type }) => type)).toEqual([
        `${name}.partial_image`,
        `${name}.partial_image`,
        `${name}.completed`,
      ]);
      const usage = events[2]?.["usage"] as Record<string, number>;
      expect([usage["output_tokens"], usage["cost"]]).toEqual([472, Number(paid) / 1e9]);
    },
  );

  test("streamed images of a model without usage cost their number", async () => {
    const body = { ...IMAGE, model: "sim/image-each", stream: true };
    const before = await balance(gateway, account);
    await (await post(gateway, account, PATHS.images, body)).text();
    expect(before - (await balance(gateway, account))).toBe(20_000_000n);
  });

  testOnce("a search costs one unit for each hundred documents, on both paths", async () => {
    for (const path of [PATHS.rerank, PATHS.rerank2]) {
      const many = Array.from({ length: 101 }, (_, index) => `Document ${index}`);
      const { reply, paid } = await call(path, { ...RERANK, documents: many, top_n: 2 });
      expect((reply["results"] as unknown[]).length).toBe(2);
      expect(paid).toBe(4_000_000n);
      expect(reply["usage"]).toEqual({ cost: 0.004, search_units: 2 });
      expect(reply["meta"]).toEqual({
        api_version: { version: "2" },
        billed_units: { search_units: 2 },
      });
    }
  });

  test("returns the documents of a search if the request asks for them", async () => {
    const documents = [DOCUMENTS[0], { text: DOCUMENTS[1] }];
    const body = { ...RERANK, model: "sim/rerank-tokens", documents, return_documents: true };
    const { reply, paid } = await call(PATHS.rerank, { ...body, top_n: 1 });
    expect(reply["results"]).toEqual([
      { index: 1, relevance_score: expect.any(Number), document: { text: DOCUMENTS[1] } },
    ]);
    const { total_tokens: tokens } = reply["usage"] as { total_tokens: number };
    expect([tokens > 0, paid]).toEqual([true, BigInt(tokens) * 50n]);
  });

  test("decisions cost their input alone, by either name of the model", async () => {
    const questions = [
      { type: "predicate", name: "refund", instructions: "A refund is due." },
      { type: "choice", name: "team", choices: [{ value: "billing" }, { value: "sales" }] },
    ];
    for (const model of ["sim/echo", "sim/echo-decisions"]) {
      const body = { model, input: "I was charged twice.", questions };
      const quoted = await post(gateway, account, "/v1/quote?api=decisions", body);
      const { cost_usd_max: most } = (await quoted.json()) as { cost_usd_max: string };
      const { reply, paid, record } = await call(PATHS.decisions, body);
      expect((reply["answers"] as Json[]).map(({ name }) => name)).toEqual(["refund", "team"]);
      const { input_tokens: tokens } = reply["usage"] as { input_tokens: number };
      expect([paid, record?.["api"], record?.["model"]]).toEqual([
        BigInt(tokens) * 100n,
        "decisions",
        "sim/echo-decisions",
      ]);
      expect(Number(paid) / 1e9).toBeLessThanOrEqual(Number(most));
    }
  });

  test("text completions cost their tokens, streamed or not", async () => {
    const body = { model: "sim/echo", prompt: ["Once upon a", "time there was"], n: 2 };
    const whole = await call(PATHS.completions, body);
    const usage = whole.reply["usage"] as Record<string, number>;
    expect((whole.reply["choices"] as unknown[]).length).toBe(4);
    expect(whole.paid).toBe(
      BigInt(usage["prompt_tokens"] ?? 0) * 1_000n +
        BigInt(usage["completion_tokens"] ?? 0) * 2_000n,
    );
    expect(whole.record).toMatchObject({ api: "completions", outcome: "completed" });
    for (const options of [undefined, { include_usage: true }]) {
      const before = await balance(gateway, account);
      const streamed = await post(gateway, account, PATHS.completions, {
        ...body,
        stream: true,
        stream_options: options,
      });
      const text = await streamed.text();
      expect(text).toEndWith("data: [DONE]\n\n");
      expect(before - (await balance(gateway, account))).toBe(whole.paid);
      expect(text.includes(`"cost":${Number(whole.paid) / 1e9}`)).toBe(options !== undefined);
    }
  });

  test("a stream of text completions that its caller leaves costs what the whole one costs", async () => {
    const body = { model: "sim/echo", prompt: "[[sim: pace=20]] Once upon a time", stream: true };
    const before = await balance(gateway, account);
    await (await post(gateway, account, PATHS.completions, body)).text();
    const whole = before - (await balance(gateway, account));
    const leaving = new AbortController();
    const left = await post(
      gateway,
      { ...account, signal: leaving.signal },
      PATHS.completions,
      body,
    );
    await left.body?.getReader().read();
    leaving.abort();
    await expectSettledLedger(gateway.server.db);
    expect(before - (await balance(gateway, account))).toBe(2n * whole);
    const records = await usageRecordsOf(gateway.server.db, account.id);
    expect(records.at(-1)).toMatchObject({ api: "completions", outcome: "client_aborted" });
  });

  test("moderation is free and leaves a usage record", async () => {
    const { reply, paid, record } = await call(PATHS.moderations, {
      model: "sim/moderation",
      input: ["I love you", "pure violence"],
    });
    expect((reply["results"] as Json[]).map(({ flagged }) => flagged)).toEqual([false, true]);
    expect([paid, record?.["api"], record?.["outcome"]]).toEqual([0n, "moderations", "completed"]);
  });

  test("a provider's error costs nothing", async () => {
    const broken = { ...IMAGE, prompt: "[[sim: status=400]] a lighthouse" };
    const { response, paid, record } = await call(PATHS.images, broken);
    expect([response.status, paid]).toEqual([400, 0n]);
    expect(record).toMatchObject({ outcome: "upstream_error", cost: 0 });
  });

  test("a call beyond the balance, the ceiling or the key's models is not sent", async () => {
    const poor = await registerAccount(gateway);
    const sent = (await simStats(gateway)).requests;
    const large = { ...IMAGE, n: 10, quality: "high" };
    expect((await post(gateway, poor, PATHS.images, large)).status).toBe(402);
    const ceiling = { headers: { ...account.headers, "x-postern-max-cost-usd": "0.001" } };
    const refused = await post(gateway, { ...account, ...ceiling }, PATHS.images, IMAGE);
    expect([refused.status, errorOf(await refused.json())["param"]]).toEqual([
      400,
      "postern.max_cost_usd",
    ]);
    const minted = await fetch(`${gateway.url}/v1/keys`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({ name: "chat only", allowed_models: ["sim/echo"] }),
    });
    const { api_key: key } = (await minted.json()) as { api_key: string };
    const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
    for (const [path, body] of [
      [PATHS.images, IMAGE],
      [PATHS.rerank, { ...RERANK, documents: DOCUMENTS }],
      [PATHS.moderations, { model: "sim/moderation", input: "x" }],
    ] as const)
      expect([path, (await post(gateway, { ...account, headers }, path, body)).status]).toEqual([
        path,
        403,
      ]);
    expect((await simStats(gateway)).requests).toBe(sent);
  });

  testOnce(
    "the hold covers the charge of searches, decisions and completions, whatever their texts",
    async () => {
      const text = fc
        .string({ minLength: 1, maxLength: 300, unit: "binary" })
        .map((one) => one.replaceAll(/[\ud800-\udfff\0[]/g, "x"));
      const cases = fc.record({
        query: text,
        documents: fc.array(text, { minLength: 1, maxLength: 230 }),
        model: fc.constantFrom("sim/rerank", "sim/rerank-tokens"),
        questions: fc.integer({ min: 1, max: 20 }),
        n: fc.integer({ min: 1, max: 3 }),
        max_tokens: fc.integer({ min: 1, max: 40 }),
      });
      await fc.assert(
        fc.asyncProperty(cases, async ({ query, documents, model, questions, n, max_tokens }) => {
          const asked = Array.from({ length: questions }, () => ({
            type: "predicate",
            name: query,
          }));
          for (const [api, path, body] of [
            ["rerank", PATHS.rerank, { model, query, documents }],
            ["decisions", PATHS.decisions, { model: "sim/echo", input: query, questions: asked }],
            [
              "completions",
              PATHS.completions,
              { model: "sim/echo", prompt: documents.slice(0, 5), n, max_tokens },
            ],
          ] as const) {
            const quoted = await post(gateway, account, `/v1/quote?api=${api}`, body);
            const { cost_usd_max: most } = (await quoted.json()) as { cost_usd_max: string };
            const { paid, response } = await call(path, body);
            expect([api, response.status]).toEqual([api, 200]);
            expect(Number(paid) / 1e9).toBeLessThanOrEqual(Number(most));
          }
        }),
        { numRuns: 8 },
      );
    },
  );

  testOnce("the hold covers a small image, whose tokens are not documented", async () => {
    const body = { ...IMAGE, size: "256x256", quality: "high" };
    const quoted = await post(gateway, account, "/v1/quote?api=images", body);
    const { cost_usd_max: most } = (await quoted.json()) as { cost_usd_max: string };
    expect(Number((await call(PATHS.images, body)).paid) / 1e9).toBeLessThanOrEqual(Number(most));
  });

  testOnce("the hold covers the charge, whatever size, quality and number", async () => {
    const cases = fc.record({
      n: fc.integer({ min: 1, max: 10 }),
      quality: fc.constantFrom("low", "medium", "high", "auto"),
      size: fc.constantFrom("auto", "1024x1024", "1536x1024", "640x640"),
      model: fc.constantFrom("sim/image", "sim/image-each-size", "sim/image-each-pixel"),
    });
    await fc.assert(
      fc.asyncProperty(cases, async (more) => {
        for (const api of ["images", "image_edits"]) {
          const image = { image_url: "https://example.com/a.png" };
          const body = { ...IMAGE, ...more, ...(api === "images" ? {} : { images: [image] }) };
          const quoted = await post(gateway, account, `/v1/quote?api=${api}`, body);
          const { cost_usd_max: most } = (await quoted.json()) as { cost_usd_max: string };
          const { paid } = await call(api === "images" ? PATHS.images : PATHS.edits, body);
          expect(Number(paid) / 1e9).toBeLessThanOrEqual(Number(most));
        }
      }),
      { numRuns: 10 },
    );
  });
});

test.each([
  [PATHS.images, { model: "sim/image" }, "prompt"],
  [PATHS.images, { ...IMAGE, n: 11 }, "n"],
  [PATHS.images, { ...IMAGE, size: "9000x9000" }, "size"],
  [PATHS.images, { ...IMAGE, size: "large" }, "size"],
  [PATHS.images, { ...IMAGE, size: "0x1024" }, "size"],
  [PATHS.images, { ...IMAGE, stream: true, n: 2 }, "n"],
  [PATHS.images, { ...IMAGE, partial_images: 4 }, "partial_images"],
  [PATHS.edits, IMAGE, "image"],
  [PATHS.edits, { ...IMAGE, image: "file-abc123" }, "image"],
  // Providers in Go ignore case: what they read must be what the hold is for.
  [PATHS.images, { ...IMAGE, Size: "3840x2160" }, "Size"],
  [PATHS.images, { ...IMAGE, quality: "low", Quality: "high" }, "Quality"],
  [PATHS.images, { ...IMAGE, N: 10 }, "N"],
  [PATHS.images, { ...IMAGE, n: "10" }, "n"],
  [PATHS.rerank, { ...RERANK, documents: DOCUMENTS, Documents: ["x"] }, "Documents"],
  [PATHS.images, { ...IMAGE, stream: true, Partial_Images: 3 }, "Partial_Images"],
  [PATHS.edits, { ...IMAGE, image: {}, Images: [{}] }, "Images"],
  [PATHS.images, { ...IMAGE, model: "sim/echo" }, "model"],
  [PATHS.rerank, { ...RERANK }, "documents"],
  [PATHS.rerank, { ...RERANK, documents: [7] }, "documents[0]"],
  [PATHS.rerank, { model: "sim/rerank", documents: DOCUMENTS }, "query"],
  [PATHS.rerank, { ...RERANK, documents: DOCUMENTS, top_n: 0 }, "top_n"],
  [PATHS.moderations, { model: "sim/moderation" }, "input"],
  [PATHS.decisions, { model: "sim/echo", input: "x" }, "questions"],
  [PATHS.decisions, { model: "sim/echo", input: "x", questions: [{}] }, "questions[0]"],
  [PATHS.completions, { model: "sim/echo" }, "prompt"],
  [PATHS.completions, { model: "sim/echo", prompt: "x", best_of: 1_000 }, "best_of"],
])("rejects %s with %j by the name of the field", async (path, body, param) => {
  const gateway = await sharedGateway();
  const response = await post(gateway.gateway, gateway.account, path, body);
  const error = errorOf(await response.json());
  expect([response.status, error["param"]]).toEqual([400, param]);
  if (param === "model") expect(error["message"]).toContain("A model that supports it: sim/image");
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

function writeModels(models: Json | undefined): string | undefined {
  if (models === undefined) return undefined;
  const file = join(scratchFolder("relayed-models"), "models.json");
  writeFileSync(file, JSON.stringify(models));
  return file;
}

describe("a provider's own account", () => {
  let gateway: Gateway | undefined;
  let provider: RawProvider | undefined;
  afterEach(async () => {
    await gateway?.stop();
    await provider?.stop();
  });

  async function send(prefix: string, reply: RawReply, path: string, body: Json | FormData) {
    return sendWith(undefined, prefix, reply, { path, body });
  }

  async function sendWith(
    models: Json | undefined,
    prefix: string,
    reply: RawReply,
    { path, body }: { readonly path: string; readonly body: Json | FormData },
  ) {
    const started = await startRawProvider(() => reply);
    provider = started;
    const file = writeModels(models);
    const env = {
      [`${prefix}_BASE_URL`]: started.url,
      [`${prefix}_API_KEY`]: "test-key-01234567",
      ...(file === undefined ? {} : { POSTERN_MODELS_FILE: file }),
    };
    const opened = await startGateway({ providers: [], env });
    gateway = opened;
    const account = await registerAccount(opened);
    await grantCredits(opened, account, 100n * USD);
    const response = await post(opened, account, path, body);
    const text = await response.text();
    const paid = 100n * USD + START_CREDITS - (await balance(opened, account));
    const [request] = started.requests;
    return { response, text, paid, sent: request, account };
  }

  test("gets the body of an image request with its own name of the model", async () => {
    const usage = {
      input_tokens: 30,
      output_tokens: 1_000,
      total_tokens: 1_030,
      input_tokens_details: { text_tokens: 10, image_tokens: 20 },
    };
    const reply = { body: JSON.stringify({ created: 1, data: [{ b64_json: "AAAA" }], usage }) };
    const body = { prompt: "prompt_id: file-abcdef1234", n: 1, output_format: "webp", postern: {} };
    const { sent, paid, text } = await send("OPENAI", reply, PATHS.images, {
      model: "openai/gpt-image-2",
      ...body,
    });
    expect(sent?.path).toBe("/images/generations");
    const { postern: _, ...forwarded } = body;
    expect(JSON.parse(sent?.body ?? "")).toEqual({ model: "gpt-image-2", ...forwarded });
    expect(paid).toBe(10n * 5_000n + 20n * 8_000n + 1_000n * 30_000n);
    expect(JSON.parse(text)).toMatchObject({ data: [{ b64_json: "AAAA" }] });
  });

  test("of OpenAI pays less for the cached tokens of images, and of texts", async () => {
    const usage = {
      input_tokens: 150,
      output_tokens: 1_000,
      total_tokens: 1_150,
      input_tokens_details: {
        text_tokens: 50,
        image_tokens: 100,
        cached_tokens: 90,
        cached_tokens_details: { text_tokens: 20, image_tokens: 70 },
      },
    };
    const reply = { body: JSON.stringify({ created: 1, data: [{ b64_json: "AAAA" }], usage }) };
    const body = { model: "openai/gpt-image-2", prompt: "a lighthouse" };
    const { paid } = await send("OPENAI", reply, PATHS.images, body);
    const texts = 30n * 5_000n + 20n * 1_250n;
    const images = 30n * 8_000n + 70n * 2_000n;
    expect(paid).toBe(texts + images + 1_000n * 30_000n);
  });

  test("of Google makes an image with generateContent, at the price of its tokens", async () => {
    const image = { inlineData: { mimeType: "image/png", data: "AAAA" } };
    const usageMetadata = {
      promptTokenCount: 10,
      candidatesTokenCount: 1_290,
      totalTokenCount: 1_300,
      candidatesTokensDetails: [{ modality: "IMAGE", tokenCount: 1_290 }],
    };
    const candidates = [{ content: { role: "model", parts: [image] }, finishReason: "STOP" }];
    const reply = { body: JSON.stringify({ candidates, usageMetadata }) };
    const body = { prompt: "a lighthouse", size: "1536x1024", quality: "low" };
    const { sent, paid, response, text } = await send("GOOGLE", reply, PATHS.images, {
      model: "google/gemini-3.1-flash-image",
      ...body,
    });
    expect(response.headers.get("x-postern-dropped")).toBe("quality");
    expect([sent?.path, sent?.headers["x-goog-api-key"]]).toEqual([
      "/models/gemini-3.1-flash-image:generateContent",
      "test-key-01234567",
    ]);
    expect(JSON.parse(sent?.body ?? "")).toEqual({
      contents: [{ role: "user", parts: [{ text: "a lighthouse" }] }],
      generationConfig: {
        responseModalities: ["IMAGE"],
        maxOutputTokens: 8_192,
        imageConfig: { aspectRatio: "3:2" },
      },
    });
    expect(paid).toBe(10n * 500n + 1_290n * 60_000n);
    expect(JSON.parse(text)).toMatchObject({
      data: [{ b64_json: "AAAA" }],
      usage: { cost: Number(paid) / 1e9, input_tokens: 10, output_tokens: 1_290 },
    });
  });

  test.each([
    [{ n: 2 }, "n"],
    [{ stream: true }, "stream"],
    [{ response_format: "url" }, "response_format"],
  ])("of Google is not sent %j", async (more, param) => {
    const model = "google/gemini-3.1-flash-image";
    const body = { model, prompt: "x", ...more };
    const { response, sent, text, paid } = await send("GOOGLE", { body: "{}" }, PATHS.images, body);
    expect([response.status, sent, paid]).toEqual([400, undefined, 0n]);
    expect(errorOf(JSON.parse(text))["param"]).toBe(param);
  });

  const png = new File([new Uint8Array([137, 80, 78, 71])], "a.png", { type: "image/png" });
  const asForm = (): FormData => {
    const form = new FormData();
    form.append("model", "google/gemini-nano-banana-2.1");
    form.append("image", png);
    form.append("prompt", "make it night");
    return form;
  };
  test.each<[string, () => Json | FormData]>([
    ["a form", asForm],
    [
      "JSON",
      () => ({
        model: "google/gemini-nano-banana-2.1",
        prompt: "make it night",
        images: [{ image_url: "data:image/png;base64,iVBORw==" }],
      }),
    ],
  ])("of Google edits the image of %s", async (_, body) => {
    const image = { inlineData: { mimeType: "image/png", data: "AAAA" } };
    const candidates = [{ content: { role: "model", parts: [image] }, finishReason: "STOP" }];
    const usageMetadata = {
      promptTokenCount: 270,
      candidatesTokenCount: 1_120,
      totalTokenCount: 1_390,
      candidatesTokensDetails: [{ modality: "IMAGE", tokenCount: 1_120 }],
    };
    const reply = { body: JSON.stringify({ candidates, usageMetadata }) };
    const { sent, paid, text } = await send("GOOGLE", reply, PATHS.edits, body());
    expect(sent?.path).toBe("/models/gemini-nano-banana-2.1:generateContent");
    expect(JSON.parse(sent?.body ?? "").contents).toEqual([
      {
        role: "user",
        parts: [
          { inlineData: { mimeType: "image/png", data: "iVBORw==" } },
          { text: "make it night" },
        ],
      },
    ]);
    expect(paid).toBe(270n * 1_500n + 1_120n * 30_000n);
    expect(JSON.parse(text)).toMatchObject({ data: [{ b64_json: "AAAA" }] });
  });

  test.each([
    [{ mask: { image_url: "data:image/png;base64,iVBORw==" } }, "mask"],
    [{ images: [{ image_url: "https://example.com/a.png" }] }, "images[0].image_url"],
  ])("of Google is not sent an edit with %j", async (more, param) => {
    const images = [{ image_url: "data:image/png;base64,iVBORw==" }];
    const body = { model: "google/gemini-nano-banana-2.1", prompt: "x", images, ...more };
    const { response, sent, text, paid } = await send("GOOGLE", { body: "{}" }, PATHS.edits, body);
    expect([response.status, sent, paid]).toEqual([400, undefined, 0n]);
    expect(errorOf(JSON.parse(text))["param"]).toBe(param);
  });

  test("of xAI edits images as JSON, at the cost that it states", async () => {
    const usage = { cost_in_usd_ticks: 620_000_000 };
    const reply = { body: JSON.stringify({ data: [{ b64_json: "AAAA" }], usage }) };
    const form = new FormData();
    for (const [name, value] of Object.entries({
      model: "xai/grok-imagine-image-2.0",
      prompt: "make it night",
      resolution: "1k",
      background: "opaque",
    }))
      form.append(name, value);
    form.append("image", png);
    const { sent, paid, response } = await send("XAI", reply, PATHS.edits, form);
    expect([sent?.path, JSON.parse(sent?.body ?? "")]).toEqual([
      "/images/edits",
      {
        model: "grok-imagine-image-2.0",
        prompt: "make it night",
        image: { type: "image_url", url: "data:image/png;base64,iVBORw==" },
        resolution: "1k",
      },
    ]);
    expect([paid, response.headers.get("x-postern-dropped")]).toEqual([62_000_000n, "background"]);
  });

  test("of Together gets width and height, and is paid by pixel", async () => {
    const data = [{ index: 0, type: "b64_json", b64_json: "AAAA" }, { url: "https://x.test/b" }];
    const { sent, paid, response, text } = await send(
      "TOGETHER",
      { body: JSON.stringify({ id: "o1", model: "m", object: "list", data }) },
      PATHS.images,
      {
        model: "together/black-forest-labs/FLUX.1-schnell",
        prompt: "a lighthouse",
        size: "1000x500",
        n: 2,
        quality: "high",
        negative_prompt: "people",
        // The price is for the default number of steps.
        steps: 50,
      },
    );
    expect([sent?.path, JSON.parse(sent?.body ?? "")]).toEqual([
      "/images/generations",
      {
        model: "black-forest-labs/FLUX.1-schnell",
        prompt: "a lighthouse",
        n: 2,
        width: 1_000,
        height: 500,
        response_format: "base64",
        negative_prompt: "people",
      },
    ]);
    expect(response.headers.get("x-postern-dropped")).toBe("quality, steps");
    expect(paid).toBe(2_700_000n);
    expect(JSON.parse(text).data).toEqual([{ b64_json: "AAAA" }, { url: "https://x.test/b" }]);
  });

  test("of Fireworks gets a ratio and a number of steps, and is paid by image", async () => {
    const base64 = ["data:image/png;base64,AAAA"];
    const { sent, paid, text } = await send(
      "FIREWORKS",
      { body: JSON.stringify({ id: "1", base64, finishReason: "SUCCESS", seed: 1 }) },
      PATHS.images,
      { model: "fireworks/flux-1-schnell-fp8", prompt: "a lighthouse", size: "1536x1024" },
    );
    expect([sent?.path, sent?.headers["accept"], JSON.parse(sent?.body ?? "")]).toEqual([
      "/workflows/accounts/fireworks/models/flux-1-schnell-fp8/text_to_image",
      "application/json",
      { prompt: "a lighthouse", aspect_ratio: "3:2", num_inference_steps: 4 },
    ]);
    expect(paid).toBe(1_400_000n);
    expect(JSON.parse(text)).toEqual({
      created: expect.any(Number),
      data: [{ b64_json: "AAAA" }],
    });
  });

  test.each([
    [null, ["AAAA"], 40_000_000n],
    ["Filter reason: prompt", [], 0n],
  ])(
    "of Bedrock makes an image with a model of Stability: finish reason %j",
    async (reason, images, cost) => {
      const model = "bedrock/stability.stable-image-core-v1:1";
      const { sent, paid, text } = await send(
        "BEDROCK",
        { body: JSON.stringify({ seeds: [1], finish_reasons: [reason], images }) },
        PATHS.images,
        { model, prompt: "a lighthouse", aspect_ratio: "16:9", seed: 7 },
      );
      expect([sent?.path, JSON.parse(sent?.body ?? "")]).toEqual([
        "/model/stability.stable-image-core-v1%3A1/invoke",
        { prompt: "a lighthouse", mode: "text-to-image", aspect_ratio: "16:9", seed: 7 },
      ]);
      expect(paid).toBe(cost);
      expect(JSON.parse(text)).toMatchObject({
        data: images.map((b64_json) => ({ b64_json })),
        ...(reason === null ? {} : { finish_reasons: [reason] }),
      });
    },
  );

  test.each([
    ["fireworks/flux-1-schnell-fp8", { n: 2 }, "n"],
    ["fireworks/flux-1-schnell-fp8", { aspect_ratio: "7:1" }, "aspect_ratio"],
    ["bedrock/stability.stable-image-core-v1:1", { response_format: "url" }, "response_format"],
    ["together/black-forest-labs/FLUX.1-schnell", { stream: true }, "stream"],
  ])("of %s is not sent %j", async (model, more, param) => {
    const prefix = model.slice(0, model.indexOf("/")).toUpperCase();
    const body = { model, prompt: "x", ...more };
    const { response, sent, text, paid } = await send(prefix, { body: "{}" }, PATHS.images, body);
    expect([response.status, sent, paid]).toEqual([400, undefined, 0n]);
    expect(errorOf(JSON.parse(text))["param"]).toBe(param);
  });

  test.each([
    [{ quality: "low", resolution: "2k" }, 60_000_000n],
    [{ quality: "medium", resolution: "2k" }, 80_000_000n],
    [{}, 60_000_000n],
  ])("of xAI is paid by quality and resolution: %j", async (more, cost) => {
    const reply = { body: JSON.stringify({ data: [{ b64_json: "AAAA" }] }) };
    const body = { model: "xai/grok-imagine-image-2.0", prompt: "x", ...more };
    const { paid, sent } = await send("XAI", reply, PATHS.images, body);
    expect([paid, JSON.parse(sent?.body ?? "")]).toEqual([
      cost,
      { model: "grok-imagine-image-2.0", prompt: "x", ...more },
    ]);
  });

  test("that reports no usage for an image is paid the hold, not nothing", async () => {
    const reply = { body: JSON.stringify({ created: 1, data: [{ b64_json: "AAAA" }] }) };
    const { paid } = await send("OPENAI", reply, PATHS.images, {
      model: "openai/gpt-image-2",
      prompt: "x",
    });
    expect(paid).toBeGreaterThan(100_000_000n);
  });

  test("that reports more than a request can cause is paid the hold at most", async () => {
    const usage = { input_tokens: 1, output_tokens: 900_000_000, total_tokens: 900_000_001 };
    const reply = { body: JSON.stringify({ created: 1, data: [], usage }) };
    const { paid } = await send("OPENAI", reply, PATHS.images, {
      model: "openai/gpt-image-2",
      prompt: "x",
      size: "1024x1024",
    });
    expect(paid).toBeLessThan(300_000_000n);
  });

  test.each([
    ["an object", { prompt: { id: "pmpt_1" } }, 400],
    ["an unknown field that could be a reference", { reference: "file-abcdef1234" }, 400],
    ["a file", { image: { file_id: "file-abcdef1234" } }, 400],
  ])("is not sent references to its storage: %s", async (_, more, status) => {
    const reply = { body: "{}" };
    const { response, sent, paid } = await send("OPENAI", reply, PATHS.images, {
      model: "openai/gpt-image-2",
      prompt: "x",
      ...more,
    });
    expect([response.status, sent, paid]).toEqual([status, undefined, 0n]);
  });

  test.each([
    ["a file", { images: [{ file_id: "file-abcdef1234" }] }],
    [
      "a mask",
      { images: [{ image_url: "https://example.com/a.png" }], mask: { file_id: "file-a1" } },
    ],
    ["a private address", { images: [{ image_url: "http://127.0.0.1/a.png" }] }],
  ])("is not sent references in edits: %s", async (_, more) => {
    const body = { model: "openai/gpt-image-2", prompt: "x", ...more };
    const { response, sent, paid } = await send("OPENAI", { body: "{}" }, PATHS.edits, body);
    expect([response.status, sent, paid]).toEqual([400, undefined, 0n]);
  });

  test("of Voyage gets its names of the fields, and its reply gets the gateway's", async () => {
    const reply = {
      body: JSON.stringify({
        object: "list",
        model: "rerank-2.5",
        data: [{ relevance_score: 0.4, index: 0 }],
        usage: { total_tokens: 26 },
      }),
    };
    const { sent, paid, text } = await send("VOYAGE", reply, PATHS.rerank, {
      model: "voyage/rerank-2.5",
      query: "q",
      documents: ["a", { text: "b" }],
      top_n: 1,
      return_documents: true,
    });
    expect(JSON.parse(sent?.body ?? "")).toEqual({
      model: "rerank-2.5",
      query: "q",
      documents: ["a", "b"],
      top_k: 1,
    });
    expect(paid).toBe(26n * 50n);
    expect(JSON.parse(text)).toMatchObject({
      results: [{ index: 0, relevance_score: 0.4, document: { text: "a" } }],
      usage: { total_tokens: 26 },
    });
  });

  test("of Cohere is called on its v2 path and paid by search, also without a count", async () => {
    const reply = { body: JSON.stringify({ id: "r", results: [], meta: {} }) };
    const { sent, paid } = await send("COHERE", reply, PATHS.rerank2, {
      model: "cohere/rerank-v4.0-pro",
      query: "q",
      documents: Array.from({ length: 150 }, () => "text"),
    });
    expect([sent?.path, paid]).toEqual(["/v2/rerank", 5_000_000n]);
  });

  test("of Bedrock is invoked by the name of the model, and paid by search", async () => {
    const results = [{ index: 1, relevance_score: 0.9 }];
    const id = "bedrock/cohere.rerank-v3-5:0";
    const fees = { search_unit: "0.002" };
    const models = [
      {
        id,
        kind: "rerank",
        wires: ["rerank"],
        pricing: { tokens: { input: "0", output: "0" }, fees },
      },
    ];
    const body = { model: id, query: "q", documents: ["a", { text: "b" }], top_n: 1 };
    const { sent, paid, text } = await sendWith(
      { models },
      "BEDROCK",
      { body: JSON.stringify({ results }) },
      { path: PATHS.rerank, body: { ...body, return_documents: true } },
    );
    expect(sent?.path).toBe("/model/cohere.rerank-v3-5%3A0/invoke");
    expect(JSON.parse(sent?.body ?? "")).toEqual({
      query: "q",
      documents: ["a", "b"],
      top_n: 1,
      api_version: 2,
    });
    expect(paid).toBe(2_000_000n);
    expect(JSON.parse(text)).toMatchObject({
      results: [{ index: 1, relevance_score: 0.9, document: { text: "b" } }],
      usage: { cost: 0.002, search_units: 1 },
    });
  });

  const ranked = [{ index: 0, relevance_score: 0.9 }];
  test.each([
    ["TOGETHER", "together/mixedbread-ai/Mxbai-Rerank-Large-V2", "results", 4_000n],
    ["FIREWORKS", "fireworks/accounts/fireworks/models/qwen3-reranker-8b", "data", 8_000n],
  ])("of %s gets Cohere's form, and is paid by token", async (prefix, model, member, cost) => {
    const usage = { prompt_tokens: 40, completion_tokens: 0, total_tokens: 40 };
    const own = { id: model, kind: "rerank", wires: ["rerank"] };
    const models = [{ ...own, pricing: { tokens: { input: "0.1" } } }];
    const body = { model, query: "q", documents: ["a", "b"], top_n: 1 };
    const { sent, paid, text } = await sendWith(
      prefix === "TOGETHER" ? { models } : undefined,
      prefix,
      { body: JSON.stringify({ [member]: ranked, usage }) },
      { path: PATHS.rerank, body },
    );
    const name = model.slice(model.indexOf("/") + 1);
    expect([sent?.path, JSON.parse(sent?.body ?? "")]).toEqual([
      "/rerank",
      { ...body, model: name },
    ]);
    expect([paid, JSON.parse(text).results]).toEqual([cost, ranked]);
  });

  test("of Jina that reports no tokens is paid by a count", async () => {
    const reply = { body: JSON.stringify({ results: [{ index: 0, relevance_score: 1 }] }) };
    const { response, paid } = await send("JINA", reply, PATHS.rerank, {
      model: "jina/jina-reranker-m0",
      query: "which one",
      documents: ["some words of a document"],
    });
    expect([response.status, paid > 0n]).toEqual([200, true]);
  });

  test("of OpenAI gets its own name of the model of a decision, at the lower price", async () => {
    const usage = { input_tokens: 100, output_tokens: 0, total_tokens: 100 };
    const reply = { body: JSON.stringify({ model: "gpt-6-luna", answers: [], usage }) };
    const body = { model: "openai/gpt-6-luna", input: "x", questions: [{ type: "predicate" }] };
    const { sent, paid } = await send("OPENAI", reply, PATHS.decisions, body);
    expect(JSON.parse(sent?.body ?? "")).toMatchObject({ model: "gpt-6-luna" });
    expect([sent?.path, paid]).toEqual(["/decisions", 10_000n]);
  });

  test("of OpenAI serves moderation without a named model", async () => {
    const reply = { body: JSON.stringify({ id: "m", model: "omni", results: [] }) };
    const { sent, paid } = await send("OPENAI", reply, PATHS.moderations, { input: "x" });
    expect(JSON.parse(sent?.body ?? "")).toEqual({ input: "x", model: "omni-moderation-latest" });
    expect(paid).toBe(0n);
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

  const ranked = { ...RERANK, documents: DOCUMENTS };
  test.each<[string, Json]>([
    [PATHS.images, IMAGE],
    [PATHS.images, { ...IMAGE, model: "sim/image-each-size", quality: "high" }],
    [PATHS.images, { ...IMAGE, model: "sim/image-each-pixel", n: 2 }],
    [PATHS.images, { ...IMAGE, stream: true, partial_images: 2 }],
    [PATHS.edits, { ...IMAGE, images: [{ image_url: "https://example.com/a.png" }] }],
    [PATHS.rerank, ranked],
    [PATHS.rerank, { ...ranked, model: "sim/rerank-tokens" }],
    [PATHS.decisions, { model: "sim/echo", input: "x", questions: [{ type: "predicate" }] }],
    [PATHS.completions, { model: "sim/echo", prompt: "Once upon a time" }],
  ])("pays at %s for what the provider makes, as one that stays: %j", async (path, body) => {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, 100n * USD);
    const leaving = new AbortController();
    const { signal } = leaving;
    const left = post(gateway, { ...account, signal }, path, body).catch(() => "left");
    await waitUntil(
      () => gate.waiting(),
      (count) => count === 1,
    );
    leaving.abort();
    expect(await left).toBe("left");
    gate.open();
    await waitUntil(
      () => usageRecordsOf(gateway.server.db, account.id),
      (records) => records.length === 1,
    );
    await (await post(gateway, account, path, body)).text();
    const records = await usageRecordsOf(gateway.server.db, account.id);
    const [first, second] = records.map((record) => Number(record["cost_nano"]));
    expect([records[0]?.["outcome"], Number(second) > 0, first]).toEqual([
      "client_aborted",
      true,
      second,
    ]);
    await expectSettledLedger(gateway.server.db);
  });
});
