// Thousands of uploads that stall: the memory that they take is bounded, and others are served.

import { afterAll, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { readBody } from "../../src/http/request/body.ts";
import { createUploadLimit } from "../../src/http/request/upload-limit.ts";
import { call } from "../spec/api-client.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount } from "../support/gateway.ts";
import { startShortTimeoutGateway } from "./short-timeout-gateway.ts";

const UPLOADS = 3_000;
const KEY_UPLOADS_MAX = 1_024;
const SENT_BYTES = 60_000;
const BODY_BYTES = 1_000_000;
/** 1,024 uploads of 60 KB, and twice as much for the sockets and strings of both sides. */
const MEMORY_GROWTH_MAX_MIB = 256;
const CHUNKS = 100_000;
const HEAP_PER_BYTE_MAX = 20;
const TEST_MS = 120_000;
/** No upload of a caller with a key times out during a test. */
const TIMEOUT_MS = TEST_MS;

const gateway = await startShortTimeoutGateway(
  {},
  {
    bodyTimeouts: { smallBodyMs: TIMEOUT_MS, largeBodyMs: TIMEOUT_MS, anonymousBodyMs: 200 },
  },
);
const accounts = await Promise.all([1, 2].map(() => registerAccount(gateway)));
afterAll(() => gateway.stop());

test(`${UPLOADS} stalled uploads of one key take bounded memory, and others are served`, async () => {
  const [slow, other] = accounts;
  Bun.gc(true);
  const before = process.memoryUsage.rss();
  const part = "x".repeat(SENT_BYTES);
  let rejected = 0;
  let closed = 0;
  const sockets = Array.from({ length: UPLOADS }, () => {
    const socket = openUpload(slow?.key ?? "", part);
    socket.once("data", (reply) => {
      rejected += Number(reply.toString().startsWith("HTTP/1.1 429"));
    });
    socket.once("close", () => {
      closed += 1;
    });
    return socket;
  });
  await eventually(() => closed === UPLOADS - KEY_UPLOADS_MAX);
  // A reset can overtake the response.
  expect(rejected).toBeGreaterThan(0);
  const body = { model: "sim/echo", max_tokens: 9, messages: [{ role: "user", content: "hi" }] };
  const own = await call(gateway, "POST /v1/chat/completions", { key: slow?.key ?? "", body });
  const others = await call(gateway, "POST /v1/chat/completions", {
    key: other?.key ?? "",
    body,
  });
  expect([own.status, others.status]).toEqual([429, 200]);
  expect((process.memoryUsage.rss() - before) / 1_048_576).toBeLessThan(MEMORY_GROWTH_MAX_MIB);
  for (const socket of sockets) socket.destroy();
  await eventually(
    async () =>
      (await call(gateway, "POST /v1/chat/completions", { key: slow?.key ?? "", body })).status ===
      200,
  );
});

function openUpload(key: string, part: string): Socket {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${BODY_BYTES}\r\n\r\n${part}`,
  );
  return socket;
}

test("a body in chunks of one byte takes little more memory than its bytes", async () => {
  const sent = Promise.withResolvers<void>();
  const measured = Promise.withResolvers<void>();
  let left = CHUNKS;
  const body = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      if (left-- > 0) return controller.enqueue(Uint8Array.of(left % 10));
      sent.resolve();
      await measured.promise;
      controller.close();
    },
  });
  const request = new Request("http://x", { method: "POST", body });
  Bun.gc(true);
  const before = process.memoryUsage().heapUsed;
  let counted = 0;
  const reading = readBody(request, {
    limitBytes: 2 * CHUNKS,
    isAnonymous: false,
    onGrowth: (bytes) => {
      counted = bytes;
    },
  });
  await sent.promise;
  Bun.gc(true);
  expect(counted).toBe(CHUNKS);
  expect((process.memoryUsage().heapUsed - before) / CHUNKS).toBeLessThan(HEAP_PER_BYTE_MAX);
  measured.resolve();
  const bytes = await reading;
  expect(bytes).toHaveLength(CHUNKS);
  expect([...bytes.subarray(-11)]).toEqual([0, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
});

test("a stranger gets less time for a body than a caller with a key", async () => {
  const caller = openUpload(accounts[1]?.key ?? "", "x");
  let callerReplies = 0;
  caller.on("data", () => {
    callerReplies += 1;
  });
  const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
  const reply = await new Promise<string>((resolve) => {
    socket.once("data", (data) => resolve(data.toString()));
    socket.write(
      "POST /v1/accounts HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
    );
  });
  socket.destroy();
  expect(reply).toStartWith("HTTP/1.1 408");
  expect(callerReplies).toBe(0);
  caller.destroy();
});

describe("the limit of uploads", () => {
  const limits = {
    key: { perCaller: 3, perGroup: 4 },
    network: { perCaller: 1, perGroup: 2 },
  } as const;
  const key = (id: string) => ({ id, groupId: "account", kind: "key" }) as const;
  const network = (id: string) => ({ id, groupId: "wide", kind: "network" }) as const;

  test("counts per key and account, and per network and wider network", () => {
    const limit = createUploadLimit(limits);
    for (const id of ["a", "a", "a", "b"]) limit.begin(key(id));
    expect(() => limit.begin(key("a"))).toThrow("this API key");
    expect(() => limit.begin(key("b"))).toThrow("this account");
    limit.end(key("a"));
    limit.begin(key("b"));
    limit.begin(network("1"));
    expect(() => limit.begin(network("1"))).toThrow("your network");
    limit.begin(network("2"));
    expect(() => limit.begin(network("3"))).toThrow("wider network");
  });
});
