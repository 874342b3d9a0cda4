import { afterEach, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { getEventListeners } from "node:events";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import path from "node:path";
import { createGzip, gzipSync } from "node:zlib";
import * as fc from "fast-check";
import { type Send, createHttpClient, type OutgoingRequest } from "../../src/http-client/client.ts";
import {
  CONNECTION_EVENTS,
  createConnection,
  abortExchange,
  onExchangeEnd,
  sendRequest,
} from "../../src/http-client/connection.ts";
import {
  cancelBodyStream,
  pipeTo,
  nextChunk,
  pauseBodyStream,
  drainOrCancel,
} from "../../src/http-client/body-stream.ts";
import type { UpstreamResponse } from "../../src/http-client/reply.ts";
import { type Dial, dial } from "../../src/http-client/socket.ts";
import { startScript } from "../support/script-process.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { skipUnless } from "../support/skip.ts";
import {
  respondToAll,
  waitUntil,
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

function requestTo(url: string, rest: Partial<OutgoingRequest> = {}): OutgoingRequest {
  return { url, headers: {}, body: "{}", signal: new AbortController().signal, ...rest };
}

async function textOf({ body }: UpstreamResponse): Promise<string> {
  const pieces: Uint8Array[] = [];
  for (let piece = await nextChunk(body); piece !== undefined; piece = await nextChunk(body))
    pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

/** A call from its sending to the end of its reply. */
async function call(carry: Send, { url }: ScriptedServer, body = "{}"): Promise<string> {
  return textOf(await carry(requestTo(url, { body })));
}

const bodiesOf = ({ requests }: ScriptedServer): readonly string[] =>
  requests.map(({ body }) => body.toString());
const echo = respondToAll(({ body }) => okReply(body));

describe("a connection", () => {
  test("is kept and used again", async () => {
    const { send } = createHttpClient();
    const server = await startServer(echo);
    for (let count = 0; count < 20; count++)
      expect(await call(send, server, String(count))).toBe(String(count));
    expect(server.connections.length).toBe(1);
  });

  test("is kept whichever way its replies are told apart", async () => {
    const { send: carry } = createHttpClient();
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
    const told: string[] = [];
    for (let count = 0; count < 5; count++) told.push(await call(carry, server));
    expect(told).toEqual(["a", "b", "", "", "c"]);
    expect(server.connections.length).toBe(1);
  });

  test("takes one request at a time: two at once take two, and both are kept", async () => {
    const { send } = createHttpClient();
    const server = await startServer(echo);
    for (let round = 0; round < 5; round++) {
      const both = await Promise.all([call(send, server, "a"), call(send, server, "b")]);
      expect(both).toEqual(["a", "b"]);
    }
    expect(server.connections.length).toBe(2);
  });

  test("is not shared between two places", async () => {
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
    ["says that it closes", okReply("ok", "Connection: Close\r\n")],
    ["closes among other things", okReply("ok", "connection: x, close\r\n")],
    ["is of HTTP/1.0", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"],
    [
      "is of HTTP/1.0 and would be kept",
      "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
    ],
  ] as const)
    test(`is closed by us after a reply that ${title}`, async () => {
      const { send } = createHttpClient();
      const server = await startServer(respondToAll(() => reply));
      expect(await call(send, server)).toBe("ok");
      expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
      expect(await call(send, server)).toBe("ok");
      expect(server.connections.length).toBe(2);
    });

  test("is let go by the carrier's close, and another call opens a new one", async () => {
    const { send, close } = createHttpClient();
    const server = await startServer(echo);
    await Promise.all([call(send, server), call(send, server), call(send, server)]);
    expect(server.openConnectionCount()).toBe(3);
    close();
    expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
    expect(await call(send, server, "again")).toBe("again");
  });

  test("is closed by us after fifty seconds in which nobody needed it", async () => {
    const { send } = createHttpClient();
    const server = await startServer(echo);
    expect(await call(send, server, "a")).toBe("a");
    await advanceClock(49_000);
    expect(server.openConnectionCount()).toBe(1);
    await advanceClock(50_001);
    expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
    expect(await call(send, server, "b")).toBe("b");
  });

  test("is not closed by us, however long its reply takes", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      send(okReply((await request())?.body ?? ""));
      await request();
      await Bun.sleep(400);
      send(okReply("late"));
    });
    expect(await call(carry, server, "a")).toBe("a");
    const late = call(carry, server);
    await advanceClock(60_000);
    expect(await late).toBe("late");
    expect(server.connections.length).toBe(1);
  });

  test("gives each request its own reply, whatever came before and however it is sliced", async () => {
    const { send } = createHttpClient();
    const plans: { readonly reply: Buffer; readonly cuts: readonly number[] }[] = [];
    const server = await startServer(async ({ request, socket }) => {
      while ((await request()) !== undefined) {
        const { reply, cuts } = plans.shift() ?? { reply: Buffer.alloc(0), cuts: [] };
        const places = [...new Set(cuts.map((cut) => cut % reply.length)), reply.length];
        let from = 0;
        for (const to of places.sort((left, right) => left - right)) {
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
      fc.asyncProperty(replies, fc.array(fc.nat(500), { maxLength: 4 }), async (one, cuts) => {
        plans.push({ reply: one.reply, cuts });
        expect(await call(send, server)).toBe(one.text);
      }),
      { numRuns: 300 },
    );
    expect(server.connections.length).toBe(1);
  });
});

describe("a kept connection that is gone", () => {
  for (const how of ["end", "destroy", "resetAndDestroy"] as const)
    test(`is replaced in silence where the server closed it while it was idle (${how})`, async () => {
      const { send: carry } = createHttpClient();
      const server = await startServer(async ({ number, request, send, socket }) => {
        const asked = await request();
        send(okReply(asked?.body ?? ""));
        if (number > 0) return;
        await Bun.sleep(10);
        socket[how]();
      });
      expect(await call(carry, server, "a")).toBe("a");
      await waitUntil(() => server.openConnectionCount() === 0);
      await Bun.sleep(10);
      expect(await call(carry, server, "b")).toBe("b");
      expect(bodiesOf(server)).toEqual(["a", "b"]);
    });

  test("is replaced in silence where it was closed in the very moment", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ number, request, send, socket }) => {
      const asked = await request();
      send(okReply(asked?.body ?? ""));
      // The next request is on its way when this arrives.
      if (number === 0) socket.end();
    });
    expect(await call(carry, server, "a")).toBe("a");
    expect(await call(carry, server, "b")).toBe("b");
    expect(bodiesOf(server).at(-1)).toBe("b");
  });

  test("has its request sent again exactly once, over a new one", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ number, request, send, socket }) => {
      const asked = await request();
      send(okReply(asked?.body ?? ""));
      await request();
      if (number === 0) socket.destroy();
    });
    expect(await call(carry, server, "a")).toBe("a");
    expect(await call(carry, server, "b")).toBe("b");
    expect(bodiesOf(server)).toEqual(["a", "b", "b"]);
    expect(server.connections.length).toBe(2);
  });

  test("has its request not sent a third time", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ number, request, send, socket }) => {
      const asked = await request();
      if (number === 0) {
        send(okReply(asked?.body ?? ""));
        await request();
      }
      socket.destroy();
    });
    expect(await call(carry, server, "a")).toBe("a");
    await rejectionMessage(call(carry, server, "b"));
    await Bun.sleep(50);
    expect(bodiesOf(server)).toEqual(["a", "b", "b"]);
  });

  test("has its request not sent again where one byte of the answer had come", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ request, send, socket }) => {
      const asked = await request();
      send(okReply(asked?.body ?? ""));
      await request();
      send("H");
      await Bun.sleep(10);
      socket.destroy();
    });
    expect(await call(carry, server, "a")).toBe("a");
    await rejectionMessage(call(carry, server, "b"));
    await Bun.sleep(50);
    expect(bodiesOf(server)).toEqual(["a", "b"]);
    expect(server.connections.length).toBe(1);
  });

  test("has its request not sent again where the answer was none", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      const asked = await request();
      send(okReply(asked?.body ?? ""));
      await request();
      send("nonsense\r\n\r\n");
    });
    expect(await call(carry, server, "a")).toBe("a");
    await rejectionMessage(call(carry, server, "b"));
    await Bun.sleep(50);
    expect(bodiesOf(server)).toEqual(["a", "b"]);
  });

  test("has its request not sent again when the caller left", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      const asked = await request();
      send(okReply(asked?.body ?? ""));
    });
    expect(await call(carry, server, "a")).toBe("a");
    const abort = new AbortController();
    const left = carry(requestTo(server.url, { body: "b", signal: abort.signal }));
    await waitUntil(() => server.requests.length === 2);
    abort.abort();
    await rejectionMessage(left);
    await Bun.sleep(50);
    expect(bodiesOf(server)).toEqual(["a", "b"]);
    expect(server.connections.length).toBe(1);
  });

  test("is no reason to send again on a connection that was new", async () => {
    const { send } = createHttpClient();
    const server = await startServer(async ({ request, socket }) => {
      await request();
      socket.destroy();
    });
    await rejectionMessage(call(send, server));
    await Bun.sleep(50);
    expect(server.requests.length).toBe(1);
  });
});

