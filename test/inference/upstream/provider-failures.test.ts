import { afterEach, describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { OPEN_MS } from "../../../src/inference/routing/circuit-breaker.ts";
import { untilStable } from "../../support/eventually.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import {
  bodyOf,
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  postCall,
  usageRecordOf,
  usageRecordsOf,
  USD,
} from "../support/harness.ts";
import { identicalModels, withModels } from "../support/models-file.ts";
import {
  type RawProvider,
  type RawReply,
  type RawRequest,
  startRawProvider,
} from "../support/raw-provider.ts";
import { openSocketClient } from "../support/socket-client.ts";

const KEY = "sk-canary-0123456789abcdef0123456789";
const OK = JSON.stringify({
  id: "x",
  object: "chat.completion",
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "fine" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
});
const CHUNK =
  'data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"word "},"finish_reason":null}]}\n\n';
const LAST =
  'data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
const USAGE =
  'data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}\n\n';
const SSE = { "content-type": "text/event-stream" };

const CHAT_ONLY = { ...identicalModels(1)[0], id: "sim/chat-only", wires: ["chat"] };
const MODELS = [...identicalModels(3), CHAT_ONLY];

let provider: RawProvider;
let gateway: Gateway;
let account: TestAccount;

afterEach(async () => {
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
  await provider.stop();
});

async function start(
  replyTo: (request: RawRequest, count: number) => RawReply | undefined,
  options: { timeouts?: Json; now?: () => number; base?: string } = {},
): Promise<void> {
  let count = 0;
  provider = await startRawProvider((request) => replyTo(request, ++count));
  const { base = "", ...rest } = options;
  gateway = await startGateway({
    providers: [],
    env: { SIM_BASE_URL: provider.url + base, SIM_API_KEY: KEY, ...withModels(MODELS) },
    timeouts: { firstByteMs: 3_000, replyMs: 3_000, idleMs: 3_000 },
    ...rest,
  });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 10n * USD);
}

const chat = (more: Json = {}) => postCall(gateway, account, "chat", bodyOf("chat", "hello", more));

