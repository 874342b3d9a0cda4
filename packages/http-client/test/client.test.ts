// Behavior of both clients, our own and fetch.

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
import { eventually } from "../../../test/support/eventually.ts";
import { rejectionMessage } from "../../../test/support/rejection.ts";
import { cancelBodyStream, nextChunk } from "../src/body-stream.ts";
import {
  type Send,
  sendByFetch,
  createHttpClient,
  type OutgoingRequest,
} from "../src/create-http-client.ts";
import type { UpstreamResponse } from "../src/reply.ts";
import {
  respondToAll,
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
  ["our own client", () => createHttpClient().send],
  ["fetch", () => sendByFetch],
];

function requestTo(url: string, rest: Partial<OutgoingRequest> = {}): OutgoingRequest {
  return { url, headers: {}, body: "{}", signal: new AbortController().signal, ...rest };
}

async function bytesOf({ body }: UpstreamResponse): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for (let part = await nextChunk(body); part !== undefined; part = await nextChunk(body))
    parts.push(part);
  return Buffer.concat(parts);
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
  describe(`a request with ${name}`, () => {
    const clientSend = create();

    test("is a POST with path, query, headers, body and its length in bytes", async () => {
      const server = await startServer(respondToAll(() => okReply("ok")));
      const body = JSON.stringify({ text: "grüße 👋🏽 \u0000 \ud800 漢字" });
      const headers = { "content-type": "application/json", "x-goog-api-key": "k" };
      const url = `${server.url}/v1/models/a%2Fb:go?alt=sse&q=%20`;
      expect(await textOf(await clientSend(requestTo(url, { headers, body })))).toBe("ok");
      const [received] = server.requests;
      expect(received?.head.split("\r\n")[0]).toBe(
        "POST /v1/models/a%2Fb:go?alt=sse&q=%20 HTTP/1.1",
      );
      expect(received?.headers).toMatchObject({
        ...headers,
        host: `127.0.0.1:${server.port}`,
        "content-length": String(Buffer.byteLength(body)),
      });
      expect(received?.body.equals(Buffer.from(body))).toBe(true);
      expect(received?.head.match(/^(host|content-length):/gim)?.length).toBe(2);
    });

    test("has content-length 0 without a body", async () => {
      const server = await startServer(respondToAll(() => okReply("ok")));
      await textOf(await clientSend(requestTo(server.url, { body: "" })));
      expect(server.requests[0]?.headers["content-length"]).toBe("0");
    });

    test("returns status, lowercase headers and body", async () => {
      const server = await startServer(
        respondToAll(
          () => "HTTP/1.1 429 Slow Down\r\nRetry-After: 3\r\ncontent-length: 4\r\n\r\nslow",
        ),
      );
      const reply = await clientSend(requestTo(server.url));
      expect(reply.status).toBe(429);
      expect(reply.headers.get("retry-after")).toBe("3");
      expect(reply.headers.get("content-length")).toBe("4");
      expect(await textOf(reply)).toBe("slow");
    });

    test("does not follow redirects", async () => {
      const server = await startServer(
        respondToAll(
          ({ path }) =>
            `HTTP/1.1 307 Temporary Redirect\r\nlocation: ${path}other\r\ncontent-length: 0\r\n\r\n`,
        ),
      );
      const reply = await clientSend(
        requestTo(`${server.url}/`, { headers: { authorization: "secret" } }),
      );
      expect(reply.status).toBe(307);
      expect(await textOf(reply)).toBe("");
      expect(server.requests.length).toBe(1);
    });

    test("returns the chunks of a reply as they arrive", async () => {
      const proceed: (() => void)[] = [];
      const server = await startServer(async ({ request, send }) => {
        await request();
        send(CHUNKED);
        for (const part of ["one", "two"]) {
          send(chunk(part));
          await new Promise<void>((resolve) => proceed.push(resolve));
        }
        send(LAST_CHUNK);
      });
      const { body } = await clientSend(requestTo(server.url));
      expect(Buffer.from((await nextChunk(body)) ?? []).toString()).toBe("one");
      proceed[0]?.();
      expect(Buffer.from((await nextChunk(body)) ?? []).toString()).toBe("two");
      proceed[1]?.();
      expect(await nextChunk(body)).toBeUndefined();
    });

    test("skips interim replies", async () => {
      const server = await startServer(
        respondToAll(() =>
          Buffer.concat([Buffer.from("HTTP/1.1 102 Wait\r\n\r\n"), okReply("ok")]),
        ),
      );
      expect(await textOf(await clientSend(requestTo(server.url)))).toBe("ok");
    });

    test("sends 20 MB and receives 50 MB", async () => {
      const server = await startServer(async ({ request, send }) => {
        const received = await request();
        send(okReply(received?.body.toString("latin1").replaceAll(/[^y]/g, "") ?? ""));
        await request();
        send("HTTP/1.1 200 OK\r\ncontent-length: 50000000\r\n\r\n", Buffer.alloc(50_000_000, "z"));
      });
      const body = `${"x".repeat(10_000_000)}y${"x".repeat(9_999_998)}y`;
      expect(await textOf(await clientSend(requestTo(server.url, { body })))).toBe("yy");
      const bytes = await bytesOf(await clientSend(requestTo(server.url)));
      expect(bytes.length).toBe(50_000_000);
      expect(bytes.every((byte) => byte === 0x7a)).toBe(true);
    });

    test("rejects a truncated reply, with content-length and chunked", async () => {
      for (const head of [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        `${CHUNKED}64\r\nhalf`,
      ])
        for (const isReset of [false, true]) {
          const headReceived = Promise.withResolvers<void>();
          const server = await startServer(async ({ request, send, socket }) => {
            await request();
            send(head);
            await headReceived.promise;
            if (isReset) socket.resetAndDestroy();
            else socket.end();
          });
          const reply = await clientSend(requestTo(server.url));
          headReceived.resolve();
          await rejectionMessage(bytesOf(reply));
        }
    });

    test("rejects a reply truncated between two chunks", async () => {
      const server = await startServer(async ({ request, send, socket }) => {
        await request();
        send(CHUNKED, chunk("half"));
        socket.end();
      });
      await rejectionMessage(clientSend(requestTo(server.url)).then(bytesOf));
    });

    test("returns a reply that ends with the connection", async () => {
      const server = await startServer(async ({ request, send, socket }) => {
        await request();
        send("HTTP/1.1 200 OK\r\n\r\nall ");
        send("of it");
        socket.end();
      });
      expect(await textOf(await clientSend(requestTo(server.url)))).toBe("all of it");
    });

    test("rejects if the host is unknown, refuses or closes the connection", async () => {
      const server = await startServer(({ socket }) => socket.destroy());
      const { url } = server;
      await rejectionMessage(clientSend(requestTo(url)));
      await rejectionMessage(clientSend(requestTo("http://no-such-host.invalid/")));
      await eventually(() => server.connections.length > 0);
      await stopServers();
      await rejectionMessage(clientSend(requestTo(url)));
    });

    test("rejects a reply that is not HTTP", async () => {
      const server = await startServer(respondToAll(() => "220 mail.example ready\r\n\r\n"));
      await rejectionMessage(clientSend(requestTo(server.url)));
    });

    test("sends and validates frozen headers every time", async () => {
      const good = Object.freeze({ "x-key": "good" });
      const bad = Object.freeze({ "x-key": "a\r\nb: c" });
      const server = await startServer(respondToAll(() => okReply("ok")));
      for (let time = 0; time < 3; time++) {
        await textOf(await clientSend(requestTo(server.url, { headers: good })));
        await rejectionMessage(clientSend(requestTo(server.url, { headers: bad })));
      }
      expect(server.requests.map(({ headers }) => headers["x-key"])).toEqual([
        "good",
        "good",
        "good",
      ]);
    });

    test("is not sent with header injection", async () => {
      const server = await startServer(respondToAll(() => okReply("ok")));
      for (const value of ["a\r\nx: y", "a\nb", "a\rb", "a\0b", "漢"])
        await rejectionMessage(clientSend(requestTo(server.url, { headers: { "x-key": value } })));
      await rejectionMessage(clientSend(requestTo(server.url, { headers: { "x\r\ny": "a" } })));
      // A connection of a rejected request would come before that of this one.
      expect(await textOf(await clientSend(requestTo(server.url)))).toBe("ok");
      expect(server.connections.length).toBe(1);
    });

    for (const [coding, compressSync, createCompressor] of COMPRESSORS) {
      test(`decompresses a reply with ${coding}`, async () => {
        const text = "so to say ".repeat(50_000);
        const server = await startServer(
          respondToAll(() => okReply(compressSync(text), `Content-Encoding: ${coding}\r\n`)),
        );
        const reply = await clientSend(requestTo(server.url));
        expect(reply.headers.has("content-encoding")).toBe(false);
        expect(reply.headers.has("content-length")).toBe(false);
        expect(await textOf(reply)).toBe(text);
      });

      test(`rejects a truncated reply with ${coding}`, async () => {
        const text = Array.from({ length: 20_000 }, (_, count) => String(count)).join(" ");
        const compressed = compressSync(text);
        const half = compressed.subarray(0, compressed.length / 2);
        const server = await startServer(async ({ request, send, socket }) => {
          await request();
          send(
            `HTTP/1.1 200 OK\r\ncontent-encoding: ${coding}\r\ncontent-length: ${compressed.length}\r\n\r\n`,
            half,
          );
          socket.end();
        });
        await rejectionMessage(clientSend(requestTo(server.url)).then(bytesOf));
      });

      test(`decompresses the events of a stream with ${coding} as they arrive`, async () => {
        const compressor = createCompressor();
        const flush =
          coding === "br"
            ? constants.BROTLI_OPERATION_FLUSH
            : coding === "zstd"
              ? constants.ZSTD_e_flush
              : constants.Z_SYNC_FLUSH;
        let proceed = (): void => {};
        const server = await startServer(async ({ request, send }) => {
          await request();
          send(
            `HTTP/1.1 200 OK\r\ncontent-encoding: ${coding}\r\ntransfer-encoding: chunked\r\n\r\n`,
          );
          compressor.on("data", (bytes: Buffer) => send(chunk(bytes)));
          compressor.on("end", () => send(LAST_CHUNK));
          compressor.write("data: one\n\n");
          // All compressors have this method, but some types lack it.
          (compressor as unknown as { flush: (kind: number) => void }).flush(flush);
          proceed = () => compressor.end("data: two\n\n");
        });
        const { body } = await clientSend(requestTo(server.url));
        expect(Buffer.from((await nextChunk(body)) ?? []).toString()).toBe("data: one\n\n");
        proceed();
        expect(Buffer.from((await nextChunk(body)) ?? []).toString()).toBe("data: two\n\n");
        expect(await nextChunk(body)).toBeUndefined();
      });
    }

    describe("when aborted", () => {
      test("is not sent if aborted before", async () => {
        const server = await startServer(respondToAll(() => okReply("ok")));
        await rejectionMessage(clientSend(requestTo(server.url, { signal: AbortSignal.abort() })));
        // The aborted request would arrive before this one.
        expect(await textOf(await clientSend(requestTo(server.url)))).toBe("ok");
        expect(server.requests.length).toBe(1);
      });

      test("closes the connection before the headers arrive", async () => {
        const server = await startServer(async ({ number, request, send }) => {
          await request();
          if (number > 0) send(okReply("ok"));
        });
        const abort = new AbortController();
        const reply = clientSend(requestTo(server.url, { signal: abort.signal }));
        await eventually(() => server.requests.length === 1);
        abort.abort();
        await rejectionMessage(reply);
        await eventually(() => server.connections[0]?.isOpen() === false);
        expect(await textOf(await clientSend(requestTo(server.url)))).toBe("ok");
      });

      test("closes the connection during the reply", async () => {
        const server = await startServer(async ({ number, request, send }) => {
          await request();
          if (number > 0) send(okReply("ok"));
          else send(CHUNKED, chunk("half"));
        });
        const abort = new AbortController();
        const { body } = await clientSend(requestTo(server.url, { signal: abort.signal }));
        expect(Buffer.from((await nextChunk(body)) ?? []).toString()).toBe("half");
        const more = nextChunk(body);
        abort.abort();
        await rejectionMessage(more);
        await eventually(() => server.connections[0]?.isOpen() === false);
        expect(await textOf(await clientSend(requestTo(server.url)))).toBe("ok");
      });

      test("closes the connection while a large body is sent", async () => {
        const received = Promise.withResolvers<void>();
        const server = await startServer(({ socket }) =>
          socket.once("data", () => {
            socket.pause();
            received.resolve();
          }),
        );
        const abort = new AbortController();
        const body = "x".repeat(20_000_000);
        const reply = clientSend(requestTo(server.url, { body, signal: abort.signal }));
        await received.promise;
        abort.abort();
        await rejectionMessage(reply);
        server.connections[0]?.socket.resume();
        await eventually(() => server.connections[0]?.isOpen() === false);
      });

      test("closes the connection when the body is canceled", async () => {
        const server = await startServer(async ({ request, send }: ServerConnection) => {
          await request();
          send(CHUNKED, chunk("half"));
        });
        const { body } = await clientSend(requestTo(server.url));
        await nextChunk(body);
        cancelBodyStream(body);
        expect(await rejectionMessage(nextChunk(body))).toBe("the reply was truncated");
        await eventually(() => server.connections[0]?.isOpen() === false);
      });
    });
  });