describe("bytes that nobody asked for", () => {
  test("on an idle connection close it, and are nobody's reply", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ number, request, send }) => {
      const asked = await request();
      send(okReply(asked?.body ?? ""));
      await Bun.sleep(20);
      if (number === 0) send(okReply("evil"));
    });
    expect(await call(carry, server, "a")).toBe("a");
    expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
    expect(await call(carry, server, "b")).toBe("b");
    expect(server.connections.length).toBe(2);
  });

  for (const [title, reply] of [
    ["a length", okReply("ok")],
    ["no body", Buffer.from("HTTP/1.1 204 None\r\n\r\n")],
    ["chunks", Buffer.from(`${CHUNKED}2\r\nok\r\n${LAST_CHUNK}`)],
  ] as const)
    test(`right after a reply of ${title} close the connection, and are nobody's reply`, async () => {
      const { send: carry } = createHttpClient();
      const server = await startServer(async ({ number, request, send }) => {
        for (let asked = await request(); asked !== undefined; asked = await request())
          send(number === 0 ? Buffer.concat([reply, okReply("evil")]) : okReply(asked.body));
      });
      await call(carry, server, "a").catch(() => {});
      expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
      expect(await call(carry, server, "b")).toBe("b");
      expect(server.connections.length).toBe(2);
      expect(bodiesOf(server)).toEqual(["a", "b"]);
    });

  test("are a greeting that is no reply, where a server speaks first", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(({ send }) => send("220 mail.example ready\r\n"));
    const greeted = carry(requestTo(server.url, { signal: AbortSignal.timeout(1_000) }));
    expect(await rejectionMessage(greeted)).toMatch(/malformed reply|closed/);
    expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
  });
});