describe("a retry", () => {
  test("is made once after a 5xx, before the first byte", async () => {
    await start((_, count) =>
      count === 1 ? { status: 500, body: '{"error":{"message":"oops"}}' } : { body: OK },
    );
    const response = await chat();
    expect(response.status).toBe(200);
    expect(provider.requests.length).toBe(2);
    const record = await usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
    expect(JSON.parse(String(record["detail"])).attempts.map((one: Json) => one["status"])).toEqual(
      [500, 200],
    );
    expect(record).toMatchObject({ outcome: "completed", cost_nano: 20_000 });
  });

  test("is made after a closed connection, and after a stream that breaks before its first event", async () => {
    await start((_, count) => {
      if (count === 1) return { body: "", ending: "cut" };
      if (count === 3) return { headers: SSE, body: "", ending: "cut" };
      return count === 2
        ? { body: OK }
        : { headers: SSE, body: `${CHUNK}${LAST}${USAGE}data: [DONE]\n\n` };
    });
    expect((await chat()).status).toBe(200);
    const stream = await chat({ stream: true });
    expect(stream.status).toBe(200);
    expect(await stream.text()).toContain("[DONE]");
    expect(provider.requests.length).toBe(4);
  });

  test("is made after a stream that begins with an error event", async () => {
    await start((_, count) => ({
      headers: SSE,
      body:
        count === 1
          ? 'data: {"error":{"message":"overloaded","code":529}}\n\n'
          : `${CHUNK}${LAST}${USAGE}data: [DONE]\n\n`,
    }));
    const text = await (await chat({ stream: true })).text();
    expect(text).not.toContain("error");
    expect(text).toContain("word ");
    expect(provider.requests.length).toBe(2);
  });

  test("is not made after an error event with the status of a rejected key", async () => {
    const body = 'data: {"error":{"message":"bad key","code":401}}\n\n';
    await start(() => ({ headers: SSE, body }));
    const response = await chat({ stream: true });
    expect(response.status).toBe(503);
    expect(provider.requests.length).toBe(1);
    const record = await usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
    expect(JSON.parse(String(record["detail"])).attempts).toMatchObject([{ status: 401 }]);
  });

  test("is not made if one of several choices is complete", async () => {
    const chunk = (index: number, finish_reason: string | null): string =>
      `data: ${JSON.stringify({ model: "m", choices: [{ index, delta: { content: "word " }, finish_reason }], usage: { prompt_tokens: 10, completion_tokens: 5 } })}\n\n`;
    const beginning = Array.from({ length: 6 }, () => chunk(0, null) + chunk(1, null)).join("");
    const more = [chunk(1, "stop"), chunk(1, "stop") + chunk(0, "stop")];
    await start((_, count) => ({ headers: SSE, body: beginning + more[count - 1] }));
    const cut = await (await chat({ stream: true, n: 2 })).text();
    expect(cut).toContain('"code":"upstream_error"');
    expect(await (await chat({ stream: true, n: 2 })).text()).toEndWith("data: [DONE]\n\n");
    const outcomes = (await usageRecordsOf(gateway.server.db, account.id)).map(
      (one) => one["outcome"],
    );
    expect(outcomes).toEqual(["upstream_error", "completed"]);
  });

  test("is not made for an error of the caller, nor after the first byte was relayed", async () => {
    const begun = Promise.withResolvers<void>();
    await start((request) =>
      request.body.includes('"stream":true')
        ? { headers: SSE, body: CHUNK, beforeNext: () => begun.promise, ending: "cut" }
        : { status: 400, body: '{"error":{"message":"no","param":"temperature"}}' },
    );
    const refused = await chat();
    expect(refused.status).toBe(400);
    expect(errorOf(await refused.json())).toMatchObject({
      param: "temperature",
      provider_status: 400,
    });
    expect(provider.requests.length).toBe(1);
    const response = await chat({ stream: true });
    begun.resolve();
    const broken = await response.text();
    expect(broken).toContain("word ");
    expect(broken).toContain('"code":"upstream_error"');
    expect(provider.requests.length).toBe(2);
  });

  test("waits for a short `retry-after`, and leaves a long one to the caller", async () => {
    await start((_, count) => ({
      status: 429,
      headers: { "retry-after": count === 1 ? "1" : "20" },
      body: '{"error":{"message":"slow down"}}',
    }));
    const started = performance.now();
    const response = await chat();
    expect(performance.now() - started).toBeGreaterThan(950);
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "20"]);
    expect(provider.requests.length).toBe(2);
  });
});

describe("a `retry-after` date of a provider", () => {
  test("reaches the caller in seconds, without a retry", async () => {
    const now = Date.parse("2099-10-21T07:27:00.500Z");
    const date = "Wed, 21 Oct 2099 07:28:00 GMT";
    await start(() => ({ status: 503, headers: { "retry-after": date }, body: "{}" }), {
      now: () => now,
    });
    const response = await chat();
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "60"]);
    expect(provider.requests.length).toBe(1);
  });
});

describe("a provider's `retry-after`", () => {
  test("reaches the caller as whole seconds, and is replaced if it is invalid", async () => {
    let retryAfter: string | undefined;
    let works = false;
    await start(() =>
      works
        ? { body: OK }
        : {
            status: 429,
            ...(retryAfter === undefined ? {} : { headers: { "retry-after": retryAfter } }),
            body: '{"error":{"message":"slow down"}}',
          },
    );
    for (const [given, expected] of [
      [undefined, "5"],
      ["soon", "5"],
      ["-1", "5"],
      ["1, 2", "5"],
      ["1e3", "5"],
      ["Monday", "5"],
      ["20.2", "21"],
      ["0.3", "1"],
      ["0", "1"],
      ["Sun, 06 Nov 1994 08:49:37 GMT", "1"],
    ] as const) {
      retryAfter = given;
      const response = await chat();
      expect([given, response.status, response.headers.get("retry-after")]).toEqual([
        given,
        429,
        expected,
      ]);
      // A success in between keeps the circuit closed.
      works = true;
      expect((await chat()).status).toBe(200);
      works = false;
    }
  });

  test("that is missing does not delay a retry", async () => {
    await start((_, count) => (count === 1 ? { status: 429, body: "{}" } : { body: OK }));
    // With the five seconds that callers get as a default, there would be no retry.
    expect((await chat()).status).toBe(200);
  });

  test("has a default where the error promises one, and the error names the provider", async () => {
    let currentStatus = 503;
    await start(() => ({
      status: currentStatus,
      headers: { "content-type": "text/html" },
      body: "<html>down</html>",
    }));
    for (const [status, code, text, model] of [
      [503, "overloaded", "is overloaded or unavailable", "sim/twin-0"],
      [529, "overloaded", "is overloaded or unavailable", "sim/twin-1"],
      [429, "rate_limited", "is rate limiting requests", "sim/twin-2"],
    ] as const) {
      currentStatus = status;
      const response = await chat({ model });
      const error = errorOf(await response.json());
      expect([response.status, error["code"]]).toEqual([status, code]);
      expect(String(error["message"])).toContain(text);
      expect(String(error["message"])).not.toContain("The gateway");
      expect(response.headers.get("retry-after")).toBe("5");
    }
  });
});

