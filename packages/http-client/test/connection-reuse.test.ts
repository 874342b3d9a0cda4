import { afterEach, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { getEventListeners } from "node:events";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import path from "node:path";
import { createGzip, gzipSync } from "node:zlib";
import * as fc from "fast-check";
import { trackTimers } from "../../../test/chaos/open-timers.ts";
import { eventually, untilStable } from "../../../test/support/eventually.ts";
import { runs } from "../../../test/support/full.ts";
import { rejectionMessage } from "../../../test/support/rejection.ts";
import { startScript } from "../../../test/support/script-process.ts";
import { skipUnless } from "../../../test/support/skip.ts";
import { cancelBodyStream, pipeTo, nextChunk, setFlow } from "../src/body-stream.ts";
import { createConnection, abortExchange, onExchangeEnd, sendRequest } from "../src/connection.ts";
import { type Send, createHttpClient, type OutgoingRequest } from "../src/create-http-client.ts";
import type { UpstreamResponse } from "../src/reply.ts";
import { type Dial, dial } from "../src/socket.ts";
import {
  respondToAll,
  chunk,
  CHUNKED,
  LAST_CHUNK,
  advanceClock,
  okReply,
  type ScriptedServer,
  startServer,
  stopServers,
} from "./scripted-server.ts";

afterEach(stopServers);

const ORIGIN = "http://provider.test";
const IDLE_TIMEOUT_MS = 50_000;

function requestTo(url: string, rest: Partial<OutgoingRequest> = {}): OutgoingRequest {
  return { url, headers: {}, body: "{}", signal: new AbortController().signal, ...rest };
}

async function textOf({ body }: UpstreamResponse): Promise<string> {
  const parts: Uint8Array[] = [];
  for (let part = await nextChunk(body); part !== undefined; part = await nextChunk(body))
    parts.push(part);
  return Buffer.concat(parts).toString();
}

/** Sends a request and returns the text of its reply. */
async function call(clientSend: Send, { url }: ScriptedServer, body = "{}"): Promise<string> {
  return textOf(await clientSend(requestTo(url, { body })));
}

const bodiesOf = ({ requests }: ScriptedServer): readonly string[] =>
  requests.map(({ body }) => body.toString());
const echo = respondToAll(({ body }) => okReply(body));

describe("a connection", () => {
  test("is reused", async () => {
    const { send } = createHttpClient();
    const server = await startServer(echo);
    for (let count = 0; count < 20; count++)
      expect(await call(send, server, String(count))).toBe(String(count));
    expect(server.connections.length).toBe(1);
  });

  test("is reused after replies with any framing", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      const replies = [
        okReply("a"),
        `${CHUNKED}1\r\nb\r\n0\r\ntrailer: c\r\n\r\n`,
        "HTTP/1.1 204 None\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        okReply("c", "connection: keep-alive\r\n"),
      ];
      for (const reply of replies) {
        await request();
        send(reply);
      }
    });
    const results: string[] = [];
    for (let count = 0; count < 5; count++) results.push(await call(clientSend, server));
    expect(results).toEqual(["a", "b", "", "", "c"]);
    expect(server.connections.length).toBe(1);
  });

  test("carries one request at a time", async () => {
    const { send } = createHttpClient();
    const server = await startServer(echo);
    for (let round = 0; round < 5; round++) {
      const both = await Promise.all([call(send, server, "a"), call(send, server, "b")]);
      expect(both).toEqual(["a", "b"]);
    }
    expect(server.connections.length).toBe(2);
  });

  test("is not shared between origins", async () => {
    const { send } = createHttpClient();
    const one = await startServer(respondToAll(() => okReply("one")));
    const other = await startServer(respondToAll(() => okReply("other")));
    for (let count = 0; count < 3; count++) {
      expect(await call(send, one)).toBe("one");
      expect(await call(send, other)).toBe("other");
    }
    expect([one.connections.length, other.connections.length]).toEqual([1, 1]);
  });

  for (const [title, reply] of [
    ["with connection: close", okReply("ok", "Connection: Close\r\n")],
    ["with close among other connection options", okReply("ok", "connection: x, close\r\n")],
    ["of HTTP/1.0", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"],
    [
      "of HTTP/1.0 with keep-alive",
      "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
    ],
  ] as const)
    test(`is closed after a reply ${title}`, async () => {
      const { send } = createHttpClient();
      const server = await startServer(respondToAll(() => reply));
      expect(await call(send, server)).toBe("ok");
      await eventually(() => server.openConnectionCount() === 0);
      expect(await call(send, server)).toBe("ok");
      expect(server.connections.length).toBe(2);
    });

  test("is closed by close(), after which a call opens a new one", async () => {
    const { send, close } = createHttpClient();
    const server = await startServer(echo);
    await Promise.all([call(send, server), call(send, server), call(send, server)]);
    expect(server.openConnectionCount()).toBe(3);
    close();
    await eventually(() => server.openConnectionCount() === 0);
    expect(await call(send, server, "again")).toBe("again");
  });

  test("leaves no timer after close()", async () => {
    // Ends the deadlines of other clients, which share a timer.
    await advanceClock(2 * IDLE_TIMEOUT_MS);
    const timers = trackTimers();
    const { send, close } = createHttpClient();
    const server = await startServer(echo);
    await call(send, server);
    expect(timers.count()).toBe(1);
    close();
    await eventually(() => timers.count() === 0, { timeoutMs: IDLE_TIMEOUT_MS / 5 });
    timers.stop();
  });

  test("is closed after 50 seconds idle", async () => {
    const { send } = createHttpClient();
    const server = await startServer(echo);
    expect(await call(send, server, "a")).toBe("a");
    await advanceClock(49_000);
    expect(server.openConnectionCount()).toBe(1);
    await advanceClock(50_001);
    await eventually(() => server.openConnectionCount() === 0);
    expect(await call(send, server, "b")).toBe("b");
  });

  test("is not closed while it waits for a reply", async () => {
    const { send: clientSend } = createHttpClient();
    const sendLate = Promise.withResolvers<void>();
    const server = await startServer(async ({ request, send }) => {
      send(okReply((await request())?.body ?? ""));
      await request();
      await sendLate.promise;
      send(okReply("late"));
    });
    expect(await call(clientSend, server, "a")).toBe("a");
    const late = call(clientSend, server);
    await advanceClock(60_000);
    sendLate.resolve();
    expect(await late).toBe("late");
    expect(server.connections.length).toBe(1);
  });

  test("matches replies to requests, with any framing and slicing", async () => {
    const { send } = createHttpClient();
    const plans: { readonly reply: Buffer; readonly cuts: readonly number[] }[] = [];
    const server = await startServer(async ({ request, socket }) => {
      while ((await request()) !== undefined) {
        const { reply, cuts } = plans.shift() ?? { reply: Buffer.alloc(0), cuts: [] };
        const offsets = [...new Set(cuts.map((cut) => cut % reply.length)), reply.length];
        let from = 0;
        for (const to of offsets.sort((left, right) => left - right)) {
          socket.write(reply.subarray(from, to));
          from = to;
          if (to < reply.length) await new Promise((resolve) => setImmediate(resolve));
        }
      }
    });
    const replies = fc.oneof(
      fc.string({ maxLength: 50 }).map((text) => ({ text, reply: okReply(text) })),
      fc.array(fc.string({ minLength: 1, maxLength: 20 }), { maxLength: 5 }).map((texts) => ({
        text: texts.join(""),
        reply: Buffer.concat([
          Buffer.from(CHUNKED),
          ...texts.map((text) => chunk(text)),
          Buffer.from(LAST_CHUNK),
        ]),
      })),
    );
    await fc.assert(
      fc.asyncProperty(
        replies,
        fc.array(fc.nat(500), { maxLength: 4 }),
        async ({ reply, text }, cuts) => {
          plans.push({ reply, cuts });
          expect(await call(send, server)).toBe(text);
        },
      ),
      { numRuns: runs(300) },
    );
    expect(server.connections.length).toBe(1);
  });
});