describe("a reply that comes before all of its request was read", () => {
  test("is read, and its connection is not used again", async () => {
    const { send: carry } = createHttpClient();
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
    const reply = await carry(requestTo(server.url, { body }));
    expect(reply.status).toBe(413);
    expect(await textOf(reply)).toBe("big");
    server.connections[0]?.socket.resume();
    expect(await waitUntil(() => server.connections[0]?.isOpen() === false)).toBe(true);
    expect(await call(carry, server, "next")).toBe("next");
    expect(server.connections.length).toBe(2);
  });
});

describe("a reader that cannot take more", () => {
  /** Writes without an end, and counts what it could. */
  const pour = (bytesMax: number) => {
    const poured = { bytes: 0 };
    const start = (): Promise<ScriptedServer> =>
      startServer(async ({ request, send, socket }) => {
        await request();
        send(`HTTP/1.1 200 OK\r\ncontent-length: ${bytesMax}\r\n\r\n`);
        const closed = new Promise((resolve) => socket.once("close", resolve));
        while (poured.bytes < bytesMax && !socket.destroyed) {
          poured.bytes += 65_536;
          if (socket.write(Buffer.alloc(65_536, "z"))) continue;
          await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), closed]);
        }
        await request();
        send(okReply("next"));
      });
    return { poured, start };
  };
  const SO_MUCH = 64 * 1_048_576;
  /** What the kernels of both ends may hold, generously. */
  const ON_THE_WAY_MAX = 24 * 1_048_576;

  for (const [title, begin] of [
    ["does not ask", () => {}],
    [
      "pauses",
      ({ body }: UpstreamResponse) =>
        pipeTo(body, { onData: () => pauseBodyStream(body), onEnd: () => {} }),
    ],
  ] as const)
    test(`and ${title} stops the server, who goes on when it does; then the connection serves the next`, async () => {
      const { send } = createHttpClient();
      const { poured, start } = pour(SO_MUCH);
      const server = await start();
      const reply = await send(requestTo(server.url));
      begin(reply);
      await Bun.sleep(300);
      const stopped = poured.bytes;
      expect(stopped).toBeLessThan(ON_THE_WAY_MAX);
      await Bun.sleep(200);
      expect(poured.bytes).toBe(stopped);
      let bytes = 0;
      const whole = await new Promise<boolean>((resolve) => {
        pipeTo(reply.body, {
          onData: ({ length }) => {
            bytes += length;
          },
          onEnd: resolve,
        });
      });
      expect(whole).toBe(true);
      if (title === "does not ask") expect(bytes).toBe(SO_MUCH);
      expect(poured.bytes).toBe(SO_MUCH);
      expect(await call(send, server)).toBe("next");
      expect(server.connections.length).toBe(1);
    });

  test("stops the server of a packed reply as well, and is given all of it when it can take more", async () => {
    const { send: carry } = createHttpClient();
    const text = randomBytes(1_048_576);
    const packed = gzipSync(text, { level: 0 });
    const poured = { pieces: 0 };
    const server = await startServer(async ({ request, send, socket }) => {
      await request();
      send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n");
      while (poured.pieces < 48) {
        poured.pieces += 1;
        // Packed pieces that follow one another unpack to what was packed, one after the other.
        if (!socket.write(packed)) await new Promise((resolve) => socket.once("drain", resolve));
      }
      socket.end();
    });
    const { body } = await carry(requestTo(server.url));
    pipeTo(body, { onData: () => pauseBodyStream(body), onEnd: () => {} });
    await Bun.sleep(250);
    const stopped = poured.pieces;
    expect(stopped).toBeLessThan(24);
    await Bun.sleep(100);
    expect(poured.pieces).toBe(stopped);
    let bytes = 0;
    const whole = await new Promise<boolean>((resolve) => {
      pipeTo(body, {
        onData: ({ length }) => {
          bytes += length;
        },
        onEnd: resolve,
      });
    });
    expect(whole).toBe(true);
    expect(poured.pieces).toBe(48);
    expect(bytes).toBeGreaterThan(47 * text.length);
    expect(bytes).toBeLessThanOrEqual(48 * text.length);
  });

  test("while its packed reply would unpack to much more is not given it", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      await request();
      send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n");
      const packer = createGzip();
      packer.on("data", (bytes: Buffer) => send(bytes));
      for (let count = 0; count < 64; count++) packer.write(Buffer.alloc(1_048_576));
      packer.end();
    });
    const { body } = await carry(requestTo(server.url));
    let bytes = 0;
    pipeTo(body, {
      onData: ({ length }) => {
        bytes += length;
        pauseBodyStream(body);
      },
      onEnd: () => {},
    });
    await waitUntil(() => bytes > 0);
    await Bun.sleep(200);
    expect(bytes).toBeLessThan(1_048_576);
    cancelBodyStream(body);
    expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
  });

  test("when its reply ends all the same leaves a connection that is read for the next", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      for (let asked = await request(); asked !== undefined; asked = await request()) {
        send(`HTTP/1.1 200 OK\r\ncontent-length: ${asked.body.length}\r\n\r\n`);
        await Bun.sleep(10);
        send(asked.body);
      }
    });
    for (let count = 0; count < 5; count++) {
      const { body } = await carry(requestTo(server.url, { body: "hello" }));
      const notes: unknown[] = [];
      pipeTo(body, {
        onData: (bytes) => {
          notes.push(Buffer.from(bytes).toString());
          pauseBodyStream(body);
        },
        onEnd: (whole) => notes.push(whole),
      });
      expect(notes).toEqual([]);
      expect(await waitUntil(() => notes.length > 1)).toBe(true);
      expect(notes).toEqual(["hello", true]);
      // What is said of a reply that is over does not touch the connection.
      pauseBodyStream(body);
    }
    expect(await call(carry, server, "next")).toBe("next");
    expect(server.connections.length).toBe(1);
  });

  test("and is gone takes nothing along: a paused reply that is cancelled hangs up", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ number, request, send }) => {
      await request();
      send(number === 0 ? `${CHUNKED}2\r\nhi\r\n` : okReply("next"));
    });
    const { body } = await carry(requestTo(server.url));
    pipeTo(body, { onData: () => pauseBodyStream(body), onEnd: () => {} });
    cancelBodyStream(body);
    expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
    expect(await call(carry, server)).toBe("next");
  });
});

