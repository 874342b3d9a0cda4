// What is promised of both ways out, our own connections and the runtime's client, and then of our own alone.

import { afterEach, describe, expect, test } from "bun:test";
import {
  brotliCompressSync,
  constants,
  createBrotliCompress,
  createDeflate,
  createGzip,
  createZstdCompress,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from "node:zlib";
import {
  type Send,
  sendByFetch,
  createHttpClient,
  type OutgoingRequest,
} from "../../src/http-client/client.ts";
import { cancelBodyStream, nextChunk } from "../../src/http-client/body-stream.ts";
import type { UpstreamResponse } from "../../src/http-client/reply.ts";
import { rejectionMessage } from "../support/rejection.ts";
import {
  respondToAll,
  waitUntil,
  chunk,
  CHUNKED,
  LAST_CHUNK,
  type ServerConnection,
  okReply,
  startServer,
  stopServers,
} from "./scripted-server.ts";

afterEach(stopServers);

const CLIENTS: readonly (readonly [name: string, create: () => Send])[] = [
  ["our own connections", () => createHttpClient().send],
  ["the runtime's client", () => sendByFetch],
];

function requestTo(url: string, rest: Partial<OutgoingRequest> = {}): OutgoingRequest {
  return { url, headers: {}, body: "{}", signal: new AbortController().signal, ...rest };
}

async function bytesOf({ body }: UpstreamResponse): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for (let piece = await nextChunk(body); piece !== undefined; piece = await nextChunk(body))
    pieces.push(piece);
  return Buffer.concat(pieces);
}

const textOf = async (reply: UpstreamResponse): Promise<string> =>
  (await bytesOf(reply)).toString();

const COMPRESSORS = [
  ["gzip", gzipSync, () => createGzip()],
  ["deflate", deflateSync, () => createDeflate()],
  ["br", brotliCompressSync, () => createBrotliCompress()],
  ["zstd", zstdCompressSync, () => createZstdCompress()],
] as const;

