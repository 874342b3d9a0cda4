import { afterEach, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { getEventListeners } from "node:events";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import path from "node:path";
import { createGzip, gzipSync } from "node:zlib";
import * as fc from "fast-check";
import { type Carry, createCarrier, type Outgoing } from "../../src/outbound/carrier.ts";
import {
  CONNECTION_EVENTS,
  createConnection,
  hangUp,
  onOver,
  sendOn,
} from "../../src/outbound/connection.ts";
import {
  cancelInflow,
  flowTo,
  nextPiece,
  pauseInflow,
  releaseInflow,
} from "../../src/outbound/inflow.ts";
import type { Reply } from "../../src/outbound/reply.ts";
import { type Dial, dial } from "../../src/outbound/socket.ts";
import { startChild } from "../support/child.ts";
import { rejection } from "../support/rejection.ts";
import {
  answering,
  becomes,
  chunk,
  CHUNKED,
  LAST_CHUNK,
  pass,
  replyWith,
  type Server,
  serve,
  stopServers,
} from "./server.ts";

afterEach(stopServers);

const ORIGIN = "http://provider.test";

function outgoing(url: string, rest: Partial<Outgoing> = {}): Outgoing {
  return { url, headers: {}, body: "{}", signal: new AbortController().signal, ...rest };
}

async function textOf({ body }: Reply): Promise<string> {
  const pieces: Uint8Array[] = [];
  for (let piece = await nextPiece(body); piece !== undefined; piece = await nextPiece(body))
    pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

/** A call from its sending to the end of its reply. */
async function call(carry: Carry, { url }: Server, body = "{}"): Promise<string> {
  return textOf(await carry(outgoing(url, { body })));
}

const bodiesOf = ({ asked }: Server): readonly string[] => asked.map(({ body }) => body.toString());
const echo = answering(({ body }) => replyWith(body));

describe("a connection", () => {
  test("is kept and used again", async () => {
    const { carry } = createCarrier();
    const server = await serve(echo);
    for (let count = 0; count < 20; count++)
      expect(await call(carry, server, String(count))).toBe(String(count));
    expect(server.lines.length).toBe(1);
  });

  test("is kept whichever way its replies are told apart", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, send }) => {
      const replies = [
        replyWith("a"),
        `${CHUNKED}1\r\nb\r\n0\r\ntrailer: c\r\n\r\n`,
        "HTTP/1.1 204 None\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        replyWith("c", "connection: keep-alive\r\n"),
      ];
      for (const reply of replies) {
        await request();
        send(reply);
      }
    });
    const told: string[] = [];
    for (let count = 0; count < 5; count++) told.push(await call(carry, server));
    expect(told).toEqual(["a", "b", "", "", "c"]);
    expect(server.lines.length).toBe(1);
  });

  test("takes one request at a time: two at once take two, and both are kept", async () => {
    const { carry } = createCarrier();
    const server = await serve(echo);
    for (let round = 0; round < 5; round++) {
      const both = await Promise.all([call(carry, server, "a"), call(carry, server, "b")]);
      expect(both).toEqual(["a", "b"]);
    }
    expect(server.lines.length).toBe(2);
  });

  test("is not shared between two places", async () => {
    const { carry } = createCarrier();
    const one = await serve(answering(() => replyWith("one")));
    const other = await serve(answering(() => replyWith("other")));
    for (let count = 0; count < 3; count++) {
      expect(await call(carry, one)).toBe("one");
      expect(await call(carry, other)).toBe("other");
    }
    expect([one.lines.length, other.lines.length]).toEqual([1, 1]);
  });

  for (const [title, reply] of [
    ["says that it closes", replyWith("ok", "Connection: Close\r\n")],
    ["closes among other things", replyWith("ok", "connection: x, close\r\n")],
    ["is of HTTP/1.0", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"],
    [
      "is of HTTP/1.0 and would be kept",
      "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
    ],
  ] as const)
    test(`is closed by us after a reply that ${title}`, async () => {
      const { carry } = createCarrier();
      const server = await serve(answering(() => reply));
      expect(await call(carry, server)).toBe("ok");
      expect(await becomes(() => server.open() === 0)).toBe(true);
      expect(await call(carry, server)).toBe("ok");
      expect(server.lines.length).toBe(2);
    });

  test("is let go by the carrier's close, and another call opens a new one", async () => {
    const { carry, close } = createCarrier();
    const server = await serve(echo);
    await Promise.all([call(carry, server), call(carry, server), call(carry, server)]);
    expect(server.open()).toBe(3);
    close();
    expect(await becomes(() => server.open() === 0)).toBe(true);
    expect(await call(carry, server, "again")).toBe("again");
  });

  test("is closed by us after fifty seconds in which nobody needed it", async () => {
    const { carry } = createCarrier();
    const server = await serve(echo);
    expect(await call(carry, server, "a")).toBe("a");
    await pass(49_000);
    expect(server.open()).toBe(1);
    await pass(50_001);
    expect(await becomes(() => server.open() === 0)).toBe(true);
    expect(await call(carry, server, "b")).toBe("b");
  });

  test("is not closed by us, however long its reply takes", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, send }) => {
      send(replyWith((await request())?.body ?? ""));
      await request();
      await Bun.sleep(400);
      send(replyWith("late"));
    });
    expect(await call(carry, server, "a")).toBe("a");
    const late = call(carry, server);
    await pass(60_000);
    expect(await late).toBe("late");
    expect(server.lines.length).toBe(1);
  });

  test("gives each request its own reply, whatever came before and however it is sliced", async () => {
    const { carry } = createCarrier();
    const plans: { readonly reply: Buffer; readonly cuts: readonly number[] }[] = [];
    const server = await serve(async ({ request, socket }) => {
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
      fc.string({ maxLength: 50 }).map((text) => ({ text, reply: replyWith(text) })),
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
        expect(await call(carry, server)).toBe(one.text);
      }),
      { numRuns: 300 },
    );
    expect(server.lines.length).toBe(1);
  });
});