describe("a reply that nobody is interested in any more", () => {
  test("may end by itself, and its connection is kept", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      await request();
      send(CHUNKED, chunk("data: [DONE]\n\n"));
      await Bun.sleep(30);
      send(LAST_CHUNK);
      await request();
      send(okReply("next"));
    });
    const { body } = await carry(requestTo(server.url));
    await nextChunk(body);
    drainOrCancel(body);
    await Bun.sleep(80);
    expect(await call(carry, server)).toBe("next");
    expect(server.connections.length).toBe(1);
  });

  test("is hung up where it does not end", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      await request();
      send(CHUNKED, chunk("data: [DONE]\n\n"));
    });
    const { body } = await carry(requestTo(server.url));
    await nextChunk(body);
    drainOrCancel(body);
    await Bun.sleep(300);
    expect(server.openConnectionCount()).toBe(1);
    expect(await waitUntil(() => server.openConnectionCount() === 0, 1_000)).toBe(true);
  });
});

describe("a reply that lasts until the connection closes", () => {
  test("is cut where the connection is reset", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ request, send, socket }) => {
      await request();
      send("HTTP/1.1 200 OK\r\n\r\nhalf");
      await Bun.sleep(20);
      socket.resetAndDestroy();
    });
    expect(await rejectionMessage(call(carry, server))).toBe("the reply was truncated");
  });
});

