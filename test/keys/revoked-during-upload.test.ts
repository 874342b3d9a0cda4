// A key is checked when its request starts, and checked again after the body, which may arrive half a minute later.

import { expect, test } from "bun:test";
import { connect } from "node:net";
import { eventually } from "../support/eventually.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";

interface PendingUpload {
  readonly path: string;
  /** Sends the last byte and returns the status. */
  readonly finish: () => Promise<number>;
}

async function startUpload(
  port: number,
  key: string,
  path: string,
  body: string,
): Promise<PendingUpload> {
  const socket = connect(port, "127.0.0.1");
  const head = new Promise<number>((resolve) => {
    socket.once("data", (bytes) =>
      resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(bytes.toString())?.[1])),
    );
  });
  await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, -1)}`,
  );
  return {
    path,
    finish: async () => {
      socket.write(body.slice(-1));
      const status = await head;
      socket.destroy();
      return status;
    },
  };
}

async function createKey(gateway: Gateway, { headers }: TestAccount) {
  const response = await fetch(`${gateway.url}/v1/keys`, { method: "POST", headers, body: "{}" });
  // A creation returns both fields.
  return (await response.json()) as { readonly id: string; readonly api_key: string };
}

async function requestBodyBytes(gateway: Gateway): Promise<number> {
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  return Number(/^postern_request_body_bytes (\d+)$/m.exec(metrics)?.[1]);
}

const WRITES = [
  ["/v1/keys", "{}"],
  ["/v1/provider-keys", '{"provider":"sim","api_key":"sk-aaaaaaaaaaaaaaaaaaaaaaaaaaa"}'],
  ["/v1/billing/invoice", '{"amount_usd":5}'],
  ["/agent/identity/claim", '{"email":"stranger@example.com"}'],
  ["/v1/webhooks", '{"url":"http://127.0.0.1:1/x"}'],
] as const;

for (const store of ["sqlite", "postgres"] as const)
  test(`rejects requests whose key is revoked while their body arrives (${store})`, async () => {
    const gateway = await startGateway({ store });
    const account = await registerAccount(gateway);
    const stolen = await createKey(gateway, account);
    const port = Number(new URL(gateway.url).port);
    const uploads = await Promise.all(
      WRITES.map(([path, body]) => startUpload(port, stolen.api_key, path, body)),
    );
    // A body counts from when it is read, which is after the check of the key.
    const announced = WRITES.reduce((sum, [, body]) => sum + body.length, 0);
    await eventually(async () => (await requestBodyBytes(gateway)) === announced);
    const revoked = await fetch(`${gateway.url}/v1/keys/${stolen.id}`, {
      method: "DELETE",
      headers: account.headers,
    });
    expect(revoked.status).toBe(200);
    for (const { path, finish } of uploads) expect([path, await finish()]).toEqual([path, 401]);
    await gateway.stop();
  });

test("a revoked key gets no stored response", async () => {
  const gateway = await startGateway();
  const account = await registerAccount(gateway);
  const key = await createKey(gateway, account);
  const call = () =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key.api_key}`,
        "content-type": "application/json",
        "idempotency-key": "one",
      },
      body: JSON.stringify({
        model: "sim/echo",
        max_tokens: 20,
        messages: [{ role: "user", content: "x" }],
      }),
    });
  expect((await call()).status).toBe(200);
  await fetch(`${gateway.url}/v1/keys/${key.id}`, { method: "DELETE", headers: account.headers });
  expect((await call()).status).toBe(401);
  await gateway.stop();
});