describe("a kept connection that is gone", () => {
  for (const how of ["end", "destroy", "resetAndDestroy"] as const)
    test(`is replaced in silence where the server closed it while it was idle (${how})`, async () => {
      const { carry } = createCarrier();
      const server = await serve(async ({ number, request, send, socket }) => {
        const asked = await request();
        send(replyWith(asked?.body ?? ""));
        if (number > 0) return;
        await Bun.sleep(10);
        socket[how]();
      });
      expect(await call(carry, server, "a")).toBe("a");
      await becomes(() => server.open() === 0);
      await Bun.sleep(10);
      expect(await call(carry, server, "b")).toBe("b");
      expect(bodiesOf(server)).toEqual(["a", "b"]);
    });

  test("is replaced in silence where it was closed in the very moment", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ number, request, send, socket }) => {
      const asked = await request();
      send(replyWith(asked?.body ?? ""));
      // The next request is on its way when this arrives.
      if (number === 0) socket.end();
    });
    expect(await call(carry, server, "a")).toBe("a");
    expect(await call(carry, server, "b")).toBe("b");
    expect(bodiesOf(server).at(-1)).toBe("b");
  });

  test("has its request sent again exactly once, over a new one", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ number, request, send, socket }) => {
      const asked = await request();
      send(replyWith(asked?.body ?? ""));
      await request();
      if (number === 0) socket.destroy();
    });
    expect(await call(carry, server, "a")).toBe("a");
    expect(await call(carry, server, "b")).toBe("b");
    expect(bodiesOf(server)).toEqual(["a", "b", "b"]);
    expect(server.lines.length).toBe(2);
  });

  test("has its request not sent a third time", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ number, request, send, socket }) => {
      const asked = await request();
      if (number === 0) {
        send(replyWith(asked?.body ?? ""));
        await request();
      }
      socket.destroy();
    });
    expect(await call(carry, server, "a")).toBe("a");
    await rejection(call(carry, server, "b"));
    await Bun.sleep(50);
    expect(bodiesOf(server)).toEqual(["a", "b", "b"]);
  });

  test("has its request not sent again where one byte of the answer had come", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, send, socket }) => {
      const asked = await request();
      send(replyWith(asked?.body ?? ""));
      await request();
      send("H");
      await Bun.sleep(10);
      socket.destroy();
    });
    expect(await call(carry, server, "a")).toBe("a");
    await rejection(call(carry, server, "b"));
    await Bun.sleep(50);
    expect(bodiesOf(server)).toEqual(["a", "b"]);
    expect(server.lines.length).toBe(1);
  });

  test("has its request not sent again where the answer was none", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, send }) => {
      const asked = await request();
      send(replyWith(asked?.body ?? ""));
      await request();
      send("nonsense\r\n\r\n");
    });
    expect(await call(carry, server, "a")).toBe("a");
    await rejection(call(carry, server, "b"));
    await Bun.sleep(50);
    expect(bodiesOf(server)).toEqual(["a", "b"]);
  });

  test("has its request not sent again when the caller left", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, send }) => {
      const asked = await request();
      send(replyWith(asked?.body ?? ""));
    });
    expect(await call(carry, server, "a")).toBe("a");
    const abort = new AbortController();
    const left = carry(outgoing(server.url, { body: "b", signal: abort.signal }));
    await becomes(() => server.asked.length === 2);
    abort.abort();
    await rejection(left);
    await Bun.sleep(50);
    expect(bodiesOf(server)).toEqual(["a", "b"]);
    expect(server.lines.length).toBe(1);
  });

  test("is no reason to send again on a connection that was new", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, socket }) => {
      await request();
      socket.destroy();
    });
    await rejection(call(carry, server));
    await Bun.sleep(50);
    expect(server.asked.length).toBe(1);
  });
});