describe("a packed reply", () => {
  test("of a coding that nobody knows is an error that names it, and leaves no connection behind", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      await request();
      send("HTTP/1.1 200 OK\r\ncontent-encoding: compress\r\ncontent-length: 99\r\n\r\nhalf");
    });
    expect(await rejectionMessage(call(carry, server))).toContain("compress");
    expect(
      await waitUntil(() => server.connections.length === 1 && server.openConnectionCount() === 0),
    ).toBe(true);
  });

  test("that is no such thing is cut, and leaves no connection behind", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ request, send }) => {
      await request();
      send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 99\r\n\r\nplain text");
    });
    expect(await rejectionMessage(call(carry, server))).toBe("the reply was truncated");
    expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
  });

  test("leaves its connection for the next", async () => {
    const { send } = createHttpClient();
    const packed = Bun.gzipSync(Buffer.from("packed"));
    const server = await startServer(
      respondToAll(() => okReply(packed, "content-encoding: x-gzip\r\n")),
    );
    for (let count = 0; count < 3; count++) expect(await call(send, server)).toBe("packed");
    expect(server.connections.length).toBe(1);
  });

  for (const [title, reply] of [
    ["has no content", "HTTP/1.1 204 None\r\ncontent-encoding: gzip\r\n\r\n"],
    [
      "has a length of none",
      "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n",
    ],
  ] as const)
    test(`that ${title} is empty and not cut`, async () => {
      const { send } = createHttpClient();
      const server = await startServer(respondToAll(() => reply));
      expect(await call(send, server)).toBe("");
    });
});