describe("a circuit", () => {
  test("opens after five failures, lets one call through after its timeout, and closes when that succeeds", async () => {
    let now = Date.now();
    let works = false;
    await start(
      () => (works ? { body: OK } : { status: 503, headers: { "retry-after": "9" }, body: "{}" }),
      { now: () => now },
    );
    for (let failed = 0; failed < 5; failed++) expect((await chat()).status).toBe(503);
    expect(provider.requests.length).toBe(5);
    const refused = await chat();
    expect(provider.requests.length).toBe(5);
    const wait = Number(refused.headers.get("retry-after"));
    expect([refused.status, wait >= 10, wait <= 12]).toEqual([503, true, true]);
    expect(await refused.text()).not.toContain("could not be reached");
    expect((await chat({ model: "sim/twin-1" })).status).toBe(503);
    expect(provider.requests.length).toBe(6);
    now += OPEN_MS;
    expect((await chat()).status).toBe(503);
    expect(provider.requests.length).toBe(7);
    expect((await chat()).status).toBeGreaterThanOrEqual(500);
    expect(provider.requests.length).toBe(7);
    now += OPEN_MS;
    works = true;
    expect((await chat()).status).toBe(200);
    expect((await chat()).status).toBe(200);
  });

  test("that a call's own first attempt opened does not hide the provider's error", async () => {
    await start(() => ({ status: 500, body: '{"error":{"message":"on fire"}}' }));
    for (let calls = 0; calls < 3; calls++) {
      const refused = await chat();
      expect([refused.status, await refused.text()]).toEqual([
        500,
        expect.stringContaining("on fire"),
      ]);
    }
    expect(provider.requests.length).toBe(5);
  });

  test("does not open for rate limits: every caller gets the provider's 429 and its wait", async () => {
    const headers = { "retry-after": "30" };
    await start(() => ({ status: 429, headers, body: '{"error":{"message":"slow down"}}' }));
    for (let calls = 0; calls < 7; calls++) {
      const refused = await chat();
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "30"]);
      expect(await refused.text()).toContain("slow down");
    }
    expect(provider.requests.length).toBe(7);
  });

  test("opens for a provider that never responds", async () => {
    await start(() => undefined);
    await Promise.all(Array.from({ length: 5 }, () => chat()));
    expect(provider.requests.length).toBe(5);
    expect((await chat()).status).toBeGreaterThanOrEqual(500);
    expect(provider.requests.length).toBe(5);
  });
});

