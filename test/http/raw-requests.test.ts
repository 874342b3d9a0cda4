// Malformed and ambiguous requests as raw bytes. docs/decisions/0007-http-server.md says which responses come from Bun itself.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { valueAt, call, listAt } from "../spec/api-client.ts";
import { eventually } from "../support/eventually.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import {
  openRawConnection,
  type RawConnection,
  sendRaw,
  sendRawUntilClosed,
} from "./raw-client.ts";

let gateway: Gateway;
let account: TestAccount;
beforeAll(async () => {
  gateway = await startGateway();
  account = await registerAccount(gateway);
});
afterAll(async () => {
  // After all malformed requests, the process is ready, logged no error and created no key.
  expect((await call(gateway, "GET /readyz")).status).toBe(200);
  expect(gateway.logLines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  const keys = await call(gateway, "GET /v1/keys", { key: account.key });
  expect(listAt(keys.body, "data").length).toBe(1);
  await gateway.stop();
});

const HOST = "Host: postern.example\r\n";
const head = (line: string, headers = ""): string => `${line} HTTP/1.1\r\n${HOST}${headers}\r\n`;
const auth = (): string => `Authorization: Bearer ${account.key}\r\n`;
const json = (body: string, headers = ""): string =>
  head(
    "POST /v1/keys",
    `${auth()}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n${headers}`,
  ) + body;
const SMUGGLED = `DELETE /v1/keys/x HTTP/1.1\r\n${HOST}\r\n`;

describe("ambiguous requests", () => {
  const AMBIGUOUS: readonly (readonly [string, string])[] = [
    [
      "content-length and transfer-encoding",
      `Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    [
      "transfer-encoding and content-length",
      `Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n`,
    ],
    ["two different content-lengths", `Content-Length: 0\r\nContent-Length: 5\r\n\r\n`],
    ["a list of content-lengths", `Content-Length: 0, 0\r\n\r\n`],
    ["a negative content-length", `Content-Length: -1\r\n\r\n`],
    ["a content-length with a sign", `Content-Length: +0\r\n\r\n`],
    ["a content-length in hexadecimal", `Content-Length: 0x0\r\n\r\n`],
    ["a content-length above 2^64", `Content-Length: 99999999999999999999999\r\n\r\n`],
    [
      "transfer-encoding with a space before the colon",
      `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
    ],
    ["an unknown transfer-encoding", `Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`],
    ["chunked followed by identity", `Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
    [
      "transfer-encoding twice",
      `Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n`,
    ],
    [
      "a chunk size that is not a number",
      `Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n`,
    ],
    ["a negative chunk size", `Transfer-Encoding: chunked\r\n\r\n-2\r\nab\r\n0\r\n\r\n`],
    ["a chunk size above 2^64", `Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nab\r\n`],
    ["chunks that end in a bare line feed", `Transfer-Encoding: chunked\r\n\r\n2\nab\n0\n\n`],
    ["a header folded over two lines", `X-A: a\r\n b\r\n\r\n`],
    ["a header with a NUL", `X-A: a\0b\r\n\r\n`],
    ["a header with a bare carriage return", `X-A: a\rb\r\n\r\n`],
    ["a header that ends in a bare line feed", `X-A: a\nX-B: b\r\n\r\n`],
    ["a header name with a space", `X A: a\r\n\r\n`],
    ["a header without a colon", `XA\r\n\r\n`],
  ];
  test.each(AMBIGUOUS)(
    "with %s are rejected, and the connection is closed",
    async (_name, rest) => {
      const bytes = `POST /v1/keys HTTP/1.1\r\n${HOST}${auth()}Content-Type: application/json\r\n${rest}`;
      const { responses, isClosed } = await sendRawUntilClosed(gateway, bytes + SMUGGLED);
      expect([responses.map(({ status }) => status), isClosed]).toEqual([[400], true]);
      expect(responses[0]?.body).toBe("");
    },
  );

  test("with two equal content-lengths are rejected: they would bypass the size limit", async () => {
    const response = await sendRaw(
      gateway,
      `POST /v1/keys HTTP/1.1\r\n${HOST}${auth()}Content-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}`,
    );
    expect(response?.status).toBe(400);
    expect(valueAt(JSON.parse(response?.body ?? ""), "error.param")).toBe("content-length");
  });

  test("with two host headers are rejected", async () => {
    const response = await sendRaw(gateway, head("GET /v1/models", "Host: other\r\n"));
    expect(response?.status).toBe(400);
    expect(valueAt(JSON.parse(response?.body ?? ""), "error.param")).toBe("host");
  });

  test("with two authorization headers are rejected, equal or not", async () => {
    const other = await registerAccount(gateway);
    for (const second of [account.key, other.key]) {
      const response = await sendRaw(
        gateway,
        head("GET /v1/account", `${auth()}Authorization: Bearer ${second}\r\n`),
      );
      expect(response?.status).toBe(400);
      expect(valueAt(JSON.parse(response?.body ?? ""), "error.param")).toBe("authorization");
      expect(response?.body.includes(account.key)).toBe(false);
    }
  });

  test("with two equal x-api-key headers are rejected", async () => {
    const response = await sendRaw(
      gateway,
      head("GET /v1/account", `X-Api-Key: ${account.key}\r\nX-Api-Key: ${account.key}\r\n`),
    );
    expect(response?.status).toBe(400);
    expect(valueAt(JSON.parse(response?.body ?? ""), "error.param")).toBe("x-api-key");
  });

  test("with two content-types are rejected", async () => {
    const response = await sendRaw(gateway, json("{}", "Content-Type: text/plain\r\n"));
    expect([400, 415]).toContain(response?.status ?? 0);
  });

  test("with two idempotency keys are rejected", async () => {
    const response = await sendRaw(
      gateway,
      json("{}", "Idempotency-Key: a\r\nIdempotency-Key: b\r\n"),
    );
    expect(response?.status).toBe(400);
  });
});

describe("requests", () => {
  const REJECTED: readonly (readonly [string, string, number])[] = [
    ["HTTP/0.9", "GET /v1/models\r\n\r\n", 505],
    ["HTTP/2 without its preface", `GET /v1/models HTTP/2.0\r\n${HOST}\r\n`, 505],
    ["HTTP/1.9", `GET /v1/models HTTP/1.9\r\n${HOST}\r\n`, 505],
    ["a space in the target", head("GET /v1/mod els"), 505],
    ["tabs instead of spaces", `GET\t/v1/models\tHTTP/1.1\r\n${HOST}\r\n`, 505],
    ["a NUL in the target", head("GET /v1/mod\0els"), 505],
    ["no host", "GET /v1/models HTTP/1.1\r\n\r\n", 400],
    ["a TLS ClientHello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400],
    ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400],
  ];
  test.each(REJECTED)("with %s are rejected", async (_name, bytes, status) => {
    const { responses, isClosed } = await sendRawUntilClosed(gateway, bytes);
    expect([responses[0]?.status, isClosed]).toEqual([status, true]);
  });

  test("with an unknown method are rejected", async () => {
    for (const method of ["BREW", "get", "G\x80T", "GET/"]) {
      const response = await sendRaw(gateway, head(`${method} /v1/models`));
      // Bun closes the connection without a response to some of them.
      expect(response?.status ?? 400).toBeGreaterThanOrEqual(400);
    }
  });

  test("with TRACE and CONNECT are a 405 that echoes nothing", async () => {
    for (const line of ["TRACE /v1/models", "CONNECT postern.example:443"]) {
      const response = await sendRaw(gateway, head(line, "X-Canary: canary\r\n"));
      expect(response?.status).toBe(405);
      expect(response?.body).not.toContain("canary");
    }
  });

  test("with an absolute URL use its path, whatever its host", async () => {
    for (const line of ["GET http://evil.example/healthz", "GET http://postern.example/healthz"]) {
      const response = await sendRaw(gateway, head(line));
      expect(response?.status).toBe(200);
      expect(response?.body).toContain('"status":"ok"');
    }
  });

  test("of HTTP/1.0 without a host, such as health checks, are answered and the connection is closed", async () => {
    const ready = await sendRawUntilClosed(gateway, "GET /readyz HTTP/1.0\r\n\r\n");
    expect([ready.responses[0]?.body, ready.isClosed]).toEqual(['{"status":"ok"}', true]);
    const ownAccount = await sendRaw(gateway, `GET /v1/account?a=%20 HTTP/1.0\r\n${auth()}\r\n`);
    expect(ownAccount?.body).toContain(account.id);
  });

  test("with an invalid host header are answered", async () => {
    for (const host of ["", "@@ <>", "x/v1/account?", "[::1", "a".repeat(5_000)]) {
      const response = await sendRaw(gateway, `GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      expect([host.slice(0, 20), response?.status]).toEqual([host.slice(0, 20), 200]);
    }
  });

  test("with dots and double slashes reach no other resources", async () => {
    const targets: readonly (readonly [string, number])[] = [
      ["/v1/../healthz", 200],
      ["/v1/%2e%2e/healthz", 200],
      ["/../../../etc/passwd", 404],
      ["/assets/..%2f..%2fpackage.json", 404],
      ["/assets/%2e%2e/%2e%2e/package.json", 404],
      ["//healthz", 404],
      ["/healthz/", 404],
      ["/healthz%00", 400],
      ["/healthz%2f", 404],
      ["/health%7a", 404],
      ["/healthz;a=b", 404],
      ["/healthz#x", 404],
      ["/%ff%fe", 404],
      ["/%", 404],
      ["/%zz", 404],
    ];
    for (const [target, status] of targets) {
      const response = await sendRaw(gateway, head(`GET ${target}`));
      expect([target, response?.status]).toEqual([target, status]);
    }
  });

  test("with invalid UTF-8 in the path are a 404", async () => {
    const bytes = Buffer.concat([
      Buffer.from("GET /v1/"),
      Buffer.from([0xc3, 0x28, 0xff]),
      Buffer.from(` HTTP/1.1\r\n${HOST}\r\n`),
    ]);
    expect((await sendRaw(gateway, bytes))?.status).toBe(404);
  });

  test("with a URL above 8 KiB are a 400, and above Bun's own limit a 431 without a body", async () => {
    const long = await sendRaw(gateway, head(`GET /v1/models?x=${"a".repeat(9_000)}`));
    expect(long?.status).toBe(400);
    expect(long?.body).toContain("at most 8192 characters");
    const longer = await sendRawUntilClosed(
      gateway,
      head(`GET /v1/models?x=${"a".repeat(90_000)}`),
    );
    expect([longer.responses[0]?.status, longer.isClosed]).toEqual([431, true]);
  });

  test("with too long or too many headers are a 431", async () => {
    const long = await sendRawUntilClosed(
      gateway,
      head("GET /healthz", `X-A: ${"a".repeat(90_000)}\r\n`),
    );
    const many = await sendRawUntilClosed(
      gateway,
      head("GET /healthz", Array.from({ length: 300 }, (_, n) => `X-${n}: a\r\n`).join("")),
    );
    for (const { responses, isClosed } of [long, many])
      expect([responses[0]?.status, isClosed]).toEqual([431, true]);
  });
});