describe("headers", () => {
  test("may hold every character of Latin-1, which arrives as one byte", async () => {
    const { send } = createHttpClient();
    const server = await startServer(echo);
    await textOf(await send(requestTo(server.url, { headers: { "x-title": "caf\xe9 \xff\ta" } })));
    expect(server.requests[0]?.headers["x-title"]).toBe("caf\xe9 \xff\ta");
  });

  test("that say where a request goes or ends are not a caller's to say", async () => {
    const { send } = createHttpClient();
    const server = await startServer(echo);
    for (const name of ["Host", "content-length", "Transfer-Encoding", "connection"])
      expect(
        await rejectionMessage(send(requestTo(server.url, { headers: { [name]: "5" } }))),
      ).toContain("invalid header");
    await Bun.sleep(20);
    expect(server.connections.length).toBe(0);
  });

  test("that cannot be sent are named, and their values are not told", async () => {
    const { send } = createHttpClient();
    const headers = { authorization: "Bearer top-secret\n" };
    const message = await rejectionMessage(send(requestTo("http://127.0.0.1:9", { headers })));
    expect(message).toContain("authorization");
    expect(message).not.toContain("secret");
  });
});

describe("an address", () => {
  const hasIpv6 = Object.values(networkInterfaces()).some((all) =>
    all?.some(({ address }) => address === "::1"),
  );

  test("may be a name", async () => {
    const { send } = createHttpClient();
    const { port } = await startServer(echo);
    const server = { url: `http://localhost:${port}` };
    expect(await textOf(await send(requestTo(server.url, { body: "a" })))).toBe("a");
  });

  test.skipIf(skipUnless(hasIpv6, "IPv6: no loopback address ::1 on this machine"))(
    "may be of IPv6, as it is or by its name",
    async () => {
      const { send } = createHttpClient();
      const server = await startServer(echo, { host: "::1" });
      expect(await call(send, server, "a")).toBe("a");
      expect(server.requests[0]?.headers["host"]).toBe(`[::1]:${server.port}`);
      const named = send(requestTo(`http://localhost:${server.port}`, { body: "b" }));
      expect(await textOf(await named)).toBe("b");
    },
  );

  test("of another protocol is refused", async () => {
    const { send } = createHttpClient();
    expect(await rejectionMessage(send(requestTo("ftp://127.0.0.1/")))).toContain("ftp:");
    await rejectionMessage(send(requestTo("not an address")));
  });
});

describe("5,000 calls", () => {
  test("leave no connection and no listener behind", async () => {
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
    expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
  });

  test("of which none goes well leave none behind either", async () => {
    const { send: carry } = createHttpClient();
    const server = await startServer(async ({ number, request, send, socket }) => {
      await request();
      if (number % 3 === 0) send(CHUNKED, chunk("half"));
      if (number % 3 === 1) send("nonsense\r\n\r\n");
      else socket.destroy();
    });
    const { signal } = new AbortController();
    const caller = async (): Promise<void> => {
      for (let count = 0; count < 50; count++)
        await rejectionMessage(carry(requestTo(server.url, { signal })).then(textOf));
    };
    await Promise.all(Array.from({ length: 20 }, caller));
    expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
    expect(getEventListeners(signal, "abort").length).toBe(0);
  });
});

describe("a connection that does not come about", () => {
  test("is given up at once when its caller leaves, and nothing of it is left behind", async () => {
    const { send } = createHttpClient();
    const server = await startServer(() => {});
    const url = server.url.replace("http:", "https:");
    const { signal } = new AbortController();
    for (let count = 0; count < 5; count++) {
      const abort = new AbortController();
      const left = send(requestTo(url, { signal: AbortSignal.any([abort.signal, signal]) }));
      await waitUntil(() => server.connections.length === count + 1);
      abort.abort();
      expect(await rejectionMessage(left)).toContain("aborted");
    }
    expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
  });

  test("is given up at once where not even the first packet is answered", async () => {
    const deaf = startScript(path.join(import.meta.dir, "unresponsive-server.ts"), []);
    const port = Number((await deaf.waitForLine("port ")).slice("port ".length));
    const fillers = Array.from({ length: 600 }, () => connect(port, "127.0.0.1"));
    for (const filler of fillers) filler.on("error", () => {});
    await Bun.sleep(200);
    const { send } = createHttpClient();
    const abort = new AbortController();
    const left = send(requestTo(`http://127.0.0.1:${port}`, { signal: abort.signal }));
    await Bun.sleep(50);
    const began = performance.now();
    abort.abort();
    await rejectionMessage(left);
    expect(performance.now() - began).toBeLessThan(200);
    for (const filler of fillers) filler.destroy();
    deaf.process.kill("SIGKILL");
    await deaf.exitCode;
  });

  test("is an error of its own after ten seconds, and nothing of it is left behind", async () => {
    // It takes the connection and says nothing to the beginning of its encryption.
    const server = await startServer(() => {});
    let givenUp = 0;
    const neverDial: Dial = () => ({
      connected: new Promise(() => {}),
      cancel: () => {
        givenUp += 1;
      },
    });
    const errors: string[] = [];
    const calls = [
      createHttpClient().send(requestTo(server.url.replace("http:", "https:"))),
      createHttpClient(neverDial).send(requestTo(server.url)),
    ].map(async (late) => errors.push(await rejectionMessage(late)));
    expect(await waitUntil(() => server.connections.length === 1)).toBe(true);
    await advanceClock(9_000);
    expect(errors).toEqual([]);
    await advanceClock(10_001);
    await Promise.all(calls);
    expect(errors).toEqual(Array(2).fill("connect timeout after 10 s"));
    expect(givenUp).toBe(1);
    expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
  });
});

