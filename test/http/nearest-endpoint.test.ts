// A path without a route gets a 404 in the form of the API that was meant, with the nearest endpoint.

import { afterAll, describe, expect, test } from "bun:test";
import { notFoundFault } from "../../src/http/nearest-endpoint.ts";
import { startGateway } from "../support/gateway.ts";

const gateway = await startGateway();
afterAll(() => gateway.stop());

type Json = Readonly<Record<string, unknown>>;

async function send(
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly status: number; readonly headers: Headers; readonly body: Json }> {
  const response = await fetch(gateway.url + path, { method, headers });
  // Every error of the API is an object.
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as Json,
  };
}

const NEAREST: readonly (readonly [method: string, path: string, nearest: string])[] = [
  ["POST", "/chat/completions", "POST /v1/chat/completions"],
  ["POST", "/v1/v1/chat/completions", "POST /v1/chat/completions"],
  ["POST", "/v1/chat/completions/", "POST /v1/chat/completions"],
  ["POST", "/v1//chat/completions", "POST /v1/chat/completions"],
  ["POST", "/openai/v1/responses", "POST /v1/responses"],
  ["POST", "/openai/deployments/gpt-5/chat/completions", "POST /v1/chat/completions"],
  ["POST", "/api/v2/chat/completions", "POST /v1/chat/completions"],
  ["POST", "/v1/chat/completion", "POST /v1/chat/completions"],
  ["GET", "/v1/model", "GET /v1/models"],
  ["GET", "/v1/models/", "GET /v1/models"],
  ["GET", "/v1/chat/completion", "POST /v1/chat/completions"],
  ["GET", "/v1/acount", "GET /v1/account"],
  // A base URL that is a whole endpoint, or lacks its end.
  ["POST", "/v1/chat/completions/chat/completions", "POST /v1/chat/completions"],
  ["POST", "/v1/chat/completions/v1/chat/completions", "POST /v1/chat/completions"],
  ["POST", "/v1/chat", "POST /v1/chat/completions"],
  ["POST", "/v2/chat", "POST /v1/chat/completions"],
  ["POST", "/mcp/sse", "POST /mcp"],
];

test("a path without the method names the methods that it has", async () => {
  for (const [method, path, allowed] of [
    ["GET", "/v1/chat/completions", "POST"],
    ["PUT", "/v1/keys", "POST or GET"],
    ["PUT", "/v1/keys/key_1", "GET, PATCH or DELETE"],
  ] as const) {
    const { status, body } = await send(method, path);
    expect([status, body["error"]]).toEqual([
      405,
      expect.objectContaining({ message: `${path} does not support ${method}. Use ${allowed}.` }),
    ]);
  }
});

describe("a path without a route", () => {
  for (const [method, path, nearest] of NEAREST)
    test(`${method} ${path} names ${nearest}`, async () => {
      const { status, body } = await send(method, path);
      const { message, next } = body["error"] as {
        readonly message: string;
        readonly next: Json[];
      };
      expect([status, message]).toEqual([404, expect.stringContaining(`Did you mean ${nearest}?`)]);
      expect(`${String(next[0]?.["method"])} ${String(next[0]?.["url"])}`).toBe(nearest);
    });

  test("has Anthropic's error form for Anthropic's clients", async () => {
    const paths = ["/v1/v1/messages", "/messages", "/anthropic/v1/messages", "/v1/message"];
    for (const path of [...paths, "/v1/messages/v1/messages"]) {
      const { status, body, headers } = await send("POST", path);
      expect([status, body["type"]]).toEqual([404, "error"]);
      expect(JSON.stringify(body)).toContain("Did you mean POST /v1/messages?");
      expect(headers.get("request-id")).toBe(headers.get("x-request-id"));
    }
    const counted = await send("POST", "/complete", { "anthropic-version": "2023-06-01" });
    expect(counted.body["type"]).toBe("error");
  });

  test("has Google's error form on Google's paths", async () => {
    for (const path of [
      "/v1beta/models/gemini-3-flash:predict",
      "/v1/models/imagen-4:predictLongRunning",
    ]) {
      const { status, body } = await send("POST", path);
      expect(status).toBe(404);
      expect(body["error"]).toMatchObject({
        code: 404,
        status: "NOT_FOUND",
        message: expect.stringContaining("below /v1beta/models"),
      });
    }
    for (const path of ["/v1beta/interactions", "/v1beta/files", "/v1/projects/p/locations/l"]) {
      const { body } = await send("POST", path);
      expect(body["error"]).toMatchObject({ status: "NOT_FOUND" });
      expect(JSON.stringify(body)).toContain(":generateContent");
    }
  });

  test("has Amazon Bedrock's error form on Bedrock's paths", async () => {
    for (const path of [
      "/model/anthropic.claude-sonnet-4-6/converse",
      "/model/anthropic.claude-sonnet-4-6/converse-stream",
      "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx/invoke",
      "/v1/model/amazon.nova-pro-v1%3A0/converse",
      "/model/amazon.nova-pro-v1:0/count-tokens",
    ]) {
      const { status, headers, body } = await send("POST", path);
      expect([path, status, headers.get("x-amzn-errortype")]).toEqual([
        path,
        404,
        "ResourceNotFoundException",
      ]);
      expect(headers.get("x-amzn-requestid")).toBe(headers.get("x-request-id"));
      expect(body["message"]).toContain("Amazon Bedrock's API");
      expect(body["error"]).toBeUndefined();
    }
  });

  test("names the alternative to an API that the gateway does not have", async () => {
    for (const [path, alternative] of [
      ["/v1/ranking", "POST /v1/rerank"],
      ["/v1/images/variations", "POST /v1/images/generations"],
      ["/v1/responses/responses", "POST /v1/responses"],
      ["/complete", "POST /v1/messages"],
      ["/openai/v1/audio/voices", "POST /v1/audio/speech"],
      ["/api/v1/auth/key", "GET /v1/account"],
      ["/v1/organization/usage/completions", "GET /v1/usage"],
      ["/api/chat", "base URL"],
      ["/model/anthropic.claude/converse", "/v1/messages"],
    ] as const)
      expect(JSON.stringify((await send("POST", path)).body)).toContain(alternative);
  });

  test("that is similar to none lists the endpoints", async () => {
    const { status, body } = await send("POST", "/wp-login-and-more.php");
    expect([status, JSON.stringify(body)]).toEqual([404, expect.stringContaining("/llms.txt")]);
    expect(JSON.stringify(body)).not.toContain("Did you mean");
  });
});

test("a misspelled model id names the right one", async () => {
  const { body } = await send("GET", "/v1/models/anthropic%2Fclaude-sonet-4-6");
  expect(JSON.stringify(body)).toContain("anthropic/claude-sonnet-4-6");
});

test.each([
  ["a base URL many times", `${"/v1".repeat(65)}/x`],
  ["many parts", "/a".repeat(100)],
  ["both", `${"/v1".repeat(30)}${"/a".repeat(50)}`],
])("a path of %s is looked up a few times", (_, path) => {
  let lookups = 0;
  const match = () => {
    lookups += 1;
    return { kind: "none" } as const;
  };
  const { status } = notFoundFault("GET", path, {
    routes: [],
    match,
    unsupported: () => undefined,
  });
  expect(status).toBe(404);
  expect(lookups).toBeLessThan(150);
});