describe("an idle connection that the server closed", () => {
  for (const close of ["end", "destroy", "resetAndDestroy"] as const)
    test(`is replaced by a new one (${close})`, async () => {
      const { send: clientSend } = createHttpClient();
      const replyReceived = Promise.withResolvers<void>();
      const server = await startServer(async ({ number, request, send, socket }) => {
        const received = await request();
        send(okReply(received?.body ?? ""));
        if (number > 0) return;
        await replyReceived.promise;
        socket[close]();
      });
      expect(await call(clientSend, server, "a")).toBe("a");
      replyReceived.resolve();
      await eventually(() => server.openConnectionCount() === 0);
      expect(await call(clientSend, server, "b")).toBe("b");
      expect(bodiesOf(server)).toEqual(["a", "b"]);
    });

  test("is replaced if it is closed while the next request is sent", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ number, request, send, socket }) => {
      const received = await request();
      send(okReply(received?.body ?? ""));
      // Arrives after the next request was sent.
      if (number === 0) socket.end();
    });
    expect(await call(clientSend, server, "a")).toBe("a");
    expect(await call(clientSend, server, "b")).toBe("b");
    expect(bodiesOf(server).at(-1)).toBe("b");
  });

  test("has its request retried on a new connection", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ number, request, send, socket }) => {
      const received = await request();
      send(okReply(received?.body ?? ""));
      await request();
      if (number === 0) socket.destroy();
    });
    expect(await call(clientSend, server, "a")).toBe("a");
    expect(await call(clientSend, server, "b")).toBe("b");
    expect(bodiesOf(server)).toEqual(["a", "b", "b"]);
    expect(server.connections.length).toBe(2);
  });

  test("has its request retried only once", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ number, request, send, socket }) => {
      const received = await request();
      if (number === 0) {
        send(okReply(received?.body ?? ""));
        await request();
      }
      socket.destroy();
    });
    expect(await call(clientSend, server, "a")).toBe("a");
    await rejectionMessage(call(clientSend, server, "b"));
    await rejectionMessage(call(clientSend, server, "c"));
    expect(bodiesOf(server)).toEqual(["a", "b", "b", "c"]);
  });

  test("has its request not retried after a byte of the reply", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ request, send, socket }) => {
      const received = await request();
      send(okReply(received?.body ?? ""));
      await request();
      send("H");
      socket.end();
    });
    expect(await call(clientSend, server, "a")).toBe("a");
    await rejectionMessage(call(clientSend, server, "b"));
    expect(await call(clientSend, server, "c")).toBe("c");
    expect(bodiesOf(server)).toEqual(["a", "b", "c"]);
    expect(server.connections.length).toBe(2);
  });

  test("has its request not retried after a malformed reply", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      const received = await request();
      send(okReply(received?.body ?? ""));
      await request();
      send("nonsense\r\n\r\n");
    });
    expect(await call(clientSend, server, "a")).toBe("a");
    await rejectionMessage(call(clientSend, server, "b"));
    expect(await call(clientSend, server, "c")).toBe("c");
    expect(bodiesOf(server)).toEqual(["a", "b", "c"]);
  });

  test("has its request not retried after an abort", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      const received = await request();
      send(okReply(received?.body ?? ""));
    });
    expect(await call(clientSend, server, "a")).toBe("a");
    const abort = new AbortController();
    const aborted = clientSend(requestTo(server.url, { body: "b", signal: abort.signal }));
    await eventually(() => server.requests.length === 2);
    abort.abort();
    await rejectionMessage(aborted);
    expect(await call(clientSend, server, "c")).toBe("c");
    expect(bodiesOf(server)).toEqual(["a", "b", "c"]);
    expect(server.connections.length).toBe(2);
  });

  test("has its request not retried if the connection was new", async () => {
    const { send } = createHttpClient();
    const server = await startServer(async ({ request, socket }) => {
      await request();
      socket.destroy();
    });
    await rejectionMessage(call(send, server, "a"));
    await rejectionMessage(call(send, server, "b"));
    expect(bodiesOf(server)).toEqual(["a", "b"]);
  });
});