describe("bytes that nobody asked for", () => {
  test("on an idle connection close it, and are nobody's reply", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ number, request, send }) => {
      const asked = await request();
      send(replyWith(asked?.body ?? ""));
      await Bun.sleep(20);
      if (number === 0) send(replyWith("evil"));
    });
    expect(await call(carry, server, "a")).toBe("a");
    expect(await becomes(() => server.open() === 0)).toBe(true);
    expect(await call(carry, server, "b")).toBe("b");
    expect(server.lines.length).toBe(2);
  });

  for (const [title, reply] of [
    ["a length", replyWith("ok")],
    ["no body", Buffer.from("HTTP/1.1 204 None\r\n\r\n")],
    ["chunks", Buffer.from(`${CHUNKED}2\r\nok\r\n${LAST_CHUNK}`)],
  ] as const)
    test(`right after a reply of ${title} close the connection, and are nobody's reply`, async () => {
      const { carry } = createCarrier();
      const server = await serve(async ({ number, request, send }) => {
        for (let asked = await request(); asked !== undefined; asked = await request())
          send(number === 0 ? Buffer.concat([reply, replyWith("evil")]) : replyWith(asked.body));
      });
      await call(carry, server, "a").catch(() => {});
      expect(await becomes(() => server.open() === 0)).toBe(true);
      expect(await call(carry, server, "b")).toBe("b");
      expect(server.lines.length).toBe(2);
      expect(bodiesOf(server)).toEqual(["a", "b"]);
    });

  test("are a greeting that is no reply, where a server speaks first", async () => {
    const { carry } = createCarrier();
    const server = await serve(({ send }) => send("220 mail.example ready\r\n"));
    const greeted = carry(outgoing(server.url, { signal: AbortSignal.timeout(1_000) }));
    expect(await rejection(greeted)).toMatch(/broken reply|closed/);
    expect(await becomes(() => server.open() === 0)).toBe(true);
  });
});

describe("a reply that comes before all of its request was read", () => {
  test("is read, and its connection is not used again", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ number, request, send, socket }) => {
      if (number === 0) {
        await new Promise((resolve) => socket.once("data", resolve));
        socket.pause();
        send("HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig");
        return;
      }
      send(replyWith((await request())?.body ?? ""));
    });
    const body = "x".repeat(20_000_000);
    const reply = await carry(outgoing(server.url, { body }));
    expect(reply.status).toBe(413);
    expect(await textOf(reply)).toBe("big");
    server.lines[0]?.socket.resume();
    expect(await becomes(() => server.lines[0]?.isOpen() === false)).toBe(true);
    expect(await call(carry, server, "next")).toBe("next");
    expect(server.lines.length).toBe(2);
  });
});

