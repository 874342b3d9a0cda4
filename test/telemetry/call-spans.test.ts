// Spans of model calls, exported by a complete gateway.

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
  /** Without `authorization`: the key is in the query. */
  readonly hasKeyInQuery?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Starts a gateway, makes the calls one by one, and stops it, which exports the spans. */
async function makeCalls(
  calls: readonly CallRequest[],
  env: Readonly<Record<string, string>> = {},
): Promise<readonly (Response & { readonly bodyText: string })[]> {
  gateway = await startGateway({
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, POSTERN_PROCESS_NAME: "north", ...env },
  });
  const account = await registerAccount(gateway);
  const responses = [];
  for (const { path = "/v1/chat/completions", body = {}, headers = {}, hasKeyInQuery } of calls) {
    const query = hasKeyInQuery === true ? `?key=${account.key}` : "";
    const { authorization: _, ...withoutKey } = account.headers;
    const response = await fetch(gateway.url + path + query, {
      method: "POST",
      headers: { ...(hasKeyInQuery === true ? withoutKey : account.headers), ...headers },
      body: JSON.stringify({ ...CHAT, ...body }),
    });
    responses.push(Object.assign(response, { bodyText: await response.text() }));
  }
  await gateway.stop();
  gateway = undefined;
  return responses;
}

const CHAT = {
  model: "sim/echo",
  max_tokens: 50,
  messages: [{ role: "user", content: "a story about a zebra" }],
};

describe("the collector", () => {
  test("receives a span in the caller's trace with tokens and cost", async () => {
    const [response] = await makeCalls([{ headers: { traceparent: TRACEPARENT } }]);
    const [span, ...others] = collector.spans();
    expect(others).toEqual([]);
    expect(span).toMatchObject({ traceId: TRACE, parentSpanId: PARENT, name: "chat sim/echo" });
    const { usage } = JSON.parse(response?.bodyText ?? "");
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
      "postern.request_id": response?.headers.get("x-request-id"),
      "postern.cost_usd": Number(response?.headers.get("x-postern-cost-usd")),
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

  test("receives spans of all APIs, streamed or not", async () => {
    await makeCalls([
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
    const summaries = collector
      .spans()
      .map(({ name, attributeValues }) => [
        name,
        attributeValues["http.route"],
        attributeValues["postern.stream"],
      ]);
    expect(summaries).toEqual([
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

  test("receives the error type and all attempts of a failed call", async () => {
    const [response] = await makeCalls([
      { body: { messages: [{ role: "user", content: "[[sim: status=500]]" }] } },
    ]);
    expect(response?.status).toBe(500);
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

  test("receives no prompts, replies or keys", async () => {
    await makeCalls([{}, { body: { stream: true } }]);
    expect(collector.bodies.join("")).not.toContain("zebra");
    expect(collector.bodies.join("")).not.toContain("-rt-");
  });

  test("receives no key of a call that has it in its address", async () => {
    const contents = [{ role: "user", parts: [{ text: "a story about a zebra" }] }];
    const body = { contents, model: undefined, max_tokens: undefined, messages: undefined };
    const [response] = await makeCalls([
      { path: "/v1beta/models/sim/echo:generateContent", body, hasKeyInQuery: true },
      { path: "/v1beta/models/sim/none:generateContent", body, hasKeyInQuery: true },
    ]);
    expect(response?.status).toBe(200);
    expect(collector.spans()[0]?.attributeValues).toMatchObject({
      "http.route": "/v1beta/models",
      "gen_ai.request.model": "sim/echo",
    });
    expect(collector.bodies.join("")).not.toContain("-rt-");
    expect(collector.bodies.join("")).not.toContain("zebra");
  });

  test("receives a new trace for calls without a valid traceparent", async () => {
    const headers = [
      {},
      { traceparent: "00-zz-01" },
      { traceparent: `00-${"0".repeat(32)}-${PARENT}-01` },
    ];
    await makeCalls(headers.map((callHeaders) => ({ headers: callHeaders })));
    const spans = collector.spans();
    expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(3);
    for (const { parentSpanId } of spans) expect(parentSpanId).toBeUndefined();
  });

  test("receives no span of calls that the caller does not sample", async () => {
    await makeCalls([{ headers: { traceparent: `00-${TRACE}-${PARENT}-00` } }]);
    expect(collector.bodies).toEqual([]);
  });

  test("receives a new trace for every call if OTEL_PROPAGATORS is none", async () => {
    await makeCalls([{ headers: { traceparent: `00-${TRACE}-${PARENT}-00` } }], {
      OTEL_PROPAGATORS: "none",
    });
    expect(collector.spans().map(({ traceId }) => traceId)).not.toContain(TRACE);
    expect(collector.spans()).toHaveLength(1);
  });

  test("receives the configured headers and service name", async () => {
    await makeCalls([{}], {
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20abc, x-scope=a%2Cb",
      OTEL_SERVICE_NAME: "gateway",
    });
    expect(collector.headers[0]?.get("authorization")).toBe("Bearer abc");
    expect(collector.headers[0]?.get("x-scope")).toBe("a,b");
    expect(collector.resource()["service.name"]).toBe("gateway");
  });

  test("does not affect calls while it is unavailable", async () => {
    await collector.stop();
    gateway = await startGateway({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
    const { headers } = await registerAccount(gateway);
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify(CHAT),
    });
    expect(response.status).toBe(200);
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(metrics).toContain('postern_spans_total{fate="sent"} 0');
    expect(metrics).toContain('postern_spans_total{fate="dropped"} 0');
  });
});

describe("collector settings", () => {
  const configErrors = (env: Readonly<Record<string, string>>): readonly string[] => {
    const read = readConfig({ env, hostName: "test", providers: [] });
    return read.ok ? [] : read.errors;
  };

  test("are validated", () => {
    expect(configErrors({ OTEL_EXPORTER_OTLP_ENDPOINT: "127.0.0.1:4318" })).toEqual([
      "OTEL_EXPORTER_OTLP_ENDPOINT must be an http:// or https:// address",
    ]);
    expect(configErrors({ OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" })).toEqual([
      "OTEL_EXPORTER_OTLP_PROTOCOL must be http/json, the only protocol that Postern supports; use the collector's HTTP port, usually 4318",
    ]);
    for (const headers of ["abc", "=x", "a b=c", "a=%", "a=%00"])
      expect(configErrors({ OTEL_EXPORTER_OTLP_HEADERS: headers })).toEqual([
        "OTEL_EXPORTER_OTLP_HEADERS must be headers such as api-key=abc, separated by commas; write spaces and commas in a value as %20 and %2C",
      ]);
  });

  test("accept values for other programs on the machine", () => {
    expect(
      configErrors({
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
        OTEL_PROPAGATORS: "tracecontext,baggage",
        OTEL_SDK_DISABLED: "true",
      }),
    ).toEqual([]);
  });
});