describe("a reply", () => {
  test("forwards rate limit headers, and none that reveal the gateway's account", async () => {
    const headers = {
      "x-ratelimit-remaining-requests": "7",
      "anthropic-ratelimit-tokens-remaining": "9",
      "retry-after-ms": "5",
      "openai-organization": "org-secret",
      "set-cookie": "a=b",
      "x-request-id": "theirs",
      "cf-ray": "ray",
    };
    await start(() => ({ headers, body: OK }));
    const response = await chat();
    expect(response.headers.get("x-ratelimit-remaining-requests")).toBe("7");
    expect(response.headers.get("anthropic-ratelimit-tokens-remaining")).toBe("9");
    for (const name of ["openai-organization", "set-cookie", "cf-ray"])
      expect([name, response.headers.get(name)]).toEqual([name, null]);
    expect(response.headers.get("x-request-id")).toStartWith("req_");
    expect(response.headers.get("x-postern-provider")).toBe("sim");
  });

  test("with an error reveals neither key nor organization, to the caller or in the log", async () => {
    const bodies = [
      `{"error":{"message":"Incorrect API key provided: ${KEY}. In org-Abcdefgh1234.","code":"${KEY}"}}`,
      `{"error":"Bearer ${KEY} is bad","detail":"x"}`,
      `plain ${KEY} text`,
      `{"message":"sk-ca****${KEY.slice(-4)} and key ${KEY}"}`,
    ];
    await start((_, count) => ({
      status: [400, 401, 404, 500, 403][count % 5] ?? 400,
      body: bodies[count % bodies.length] ?? "",
    }));
    for (let tries = 0; tries < 20; tries++) {
      const response = await chat({ model: `sim/twin-${tries % 3}` });
      const text = await response.text();
      expect(text).not.toContain("canary");
      expect(text).not.toContain("Abcdefgh1234");
    }
    expect(gateway.logLines.join("\n")).not.toContain("canary");
    expect(provider.requests[0]?.headers["authorization"]).toBe(`Bearer ${KEY}`);
  });

  test("that quotes the prompt reaches the caller, but not the log", async () => {
    const body = '{"error":{"message":"cannot tokenize: my secret diary","code":"bad_token"}}';
    await start(() => ({ status: 500, body }));
    const response = await chat();
    expect([response.status, await response.text()]).toEqual([
      500,
      expect.stringContaining("my secret diary"),
    ]);
    const logged = gateway.logLines.join("\n");
    expect(logged).toContain("sim answered 500 (bad_token)");
    expect(logged).not.toContain("diary");
  });

  test("of 403 for a rejected prompt is an invalid request, and not a rejected account", async () => {
    const messages = [
      "Your chosen model requires moderation and your input was flagged",
      "Content violates usage guidelines. Team: x, API key ID: y, Model: z",
    ];
    await start((_, count) => ({
      status: 403,
      body: JSON.stringify({ error: { code: 403, message: messages[count % 2] } }),
    }));
    for (const _ of messages) {
      const response = await chat();
      expect(response.status).toBe(400);
      expect(errorOf(await response.json())).toMatchObject({
        code: "invalid_request",
        provider_status: 403,
      });
    }
    expect(provider.requests).toHaveLength(2);
    expect(gateway.logLines.join("\n")).not.toContain("rejected the gateway's account");
  });

  test("that redirects is not followed", async () => {
    const other = await startRawProvider(() => ({ body: OK }));
    const statuses = [301, 302, 303, 307, 308];
    const headers = { location: `${other.url}/v1/chat/completions` };
    await start((_, count) => ({ status: statuses[count - 1] ?? 301, headers, body: "" }));
    for (const [index, status] of statuses.entries()) {
      expect([status, (await chat()).status]).toEqual([status, 502]);
      expect(provider.requests.length).toBe(index + 1);
    }
    expect(other.requests).toEqual([]);
    await other.stop();
  });

  test("beyond the size limit is aborted, also while it is decompressed", async () => {
    const bomb = gzipSync(Buffer.alloc(512 * 1_048_576, 32), { level: 1 });
    await start(
      () => ({ headers: { "content-encoding": "gzip" }, body: bomb, length: bomb.length }),
      // Only the size may end the reply, however slow the machine is.
      { timeouts: { firstByteMs: 60_000, replyMs: 60_000, idleMs: 60_000 } },
    );
    const before = process.memoryUsage.rss();
    const response = await chat();
    expect(response.status).toBe(502);
    // The allocator keeps freed memory for a while: less than the whole body is all that can be required.
    expect((process.memoryUsage.rss() - before) / 1_048_576).toBeLessThan(400);
  });

  test("of one endless event is aborted with an error event", async () => {
    await start(
      () => ({
        headers: SSE,
        body: `${CHUNK}data: {"choices":[{"delta":{"content":"${"x".repeat(70 * 1_048_576)}`,
      }),
      // Only the size may end the stream, however slow the machine is.
      { timeouts: { firstByteMs: 60_000, replyMs: 60_000, idleMs: 60_000 } },
    );
    const text = await (await chat({ stream: true })).text();
    expect(text.length).toBeLessThan(1_000_000);
    expect(text).toContain("longer than this gateway relays");
  });

  test("that is not UTF-8, JSON or an object is a failure without a charge", async () => {
    const bodies = [
      new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]),
      "null",
      "[]",
      "3",
      '"text"',
      "",
      "{",
      "\u0000",
    ];
    await start((_, count) => ({ body: bodies[(count - 1) % bodies.length] ?? "" }));
    for (let tries = 0; tries < bodies.length; tries++) {
      const response = await chat({ model: `sim/twin-${tries % 3}` });
      expect([tries, response.status]).toEqual([tries, 502]);
    }
    for (const record of await usageRecordsOf(gateway.server.db, account.id))
      expect(record).toMatchObject({ outcome: "upstream_error", cost_nano: 0 });
  });

  test("with duplicate members or deep nesting is relayed and charged", async () => {
    const deep = `${"[".repeat(300)}${"]".repeat(300)}`;
    const bodies = [
      OK.replace('"id":"x"', '"id":"x","id":"y"'),
      OK.replace('"id":"x"', `"id":"x","deep":${deep}`),
      OK.replace('"prompt_tokens":10', '"prompt_tokens":10,"prompt_tokens":10'),
    ];
    const streams = [
      USAGE.replace('"id":"x"', '"id":"x","id":"y"'),
      USAGE.replace('"id":"x"', `"deep":${deep},"id":"x"`),
      USAGE.replace('"prompt_tokens":10', '"prompt_tokens":10,"prompt_tokens":10'),
    ];
    await start((request, count) =>
      request.body.includes('"stream":true')
        ? { headers: SSE, body: `${CHUNK}${LAST}${streams[(count - 1) % 3]}data: [DONE]\n\n` }
        : { body: bodies[(count - 1) % 3] ?? "" },
    );
    for (const stream of [false, false, false, true, true, true]) {
      const response = await chat({ stream, stream_options: { include_usage: true } });
      const text = await response.text();
      expect(response.status).toBe(200);
      if (stream) expect(text).toContain("[DONE]");
      expect(
        await usageRecordOf(gateway.server.db, response.headers.get("x-request-id")),
      ).toMatchObject({
        outcome: "completed",
        cost_nano: 20_000,
      });
    }
  });

  test("without its terminal event is complete if stop reason and usage came before", async () => {
    await start((_, count) => ({ headers: SSE, body: count === 1 ? CHUNK + LAST + USAGE : CHUNK }));
    const whole = await chat({ stream: true });
    const text = await whole.text();
    expect(text).not.toContain("error");
    expect(await usageRecordOf(gateway.server.db, whole.headers.get("x-request-id"))).toMatchObject(
      {
        outcome: "completed",
        cost_nano: 20_000,
      },
    );
    const cut = await chat({ stream: true });
    expect(await cut.text()).toContain('"code":"upstream_error"');
    expect(await usageRecordOf(gateway.server.db, cut.headers.get("x-request-id"))).toMatchObject({
      outcome: "upstream_error",
      cost_nano: 0,
    });
  });

  test("that fails after its usage is charged by that usage", async () => {
    await start(() => ({
      headers: SSE,
      body: `${CHUNK}${LAST}${USAGE}data: {"error":{"message":"died","code":500}}\n\n`,
    }));
    const response = await chat({ stream: true });
    expect(await response.text()).toContain("died");
    expect(
      await usageRecordOf(gateway.server.db, response.headers.get("x-request-id")),
    ).toMatchObject({
      outcome: "upstream_error",
      cost_nano: 20_000,
    });
  });
});

