// Calls of Google's API: what reaches Google unchanged, where a key is read and that it stays secret, what is refused on the
// gateway's account, and the forms of a stream.

import { afterAll, describe, expect, test } from "bun:test";
import { type Json, modelOn, startHarness, type Wire } from "../../translation/support/harness.ts";
import { expectSettledLedger } from "../support/harness.ts";

const harness = await startHarness({ providers: ["sim"] });
afterAll(async () => {
  await expectSettledLedger(harness.gateway.server.db);
  await harness.stop();
});

const { key } = harness.account;
const HELLO = [{ role: "user", parts: [{ text: "hello" }] }];
const URL_OF = (model: string, operation = "generateContent"): string =>
  `${harness.gateway.url}/v1beta/models/${model}:${operation}`;

interface Call {
  readonly model?: string;
  readonly operation?: string;
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Json | string;
}

async function send({
  model = modelOn("gemini"),
  operation,
  query = "",
  headers = { "x-goog-api-key": key },
  body = { contents: HELLO },
}: Call) {
  const response = await fetch(URL_OF(model, operation) + query, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.includes("json") === true;
  const json = (isJson ? JSON.parse(text) : {}) as Json;
  return { status: response.status, headers: response.headers, text, json };
}

const errorOf = ({ json }: { readonly json: Json }): Json => (json["error"] ?? {}) as Json;

describe("at Google's own wire", () => {
  test("the body and the reply pass through byte for byte, without the gateway's own fields", async () => {
    let sent = "";
    const reply = `{"candidates": [ {"content":{"parts":[{"text":"Hi"}],"role":"model"},"finishReason":"STOP"}],\n"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"totalTokenCount":5,"unknown":[]},"futureField":{"a":1.50}}`;
    harness.providerResponse = (request) => {
      void request.text().then((text) => (sent = text));
      return new Response(reply, { headers: { "content-type": "application/json" } });
    };
    const body = `{ "contents" : [{"parts":[{"text":"caf\\u00e9"}]}],\n "generationConfig":{"temperature":0.10},"postern":{"max_cost_usd":"1"}}`;
    const { text } = await send({ body });
    harness.providerResponse = undefined;
    expect(sent).toBe(
      `{ "contents" : [{"parts":[{"text":"caf\\u00e9"}]}],\n "generationConfig":{"temperature":0.10}}`,
    );
    expect(text.replace(/"cost":[\d.e-]+,/, "")).toBe(reply);
    expect(harness.upstreamRequests.at(-1)?.path).toBe(
      "/v1beta/models/gemini-3.1-flash-echo:generateContent",
    );
  });

  test("a lowered output limit changes only that member", async () => {
    const generationConfig = { temperature: 0.5, maxOutputTokens: 30_000 };
    const body = { contents: HELLO, generationConfig };
    const { status, headers } = await send({
      body,
      headers: { "x-goog-api-key": key, "x-postern-max-cost-usd": "0.02" },
    });
    const limit = Number(headers.get("x-postern-max-tokens"));
    expect([status, limit < 30_000]).toEqual([200, true]);
    expect(harness.upstreamRequests.at(-1)?.body).toEqual({
      contents: HELLO,
      generationConfig: { temperature: 0.5, maxOutputTokens: limit },
    });
  });

  test("signatures of other providers are removed from a history", async () => {
    const signed = (wire: string, data: string) =>
      `pst1.${Buffer.from(JSON.stringify([wire, "signature", "acme", "m"])).toString("base64url")}.${data}`;
    const functionCall = { name: "f", args: {} };
    const contents = [
      ...HELLO,
      {
        role: "model",
        parts: [
          { text: "Secret.", thought: true, thoughtSignature: signed("messages", "YQ==") },
          { text: "Hm", thoughtSignature: signed("gemini", "Yg==") },
          { functionCall, thoughtSignature: signed("messages", "Yw==") },
        ],
      },
      { role: "user", parts: [{ functionResponse: { name: "f", response: { output: "x" } } }] },
    ];
    const { status, headers } = await send({ body: { contents } });
    expect([status, headers.get("x-postern-dropped")]).toEqual([
      200,
      "contents[1].parts[0].thoughtSignature, contents[1].parts[2].thoughtSignature",
    ]);
    const sent = harness.upstreamRequests.at(-1)?.body["contents"] as readonly Json[] | undefined;
    expect(sent?.[1]?.["parts"]).toEqual([
      { text: "Hm", thoughtSignature: "Yg==" },
      { functionCall, thoughtSignature: "skip_thought_signature_validator" },
    ]);
  });
});

describe("an API key", () => {
  test("is read from a header, the query or as a bearer token, and only one may be sent", async () => {
    const bearer = { authorization: `Bearer ${key}` };
    for (const call of [
      {},
      { headers: {}, query: `?key=${key}` },
      { headers: bearer },
      { headers: { "x-api-key": key } },
      { query: `?key=${key}&$prettyPrint=false&unknown=1` },
    ])
      expect([call, (await send(call)).status]).toEqual([call, 200]);
    const two = await send({ query: "?key=another" });
    expect([two.status, errorOf(two)["status"]]).toEqual([400, "INVALID_ARGUMENT"]);
    const none = await send({ headers: {} });
    expect([none.status, errorOf(none)["status"]]).toEqual([401, "UNAUTHENTICATED"]);
    expect(errorOf(none)["message"]).toContain("x-goog-api-key");
  });

  test("in the query is not read on other APIs", async () => {
    const url = `${harness.gateway.url}/v1/chat/completions?key=${key}`;
    const { status } = await fetch(url, { method: "POST", body: "{}" });
    expect(status).toBe(401);
  });

  test("in the query is in no log line, no row, no request to a provider and no response", async () => {
    const headers = { referer: `https://app.example/?key=${key}` };
    const query = `?key=${key}`;
    const wrong = `?key=${key}x`;
    const seen = [
      await send({ headers, query }),
      await send({ headers, query, model: modelOn("chat") }),
      await send({ headers, query, operation: "streamGenerateContent" }),
      await send({ headers, query, operation: "countTokens" }),
      await send({ headers, query, model: "on-gemini/none" }),
      await send({ headers, query, body: "{" }),
      await send({ headers, query, body: { contents: 1 } }),
      await send({ headers, query, operation: "nothing" }),
      await send({ headers, query: wrong }),
      await send({ headers, query: `${query}&key=${key}` }),
      await send({ headers, query, model: modelOn("messages"), body: { contents: HELLO, a: key } }),
      await send({
        headers,
        query,
        body: { contents: [{ parts: [{ text: "[[sim: status=500]]" }] }] },
      }),
    ];
    const list = await fetch(`${harness.gateway.url}/v1beta/models?key=${key}&pageToken=none`);
    const texts = [...seen, { text: await list.text(), headers: list.headers }].map(
      (one) => one.text + JSON.stringify([...one.headers]),
    );
    expect(texts.filter((text) => text.includes(key))).toEqual([]);
    const { logLines, server } = harness.gateway;
    expect(logLines.filter((line) => line.includes(key))).toEqual([]);
    for (const { path, headers: sent } of harness.upstreamRequests)
      expect(path + JSON.stringify([...sent])).not.toContain(key);
    const tables = await server.db.all("select name from sqlite_master where type = 'table'", []);
    expect(tables.length).toBeGreaterThan(20);
    for (const { name } of tables) {
      const rows = await server.db.all(`select * from "${String(name)}"`, []);
      const text = JSON.stringify(rows, (_, value: unknown) =>
        typeof value === "bigint" ? String(value) : value,
      );
      expect([name, text.includes(key)]).toEqual([name, false]);
    }
  });
});

describe("on the gateway's account", () => {
  const file = (fileUri: string) => ({
    contents: [{ parts: [{ fileData: { fileUri, mimeType: "application/pdf" } }] }],
  });
  const googleFile = "https://generativelanguage.googleapis.com/v1beta/files/abc";
  const STORED: readonly (readonly [string, Json])[] = [
    ["cachedContent", { contents: HELLO, cachedContent: "cachedContents/abc" }],
    ["cached_content", { contents: HELLO, cached_content: "cachedContents/abc" }],
    ["contents[0].parts[0].fileData.fileUri", file("files/abc123")],
    ["contents[0].parts[0].fileData.fileUri", file("gs://bucket/a.pdf")],
    ["contents[0].parts[0].fileData.fileUri", file(googleFile)],
    ["tools[0].fileSearch", { contents: HELLO, tools: [{ fileSearch: {} }] }],
    ["tools[0].retrieval", { contents: HELLO, tools: [{ retrieval: {} }] }],
  ];
  for (const wire of ["gemini", "chat"] as const)
    test(`content that is stored at Google is refused (${wire})`, async () => {
      for (const [path, body] of STORED) {
        const before = harness.upstreamRequests.length;
        const refused = await send({ model: modelOn(wire), body });
        expect([body, refused.status]).toEqual([body, 400]);
        expect(errorOf(refused)).toMatchObject({
          status: "INVALID_ARGUMENT",
          details: [{ reason: "INVALID_REQUEST", metadata: { field: path } }],
          next: expect.any(Array),
        });
        expect(harness.upstreamRequests.length).toBe(before);
      }
    });

  test("tools without a known price, and fields that could name something stored, are refused", async () => {
    const id = "a1b2c3d4e5f6a7b8";
    const functionResponse = { name: "f", response: {}, handle: id };
    for (const body of [
      { contents: HELLO, tools: [{ googleMaps: {} }] },
      { contents: HELLO, tools: [{ enterpriseWebSearch: {} }] },
      { contents: HELLO, tools: [{ googleSearch: {} }] },
      { contents: HELLO, tools: [{ computerUse: { environment: "ENVIRONMENT_BROWSER" } }] },
      { contents: HELLO, memory: id },
      { contents: HELLO, generationConfig: { profile: id } },
      { contents: [{ role: "user", parts: [{ text: "hi", asset: id }] }] },
      {
        contents: [
          ...HELLO,
          { role: "model", parts: [{ functionCall: { name: "f" } }] },
          { role: "user", parts: [{ functionResponse }] },
        ],
      },
    ]) {
      const before = harness.upstreamRequests.length;
      const refused = await send({ body });
      expect([body, refused.status]).toEqual([body, 400]);
      expect(harness.upstreamRequests.length).toBe(before);
    }
  });

  test("what Google documents passes", async () => {
    const body = {
      systemInstruction: { parts: [{ text: "Be brief." }] },
      contents: [
        {
          role: "user",
          parts: [{ text: "a" }, { inlineData: { mimeType: "image/png", data: "aGk=" } }],
        },
        {
          role: "model",
          parts: [{ functionCall: { id: "call-1", name: "f", args: { file_id: "file-abc123" } } }],
        },
        {
          role: "user",
          parts: [
            { functionResponse: { id: "call-1", name: "f", response: { file_id: "file-abc123" } } },
            { fileData: { fileUri: "https://files.example/a.pdf", mimeType: "application/pdf" } },
          ],
        },
      ],
      tools: [
        {
          functionDeclarations: [
            { name: "f", description: "d", parameters: { type: "OBJECT", properties: {} } },
          ],
        },
      ],
      toolConfig: { functionCallingConfig: { mode: "AUTO" } },
      safetySettings: [{ category: "HARM_CATEGORY_HATE_SPEECH", threshold: "BLOCK_NONE" }],
      generationConfig: {
        candidateCount: 1,
        stopSequences: ["END"],
        thinkingConfig: { thinkingLevel: "LOW", includeThoughts: true },
      },
    };
    const { status, json } = await send({ body });
    expect([status, json["error"]]).toEqual([200, undefined]);
    expect(harness.upstreamRequests.at(-1)?.body).toEqual(body);
  });
});

describe("the path", () => {
  test("has a model with slashes, also encoded, and other versions of the API", async () => {
    for (const path of [
      `/v1beta/models/${modelOn("gemini")}:generateContent`,
      `/v1beta/models/${encodeURIComponent(modelOn("chat"))}:generateContent`,
      `/v1/models/${modelOn("responses")}:generateContent`,
      `/v1alpha/models/${modelOn("messages")}:generateContent`,
    ]) {
      const response = await fetch(harness.gateway.url + path, {
        method: "POST",
        headers: { "content-type": "application/json", "x-goog-api-key": key },
        body: JSON.stringify({ contents: HELLO }),
      });
      expect([path, response.status]).toEqual([path, 200]);
    }
  });

  test("wins over a model and a stream in the body", async () => {
    const body = { contents: HELLO, model: modelOn("chat"), stream: true };
    const { json } = await send({ body });
    expect(json["modelVersion"]).toBe(modelOn("gemini"));
  });
});

describe("a stream", () => {
  const wires: readonly Wire[] = ["gemini", "chat"];
  const body = { contents: [{ parts: [{ text: "[[sim: tokens=30 chunks=10]] hello" }] }] };
  for (const wire of wires) {
    test(`is one JSON array without alt=sse (${wire})`, async () => {
      const operation = "streamGenerateContent";
      const model = modelOn(wire);
      const array = await send({ model, operation, body });
      expect(array.headers.get("content-type")).toBe("application/json");
      const chunks = JSON.parse(array.text) as readonly Json[];
      const events = await send({ model, operation, body, query: "?alt=sse" });
      const data = [...events.text.matchAll(/^data: (.*)$/gm)].map(
        ([, line = ""]) => JSON.parse(line) as Json,
      );
      // Two calls, whose times may differ by a second.
      const contentOf = ({ responseId: _id, createTime: _time, ...chunk }: Json): Json => chunk;
      expect(chunks.map(contentOf)).toEqual(data.map(contentOf));
      expect(chunks.length).toBeGreaterThan(9);
    });

    test(`is replayed with its idempotency key, in either form (${wire})`, async () => {
      const operation = "streamGenerateContent";
      const headers = { "x-goog-api-key": key, "idempotency-key": `stream-${wire}` };
      const call = { model: modelOn(wire), operation, body, headers };
      const first = await send({ ...call, query: "?alt=sse" });
      const again = await send(call);
      expect(again.headers.get("idempotent-replayed")).toBe("true");
      const data = [...first.text.matchAll(/^data: (.*)$/gm)].map(([, line = ""]) => line);
      expect(JSON.parse(again.text)).toEqual(data.map((line) => JSON.parse(line)));
      const other = await send({ ...call, model: modelOn("messages") });
      expect([other.status, errorOf(other)["status"]]).toEqual([409, "ABORTED"]);
    });
  }

  test("that breaks off ends the array with the error", async () => {
    const contents = [{ parts: [{ text: "[[sim: tokens=30 chunks=10 fail=3]] hello" }] }];
    for (const wire of wires) {
      const { text } = await send({
        model: modelOn(wire),
        operation: "streamGenerateContent",
        body: { contents },
      });
      const chunks = JSON.parse(text) as readonly Json[];
      expect(chunks.at(-1)?.["error"]).toMatchObject({
        code: expect.any(Number),
        status: expect.any(String),
        details: expect.any(Array),
      });
    }
  });
});

test("errors name a field as the body does", async () => {
  for (const [fields, param] of [
    [{ generation_config: { max_output_tokens: 0 } }, "generation_config.max_output_tokens"],
    [{ generationConfig: { maxOutputTokens: 0 } }, "generationConfig.maxOutputTokens"],
    [{ cached_content: "cachedContents/1" }, "cached_content"],
  ] as const)
    for (const wire of ["gemini", "chat"] as const) {
      const { status, json } = await send({
        model: modelOn(wire),
        body: { contents: HELLO, ...fields },
      });
      expect(status).toBe(400);
      expect(errorOf({ json })).toMatchObject({
        message: expect.stringContaining(`\`${param}\``),
        details: [{ metadata: { field: param } }],
      });
    }
});

test("a quote of the same request binds the call", async () => {
  const quoted = await fetch(`${harness.gateway.url}/v1/quote?api=gemini`, {
    method: "POST",
    headers: harness.account.headers,
    body: JSON.stringify({ model: modelOn("chat"), contents: HELLO }),
  });
  const quote = (await quoted.json()) as Json;
  expect([quoted.status, quote["api"]]).toEqual([200, "gemini"]);
  const call = await send({
    model: modelOn("chat"),
    headers: { "x-goog-api-key": key, "x-postern-quote": String(quote["offer"]) },
  });
  expect(call.status).toBe(200);
  const record = await fetch(
    `${harness.gateway.url}/v1/usage/${call.headers.get("x-request-id") ?? ""}`,
    { headers: harness.account.headers },
  );
  expect(await record.json()).toMatchObject({ api: "gemini", model: modelOn("chat") });
});

test("an embedding lists what other models do not read", async () => {
  const { status, headers, json } = await send({
    model: "sim/embed",
    operation: "embedContent",
    body: { content: { parts: [{ text: "one" }] }, task_type: "RETRIEVAL_QUERY" },
  });
  expect([status, headers.get("x-postern-dropped")]).toEqual([200, "taskType"]);
  expect(json["embedding"]).toMatchObject({ values: expect.any(Array) });
});