describe("a socket", () => {
  test("that takes a request bit by bit is given all of it, in its order", async () => {
    const sent: Uint8Array[] = [];
    let room = 0;
    const write = (bytes: Uint8Array): number => {
      const taken = Math.min(room, bytes.length);
      room -= taken;
      sent.push(Buffer.from(bytes.subarray(0, taken)));
      return taken;
    };
    const free: unknown[] = [];
    const connection = createConnection(
      { write, pause: () => {}, resume: () => {}, terminate: () => {} },
      ORIGIN,
      { onIdle: (one) => free.push(one), onClosed: () => {} },
    );
    const request = Buffer.from(Array.from({ length: 1_000 }, (_, at) => at % 251));
    const exchange = sendRequest(connection, request);
    for (const more of [1, 0, 17, 400, 0, 5_000]) {
      room = more;
      CONNECTION_EVENTS.onDrain(connection);
    }
    expect(Buffer.concat(sent).equals(request)).toBe(true);
    expect(exchange.hasReplyBytes).toBe(false);
    CONNECTION_EVENTS.onData(connection, okReply("ok"));
    expect(exchange.hasReplyBytes).toBe(true);
    expect(await textOf(await exchange.reply.promise)).toBe("ok");
    expect(free).toEqual([connection]);
  });

  test("serves the next request, whatever is still said of the one before", async () => {
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
    CONNECTION_EVENTS.onData(connection, okReply("one"));
    const { body } = await first.reply.promise;
    const second = sendRequest(connection, Buffer.from("POST"));
    abortExchange(first);
    cancelBodyStream(body);
    CONNECTION_EVENTS.onData(connection, okReply("two"));
    expect(await textOf(await second.reply.promise)).toBe("two");
    expect(terminated).toBe(0);
    let over = 0;
    for (const exchange of [first, second])
      onExchangeEnd(exchange, () => {
        over += 1;
      });
    expect(over).toBe(2);
  });

  test("that was closed before a request is written tells so, and nothing hangs", async () => {
    for (const isTold of [false, true]) {
      const gone: unknown[] = [];
      const connection = createConnection(
        { write: () => -1, pause: () => {}, resume: () => {}, terminate: () => {} },
        ORIGIN,
        { onIdle: () => {}, onClosed: (one) => gone.push(one) },
      );
      if (isTold) CONNECTION_EVENTS.onClose(connection, true);
      const exchange = sendRequest(connection, Buffer.from("POST"));
      if (!isTold) CONNECTION_EVENTS.onClose(connection, true);
      expect(await rejectionMessage(exchange.reply.promise)).toBe("the connection was closed");
      expect(exchange.hasReplyBytes).toBe(false);
      expect(gone).toEqual([connection]);
    }
  });

  test("is dialled by the runtime, and says why where it cannot be", async () => {
    const server = await startServer(() => {});
    await stopServers();
    const events = { onData: () => {}, onDrain: () => {}, onClose: () => {} };
    const place = { host: "127.0.0.1", port: server.port, isSecure: false };
    expect(await rejectionMessage(dial(place, events, () => ({})).connected)).not.toBe("");
  });
});
