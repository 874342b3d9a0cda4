// What a collector is told of model calls, by a whole gateway.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readConfig } from "../../src/config/config.ts";
import { startGateway, registerAccount, type Gateway } from "../support/gateway.ts";
import { type FakeCollector, startFakeCollector } from "./fake-collector.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";
const TRACEPARENT = `00-${TRACE}-${PARENT}-01`;

let collector: FakeCollector;
let gateway: Gateway | undefined;
beforeEach(() => {
  collector = startFakeCollector();
});
afterEach(async () => {
  await gateway?.stop();
  gateway = undefined;
  await collector.stop();
});

interface CallRequest {
  readonly path?: string;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Starts a gateway, makes the calls one after another, and stops it, which sends what there is. */
async function exportedSpans(
  calls: readonly CallRequest[],
  env: Readonly<Record<string, string>> = {},
): Promise<readonly (Response & { readonly said: string })[]> {
  gateway = await startGateway({
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, POSTERN_PROCESS_NAME: "north", ...env },
  });
  const { headers: own } = await registerAccount(gateway);
  const answers = [];
  for (const { path = "/v1/chat/completions", body = {}, headers = {} } of calls) {
    const answer = await fetch(gateway.url + path, {
      method: "POST",
      headers: { ...own, ...headers },
      body: JSON.stringify({ ...CHAT, ...body }),
    });
    answers.push(Object.assign(answer, { said: await answer.text() }));
  }
  await gateway.stop();
  gateway = undefined;
  return answers;
}

const CHAT = {
  model: "sim/echo",
  max_tokens: 50,
  messages: [{ role: "user", content: "tell nobody about the zebra" }],
};