describe("a reader that cannot take more", () => {
  /** Writes without an end, and counts what it could. */
  const pour = (bytesMax: number) => {
    const poured = { bytes: 0 };
    const start = (): Promise<Server> =>
      serve(async ({ request, send, socket }) => {
        await request();
        send(`HTTP/1.1 200 OK\r\ncontent-length: ${bytesMax}\r\n\r\n`);
        const closed = new Promise((resolve) => socket.once("close", resolve));
        while (poured.bytes < bytesMax && !socket.destroyed) {
          poured.bytes += 65_536;
          if (socket.write(Buffer.alloc(65_536, "z"))) continue;
          await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), closed]);
        }
        await request();
        send(replyWith("next"));
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
      ({ body }: Reply) => flowTo(body, { piece: () => pauseInflow(body), end: () => {} }),
    ],
  ] as const)
    test(`and ${title} stops the server, who goes on when it does; then the connection serves the next`, async () => {
      const { carry } = createCarrier();
      const { poured, start } = pour(SO_MUCH);
      const server = await start();
      const reply = await carry(outgoing(server.url));
      begin(reply);
      await Bun.sleep(300);
      const stopped = poured.bytes;
      expect(stopped).toBeLessThan(ON_THE_WAY_MAX);
      await Bun.sleep(200);
      expect(poured.bytes).toBe(stopped);
      let bytes = 0;
      const whole = await new Promise<boolean>((resolve) => {
        flowTo(reply.body, {
          piece: ({ length }) => {
            bytes += length;
          },
          end: resolve,
        });
      });
      expect(whole).toBe(true);
      if (title === "does not ask") expect(bytes).toBe(SO_MUCH);
      expect(poured.bytes).toBe(SO_MUCH);
      expect(await call(carry, server)).toBe("next");
      expect(server.lines.length).toBe(1);
    });

  test("stops the server of a packed reply as well, and is given all of it when it can take more", async () => {
    const { carry } = createCarrier();
    const text = randomBytes(1_048_576);
    const packed = gzipSync(text, { level: 0 });
    const poured = { pieces: 0 };
    const server = await serve(async ({ request, send, socket }) => {
      await request();
      send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n");
      while (poured.pieces < 48) {
        poured.pieces += 1;
        // Packed pieces that follow one another unpack to what was packed, one after the other.
        if (!socket.write(packed)) await new Promise((resolve) => socket.once("drain", resolve));
      }
      socket.end();
    });
    const { body } = await carry(outgoing(server.url));
    flowTo(body, { piece: () => pauseInflow(body), end: () => {} });
    await Bun.sleep(250);
    const stopped = poured.pieces;
    expect(stopped).toBeLessThan(24);
    await Bun.sleep(100);
    expect(poured.pieces).toBe(stopped);
    let bytes = 0;
    const whole = await new Promise<boolean>((resolve) => {
      flowTo(body, {
        piece: ({ length }) => {
          bytes += length;
        },
        end: resolve,
      });
    });
    expect(whole).toBe(true);
    expect(poured.pieces).toBe(48);
    expect(bytes).toBeGreaterThan(47 * text.length);
    expect(bytes).toBeLessThanOrEqual(48 * text.length);
  });

  test("while its packed reply would unpack to much more is not given it", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, send }) => {
      await request();
      send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n");
      const packer = createGzip();
      packer.on("data", (bytes: Buffer) => send(bytes));
      for (let count = 0; count < 64; count++) packer.write(Buffer.alloc(1_048_576));
      packer.end();
    });
    const { body } = await carry(outgoing(server.url));
    let bytes = 0;
    flowTo(body, {
      piece: ({ length }) => {
        bytes += length;
        pauseInflow(body);
      },
      end: () => {},
    });
    await becomes(() => bytes > 0);
    await Bun.sleep(200);
    expect(bytes).toBeLessThan(1_048_576);
    cancelInflow(body);
    expect(await becomes(() => server.open() === 0)).toBe(true);
  });

  test("when its reply ends all the same leaves a connection that is read for the next", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, send }) => {
      for (let asked = await request(); asked !== undefined; asked = await request()) {
        send(`HTTP/1.1 200 OK\r\ncontent-length: ${asked.body.length}\r\n\r\n`);
        await Bun.sleep(10);
        send(asked.body);
      }
    });
    for (let count = 0; count < 5; count++) {
      const { body } = await carry(outgoing(server.url, { body: "hello" }));
      const notes: unknown[] = [];
      flowTo(body, {
        piece: (bytes) => {
          notes.push(Buffer.from(bytes).toString());
          pauseInflow(body);
        },
        end: (whole) => notes.push(whole),
      });
      expect(notes).toEqual([]);
      expect(await becomes(() => notes.length > 1)).toBe(true);
      expect(notes).toEqual(["hello", true]);
      // What is said of a reply that is over does not touch the connection.
      pauseInflow(body);
    }
    expect(await call(carry, server, "next")).toBe("next");
    expect(server.lines.length).toBe(1);
  });

  test("and is gone takes nothing along: a paused reply that is cancelled hangs up", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ number, request, send }) => {
      await request();
      send(number === 0 ? `${CHUNKED}2\r\nhi\r\n` : replyWith("next"));
    });
    const { body } = await carry(outgoing(server.url));
    flowTo(body, { piece: () => pauseInflow(body), end: () => {} });
    cancelInflow(body);
    expect(await becomes(() => server.open() === 0)).toBe(true);
    expect(await call(carry, server)).toBe("next");
  });
});