describe("an unreachable provider", () => {
  test("is an upstream_error", async () => {
    await start(() => ({ body: OK }));
    await provider.stop();
    const response = await chat();
    expect(response.status).toBe(502);
    expect(errorOf(await response.json())["code"]).toBe("upstream_error");
  });
});

describe("a reply that breaks off", () => {
  const LOST = "The connection to Simulator was lost. Try again, or use another model.";
  const INCOMPLETE =
    "Simulator ended its stream before the reply was complete. Try again, or use another model.";

  test("names the lost connection when a whole reply is cut", async () => {
    await start(() => ({ body: OK.slice(0, 40), length: OK.length, ending: "cut" }));
    const response = await chat();
    const error = errorOf(await response.json());
    expect([response.status, error["message"]]).toEqual([502, LOST]);
  });

  test("names the lost connection when a stream is cut, before its first event or after it", async () => {
    await start((request) => ({
      headers: SSE,
      body: request.body.includes("early") ? ": comment\n\n" : CHUNK,
      ending: "cut",
    }));
    for (const text of ["early", "late"]) {
      const messages = [{ role: "user", content: text }];
      const response = await chat({ stream: true, messages });
      expect([text, await response.text()]).toEqual([text, expect.stringContaining(LOST)]);
    }
  });

  test("names the early end when a stream is closed before it is complete", async () => {
    await start(() => ({ headers: SSE, body: CHUNK }));
    const response = await chat({ stream: true });
    expect(await response.text()).toContain(INCOMPLETE);
  });

  test("is named in a translated stream as well", async () => {
    await start((_, count) => ({ headers: SSE, body: CHUNK, ending: count === 1 ? "cut" : "end" }));
    const body = bodyOf("messages", "hello", { model: "sim/chat-only", stream: true });
    for (const message of [LOST, INCOMPLETE]) {
      const text = await (await postCall(gateway, account, "messages", body)).text();
      expect(text).toMatch(/event: error\ndata: .*\n\n$/);
      expect(text).toContain(message);
    }
  });
});