describe("unsolicited bytes", () => {
  test("on an idle connection close it", async () => {
    const { send: clientSend } = createHttpClient();
    const replyReceived = Promise.withResolvers<void>();
    const server = await startServer(async ({ number, request, send }) => {
      const received = await request();
      send(okReply(received?.body ?? ""));
      await replyReceived.promise;
      if (number === 0) send(okReply("unsolicited"));
    });
    expect(await call(clientSend, server, "a")).toBe("a");
    replyReceived.resolve();
    await eventually(() => server.openConnectionCount() === 0);
    expect(await call(clientSend, server, "b")).toBe("b");
    expect(server.connections.length).toBe(2);
  });

  for (const [title, reply] of [
    ["content-length", okReply("ok")],
    ["no body", Buffer.from("HTTP/1.1 204 None\r\n\r\n")],
    ["chunks", Buffer.from(`${CHUNKED}2\r\nok\r\n${LAST_CHUNK}`)],
  ] as const)
    test(`right after a reply with ${title} close the connection`, async () => {
      const { send: clientSend } = createHttpClient();
      const server = await startServer(async ({ number, request, send }) => {
        for (let received = await request(); received !== undefined; received = await request())
          send(
            number === 0 ? Buffer.concat([reply, okReply("unsolicited")]) : okReply(received.body),
          );
      });
      await call(clientSend, server, "a").catch(() => {});
      await eventually(() => server.openConnectionCount() === 0);
      expect(await call(clientSend, server, "b")).toBe("b");
      expect(server.connections.length).toBe(2);
      expect(bodiesOf(server)).toEqual(["a", "b"]);
    });

  test("before the first request fail the call", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(({ send }) => send("220 mail.example ready\r\n"));
    const failed = clientSend(requestTo(server.url, { signal: AbortSignal.timeout(60_000) }));
    expect(await rejectionMessage(failed)).toMatch(/malformed reply|closed/);
    await eventually(() => server.openConnectionCount() === 0);
  });
});