describe("a collector", () => {
  test("is told of a call as a span in its caller's trace, with its tokens and its cost", async () => {
    const [answer] = await exportedSpans([{ headers: { traceparent: TRACEPARENT } }]);
    const [span, ...others] = collector.spans();
    expect(others).toEqual([]);
    expect(span).toMatchObject({ traceId: TRACE, parentSpanId: PARENT, name: "chat sim/echo" });
    const { usage } = JSON.parse(answer?.said ?? "");
    expect(span?.attributeValues).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "sim",
      "gen_ai.request.model": "sim/echo",
      "gen_ai.response.model": "sim/echo",
      "gen_ai.usage.input_tokens": usage.prompt_tokens,
      "gen_ai.usage.output_tokens": usage.completion_tokens,
      "http.request.method": "POST",
      "http.route": "/v1/chat/completions",
      "http.response.status_code": 200,
      "postern.request_id": answer?.headers.get("x-request-id"),
      "postern.cost_usd": Number(answer?.headers.get("x-postern-cost-usd")),
      "postern.outcome": "completed",
      "postern.stream": false,
    });
    expect(span?.status).toEqual({});
    expect(BigInt(span?.endTimeUnixNano ?? 0)).toBeGreaterThanOrEqual(
      BigInt(span?.startTimeUnixNano ?? 0),
    );
    expect(collector.resource()).toEqual({
      "service.name": "postern",
      "service.version": "0.0.0-test",
      "service.instance.id": "north",
    });
  });

  test("is told of each API's calls, streamed or not", async () => {
    await exportedSpans([
      { body: { stream: true } },
      {
        path: "/v1/responses",
        body: { input: "hello", messages: undefined, max_tokens: undefined },
      },
      { path: "/v1/messages", body: { stream: true } },
      {
        path: "/v1/embeddings",
        body: { model: "sim/embed", input: "hello", messages: undefined, max_tokens: undefined },
      },
    ]);
    const shown = collector
      .spans()
      .map(({ name, attributeValues }) => [
        name,
        attributeValues["http.route"],
        attributeValues["postern.stream"],
      ]);
    expect(shown).toEqual([
      ["chat sim/echo", "/v1/chat/completions", true],
      ["chat sim/echo", "/v1/responses", false],
      ["chat sim/echo", "/v1/messages", true],
      ["embeddings sim/embed", "/v1/embeddings", false],
    ]);
    const streamed = collector
      .spans()
      .filter(({ attributeValues }) => attributeValues["postern.stream"] === true);
    for (const { attributeValues } of streamed)
      expect(attributeValues["postern.first_token_ms"]).toBeNumber();
  });

  test("is told what a provider failed with, and which were tried", async () => {
    const [answer] = await exportedSpans([
      { body: { messages: [{ role: "user", content: "[[sim: status=500]]" }] } },
    ]);
    expect(answer?.status).toBe(500);
    const [span] = collector.spans();
    expect(span?.status).toEqual({ code: 2, message: "upstream_error" });
    expect(span?.attributeValues).toMatchObject({
      "error.type": "upstream_error",
      "http.response.status_code": 500,
      "postern.cost_usd": 0,
    });
    expect(span?.attributeValues["postern.attempts"]).toEqual([
      expect.stringMatching(/^sim \S+ 500 \d+ ms$/),
      expect.stringMatching(/^sim \S+ 500 \d+ ms$/),
    ]);
  });

  test("never sees a word of a prompt or a reply, nor a key", async () => {
    await exportedSpans([{}, { body: { stream: true } }]);
    expect(collector.bodies.join("")).not.toContain("zebra");
    expect(collector.bodies.join("")).not.toContain("-rt-");
  });

  test("finds calls of callers without a trace, or with none that is one, in traces of their own", async () => {
    const headers = [
      {},
      { traceparent: "00-zz-01" },
      { traceparent: `00-${"0".repeat(32)}-${PARENT}-01` },
    ];
    await exportedSpans(headers.map((one) => ({ headers: one })));
    const spans = collector.spans();
    expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(3);
    for (const { parentSpanId } of spans) expect(parentSpanId).toBeUndefined();
  });

  test("is not told of what its caller does not sample", async () => {
    await exportedSpans([{ headers: { traceparent: `00-${TRACE}-${PARENT}-00` } }]);
    expect(collector.bodies).toEqual([]);
  });

  test("finds every call in a trace of its own where OTEL_PROPAGATORS says none", async () => {
    await exportedSpans([{ headers: { traceparent: `00-${TRACE}-${PARENT}-00` } }], {
      OTEL_PROPAGATORS: "none",
    });
    expect(collector.spans().map(({ traceId }) => traceId)).not.toContain(TRACE);
    expect(collector.spans()).toHaveLength(1);
  });

  test("gets the headers and the service's name that are set", async () => {
    await exportedSpans([{}], {
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20abc, x-scope=a%2Cb",
      OTEL_SERVICE_NAME: "front door",
    });
    expect(collector.headers[0]?.get("authorization")).toBe("Bearer abc");
    expect(collector.headers[0]?.get("x-scope")).toBe("a,b");
    expect(collector.resource()["service.name"]).toBe("front door");
  });

  test("that is away changes no call, and /metrics counts what it did not get", async () => {
    await collector.stop();
    gateway = await startGateway({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
    const { headers } = await registerAccount(gateway);
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify(CHAT),
    });
    expect(answer.status).toBe(200);
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(metrics).toContain('postern_spans_total{fate="sent"} 0');
    expect(metrics).toContain('postern_spans_total{fate="dropped"} 0');
  });
});

describe("the settings of a collector", () => {
  const mistakesOf = (env: Readonly<Record<string, string>>): readonly string[] => {
    const read = readConfig({ env, hostName: "test", providers: [] });
    return read.ok ? [] : read.errors;
  };

  test("say what is wrong with them", () => {
    expect(mistakesOf({ OTEL_EXPORTER_OTLP_ENDPOINT: "127.0.0.1:4318" })).toEqual([
      "OTEL_EXPORTER_OTLP_ENDPOINT must be an http:// or https:// address",
    ]);
    expect(mistakesOf({ OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" })).toEqual([
      "OTEL_EXPORTER_OTLP_PROTOCOL must be http/json, the only protocol that Postern supports; use the collector's HTTP port, usually 4318",
    ]);
    for (const headers of ["abc", "=x", "a b=c", "a=%", "a=%00"])
      expect(mistakesOf({ OTEL_EXPORTER_OTLP_HEADERS: headers })).toEqual([
        "OTEL_EXPORTER_OTLP_HEADERS must be headers such as api-key=abc, separated by commas; write spaces and commas in a value as %20 and %2C",
      ]);
  });

  test("that others of the machine's programs have are none of ours", () => {
    expect(
      mistakesOf({
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
        OTEL_PROPAGATORS: "tracecontext,baggage",
        OTEL_SDK_DISABLED: "true",
      }),
    ).toEqual([]);
  });
});