describe("a reply that nobody is interested in any more", () => {
  test("may end by itself, and its connection is kept", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, send }) => {
      await request();
      send(CHUNKED, chunk("data: [DONE]\n\n"));
      await Bun.sleep(30);
      send(LAST_CHUNK);
      await request();
      send(replyWith("next"));
    });
    const { body } = await carry(outgoing(server.url));
    await nextPiece(body);
    releaseInflow(body);
    await Bun.sleep(80);
    expect(await call(carry, server)).toBe("next");
    expect(server.lines.length).toBe(1);
  });

  test("is hung up where it does not end", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, send }) => {
      await request();
      send(CHUNKED, chunk("data: [DONE]\n\n"));
    });
    const { body } = await carry(outgoing(server.url));
    await nextPiece(body);
    releaseInflow(body);
    await Bun.sleep(300);
    expect(server.open()).toBe(1);
    expect(await becomes(() => server.open() === 0, 1_000)).toBe(true);
  });
});

describe("a reply that lasts until the connection closes", () => {
  test("is cut where the connection is reset", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, send, socket }) => {
      await request();
      send("HTTP/1.1 200 OK\r\n\r\nhalf");
      await Bun.sleep(20);
      socket.resetAndDestroy();
    });
    expect(await rejection(call(carry, server))).toBe("the reply was cut");
  });
});

describe("a packed reply", () => {
  test("of a coding that nobody knows is an error that names it, and leaves no connection behind", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, send }) => {
      await request();
      send("HTTP/1.1 200 OK\r\ncontent-encoding: compress\r\ncontent-length: 99\r\n\r\nhalf");
    });
    expect(await rejection(call(carry, server))).toContain("compress");
    expect(await becomes(() => server.lines.length === 1 && server.open() === 0)).toBe(true);
  });

  test("that is no such thing is cut, and leaves no connection behind", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ request, send }) => {
      await request();
      send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 99\r\n\r\nplain text");
    });
    expect(await rejection(call(carry, server))).toBe("the reply was cut");
    expect(await becomes(() => server.open() === 0)).toBe(true);
  });

  test("leaves its connection for the next", async () => {
    const { carry } = createCarrier();
    const packed = Bun.gzipSync(Buffer.from("packed"));
    const server = await serve(answering(() => replyWith(packed, "content-encoding: x-gzip\r\n")));
    for (let count = 0; count < 3; count++) expect(await call(carry, server)).toBe("packed");
    expect(server.lines.length).toBe(1);
  });

  for (const [title, reply] of [
    ["has no content", "HTTP/1.1 204 None\r\ncontent-encoding: gzip\r\n\r\n"],
    [
      "has a length of none",
      "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n",
    ],
  ] as const)
    test(`that ${title} is empty and not cut`, async () => {
      const { carry } = createCarrier();
      const server = await serve(answering(() => reply));
      expect(await call(carry, server)).toBe("");
    });
});