describe("a reply before the request was fully sent", () => {
  test("is returned, and its connection is closed", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ number, request, send, socket }) => {
      if (number === 0) {
        await new Promise((resolve) => socket.once("data", resolve));
        socket.pause();
        send("HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig");
        return;
      }
      send(okReply((await request())?.body ?? ""));
    });
    const body = "x".repeat(20_000_000);
    const reply = await clientSend(requestTo(server.url, { body }));
    expect(reply.status).toBe(413);
    expect(await textOf(reply)).toBe("big");
    server.connections[0]?.socket.resume();
    await eventually(() => server.connections[0]?.isOpen() === false);
    expect(await call(clientSend, server, "next")).toBe("next");
    expect(server.connections.length).toBe(2);
  });
});

describe("backpressure", () => {
  /** Writes until the client stops reading, and counts the bytes. */
  const startUnlimitedServer = (bytesMax: number) => {
    const written = { bytes: 0 };
    const start = (): Promise<ScriptedServer> =>
      startServer(async ({ request, send, socket }) => {
        await request();
        send(`HTTP/1.1 200 OK\r\ncontent-length: ${bytesMax}\r\n\r\n`);
        const closed = new Promise((resolve) => socket.once("close", resolve));
        while (written.bytes < bytesMax && !socket.destroyed) {
          written.bytes += 65_536;
          if (socket.write(Buffer.alloc(65_536, "z"))) continue;
          await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), closed]);
        }
        await request();
        send(okReply("next"));
      });
    return { written, start };
  };
  const BODY_BYTES = 64 * 1_048_576;
  /** Upper bound of the kernel buffers of both ends. */
  const BUFFERED_MAX = 24 * 1_048_576;

  for (const [title, begin] of [
    ["is not read", () => {}],
    [
      "is paused",
      ({ body }: UpstreamResponse) =>
        pipeTo(body, { onData: () => setFlow(body, "paused"), onEnd: () => {} }),
    ],
  ] as const)
    test(`stops the server while the body ${title}, and the connection can be reused`, async () => {
      const { send } = createHttpClient();
      const { written, start } = startUnlimitedServer(BODY_BYTES);
      const server = await start();
      const reply = await send(requestTo(server.url));
      begin(reply);
      await eventually(() => written.bytes > 0);
      expect(await untilStable(() => written.bytes)).toBeLessThan(BUFFERED_MAX);
      let bytes = 0;
      const isComplete = await new Promise<boolean>((resolve) => {
        pipeTo(reply.body, {
          onData: ({ length }) => {
            bytes += length;
          },
          onEnd: resolve,
        });
      });
      expect(isComplete).toBe(true);
      if (title === "is not read") expect(bytes).toBe(BODY_BYTES);
      expect(written.bytes).toBe(BODY_BYTES);
      expect(await call(send, server)).toBe("next");
      expect(server.connections.length).toBe(1);
    });

  test("stops the server of a compressed reply", async () => {
    const { send: clientSend } = createHttpClient();
    const text = randomBytes(1_048_576);
    const compressed = gzipSync(text, { level: 0 });
    const written = { parts: 0 };
    const server = await startServer(async ({ request, send, socket }) => {
      await request();
      send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n");
      while (written.parts < 48) {
        written.parts += 1;
        // Concatenated gzip members decompress to the concatenated data.
        if (!socket.write(compressed))
          await new Promise((resolve) => socket.once("drain", resolve));
      }
      socket.end();
    });
    const { body } = await clientSend(requestTo(server.url));
    pipeTo(body, { onData: () => setFlow(body, "paused"), onEnd: () => {} });
    await eventually(() => written.parts > 0);
    expect(await untilStable(() => written.parts)).toBeLessThan(24);
    let bytes = 0;
    const isComplete = await new Promise<boolean>((resolve) => {
      pipeTo(body, {
        onData: ({ length }) => {
          bytes += length;
        },
        onEnd: resolve,
      });
    });
    expect(isComplete).toBe(true);
    expect(written.parts).toBe(48);
    expect(bytes).toBeGreaterThan(47 * text.length);
    expect(bytes).toBeLessThanOrEqual(48 * text.length);
  });

  test("does not decompress more while paused", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      await request();
      send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n");
      const compressor = createGzip();
      compressor.on("data", (bytes: Buffer) => send(bytes));
      for (let count = 0; count < 64; count++) compressor.write(Buffer.alloc(1_048_576));
      compressor.end();
    });
    const { body } = await clientSend(requestTo(server.url));
    let bytes = 0;
    pipeTo(body, {
      onData: ({ length }) => {
        bytes += length;
        setFlow(body, "paused");
      },
      onEnd: () => {},
    });
    await eventually(() => bytes > 0);
    expect(await untilStable(() => bytes)).toBeLessThan(1_048_576);
    cancelBodyStream(body);
    await eventually(() => server.openConnectionCount() === 0);
  });

  test("ends with the reply: a paused connection is resumed for the next request", async () => {
    const { send: clientSend } = createHttpClient();
    let sendBody = Promise.withResolvers<void>();
    const server = await startServer(async ({ request, send }) => {
      for (let received = await request(); received !== undefined; received = await request()) {
        send(`HTTP/1.1 200 OK\r\ncontent-length: ${received.body.length}\r\n\r\n`);
        await sendBody.promise;
        send(received.body);
      }
    });
    for (let count = 0; count < 5; count++) {
      const { body } = await clientSend(requestTo(server.url, { body: "hello" }));
      const events: unknown[] = [];
      pipeTo(body, {
        onData: (bytes) => {
          events.push(Buffer.from(bytes).toString());
          setFlow(body, "paused");
        },
        onEnd: (isComplete) => events.push(isComplete),
      });
      expect(events).toEqual([]);
      sendBody.resolve();
      sendBody = Promise.withResolvers<void>();
      await eventually(() => events.length > 1);
      expect(events).toEqual(["hello", true]);
      // Pausing an ended reply does not affect the connection.
      setFlow(body, "paused");
    }
    sendBody.resolve();
    expect(await call(clientSend, server, "next")).toBe("next");
    expect(server.connections.length).toBe(1);
  });

  test("does not prevent a paused reply from being canceled", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ number, request, send }) => {
      await request();
      send(number === 0 ? `${CHUNKED}2\r\nhi\r\n` : okReply("next"));
    });
    const { body } = await clientSend(requestTo(server.url));
    pipeTo(body, { onData: () => setFlow(body, "paused"), onEnd: () => {} });
    cancelBodyStream(body);
    await eventually(() => server.openConnectionCount() === 0);
    expect(await call(clientSend, server)).toBe("next");
  });
});

