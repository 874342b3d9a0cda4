// What arrives below HTTP, byte by byte. docs/decisions/0013-http-edge.md says what the runtime answers by itself.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { valueAt, call, listAt } from "../spec/api-client.ts";
import { sendRaw, openRawConnection, sleep } from "./raw-client.ts";

let gateway: Gateway;
let account: TestAccount;
beforeAll(async () => {
  gateway = await startGateway();
  account = await registerAccount(gateway);
});
afterAll(async () => {
  // Whatever was sent: the process lives, nothing failed inside, and no key was made.
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

describe("requests of which two readers could make two different things are refused, and the connection is closed", () => {
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
    ["a content-length above all numbers", `Content-Length: 99999999999999999999999\r\n\r\n`],
    [
      "transfer-encoding with a space before the colon",
      `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
    ],
    ["a transfer-encoding that is none", `Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`],
    ["chunked, and then identity", `Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
    [
      "transfer-encoding twice",
      `Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n`,
    ],
    [
      "a chunk whose length is no number",
      `Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n`,
    ],
    ["a chunk of negative length", `Transfer-Encoding: chunked\r\n\r\n-2\r\nab\r\n0\r\n\r\n`],
    [
      "a chunk that is longer than all numbers",
      `Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nab\r\n`,
    ],
    ["chunks that end in a bare line feed", `Transfer-Encoding: chunked\r\n\r\n2\nab\n0\n\n`],
    ["a header folded over two lines", `X-A: a\r\n b\r\n\r\n`],
    ["a header with a NUL", `X-A: a\0b\r\n\r\n`],
    ["a header with a bare carriage return", `X-A: a\rb\r\n\r\n`],
    ["a header that ends in a bare line feed", `X-A: a\nX-B: b\r\n\r\n`],
    ["a header name with a space", `X A: a\r\n\r\n`],
    ["a header without a colon", `XA\r\n\r\n`],
  ];
  test.each(AMBIGUOUS)("%s", async (_what, rest) => {
    const bytes = `POST /v1/keys HTTP/1.1\r\n${HOST}${auth()}Content-Type: application/json\r\n${rest}`;
    const { answers, closed } = await sendRaw(gateway, bytes + SMUGGLED);
    expect([answers.map(({ status }) => status), closed]).toEqual([[400], true]);
    expect(answers[0]?.body).toBe("");
  });

  test("two content-lengths that agree are refused as well, by us: they would slip past the limit of size", async () => {
    const { answers } = await sendRaw(
      gateway,
      `POST /v1/keys HTTP/1.1\r\n${HOST}${auth()}Content-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}`,
    );
    expect(answers[0]?.status).toBe(400);
    expect(valueAt(JSON.parse(answers[0]?.body ?? ""), "error.param")).toBe("content-length");
  });

  test("two hosts", async () => {
    const { answers } = await sendRaw(gateway, head("GET /v1/models", "Host: other\r\n"));
    expect(answers[0]?.status).toBe(400);
    expect(valueAt(JSON.parse(answers[0]?.body ?? ""), "error.param")).toBe("host");
  });

  test("two authorization headers, whether they agree or not", async () => {
    const other = await registerAccount(gateway);
    for (const second of [account.key, other.key]) {
      const { answers } = await sendRaw(
        gateway,
        head("GET /v1/account", `${auth()}Authorization: Bearer ${second}\r\n`),
      );
      expect(answers[0]?.status).toBe(400);
      expect(valueAt(JSON.parse(answers[0]?.body ?? ""), "error.param")).toBe("authorization");
      expect(answers[0]?.body.includes(account.key)).toBe(false);
    }
  });

  test("two x-api-keys, which agree or not", async () => {
    const { answers } = await sendRaw(
      gateway,
      head("GET /v1/account", `X-Api-Key: ${account.key}\r\nX-Api-Key: ${account.key}\r\n`),
    );
    expect(answers[0]?.status).toBe(400);
    expect(valueAt(JSON.parse(answers[0]?.body ?? ""), "error.param")).toBe("x-api-key");
  });

  test("two content-types", async () => {
    const { answers } = await sendRaw(gateway, json("{}", "Content-Type: text/plain\r\n"));
    expect([400, 415]).toContain(answers[0]?.status ?? 0);
  });

  test("two idempotency keys", async () => {
    const { answers } = await sendRaw(
      gateway,
      json("{}", "Idempotency-Key: a\r\nIdempotency-Key: b\r\n"),
    );
    expect(answers[0]?.status).toBe(400);
  });
});

describe("request lines", () => {
  const REFUSED: readonly (readonly [string, string, number])[] = [
    ["HTTP/0.9", "GET /v1/models\r\n\r\n", 505],
    ["HTTP/2 without its preface", `GET /v1/models HTTP/2.0\r\n${HOST}\r\n`, 505],
    ["HTTP/1.9", `GET /v1/models HTTP/1.9\r\n${HOST}\r\n`, 505],
    ["a space in the target", head("GET /v1/mod els"), 505],
    ["tabs for spaces", `GET\t/v1/models\tHTTP/1.1\r\n${HOST}\r\n`, 505],
    ["a NUL in the target", head("GET /v1/mod\0els"), 505],
    ["no host", "GET /v1/models HTTP/1.1\r\n\r\n", 400],
    ["a TLS greeting", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400],
    ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400],
  ];
  test.each(REFUSED)("%s is refused", async (_what, bytes, status) => {
    const { answers, closed } = await sendRaw(gateway, bytes);
    expect([answers[0]?.status, closed]).toEqual([status, true]);
  });

  test("a method that nobody knows is closed on, or refused", async () => {
    for (const method of ["BREW", "get", "G\x80T", "GET/"]) {
      const { answers, closed } = await sendRaw(gateway, head(`${method} /v1/models`));
      expect(closed || (answers[0]?.status ?? 0) >= 400).toBe(true);
    }
  });

  test("TRACE and CONNECT are 405 and repeat nothing", async () => {
    for (const line of ["TRACE /v1/models", "CONNECT postern.example:443"]) {
      const { answers } = await sendRaw(gateway, head(line, "X-Canary: canary\r\n"));
      expect(answers[0]?.status).toBe(405);
      expect(answers[0]?.body).not.toContain("canary");
    }
  });

  test("an absolute target is its path, whatever host it names", async () => {
    for (const line of ["GET http://evil.example/healthz", "GET http://postern.example/healthz"]) {
      const { answers } = await sendRaw(gateway, head(line));
      expect([answers[0]?.status, answers[0]?.body]).toEqual([200, '{"status":"ok"}']);
    }
  });

  test("HTTP/1.0 without a host, as load balancers probe, finds its path, and is closed after", async () => {
    const ready = await sendRaw(gateway, "GET /readyz HTTP/1.0\r\n\r\n");
    expect([ready.answers[0]?.body, ready.closed]).toEqual(['{"status":"ok"}', true]);
    const own = await sendRaw(gateway, `GET /v1/account?a=%20 HTTP/1.0\r\n${auth()}\r\n`);
    expect(own.answers[0]?.body).toContain(account.id);
  });

  test("a host that is none is not looked at", async () => {
    for (const host of ["", "@@ <>", "x/v1/account?", "[::1", "a".repeat(5_000)]) {
      const { answers } = await sendRaw(gateway, `GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      expect([host.slice(0, 20), answers[0]?.status]).toEqual([host.slice(0, 20), 200]);
    }
  });

  test("dots and doubled slashes lead nowhere that a plain path does not", async () => {
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
      const { answers } = await sendRaw(gateway, head(`GET ${target}`));
      expect([target, answers[0]?.status]).toEqual([target, status]);
    }
  });

  test("bytes that are no UTF-8 in a target are a 404", async () => {
    const bytes = Buffer.concat([
      Buffer.from("GET /v1/"),
      Buffer.from([0xc3, 0x28, 0xff]),
      Buffer.from(` HTTP/1.1\r\n${HOST}\r\n`),
    ]);
    expect((await sendRaw(gateway, bytes)).answers[0]?.status).toBe(404);
  });

  test("a target of more than 8 KiB is a 400 in our own words, and one beyond the runtime's limit a bare 431", async () => {
    const long = await sendRaw(gateway, head(`GET /v1/models?x=${"a".repeat(9_000)}`));
    expect(long.answers[0]?.status).toBe(400);
    expect(long.answers[0]?.body).toContain("at most 8192 characters");
    const longer = await sendRaw(gateway, head(`GET /v1/models?x=${"a".repeat(90_000)}`));
    expect([longer.answers[0]?.status, longer.closed]).toEqual([431, true]);
  });

  test("headers that are too long, or too many, are a 431", async () => {
    const long = await sendRaw(gateway, head("GET /healthz", `X-A: ${"a".repeat(90_000)}\r\n`));
    const many = await sendRaw(
      gateway,
      head("GET /healthz", Array.from({ length: 300 }, (_, n) => `X-${n}: a\r\n`).join("")),
    );
    for (const { answers, closed } of [long, many])
      expect([answers[0]?.status, closed]).toEqual([431, true]);
  });
});

describe("one connection, many requests", () => {
  test("pipelined requests are answered in their order, each with its own id", async () => {
    const line = await openRawConnection(gateway);
    line.socket.write(
      head("GET /healthz") + json("{") + head("GET /v1/account", auth()) + head("GET /v1/nothing"),
    );
    const { text } = await line.until(/not_found/, 2_000);
    const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    expect(statuses).toEqual(["200", "400", "200", "404"]);
    const ids = [...text.matchAll(/x-request-id: (\w+)/gi)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(4);
    line.socket.destroy();
  });

  describe("beside an open model call", () => {
    let gateway: Gateway;
    let account: TestAccount;
    beforeAll(async () => {
      gateway = await startGateway();
      account = await registerAccount(gateway);
    });
    afterAll(() => gateway.stop());

    const model = (framing: "length" | "trailers", stream = false): string => {
      const body = JSON.stringify({
        model: "sim/echo",
        messages: [
          {
            role: "user",
            content: `[[sim: ${stream ? "tokens=20 chunks=20 pace=40" : "latency=400"}]] hello`,
          },
        ],
        stream,
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
    /** What is heard until the connection closes, and how the calls end that this began. */
    const sent = async (
      bytes: string,
      then: (socket: Awaited<ReturnType<typeof openRawConnection>>["socket"]) => void = () => {},
    ): Promise<{ text: string; ended: readonly unknown[] }> => {
      const before = (await outcomes()).length;
      const line = await openRawConnection(gateway);
      line.socket.write(bytes);
      await sleep(60);
      then(line.socket);
      const { text, isClosed } = await line.whenClosed(1_000);
      expect(isClosed).toBe(true);
      for (let tries = 0; tries < 40 && (await outcomes()).length === before; tries++)
        await sleep(25);
      return { text, ended: (await outcomes()).slice(before) };
    };

    test("a second request, pipelined or later, closes the connection without an answer", async () => {
      for (const second of [model("length"), head("GET /healthz")]) {
        const aborted = { text: "", ended: ["client_aborted"] };
        expect(await sent(model("length") + second)).toEqual(aborted);
        expect(await sent(model("length"), (socket) => socket.write(second))).toEqual(aborted);
      }
    });

    test("so it does where the first streams already, and the stream is cut", async () => {
      for (const second of [model("length"), head("GET /healthz")]) {
        const { text, ended } = await sent(model("length", true), (socket) => socket.write(second));
        expect([...text.matchAll(/HTTP\/1\.1 /g)].length).toBe(1);
        expect(text).not.toContain("[DONE]");
        expect(ended).toEqual(["client_aborted"]);
      }
    });

    test("the end of the client's side counts as leaving", async () => {
      expect(await sent(model("length"), (socket) => socket.end())).toEqual({
        text: "",
        ended: ["client_aborted"],
      });
    });

    test("trailers close the connection with a bare 400, which is all that the call gets", async () => {
      expect(await sent(model("trailers"))).toEqual({
        text: "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        ended: ["client_aborted"],
      });
    });
  });

  test("the body of a GET is left aside, and is not taken for the next request", async () => {
    const line = await openRawConnection(gateway);
    const body = head("GET /metrics");
    line.socket.write(
      head("GET /healthz", `Content-Length: ${body.length}\r\n`) + body + head("GET /readyz"),
    );
    await line.until(/ok.*ok/s, 1_000);
    const { text } = line.output();
    expect([...text.matchAll(/HTTP\/1\.1 200/g)].length).toBe(2);
    expect(text).not.toContain("postern_requests_total");
    line.socket.destroy();
  });

  test("the body of a refused request is not taken for the next request either", async () => {
    const line = await openRawConnection(gateway);
    const body = head("GET /healthz");
    line.socket.write(
      head("POST /v1/keys", `Content-Length: ${body.length}\r\n`) + body + head("GET /v1/x"),
    );
    const { text } = await line.until(/401.*404/s, 1_000);
    const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    expect(statuses).toEqual(["401", "404"]);
    line.socket.destroy();
  });

  test("expect: 100-continue is answered before the body is sent", async () => {
    const line = await openRawConnection(gateway);
    line.socket.write(
      head(
        "POST /v1/accounts",
        "Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 2\r\n",
      ),
    );
    expect((await line.until(/100 Continue/, 1_000)).text).toStartWith("HTTP/1.1 100 Continue");
    line.socket.write("{}");
    expect((await line.until(/api_key/, 2_000)).text).toContain("HTTP/1.1 201");
    line.socket.destroy();
  });

  test("an upgrade is not taken up", async () => {
    const upgrade =
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
    const { answers } = await sendRaw(gateway, head("GET /healthz", upgrade));
    expect(answers[0]?.status).toBe(200);
  });

  test("no header of a request comes back in an answer", async () => {
    const { answers } = await sendRaw(
      gateway,
      head(
        "GET /v1/nothing",
        "X-Canary: canary\r\nX-Request-Id: canary\r\nOrigin: https://canary\r\n",
      ),
    );
    expect(`${answers[0]?.head}${answers[0]?.body}`).not.toContain("canary");
  });

  test("a client that leaves at any point leaves nothing behind", async () => {
    const whole = json('{"name":"half"}');
    for (let length = 0; length < whole.length; length += 23) {
      const line = await openRawConnection(gateway);
      line.socket.write(whole.slice(0, length));
      await sleep(1);
      line.socket.destroy();
    }
    await sleep(30);
    const { text } = await call(gateway, "GET /v1/keys", { key: account.key });
    expect(text).not.toContain("half");
  });
});