describe("a chunked reply", () => {
  /** A gateway whose provider sends this body as a stream. */
  async function startStream(body: () => ReadableStream<Uint8Array>): Promise<() => Promise<void>> {
    const server = Bun.serve({
      port: 0,
      idleTimeout: 0,
      fetch: () => new Response(body(), { headers: SSE }),
    });
    provider = await startRawProvider(() => undefined);
    gateway = await startGateway({
      providers: [],
      env: { SIM_BASE_URL: `http://127.0.0.1:${server.port}`, SIM_API_KEY: KEY },
    });
    account = await registerAccount(gateway);
    await grantCredits(gateway, account, 10n * USD);
    return () => server.stop(true);
  }

  /** Of the sockets between the provider, the gateway and the client. */
  const BUFFERED_BYTES_MAX = 64 * 1_048_576;

  const openStream = () =>
    openSocketClient(gateway, account, "chat", bodyOf("chat", "hello", { stream: true }));

  test("reaches the caller chunk by chunk, without waiting for the next one", async () => {
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const stop = await startStream(() => readable);
    const client = openStream();
    const writer = writable.getWriter();
    const send = (text: string) => writer.write(new TextEncoder().encode(text));
    for (let index = 0; index < 12; index++) {
      await send(CHUNK.replace("word", `word${index}`));
      await client.waitForText(`word${index} `);
    }
    await send(`${LAST}${USAGE}data: [DONE]\n\n`);
    await client.waitForText("[DONE]");
    client.disconnect();
    await stop();
  });

  test("slows down with a slow client", async () => {
    const event = new TextEncoder().encode(CHUNK.replace("word", "w".repeat(60_000)));
    let sent = 0;
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      await new Promise((resolve) => setImmediate(resolve));
      sent += event.length;
      controller.enqueue(event);
    };
    const stop = await startStream(() => new ReadableStream({ pull }));
    const client = openStream();
    await client.waitForText("www");
    client.pause();
    // All buffers on the way fill up; then nothing more is sent. A gateway that reads on exceeds the bytes that they hold.
    expect(await untilStable(() => sent)).toBeLessThan(BUFFERED_BYTES_MAX);
    client.disconnect();
    await stop();
  });
});