describe("drainOrCancel", () => {
  test("keeps the connection if the reply ends", async () => {
    const { send: clientSend } = createHttpClient();
    const sendEnd = Promise.withResolvers<void>();
    const server = await startServer(async ({ request, send }) => {
      await request();
      send(CHUNKED, chunk("data: [DONE]\n\n"));
      await sendEnd.promise;
      send(LAST_CHUNK);
      await request();
      send(okReply("next"));
    });
    const { body } = await clientSend(requestTo(server.url));
    await nextChunk(body);
    setFlow(body, "discarded");
    sendEnd.resolve();
    await eventually(() => body.ended === "complete");
    expect(await call(clientSend, server)).toBe("next");
    expect(server.connections.length).toBe(1);
  });

  test("closes the connection if the reply does not end", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      await request();
      send(CHUNKED, chunk("data: [DONE]\n\n"));
    });
    const { body } = await clientSend(requestTo(server.url));
    await nextChunk(body);
    setFlow(body, "discarded");
    expect(server.openConnectionCount()).toBe(1);
    await advanceClock(501);
    await eventually(() => server.openConnectionCount() === 0);
  });
});

describe("a reply that ends with the connection", () => {
  test("is truncated by a reset", async () => {
    const { send: clientSend } = createHttpClient();
    const headReceived = Promise.withResolvers<void>();
    const server = await startServer(async ({ request, send, socket }) => {
      await request();
      send("HTTP/1.1 200 OK\r\n\r\nhalf");
      await headReceived.promise;
      socket.resetAndDestroy();
    });
    const reply = await clientSend(requestTo(server.url));
    headReceived.resolve();
    expect(await rejectionMessage(textOf(reply))).toBe("the reply was truncated");
  });
});