describe("headers", () => {
  test("may hold every character of Latin-1, which arrives as one byte", async () => {
    const { carry } = createCarrier();
    const server = await serve(echo);
    await textOf(await carry(outgoing(server.url, { headers: { "x-title": "caf\xe9 \xff\ta" } })));
    expect(server.asked[0]?.headers["x-title"]).toBe("caf\xe9 \xff\ta");
  });

  test("that say where a request goes or ends are not a caller's to say", async () => {
    const { carry } = createCarrier();
    const server = await serve(echo);
    for (const name of ["Host", "content-length", "Transfer-Encoding", "connection"])
      expect(await rejection(carry(outgoing(server.url, { headers: { [name]: "5" } })))).toContain(
        "cannot be sent",
      );
    await Bun.sleep(20);
    expect(server.lines.length).toBe(0);
  });

  test("that cannot be sent are named, and their values are not told", async () => {
    const { carry } = createCarrier();
    const headers = { authorization: "Bearer top-secret\n" };
    const message = await rejection(carry(outgoing("http://127.0.0.1:9", { headers })));
    expect(message).toContain("authorization");
    expect(message).not.toContain("secret");
  });
});

describe("an address", () => {
  const hasIpv6 = Object.values(networkInterfaces()).some((all) =>
    all?.some(({ address }) => address === "::1"),
  );

  test("may be a name", async () => {
    const { carry } = createCarrier();
    const { port } = await serve(echo);
    const server = { url: `http://localhost:${port}` };
    expect(await textOf(await carry(outgoing(server.url, { body: "a" })))).toBe("a");
  });

  test.if(hasIpv6)("may be of IPv6, as it is or by its name", async () => {
    const { carry } = createCarrier();
    const server = await serve(echo, { host: "::1" });
    expect(await call(carry, server, "a")).toBe("a");
    expect(server.asked[0]?.headers["host"]).toBe(`[::1]:${server.port}`);
    const named = carry(outgoing(`http://localhost:${server.port}`, { body: "b" }));
    expect(await textOf(await named)).toBe("b");
  });

  test("of another protocol is refused", async () => {
    const { carry } = createCarrier();
    expect(await rejection(carry(outgoing("ftp://127.0.0.1/")))).toContain("ftp:");
    await rejection(carry(outgoing("not an address")));
  });
});

describe("5,000 calls", () => {
  test("leave no connection and no listener behind", async () => {
    const { carry, close } = createCarrier();
    const server = await serve(answering(() => replyWith("ok")));
    const { signal } = new AbortController();
    const caller = async (): Promise<void> => {
      for (let count = 0; count < 250; count++)
        expect(await textOf(await carry(outgoing(server.url, { signal })))).toBe("ok");
    };
    await Promise.all(Array.from({ length: 20 }, caller));
    expect(server.asked.length).toBe(5_000);
    expect(server.lines.length).toBeLessThanOrEqual(20);
    expect(getEventListeners(signal, "abort").length).toBe(0);
    close();
    expect(await becomes(() => server.open() === 0)).toBe(true);
  });

  test("of which none goes well leave none behind either", async () => {
    const { carry } = createCarrier();
    const server = await serve(async ({ number, request, send, socket }) => {
      await request();
      if (number % 3 === 0) send(CHUNKED, chunk("half"));
      if (number % 3 === 1) send("nonsense\r\n\r\n");
      else socket.destroy();
    });
    const { signal } = new AbortController();
    const caller = async (): Promise<void> => {
      for (let count = 0; count < 50; count++)
        await rejection(carry(outgoing(server.url, { signal })).then(textOf));
    };
    await Promise.all(Array.from({ length: 20 }, caller));
    expect(await becomes(() => server.open() === 0)).toBe(true);
    expect(getEventListeners(signal, "abort").length).toBe(0);
  });
});

