// Clients that are slow, or stop: nobody waits for them for ever. All of them are slow at the same time.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type TestAccount, type Gateway, registerAccount } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { valueAt, call, listAt } from "../spec/api-client.ts";
import { IDLE_SECONDS, LARGE_BODY_MS, startShortTimeoutGateway } from "./short-timeout-gateway.ts";
import {
  parseResponses,
  type SocketOutput,
  openRawConnection,
  sleep,
  type RawResponse,
} from "./raw-client.ts";

const HOST = "Host: postern.example\r\n";
/** The runtime's own limit for the headers of a request, of about twelve seconds; nothing makes it shorter. */
const HEADERS_WITHIN_MS = 17_000;
const IDLE_WITHIN_MS = (IDLE_SECONDS + 8) * 1_000;
const TEST_MS = 40_000;

let gateway: Gateway;
let account: TestAccount;
let started: SlowClients;

interface SlowClients {
  readonly slowHeaders: Promise<SocketOutput>;
  readonly silence: Promise<SocketOutput>;
  readonly idleAfterAnswer: Promise<SocketOutput>;
  readonly idleAfterRefusedCall: Promise<SocketOutput>;
  readonly slowCall: Promise<SocketOutput>;
  readonly slowReader: Promise<{ readonly bytes: number; readonly closed: boolean }>;
}

beforeAll(async () => {
  gateway = await startShortTimeoutGateway();
  account = await registerAccount(gateway);
  started = {
    slowHeaders: drip("", `GET /healthz HTTP/1.1\r\n${HOST}X-A: ${"a".repeat(200)}`, 500),
    silence: openRawConnection(gateway).then((line) => line.whenClosed(HEADERS_WITHIN_MS)),
    idleAfterAnswer: sendAndWait(`GET /healthz HTTP/1.1\r\n${HOST}\r\n`),
    idleAfterRefusedCall: sendAndWait(
      `POST /v1/chat/completions HTTP/1.1\r\n${HOST}Content-Length: 0\r\n\r\n`,
    ),
    slowCall: sendAndWait(slowCallText()),
    slowReader: connectWithoutReading(),
  };
});
afterAll(async () => {
  expect(gateway.logLines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  await gateway.stop();
});

async function drip(first: string, rest: string, everyMs: number): Promise<SocketOutput> {
  const line = await openRawConnection(gateway);
  if (first !== "") line.socket.write(first);
  let sent = 0;
  const timer = setInterval(() => {
    if (sent < rest.length && !line.socket.destroyed) line.socket.write(rest.charAt(sent));
    sent += 1;
  }, everyMs);
  const heard = await line.whenClosed(HEADERS_WITHIN_MS);
  clearInterval(timer);
  line.socket.destroy();
  return heard;
}

async function sendAndWait(bytes: string): Promise<SocketOutput> {
  const line = await openRawConnection(gateway);
  line.socket.write(bytes);
  const heard = await line.whenClosed(2 * IDLE_WITHIN_MS);
  line.socket.destroy();
  return heard;
}

function slowCallText(): string {
  const body = JSON.stringify({
    model: "sim/echo",
    max_tokens: 20,
    messages: [{ role: "user", content: `[[sim: latency=${(IDLE_SECONDS + 1.5) * 1_000}]] hello` }],
  });
  return `POST /v1/chat/completions HTTP/1.1\r\n${HOST}Authorization: Bearer ${account.key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

/** Asks for more than any buffer on the way holds, and takes nothing of it until the other side must have given up. */
async function connectWithoutReading(): Promise<{
  readonly bytes: number;
  readonly closed: boolean;
}> {
  const line = await openRawConnection(gateway);
  line.socket.pause();
  line.socket.write(`GET /openapi.json HTTP/1.1\r\n${HOST}\r\n`.repeat(100));
  await sleep(IDLE_WITHIN_MS);
  line.socket.resume();
  const { text, isClosed } = await line.whenClosed(3_000);
  line.socket.destroy();
  return { bytes: text.length, closed: isClosed };
}

describe("a body that comes one byte at a time", () => {
  interface Slow {
    readonly id: string;
    readonly dialect: string;
    readonly answer: RawResponse | undefined;
    readonly ms: number;
  }

  async function slowBody(route: Gateway["server"]["routes"][number]): Promise<Slow> {
    const path = route.path.replaceAll(/\{\w+\+?\}/g, "some-id");
    const type =
      route.bodyType === "form" ? "application/x-www-form-urlencoded" : "application/json";
    const line = await openRawConnection(gateway);
    const begun = performance.now();
    line.socket.write(
      `${route.method} ${path} HTTP/1.1\r\n${HOST}Authorization: Bearer ${account.key}\r\nContent-Type: ${type}\r\nContent-Length: 500\r\n\r\n`,
    );
    const timer = setInterval(() => line.socket.write("a"), 100);
    const { text } = await line.until(/\r\n\r\n[^]+/, 5_000);
    const ms = performance.now() - begun;
    clearInterval(timer);
    line.socket.destroy();
    return { id: route.id, dialect: route.dialect, answer: parseResponses(text)[0], ms };
  }

  test("is a 408 when its time is over, on every endpoint that takes one, in the form of its API", async () => {
    const routes = gateway.server.routes.filter(
      ({ method, auth }) => method !== "GET" && auth !== "session",
    );
    expect(routes.length).toBeGreaterThan(8);
    for (const { id, dialect, answer, ms } of await Promise.all(routes.map(slowBody))) {
      expectStatus(id, 408, { status: answer?.status ?? 0, text: answer?.body });
      expect(ms).toBeLessThan(LARGE_BODY_MS + 2_000);
      if (dialect === "page") continue;
      const body: unknown = JSON.parse(answer?.body ?? "");
      if (dialect === "openai") expect(valueAt(body, "error.code")).toBe("request_timeout");
      if (dialect === "messages") expect(valueAt(body, "type")).toBe("error");
      if (dialect === "oauth") expect(typeof valueAt(body, "error")).toBe("string");
    }
  });

  test("chunked, it is a 408 as well", async () => {
    const line = await openRawConnection(gateway);
    line.socket.write(
      `POST /v1/keys HTTP/1.1\r\n${HOST}Authorization: Bearer ${account.key}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    const timer = setInterval(() => line.socket.write("1\r\n \r\n"), 100);
    const { text } = await line.until(/\r\n\r\n[^]+/, 5_000);
    clearInterval(timer);
    line.socket.destroy();
    expect(parseResponses(text)[0]?.status).toBe(408);
  });

  test("a body that stops half-way makes nothing, whether the client waits, ends or leaves", async () => {
    const half = `POST /v1/keys HTTP/1.1\r\n${HOST}Authorization: Bearer ${account.key}\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"name":"half-way"`;
    const [waits, ends, leaves] = await Promise.all([
      openRawConnection(gateway),
      openRawConnection(gateway),
      openRawConnection(gateway),
    ]);
    for (const { socket } of [waits, ends, leaves]) socket.write(half);
    await sleep(20);
    ends.socket.end();
    leaves.socket.destroy();
    const waited = await waits.until(/\r\n\r\n[^]+/, 5_000);
    expect(parseResponses(waited.text)[0]?.status).toBe(408);
    waits.socket.destroy();
    const ended = await ends.whenClosed(2_000);
    expect(ended.isClosed).toBe(true);
    const { body } = await call(gateway, "GET /v1/keys", { key: account.key });
    expect(listAt(body, "data").map(({ name }) => name)).not.toContain("half-way");
  });
});