describe("a compressed reply", () => {
  test("with an unsupported coding is rejected and its connection closed", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      await request();
      send("HTTP/1.1 200 OK\r\ncontent-encoding: compress\r\ncontent-length: 99\r\n\r\nhalf");
    });
    expect(await rejectionMessage(call(clientSend, server))).toContain("compress");
    await eventually(() => server.connections.length === 1 && server.openConnectionCount() === 0);
  });

  test("with invalid data is truncated and its connection closed", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      await request();
      send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 99\r\n\r\nplain text");
    });
    expect(await rejectionMessage(call(clientSend, server))).toBe("the reply was truncated");
    await eventually(() => server.openConnectionCount() === 0);
  });

  test("keeps its connection", async () => {
    const { send } = createHttpClient();
    const compressed = Bun.gzipSync(Buffer.from("text"));
    const server = await startServer(
      respondToAll(() => okReply(compressed, "content-encoding: x-gzip\r\n")),
    );
    for (let count = 0; count < 3; count++) expect(await call(send, server)).toBe("text");
    expect(server.connections.length).toBe(1);
  });

  for (const [title, reply] of [
    ["with status 204", "HTTP/1.1 204 None\r\ncontent-encoding: gzip\r\n\r\n"],
    [
      "with content-length 0",
      "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n",
    ],
  ] as const)
    test(`${title} is empty, not truncated`, async () => {
      const { send } = createHttpClient();
      const server = await startServer(respondToAll(() => reply));
      expect(await call(send, server)).toBe("");
    });
});

describe("headers", () => {
  test("are sent as Latin-1", async () => {
    const { send } = createHttpClient();
    const server = await startServer(echo);
    await textOf(await send(requestTo(server.url, { headers: { "x-title": "caf\xe9 \xff\ta" } })));
    expect(server.requests[0]?.headers["x-title"]).toBe("caf\xe9 \xff\ta");
  });

  test("for routing and framing are rejected", async () => {
    const { send } = createHttpClient();
    const server = await startServer(echo);
    for (const name of ["Host", "content-length", "Transfer-Encoding", "connection"])
      expect(
        await rejectionMessage(send(requestTo(server.url, { headers: { [name]: "5" } }))),
      ).toContain("invalid header");
    // A connection of a rejected request would come before that of this one.
    expect(await call(send, server, "a")).toBe("a");
    expect(server.connections.length).toBe(1);
  });

  test("that are invalid are named without their value", async () => {
    const { send } = createHttpClient();
    const headers = { authorization: "Bearer top-secret\n" };
    const message = await rejectionMessage(send(requestTo("http://127.0.0.1:9", { headers })));
    expect(message).toContain("authorization");
    expect(message).not.toContain("secret");
  });
});

