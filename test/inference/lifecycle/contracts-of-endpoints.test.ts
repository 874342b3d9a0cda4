// A ceiling, a quote and a receipt at every endpoint of models: the same promise, whatever the form of the request and the reply.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { USAGE_APIS } from "../../../src/usage/usage.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  expectSettledLedger,
  grantCredits,
  type Json,
  USD,
  usageRecordOf,
} from "../support/harness.ts";

const MESSAGES = [{ role: "user", content: "count to three" }];
const CONTENTS = {
  contents: [{ role: "user", parts: [{ text: "count to three" }] }],
  generationConfig: { maxOutputTokens: 40 },
};
const IMAGE = { model: "sim/image", prompt: "a lighthouse" };

interface Endpoint {
  readonly api: (typeof USAGE_APIS)[number];
  readonly path: string;
  readonly body: Json;
  /** The fields of a form besides those of the body. */
  readonly file?: () => File;
  /** The body of its quote, if it is another one. */
  readonly quotedAs?: Json;
  /** Another request. */
  readonly changed?: Json;
  readonly isFree?: true;
}

const recording = (): File => {
  const head = Buffer.alloc(44);
  head.write("RIFF\0\0\0\0WAVEfmt ", 0, "latin1");
  for (const [value, at] of [
    [16, 16],
    [16_000, 24],
    [32_000, 28],
  ] as const)
    head.writeUInt32LE(value, at);
  for (const [value, at] of [
    [1, 20],
    [1, 22],
    [2, 32],
    [16, 34],
  ] as const)
    head.writeUInt16LE(value, at);
  head.write("data", 36, "latin1");
  return new File([head, Buffer.alloc(32_000)], "speech.wav", { type: "audio/wav" });
};

const GEMINI = "/v1beta/models/sim/echo";
const GEMINI_CALL = { body: CONTENTS, quotedAs: { ...CONTENTS, model: "sim/echo" } };
const ENDPOINTS: readonly Endpoint[] = [
  {
    api: "chat",
    path: "/v1/chat/completions",
    body: { model: "sim/echo", max_tokens: 40, messages: MESSAGES },
  },
  {
    api: "chat",
    path: "/v1/chat/completions",
    body: { model: "sim/echo", max_tokens: 40, messages: MESSAGES, stream: true },
  },
  {
    api: "responses",
    path: "/v1/responses",
    body: { model: "sim/echo", max_output_tokens: 40, input: "count to three" },
  },
  {
    api: "messages",
    path: "/v1/messages",
    body: { model: "sim/echo", max_tokens: 40, messages: MESSAGES },
  },
  { api: "gemini", path: `${GEMINI}:generateContent`, ...GEMINI_CALL },
  { api: "gemini", path: `${GEMINI}:streamGenerateContent`, ...GEMINI_CALL },
  {
    api: "gemini",
    path: `${GEMINI}:streamGenerateContent?alt=sse`,
    ...GEMINI_CALL,
  },
  { api: "embeddings", path: "/v1/embeddings", body: { model: "sim/embed", input: "hello" } },
  {
    api: "embeddings",
    path: "/v1beta/models/sim/embed:embedContent",
    body: { content: { parts: [{ text: "hello" }] } },
    quotedAs: { model: "sim/embed", input: "hello" },
    changed: { content: { parts: [{ text: "hallo" }] } },
  },
  { api: "images", path: "/v1/images/generations", body: IMAGE },
  {
    api: "image_edits",
    path: "/v1/images/edits",
    body: { ...IMAGE, images: [{ image_url: "https://example.com/a.png" }] },
  },
  {
    api: "image_edits",
    path: "/v1/images/edits",
    body: IMAGE,
    file: () => new File(["x"], "image.png", { type: "image/png" }),
  },
  {
    api: "speech",
    path: "/v1/audio/speech",
    body: { model: "sim/speech", voice: "alloy", input: "Hello." },
  },
  {
    api: "transcriptions",
    path: "/v1/audio/transcriptions",
    body: { model: "sim/transcribe" },
    file: recording,
  },
  {
    api: "translations",
    path: "/v1/audio/translations",
    body: { model: "sim/transcribe" },
    file: recording,
  },
  {
    api: "rerank",
    path: "/v1/rerank",
    body: { model: "sim/rerank", query: "capital?", documents: ["Berlin", "Paris"] },
  },
  {
    api: "moderations",
    path: "/v1/moderations",
    body: { model: "sim/moderation", input: "hello" },
    isFree: true,
  },
  {
    api: "decisions",
    path: "/v1/decisions",
    body: {
      model: "sim/echo",
      input: "I was charged twice.",
      questions: [{ type: "predicate", name: "refund", instructions: "A refund is due." }],
    },
  },
  {
    api: "completions",
    path: "/v1/completions",
    body: { model: "sim/echo", prompt: "Once", max_tokens: 20 },
  },
];

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const nameOf = ({ path, body, file }: Endpoint): string =>
  `${path}${body["stream"] === true ? ", streamed" : ""}${file === undefined ? "" : " with a file"}`;

