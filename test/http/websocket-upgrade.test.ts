// A WebSocket handshake is answered with 426 except on /v1/responses, which tells clients to continue over HTTP.

import { afterAll, expect, test } from "bun:test";
import { request } from "node:http";
import { startGateway } from "../support/gateway.ts";

const gateway = await startGateway();
afterAll(() => gateway.stop());

interface Answer {
  readonly status: number | undefined;
  readonly allow: string | undefined;
  readonly body: string;
}

function connect(path: string): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const sent = request(gateway.url + path, {
    headers: {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    },
  });
  sent.on("response", (response) => {
    let body = "";
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => (body += chunk));
    response.on("end", () =>
      resolve({ status: response.statusCode, allow: response.headers.allow, body }),
    );
  });
  sent.on("error", reject);
  sent.end();
  return promise;
}

test("a WebSocket on an endpoint without one gets 426 and the method to use", async () => {
  const { status, allow, body } = await connect("/v1/chat/completions");
  expect([status, allow]).toEqual([426, "POST"]);
  expect(body).toContain("Send POST requests over HTTP");
});

test("a WebSocket on an unknown path gets 404", async () => {
  expect((await connect("/v1/nowhere")).status).toBe(404);
});