describe("a URL", () => {
  const hasIpv6 = Object.values(networkInterfaces()).some((all) =>
    all?.some(({ address }) => address === "::1"),
  );

  test("can have a host name", async () => {
    const { send } = createHttpClient();
    const { port } = await startServer(echo);
    const server = { url: `http://localhost:${port}` };
    expect(await textOf(await send(requestTo(server.url, { body: "a" })))).toBe("a");
  });

  test.skipIf(skipUnless(hasIpv6, "IPv6: no loopback address ::1 on this machine"))(
    "can have an IPv6 address, also by host name",
    async () => {
      const { send } = createHttpClient();
      const server = await startServer(echo, { host: "::1" });
      expect(await call(send, server, "a")).toBe("a");
      expect(server.requests[0]?.headers["host"]).toBe(`[::1]:${server.port}`);
      const named = send(requestTo(`http://localhost:${server.port}`, { body: "b" }));
      expect(await textOf(await named)).toBe("b");
    },
  );

  test("with another protocol is rejected", async () => {
    const { send } = createHttpClient();
    expect(await rejectionMessage(send(requestTo("ftp://127.0.0.1/")))).toContain("ftp:");
    await rejectionMessage(send(requestTo("not a URL")));
  });
});

describe("5,000 calls", () => {
  test("leak no connections and listeners", async () => {
    const { send, close } = createHttpClient();
    const server = await startServer(respondToAll(() => okReply("ok")));
    const { signal } = new AbortController();
    const caller = async (): Promise<void> => {
      for (let count = 0; count < 250; count++)
        expect(await textOf(await send(requestTo(server.url, { signal })))).toBe("ok");
    };
    await Promise.all(Array.from({ length: 20 }, caller));
    expect(server.requests.length).toBe(5_000);
    expect(server.connections.length).toBeLessThanOrEqual(20);
    expect(getEventListeners(signal, "abort").length).toBe(0);
    close();
    await eventually(() => server.openConnectionCount() === 0);
  });

  test("that fail leak no connections and listeners", async () => {
    const { send: clientSend } = createHttpClient();
    const server = await startServer(async ({ number, request, send, socket }) => {
      await request();
      if (number % 3 === 0) send(CHUNKED, chunk("half"));
      if (number % 3 === 1) send("nonsense\r\n\r\n");
      else socket.destroy();
    });
    const { signal } = new AbortController();
    const caller = async (): Promise<void> => {
      for (let count = 0; count < 50; count++)
        await rejectionMessage(clientSend(requestTo(server.url, { signal })).then(textOf));
    };
    await Promise.all(Array.from({ length: 20 }, caller));
    await eventually(() => server.openConnectionCount() === 0);
    expect(getEventListeners(signal, "abort").length).toBe(0);
  });
});

describe("a connection that is not established", () => {
  test("is closed when the call is aborted", async () => {
    const { send } = createHttpClient();
    const server = await startServer(() => {});
    const url = server.url.replace("http:", "https:");
    const { signal } = new AbortController();
    for (let count = 0; count < 5; count++) {
      const abort = new AbortController();
      const aborted = send(requestTo(url, { signal: AbortSignal.any([abort.signal, signal]) }));
      await eventually(() => server.connections.length === count + 1);
      abort.abort();
      expect(await rejectionMessage(aborted)).toContain("aborted");
    }
    await eventually(() => server.openConnectionCount() === 0);
  });

  test("is canceled when the call is aborted before the server accepts", async () => {
    const unresponsive = startScript(path.join(import.meta.dir, "unresponsive-server.ts"), []);
    const port = Number((await unresponsive.waitForLine("port ")).slice("port ".length));
    const fillers = Array.from({ length: 600 }, () => connect(port, "127.0.0.1"));
    let connected = 0;
    for (const filler of fillers) {
      filler.on("error", () => {});
      filler.on("connect", () => (connected += 1));
    }
    // The backlog is full when no more fillers connect.
    await eventually(() => connected > 0);
    await untilStable(() => connected);
    const { send } = createHttpClient();
    const abort = new AbortController();
    const aborted = send(requestTo(`http://127.0.0.1:${port}`, { signal: abort.signal }));
    abort.abort();
    expect(await rejectionMessage(aborted)).toBe("aborted");
    for (const filler of fillers) filler.destroy();
    unresponsive.process.kill("SIGKILL");
    await unresponsive.exitCode;
  });

  test("fails after ten seconds and is closed", async () => {
    // Accepts the TCP connection and does not reply to the TLS ClientHello.
    const server = await startServer(() => {});
    let cancelCount = 0;
    const neverDial: Dial = () => ({
      connected: new Promise(() => {}),
      cancel: () => {
        cancelCount += 1;
      },
    });
    const errors: string[] = [];
    const calls = [
      createHttpClient().send(requestTo(server.url.replace("http:", "https:"))),
      createHttpClient(neverDial).send(requestTo(server.url)),
    ].map(async (late) => errors.push(await rejectionMessage(late)));
    await eventually(() => server.connections.length === 1);
    await advanceClock(9_000);
    expect(errors).toEqual([]);
    await advanceClock(10_001);
    await Promise.all(calls);
    expect(errors).toEqual(Array(2).fill("connect timeout after 10 s"));
    expect(cancelCount).toBe(1);
    await eventually(() => server.openConnectionCount() === 0);
  });
});