test("the table has every API", () => {
  expect(new Set(ENDPOINTS.map(({ api }) => api))).toEqual(new Set(USAGE_APIS));
});

describe.each(STORE_KINDS)("every endpoint on %s", (store) => {
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

  async function post(
    path: string,
    { api, body, file }: Pick<Endpoint, "api" | "body" | "file">,
    more: Readonly<Record<string, string>> = {},
  ) {
    const form = new FormData();
    for (const [name, value] of Object.entries(body)) form.append(name, String(value));
    if (file !== undefined) form.append(api === "image_edits" ? "image" : "file", file());
    const encoded = new Request(gateway.url, {
      method: "POST",
      ...(file === undefined
        ? { body: JSON.stringify(body), headers: { "content-type": "application/json" } }
        : { body: form }),
    });
    const sent = new Uint8Array(await encoded.clone().arrayBuffer());
    const response = await fetch(gateway.url + path, {
      method: "POST",
      headers: {
        authorization: `Bearer ${account.key}`,
        "content-type": encoded.headers.get("content-type") ?? "",
        ...more,
      },
      body: sent,
    });
    const bytes = new Uint8Array(await response.arrayBuffer());
    return { response, sent, bytes, text: new TextDecoder().decode(bytes) };
  }
  const recordOf = (response: Response) =>
    usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));

  for (const endpoint of ENDPOINTS) {
    const { api, path, body, file, quotedAs, isFree } = endpoint;

    test(`refuses what costs more than \`max_cost_usd\`: ${nameOf(endpoint)}`, async () => {
      const none = { "x-postern-max-cost-usd": "0.000000001", "x-postern-on-max-cost": "refuse" };
      const refused = await post(path, endpoint, none);
      if (isFree === true) return expect(refused.response.status).toBe(200);
      expect(refused.response.status).toBe(400);
      expect(refused.text).toContain("`max_cost_usd`");
      if (file !== undefined) return undefined;
      const stated = { ...body, postern: { max_cost_usd: "0.000000001", on_max_cost: "refuse" } };
      const inBody = await post(path, { api, body: stated });
      expect([inBody.response.status, inBody.text]).toEqual([
        400,
        expect.stringContaining("`max_cost_usd`"),
      ]);
    });

    test(`costs at most its quote: ${nameOf(endpoint)}`, async () => {
      const quoted = { ...endpoint, body: quotedAs ?? body };
      const quote = await post(`/v1/quote?api=${api}`, quoted);
      expect([quote.response.status, quote.text]).toEqual([
        200,
        expect.stringContaining('"offer"'),
      ]);
      const { offer, cost_usd_max: most } = JSON.parse(quote.text) as Record<string, string>;
      const bound = await post(path, endpoint, { "x-postern-quote": String(offer) });
      expect([bound.response.status, bound.text]).toEqual([200, expect.any(String)]);
      const { cost_nano: cost } = await recordOf(bound.response);
      expect(Number(cost)).toBeLessThanOrEqual(Math.round(Number(most) * 1e9));
      const changed = { ...endpoint, body: endpoint.changed ?? { ...body, user: "other" } };
      const other = await post(path, changed, { "x-postern-quote": String(offer) });
      expect([other.response.status, other.text]).toEqual([
        400,
        expect.stringContaining("another request"),
      ]);
    });

    test(`has a receipt with the hashes of what was sent: ${nameOf(endpoint)}`, async () => {
      const called = await post(path, endpoint, { "x-postern-receipt": "1" });
      expect([called.response.status, called.text]).toEqual([200, expect.any(String)]);
      const id = called.response.headers.get("x-request-id");
      const read = await fetch(`${gateway.url}/v1/usage/${id}/receipt`, {
        headers: account.headers,
      });
      const { receipt } = (await read.json()) as { receipt: string };
      const [, encoded = ""] = receipt.split(".");
      const payload = JSON.parse(Buffer.from(encoded, "base64url").toString()) as Json;
      const { cost_nano: cost } = await recordOf(called.response);
      expect(payload).toMatchObject({
        transaction: id,
        payer: account.id,
        request_sha256: sha256(called.sent),
        response_sha256: sha256(called.bytes),
      });
      expect(Math.round(Number(payload["cost_usd"]) * 1e9)).toBe(Number(cost));
      const inHeader = called.response.headers.get("x-postern-receipt");
      if (inHeader !== null) expect(inHeader).toBe(receipt);
    });
  }
});
