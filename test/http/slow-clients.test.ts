// Timeouts of slow and idle clients. The clients run concurrently, because each test takes many seconds.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Listener, listen } from "../../src/http/listen.ts";
import { requiresSession } from "../../src/http/route.ts";
import { createDirectoryToken } from "../../src/scim/directory.ts";
import { valueAt, call, listAt } from "../spec/api-client.ts";
import { actIn } from "../support/act.ts";
import { type TestAccount, type Gateway, registerAccount } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import {
  parseResponses,
  type SocketOutput,
  openRawConnection,
  type RawResponse,
} from "./raw-client.ts";
import { IDLE_SECONDS, startShortTimeoutGateway } from "./short-timeout-gateway.ts";

const HOST = "Host: postern.example\r\n";
/** Longer than the wait for a closed connection. */
const LONG_IDLE_SECONDS = 240;

let gateway: Gateway;
let account: TestAccount;
let directoryToken = "";
let overloaded: Listener;
let started: SlowClients;

interface SlowClients {
  readonly slowHeaders: Promise<SocketOutput>;
  readonly nothingSent: Promise<SocketOutput>;
  readonly idleAfterResponse: Promise<SocketOutput>;
  readonly idleAfterRejectedCall: Promise<SocketOutput>;
  readonly idleAfterOverload: Promise<SocketOutput>;
  readonly slowCall: Promise<SocketOutput>;
  readonly slowReader: Promise<{ readonly bytes: number; readonly isClosed: boolean }>;
}