describe("a socket", () => {
  test("that accepts a request in parts receives all of it in order", async () => {
    const sent: Uint8Array[] = [];
    let capacity = 0;
    const write = (bytes: Uint8Array): number => {
      const accepted = Math.min(capacity, bytes.length);
      capacity -= accepted;
      sent.push(Buffer.from(bytes.subarray(0, accepted)));
      return accepted;
    };
    const idle: unknown[] = [];
    const connection = createConnection(
      { write, pause: () => {}, resume: () => {}, terminate: () => {} },
      ORIGIN,
      { onIdle: (connection) => idle.push(connection), onClosed: () => {} },
    );
    const request = Buffer.from(Array.from({ length: 1_000 }, (_, at) => at % 251));
    const exchange = sendRequest(connection, request);
    for (const bytes of [1, 0, 17, 400, 0, 5_000]) {
      capacity = bytes;
      connection.events.onDrain(connection);
    }
    expect(Buffer.concat(sent).equals(request)).toBe(true);
    expect(exchange.hasReplyBytes).toBe(false);
    connection.events.onData(connection, okReply("ok"));
    expect(exchange.hasReplyBytes).toBe(true);
    expect(await textOf(await exchange.reply.promise)).toBe("ok");
    expect(idle).toEqual([connection]);
  });

  test("carries the next request after the previous one was aborted late", async () => {
    let terminated = 0;
    const connection = createConnection(
      {
        write: ({ length }) => length,
        pause: () => {},
        resume: () => {},
        terminate: () => {
          terminated += 1;
        },
      },
      ORIGIN,
      { onIdle: () => {}, onClosed: () => {} },
    );
    const first = sendRequest(connection, Buffer.from("POST"));
    connection.events.onData(connection, okReply("one"));
    const { body } = await first.reply.promise;
    const second = sendRequest(connection, Buffer.from("POST"));
    abortExchange(first);
    cancelBodyStream(body);
    connection.events.onData(connection, okReply("two"));
    expect(await textOf(await second.reply.promise)).toBe("two");
    expect(terminated).toBe(0);
    let ended = 0;
    for (const exchange of [first, second])
      onExchangeEnd(exchange, () => {
        ended += 1;
      });
    expect(ended).toBe(2);
  });

  test("that is closed before the request is written fails the request", async () => {
    for (const isClosedBefore of [false, true]) {
      const closed: unknown[] = [];
      const connection = createConnection(
        { write: () => -1, pause: () => {}, resume: () => {}, terminate: () => {} },
        ORIGIN,
        { onIdle: () => {}, onClosed: (connection) => closed.push(connection) },
      );
      if (isClosedBefore) connection.events.onClose(connection, undefined);
      const exchange = sendRequest(connection, Buffer.from("POST"));
      if (!isClosedBefore) connection.events.onClose(connection, undefined);
      expect(await rejectionMessage(exchange.reply.promise)).toBe("the connection was closed");
      expect(exchange.hasReplyBytes).toBe(false);
      expect(closed).toEqual([connection]);
    }
  });

  test("fails to connect with the reason", async () => {
    const server = await startServer(() => {});
    await stopServers();
    const owner = { events: { onData: () => {}, onDrain: () => {}, onClose: () => {} } };
    const address = { host: "127.0.0.1", port: server.port, isSecure: false };
    expect(await rejectionMessage(dial(address, () => owner).connected)).not.toBe("");
  });
});