describe("a connection that does not come about", () => {
  test("is given up at once when its caller leaves, and nothing of it is left behind", async () => {
    const { carry } = createCarrier();
    const server = await serve(() => {});
    const url = server.url.replace("http:", "https:");
    const { signal } = new AbortController();
    for (let count = 0; count < 5; count++) {
      const abort = new AbortController();
      const left = carry(outgoing(url, { signal: AbortSignal.any([abort.signal, signal]) }));
      await becomes(() => server.lines.length === count + 1);
      abort.abort();
      expect(await rejection(left)).toContain("aborted");
    }
    expect(await becomes(() => server.open() === 0)).toBe(true);
  });

  test("is given up at once where not even the first packet is answered", async () => {
    const deaf = startChild(path.join(import.meta.dir, "other-process.ts"), []);
    const port = Number((await deaf.line("port ")).slice("port ".length));
    const fillers = Array.from({ length: 600 }, () => connect(port, "127.0.0.1"));
    for (const filler of fillers) filler.on("error", () => {});
    await Bun.sleep(200);
    const { carry } = createCarrier();
    const abort = new AbortController();
    const left = carry(outgoing(`http://127.0.0.1:${port}`, { signal: abort.signal }));
    await Bun.sleep(50);
    const began = performance.now();
    abort.abort();
    await rejection(left);
    expect(performance.now() - began).toBeLessThan(200);
    for (const filler of fillers) filler.destroy();
    deaf.process.kill("SIGKILL");
    await deaf.ended;
  });

  test("is an error of its own after ten seconds, and nothing of it is left behind", async () => {
    // It takes the connection and says nothing to the beginning of its encryption.
    const server = await serve(() => {});
    let givenUp = 0;
    const neverDial: Dial = () => ({
      connected: new Promise(() => {}),
      giveUp: () => {
        givenUp += 1;
      },
    });
    const errors: string[] = [];
    const calls = [
      createCarrier().carry(outgoing(server.url.replace("http:", "https:"))),
      createCarrier(neverDial).carry(outgoing(server.url)),
    ].map(async (late) => errors.push(await rejection(late)));
    expect(await becomes(() => server.lines.length === 1)).toBe(true);
    await pass(9_000);
    expect(errors).toEqual([]);
    await pass(10_001);
    await Promise.all(calls);
    expect(errors).toEqual(Array(2).fill("no connection within 10 seconds"));
    expect(givenUp).toBe(1);
    expect(await becomes(() => server.open() === 0)).toBe(true);
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
      { free: (one) => free.push(one), gone: () => {} },
    );
    const request = Buffer.from(Array.from({ length: 1_000 }, (_, at) => at % 251));
    const exchange = sendOn(connection, request);
    for (const more of [1, 0, 17, 400, 0, 5_000]) {
      room = more;
      CONNECTION_EVENTS.drained(connection);
    }
    expect(Buffer.concat(sent).equals(request)).toBe(true);
    expect(exchange.answered).toBe(false);
    CONNECTION_EVENTS.data(connection, replyWith("ok"));
    expect(exchange.answered).toBe(true);
    expect(await textOf(await exchange.replied.promise)).toBe("ok");
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
      { free: () => {}, gone: () => {} },
    );
    const first = sendOn(connection, Buffer.from("POST"));
    CONNECTION_EVENTS.data(connection, replyWith("one"));
    const { body } = await first.replied.promise;
    const second = sendOn(connection, Buffer.from("POST"));
    hangUp(first);
    cancelInflow(body);
    CONNECTION_EVENTS.data(connection, replyWith("two"));
    expect(await textOf(await second.replied.promise)).toBe("two");
    expect(terminated).toBe(0);
    let over = 0;
    for (const exchange of [first, second])
      onOver(exchange, () => {
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
        { free: () => {}, gone: (one) => gone.push(one) },
      );
      if (isTold) CONNECTION_EVENTS.closed(connection, true);
      const exchange = sendOn(connection, Buffer.from("POST"));
      if (!isTold) CONNECTION_EVENTS.closed(connection, true);
      expect(await rejection(exchange.replied.promise)).toBe("the connection was closed");
      expect(exchange.answered).toBe(false);
      expect(gone).toEqual([connection]);
    }
  });

  test("is dialled by the runtime, and says why where it cannot be", async () => {
    const server = await serve(() => {});
    await stopServers();
    const events = { data: () => {}, drained: () => {}, closed: () => {} };
    const place = { host: "127.0.0.1", port: server.port, secure: false };
    expect(await rejection(dial(place, events, () => ({})).connected)).not.toBe("");
  });
});