describe("several requests on a connection", () => {
  test("are answered in order when pipelined, each with its own id", async () => {
    const connection = await openRawConnection(gateway);
    connection.socket.write(
      head("GET /healthz") + json("{") + head("GET /v1/account", auth()) + head("GET /v1/nothing"),
    );
    const { text } = await connection.until(/not_found/);
    const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    expect(statuses).toEqual(["200", "400", "200", "404"]);
    const ids = [...text.matchAll(/x-request-id: (\w+)/gi)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(4);
    connection.socket.destroy();
  });

  describe("during a model call", () => {
    let gateway: Gateway;
    let account: TestAccount;
    beforeAll(async () => {
      gateway = await startGateway();
      account = await registerAccount(gateway);
    });
    afterAll(() => gateway.stop());

    const model = (framing: "length" | "trailers", hasBegun = false): string => {
      const body = JSON.stringify({
        model: "sim/echo",
        messages: [
          {
            role: "user",
            content: `[[sim: ${hasBegun ? "tokens=20 chunks=20 pace=1000" : "latency=20000"}]] hello`,
          },
        ],
        // A reply that is not streamed is read to its end without the caller.
        stream: true,
        max_tokens: 20,
      });
      const type = `Authorization: Bearer ${account.key}\r\nContent-Type: application/json\r\n`;
      return framing === "length"
        ? head("POST /v1/chat/completions", `${type}Content-Length: ${body.length}\r\n`) + body
        : `${head("POST /v1/chat/completions", `${type}Transfer-Encoding: chunked\r\n`)}${body.length.toString(16)}\r\n${body}\r\n0\r\nX-Trailer: 1\r\n\r\n`;
    };
    const outcomes = async (): Promise<readonly unknown[]> => {
      const rows = await gateway.server.db.all(
        "select outcome from usage_record where account_id = ? order by id",
        [account.id],
      );
      return rows.map((row) => row["outcome"]);
    };
    const hasHold = async (): Promise<boolean> =>
      (await gateway.server.db.all("select id from hold where account_id = ?", [account.id]))
        .length > 0;

    interface AbortResult {
      readonly text: string;
      readonly outcomes: readonly unknown[];
    }

    /** Sends a call, runs `interrupt` once the call is held, and reads until the connection closes. */
    const sendUntilClosed = async (
      bytes: string,
      interrupt?: (connection: RawConnection) => Promise<unknown>,
    ): Promise<AbortResult> => {
      const before = (await outcomes()).length;
      const connection = await openRawConnection(gateway);
      connection.socket.write(bytes);
      if (interrupt !== undefined) {
        await eventually(hasHold);
        await interrupt(connection);
      }
      const { text, isClosed } = await connection.whenClosed();
      expect(isClosed).toBe(true);
      await eventually(async () => (await outcomes()).length > before);
      return { text, outcomes: (await outcomes()).slice(before) };
    };

    test("a second request, pipelined or later, closes the connection and aborts the call", async () => {
      for (const second of [model("length"), head("GET /healthz")]) {
        const aborted = { text: "", outcomes: ["client_aborted"] };
        expect(await sendUntilClosed(model("length") + second)).toEqual(aborted);
        expect(await sendUntilClosed(model("length"), ({ write }) => write(second))).toEqual(
          aborted,
        );
      }
    });

    test("a second request truncates a stream", async () => {
      for (const second of [model("length"), head("GET /healthz")]) {
        const result = await sendUntilClosed(model("length", true), async (connection) => {
          await connection.until(/data: /);
          await connection.write(second);
        });
        expect([...result.text.matchAll(/HTTP\/1\.1 /g)].length).toBe(1);
        expect(result.text).not.toContain("[DONE]");
        expect(result.outcomes).toEqual(["client_aborted"]);
      }
    });

    test("a half-close by the client aborts the call", async () => {
      const halfClose = async ({ socket }: RawConnection): Promise<void> => void socket.end();
      expect(await sendUntilClosed(model("length"), halfClose)).toEqual({
        text: "",
        outcomes: ["client_aborted"],
      });
    });

    test("trailers abort the call with a 400 without a body", async () => {
      expect(await sendUntilClosed(model("trailers"))).toEqual({
        text: "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        outcomes: ["client_aborted"],
      });
    });
  });

  test("ignore the body of a GET instead of parsing it as a request", async () => {
    const connection = await openRawConnection(gateway);
    const body = head("GET /metrics");
    connection.socket.write(
      head("GET /healthz", `Content-Length: ${body.length}\r\n`) + body + head("GET /readyz"),
    );
    await connection.until(/ok.*ok/s);
    const { text } = connection.output();
    expect([...text.matchAll(/HTTP\/1\.1 200/g)].length).toBe(2);
    expect(text).not.toContain("postern_requests_total");
    connection.socket.destroy();
  });

  test("ignore the body of a rejected request instead of parsing it as a request", async () => {
    const connection = await openRawConnection(gateway);
    const body = head("GET /healthz");
    connection.socket.write(
      head("POST /v1/keys", `Content-Length: ${body.length}\r\n`) + body + head("GET /v1/x"),
    );
    const { text } = await connection.until(/401.*404/s);
    const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    expect(statuses).toEqual(["401", "404"]);
    connection.socket.destroy();
  });

  test("answer expect: 100-continue before the body is sent", async () => {
    const connection = await openRawConnection(gateway);
    connection.socket.write(
      head(
        "POST /v1/accounts",
        "Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 2\r\n",
      ),
    );
    expect((await connection.until(/100 Continue/)).text).toStartWith("HTTP/1.1 100 Continue");
    connection.socket.write("{}");
    expect((await connection.until(/api_key/)).text).toContain("HTTP/1.1 201");
    connection.socket.destroy();
  });

  test("ignore an upgrade header", async () => {
    const upgrade =
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
    const response = await sendRaw(gateway, head("GET /healthz", upgrade));
    expect(response?.status).toBe(200);
  });

  test("do not echo request headers", async () => {
    const response = await sendRaw(
      gateway,
      head(
        "GET /v1/nothing",
        "X-Canary: canary\r\nX-Request-Id: canary\r\nOrigin: https://canary\r\n",
      ),
    );
    expect(`${response?.head}${response?.body}`).not.toContain("canary");
  });

  test("create nothing if the client disconnects at any point of a request", async () => {
    const complete = json('{"name":"half"}');
    for (let length = 0; length < complete.length; length += 23) {
      const connection = await openRawConnection(gateway);
      await connection.write(complete.slice(0, length));
      connection.socket.destroy();
    }
    // A key of an incomplete request would be created before this one is rejected.
    expect((await sendRaw(gateway, json('{"name":1}')))?.status).toBe(400);
    const { text } = await call(gateway, "GET /v1/keys", { key: account.key });
    expect(text).not.toContain("half");
  });
});