describe("waits are bounded", () => {
  test(
    "headers that come one byte at a time: the connection is closed, without an answer",
    async () => {
      const { isClosed, text, ms } = await started.slowHeaders;
      expect([isClosed, text]).toEqual([true, ""]);
      expect(ms).toBeLessThan(HEADERS_WITHIN_MS);
    },
    TEST_MS,
  );

  test(
    "a connection on which nothing is ever sent is closed",
    async () => {
      expect((await started.silence).isClosed).toBe(true);
    },
    TEST_MS,
  );

  test(
    "a connection that is silent after an answer is closed",
    async () => {
      const { isClosed, text, ms } = await started.idleAfterAnswer;
      expect([isClosed, parseResponses(text)[0]?.status]).toEqual([true, 200]);
      expect(ms).toBeLessThan(IDLE_WITHIN_MS);
    },
    TEST_MS,
  );

  test(
    "so is one on which a model call was refused: the patience that a call needs ends with its answer",
    async () => {
      const { isClosed, text, ms } = await started.idleAfterRefusedCall;
      expect([isClosed, parseResponses(text)[0]?.status]).toEqual([true, 401]);
      expect(ms).toBeLessThan(IDLE_WITHIN_MS);
    },
    TEST_MS,
  );

  test(
    "a model call may be silent for longer, and is answered; the connection is closed after it",
    async () => {
      const { isClosed, text, ms } = await started.slowCall;
      expect([isClosed, parseResponses(text)[0]?.status]).toEqual([true, 200]);
      expect(ms).toBeGreaterThan(IDLE_SECONDS * 1_000);
    },
    TEST_MS,
  );

  test(
    "a reader that takes nothing is left: what it did not take is not kept for it",
    async () => {
      const { bytes, closed } = await started.slowReader;
      const { text } = await call(gateway, "GET /openapi.json");
      expect(closed).toBe(true);
      expect(bytes).toBeLessThan(100 * text.length);
    },
    TEST_MS,
  );
});