beforeAll(async () => {
  gateway = await startShortTimeoutGateway();
  account = await registerAccount(gateway);
  directoryToken = await gateway.server.db.write((tx) =>
    createDirectoryToken(tx, actIn(account.id, Date.now())),
  );
  overloaded = listen({ host: "127.0.0.1", port: 0, idleSeconds: LONG_IDLE_SECONDS }, () =>
    Promise.resolve(new Response("overloaded", { status: 503 })),
  );
  started = {
    slowHeaders: drip(`GET /healthz HTTP/1.1\r\n${HOST}X-A: ${"a".repeat(200)}`, 500),
    nothingSent: openRawConnection(gateway).then((connection) => connection.whenClosed()),
    idleAfterResponse: sendAndWait(`GET /healthz HTTP/1.1\r\n${HOST}\r\n`),
    idleAfterRejectedCall: sendAndWait(
      `POST /v1/chat/completions HTTP/1.1\r\n${HOST}Content-Length: 0\r\n\r\n`,
    ),
    idleAfterOverload: sendAndWait(
      `POST /v1/chat/completions HTTP/1.1\r\n${HOST}Content-Length: 1000\r\n\r\n`,
      `http://127.0.0.1:${overloaded.port}`,
    ),
    slowCall: sendAndWait(slowCallText()),
    slowReader: connectWithoutReading(),
  };
});
afterAll(async () => {
  expect(gateway.logLines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  await overloaded.stop(true);
  await gateway.stop();
});

async function drip(text: string, everyMs: number): Promise<SocketOutput> {
  const connection = await openRawConnection(gateway);
  let sent = 0;
  const timer = setInterval(() => {
    if (sent < text.length && !connection.socket.destroyed)
      connection.socket.write(text.charAt(sent));
    sent += 1;
  }, everyMs);
  // After Bun's own header timeout of about twelve seconds, which cannot be configured.
  const output = await connection.whenClosed();
  clearInterval(timer);
  connection.socket.destroy();
  return output;
}

async function sendAndWait(bytes: string, url = gateway.url): Promise<SocketOutput> {
  const connection = await openRawConnection({ url });
  connection.socket.write(bytes);
  const output = await connection.whenClosed();
  connection.socket.destroy();
  return output;
}

function slowCallText(): string {
  const body = JSON.stringify({
    model: "sim/echo",
    max_tokens: 20,
    messages: [{ role: "user", content: `[[sim: latency=${(IDLE_SECONDS + 1.5) * 1_000}]] hello` }],
  });
  return `POST /v1/chat/completions HTTP/1.1\r\n${HOST}Authorization: Bearer ${account.key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

/** Requests more than all buffers hold, and reads only after the server must have closed the connection. */
async function connectWithoutReading(): Promise<{
  readonly bytes: number;
  readonly isClosed: boolean;
}> {
  const connection = await openRawConnection(gateway);
  connection.socket.pause();
  connection.socket.write(`GET /openapi.json HTTP/1.1\r\n${HOST}\r\n`.repeat(100));
  // A paused socket sees no close, so another connection, which is idle from a later time on, shows that it is due.
  await sendAndWait(`GET /openapi.json HTTP/1.1\r\n${HOST}\r\n`);
  connection.socket.resume();
  const { text, isClosed } = await connection.whenClosed();
  connection.socket.destroy();
  return { bytes: text.length, isClosed };
}

describe("a slow body", () => {
  interface SlowBodyResult {
    readonly id: string;
    readonly dialect: string;
    readonly response: RawResponse | undefined;
  }

  function contentTypeOf({ multipart, bodyType }: Gateway["server"]["routes"][number]): string {
    if (multipart === "required" || multipart === "streamed")
      return "multipart/form-data; boundary=part";
    return bodyType === "form" ? "application/x-www-form-urlencoded" : "application/json";
  }

  async function slowBody(route: Gateway["server"]["routes"][number]): Promise<SlowBodyResult> {
    const path = route.path.replaceAll(/\{\w+\+?\}/g, "some-id");
    const type = contentTypeOf(route);
    const token = route.dialect === "scim" ? directoryToken : account.key;
    const connection = await openRawConnection(gateway);
    connection.socket.write(
      `${route.method} ${path} HTTP/1.1\r\n${HOST}Authorization: Bearer ${token}\r\nContent-Type: ${type}\r\nContent-Length: 500\r\n\r\n`,
    );
    const timer = setInterval(() => connection.socket.write("a"), 100);
    const { text } = await connection.until((received) => parseResponses(received).length > 0);
    clearInterval(timer);
    connection.socket.destroy();
    return { id: route.id, dialect: route.dialect, response: parseResponses(text)[0] };
  }

  test("is a 408 on every endpoint with a body, in the error format of its API", async () => {
    const routes = gateway.server.routes.filter(
      // A file has minutes: files.test.ts.
      (route) =>
        route.method !== "GET" && !requiresSession(route) && route.multipart !== "streamed",
    );
    expect(routes.length).toBeGreaterThan(8);
    for (const { id, dialect, response } of await Promise.all(routes.map(slowBody))) {
      expectStatus(id, 408, { status: response?.status ?? 0, text: response?.body });
      expect(response?.head.toLowerCase()).toContain("connection: close");
      if (dialect === "page") continue;
      const body: unknown = JSON.parse(response?.body ?? "");
      if (dialect === "openai") expect(valueAt(body, "error.code")).toBe("request_timeout");
      if (dialect === "messages") expect(valueAt(body, "type")).toBe("error");
      if (dialect === "oauth") expect(typeof valueAt(body, "error")).toBe("string");
    }
  });

  test.each([
    ["of announced length", "Content-Length: 500", "a"],
    ["of a large announced length", "Content-Length: 500000", "a"],
    ["that is chunked", "Transfer-Encoding: chunked", "1\r\n \r\n"],
  ])(
    "%s is a 408 that closes the connection, even if the client sends on",
    async (_, framing, bytes) => {
      const connection = await openRawConnection(gateway);
      connection.socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\n${HOST}Authorization: Bearer ${account.key}\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`,
      );
      const timer = setInterval(() => connection.socket.write(bytes), 100);
      const { text, isClosed } = await connection.whenClosed();
      clearInterval(timer);
      connection.socket.destroy();
      const [response] = parseResponses(text);
      expect(response?.status).toBe(408);
      expect(response?.head.toLowerCase()).toContain("connection: close");
      // As long as the client sends, the connection is not idle.
      expect(isClosed).toBe(true);
    },
  );

  test("is a 408 if it is chunked", async () => {
    const connection = await openRawConnection(gateway);
    connection.socket.write(
      `POST /v1/keys HTTP/1.1\r\n${HOST}Authorization: Bearer ${account.key}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    const timer = setInterval(() => connection.socket.write("1\r\n \r\n"), 100);
    const { text } = await connection.until((received) => parseResponses(received).length > 0);
    clearInterval(timer);
    connection.socket.destroy();
    expect(parseResponses(text)[0]?.status).toBe(408);
  });

  test("creates nothing if it stays incomplete, whether the client waits, ends or disconnects", async () => {
    const incomplete = `POST /v1/keys HTTP/1.1\r\n${HOST}Authorization: Bearer ${account.key}\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"name":"incomplete"`;
    const [waiting, ending, disconnecting] = await Promise.all([
      openRawConnection(gateway),
      openRawConnection(gateway),
      openRawConnection(gateway),
    ]);
    await Promise.all(
      [waiting, ending, disconnecting].map((connection) => connection.write(incomplete)),
    );
    ending.socket.end();
    disconnecting.socket.destroy();
    const { text } = await waiting.until((received) => parseResponses(received).length > 0);
    expect(parseResponses(text)[0]?.status).toBe(408);
    waiting.socket.destroy();
    expect((await ending.whenClosed()).isClosed).toBe(true);
    const { body } = await call(gateway, "GET /v1/keys", { key: account.key });
    expect(listAt(body, "data").map(({ name }) => name)).not.toContain("incomplete");
  });
});

describe("a connection", () => {
  test("is closed without a response if the headers take too long", async () => {
    const { isClosed, text } = await started.slowHeaders;
    expect([isClosed, text]).toEqual([true, ""]);
  });

  test("is closed if nothing is sent", async () => {
    expect((await started.nothingSent).isClosed).toBe(true);
  });

  test.each([
    ["it is idle after a response", "idleAfterResponse", 200],
    ["it is idle after a rejected model call", "idleAfterRejectedCall", 401],
    ["its body is not sent after a refusal for overload", "idleAfterOverload", 503],
  ] as const)("is closed if %s", async (_, connection, status) => {
    const { isClosed, text } = await started[connection];
    expect([isClosed, parseResponses(text)[0]?.status]).toEqual([true, status]);
  });

  test("stays open while a model call takes longer than the idle timeout", async () => {
    const { isClosed, text, ms } = await started.slowCall;
    expect([isClosed, parseResponses(text)[0]?.status]).toEqual([true, 200]);
    expect(ms).toBeGreaterThan(IDLE_SECONDS * 1_000);
  });

  test("is closed if the client does not read the responses", async () => {
    const { bytes, isClosed } = await started.slowReader;
    const { text } = await call(gateway, "GET /openapi.json");
    expect(isClosed).toBe(true);
    expect(bytes).toBeLessThan(100 * text.length);
  });
});