for (const [name, create] of CLIENTS)
  describe(`a request over ${name}`, () => {
    const carry = create();

    test("is a POST with its path, query, headers and body, whose length is counted in bytes", async () => {
      const server = await startServer(respondToAll(() => okReply("ok")));
      const body = JSON.stringify({ text: "grüße 👋🏽 \u0000 \ud800 漢字" });
      const headers = { "content-type": "application/json", "x-goog-api-key": "k" };
      const url = `${server.url}/v1/models/a%2Fb:go?alt=sse&q=%20`;
      expect(await textOf(await carry(requestTo(url, { headers, body })))).toBe("ok");
      const [asked] = server.requests;
      expect(asked?.head.split("\r\n")[0]).toBe("POST /v1/models/a%2Fb:go?alt=sse&q=%20 HTTP/1.1");
      expect(asked?.headers).toMatchObject({
        ...headers,
        host: `127.0.0.1:${server.port}`,
        "content-length": String(Buffer.byteLength(body)),
      });
      expect(asked?.body.equals(Buffer.from(body))).toBe(true);
      expect(asked?.head.match(/^(host|content-length):/gim)?.length).toBe(2);
    });

    test("with no body says that its length is none", async () => {
      const server = await startServer(respondToAll(() => okReply("ok")));
      await textOf(await carry(requestTo(server.url, { body: "" })));
      expect(server.requests[0]?.headers["content-length"]).toBe("0");
    });

    test("is answered with a status, headers by their small names, and a body", async () => {
      const server = await startServer(
        respondToAll(
          () => "HTTP/1.1 429 Slow Down\r\nRetry-After: 3\r\ncontent-length: 4\r\n\r\nslow",
        ),
      );
      const reply = await carry(requestTo(server.url));
      expect(reply.status).toBe(429);
      expect(reply.headers.get("retry-after")).toBe("3");
      expect(reply.headers.get("content-length")).toBe("4");
      expect(await textOf(reply)).toBe("slow");
    });

    test("is answered by a redirect as by anything else: nobody follows it", async () => {
      const server = await startServer(
        respondToAll(
          ({ path }) =>
            `HTTP/1.1 307 There\r\nlocation: ${path}elsewhere\r\ncontent-length: 0\r\n\r\n`,
        ),
      );
      const reply = await carry(
        requestTo(`${server.url}/`, { headers: { authorization: "secret" } }),
      );
      expect(reply.status).toBe(307);
      expect(await textOf(reply)).toBe("");
      expect(server.requests.length).toBe(1);
    });

    test("is read as its reply comes, piece by piece", async () => {
      const goOn: (() => void)[] = [];
      const server = await startServer(async ({ request, send }) => {
        await request();
        send(CHUNKED);
        for (const piece of ["one", "two"]) {
          send(chunk(piece));
          await new Promise<void>((resolve) => goOn.push(resolve));
        }
        send(LAST_CHUNK);
      });
      const { body } = await carry(requestTo(server.url));
      expect(Buffer.from((await nextChunk(body)) ?? []).toString()).toBe("one");
      goOn[0]?.();
      expect(Buffer.from((await nextChunk(body)) ?? []).toString()).toBe("two");
      goOn[1]?.();
      expect(await nextChunk(body)).toBeUndefined();
    });

    test("may be answered by interim replies first", async () => {
      const server = await startServer(
        respondToAll(() =>
          Buffer.concat([Buffer.from("HTTP/1.1 102 Wait\r\n\r\n"), okReply("ok")]),
        ),
      );
      expect(await textOf(await carry(requestTo(server.url)))).toBe("ok");
    });

    test("takes 20 MB out, and 50 MB in", async () => {
      const server = await startServer(async ({ request, send }) => {
        const asked = await request();
        send(okReply(asked?.body.toString("latin1").replaceAll(/[^y]/g, "") ?? ""));
        await request();
        send("HTTP/1.1 200 OK\r\ncontent-length: 50000000\r\n\r\n", Buffer.alloc(50_000_000, "z"));
      });
      const body = `${"x".repeat(10_000_000)}y${"x".repeat(9_999_998)}y`;
      expect(await textOf(await carry(requestTo(server.url, { body })))).toBe("yy");
      const bytes = await bytesOf(await carry(requestTo(server.url)));
      expect(bytes.length).toBe(50_000_000);
      expect(bytes.every((byte) => byte === 0x7a)).toBe(true);
    });

    test("whose reply is cut says so, however its length is told", async () => {
      for (const head of [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        `${CHUNKED}64\r\nhalf`,
      ])
        for (const isReset of [false, true]) {
          const server = await startServer(async ({ request, send, socket }) => {
            await request();
            send(head);
            await Bun.sleep(20);
            if (isReset) socket.resetAndDestroy();
            else socket.end();
          });
          await rejectionMessage(carry(requestTo(server.url)).then(bytesOf));
        }
    });

    test("whose reply is cut between two chunks says so", async () => {
      const server = await startServer(async ({ request, send, socket }) => {
        await request();
        send(CHUNKED, chunk("half"));
        await Bun.sleep(20);
        socket.end();
      });
      await rejectionMessage(carry(requestTo(server.url)).then(bytesOf));
    });

    test("whose reply lasts until the connection closes is whole when it does", async () => {
      const server = await startServer(async ({ request, send, socket }) => {
        await request();
        send("HTTP/1.1 200 OK\r\n\r\nall ");
        await Bun.sleep(10);
        send("of it");
        socket.end();
      });
      expect(await textOf(await carry(requestTo(server.url)))).toBe("all of it");
    });

    test("fails where nobody listens, where nobody is, and where it is closed unanswered", async () => {
      const server = await startServer(({ socket }) => socket.destroy());
      const { url } = server;
      await rejectionMessage(carry(requestTo(url)));
      await rejectionMessage(carry(requestTo("http://no-such-host.invalid/")));
      await waitUntil(() => server.connections.length > 0);
      await stopServers();
      await rejectionMessage(carry(requestTo(url)));
    });

    test("fails where the answer is no HTTP", async () => {
      const server = await startServer(respondToAll(() => "220 mail.example ready\r\n\r\n"));
      await rejectionMessage(carry(requestTo(server.url)));
    });

    test("says headers that are frozen every time, and refuses them every time", async () => {
      const good = Object.freeze({ "x-key": "good" });
      const bad = Object.freeze({ "x-key": "a\r\nb: c" });
      const server = await startServer(respondToAll(() => okReply("ok")));
      for (let time = 0; time < 3; time++) {
        await textOf(await carry(requestTo(server.url, { headers: good })));
        await rejectionMessage(carry(requestTo(server.url, { headers: bad })));
      }
      expect(server.requests.map(({ headers }) => headers["x-key"])).toEqual([
        "good",
        "good",
        "good",
      ]);
    });

    test("is not sent where a header would break out of its line", async () => {
      const server = await startServer(respondToAll(() => okReply("ok")));
      for (const value of ["a\r\nx: y", "a\nb", "a\rb", "a\0b", "漢"])
        await rejectionMessage(carry(requestTo(server.url, { headers: { "x-key": value } })));
      await rejectionMessage(carry(requestTo(server.url, { headers: { "x\r\ny": "a" } })));
      await Bun.sleep(20);
      expect(server.connections.length).toBe(0);
    });

    for (const [coding, packSync, createPacker] of COMPRESSORS) {
      test(`whose reply is packed as ${coding} is given it unpacked`, async () => {
        const text = "so to say ".repeat(50_000);
        const server = await startServer(
          respondToAll(() => okReply(packSync(text), `Content-Encoding: ${coding}\r\n`)),
        );
        const reply = await carry(requestTo(server.url));
        expect(reply.headers.has("content-encoding")).toBe(false);
        expect(reply.headers.has("content-length")).toBe(false);
        expect(await textOf(reply)).toBe(text);
      });

      test(`whose reply is packed as ${coding} has it cut where the packed one is cut`, async () => {
        const text = Array.from({ length: 20_000 }, (_, count) => String(count)).join(" ");
        const packed = packSync(text);
        const half = packed.subarray(0, packed.length / 2);
        const server = await startServer(async ({ request, send, socket }) => {
          await request();
          send(
            `HTTP/1.1 200 OK\r\ncontent-encoding: ${coding}\r\ncontent-length: ${packed.length}\r\n\r\n`,
            half,
          );
          await Bun.sleep(20);
          socket.destroy();
        });
        await rejectionMessage(carry(requestTo(server.url)).then(bytesOf));
      });

      test(`whose stream is packed as ${coding} is given each event as it comes`, async () => {
        const packer = createPacker();
        const flush =
          coding === "br"
            ? constants.BROTLI_OPERATION_FLUSH
            : coding === "zstd"
              ? constants.ZSTD_e_flush
              : constants.Z_SYNC_FLUSH;
        let goOn = (): void => {};
        const server = await startServer(async ({ request, send }) => {
          await request();
          send(
            `HTTP/1.1 200 OK\r\ncontent-encoding: ${coding}\r\ntransfer-encoding: chunked\r\n\r\n`,
          );
          packer.on("data", (bytes: Buffer) => send(chunk(bytes)));
          packer.on("end", () => send(LAST_CHUNK));
          packer.write("data: one\n\n");
          // The types know of a flush with its kind on some of these only; all of them have it.
          (packer as unknown as { flush: (kind: number) => void }).flush(flush);
          goOn = () => packer.end("data: two\n\n");
        });
        const { body } = await carry(requestTo(server.url));
        expect(Buffer.from((await nextChunk(body)) ?? []).toString()).toBe("data: one\n\n");
        goOn();
        expect(Buffer.from((await nextChunk(body)) ?? []).toString()).toBe("data: two\n\n");
        expect(await nextChunk(body)).toBeUndefined();
      });
    }

    describe("that is aborted", () => {
      test("before it is sent is not sent", async () => {
        const server = await startServer(respondToAll(() => okReply("ok")));
        await rejectionMessage(carry(requestTo(server.url, { signal: AbortSignal.abort() })));
        await Bun.sleep(20);
        expect(server.requests.length).toBe(0);
        expect(await textOf(await carry(requestTo(server.url)))).toBe("ok");
      });

      test("before the headers have come hangs up within a second, and the next one works", async () => {
        const server = await startServer(async ({ number, request, send }) => {
          await request();
          if (number > 0) send(okReply("ok"));
        });
        const abort = new AbortController();
        const reply = carry(requestTo(server.url, { signal: abort.signal }));
        await waitUntil(() => server.requests.length === 1);
        abort.abort();
        await rejectionMessage(reply);
        expect(await waitUntil(() => server.connections[0]?.isOpen() === false)).toBe(true);
        expect(await textOf(await carry(requestTo(server.url)))).toBe("ok");
      });

      test("in the midst of its reply hangs up within a second, and the next one works", async () => {
        const server = await startServer(async ({ number, request, send }) => {
          await request();
          if (number > 0) send(okReply("ok"));
          else send(CHUNKED, chunk("half"));
        });
        const abort = new AbortController();
        const { body } = await carry(requestTo(server.url, { signal: abort.signal }));
        expect(Buffer.from((await nextChunk(body)) ?? []).toString()).toBe("half");
        const more = nextChunk(body);
        abort.abort();
        await rejectionMessage(more);
        expect(await waitUntil(() => server.connections[0]?.isOpen() === false)).toBe(true);
        expect(await textOf(await carry(requestTo(server.url)))).toBe("ok");
      });

      test("in the midst of a big body hangs up within a second", async () => {
        const server = await startServer(({ socket }) => socket.pause());
        const abort = new AbortController();
        const body = "x".repeat(20_000_000);
        const reply = carry(requestTo(server.url, { body, signal: abort.signal }));
        await waitUntil(() => server.connections.length > 0);
        await Bun.sleep(50);
        abort.abort();
        await rejectionMessage(reply);
        server.connections[0]?.socket.resume();
        expect(await waitUntil(() => server.connections[0]?.isOpen() === false)).toBe(true);
      });

      test("by its reader's cancel hangs up within a second", async () => {
        const server = await startServer(async ({ request, send }: ServerConnection) => {
          await request();
          send(CHUNKED, chunk("half"));
        });
        const { body } = await carry(requestTo(server.url));
        await nextChunk(body);
        cancelBodyStream(body);
        expect(await rejectionMessage(nextChunk(body))).toBe("the reply was truncated");
        expect(await waitUntil(() => server.connections[0]?.isOpen() === false)).toBe(true);
      });
    });
  });
