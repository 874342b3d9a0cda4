import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createServer } from "node:net";
import { Fault } from "../../../src/base/fault.ts";
import type { ResolveHost } from "../../../src/base/network/public-endpoint.ts";
import { createFetchFile, type FileRequest } from "../../../src/inference/media/fetch-file.ts";
import { mediaTypeOf } from "../../../src/inference/media/fetch-file.ts";
import { createCertificateAuthority } from "../../support/certificate-authority.ts";
import { type FileServer, PDF, PNG, startFileServer } from "../../support/file-server.ts";

let files: FileServer;
beforeAll(() => {
  files = startFileServer(({ pathname, searchParams }) => {
    const to = searchParams.get("to");
    if (to !== null) return new Response(null, { status: 302, headers: { location: to } });
    if (pathname === "/hangs") return new Promise<never>(() => {});
    return new Response(PNG, { headers: { "content-type": "image/png" } });
  });
});
afterAll(() => files.close());

const RESOLVED: Readonly<Record<string, readonly string[]>> = {
  "private.example": ["10.1.2.3"],
  "mixed.example": ["1.1.1.1", "127.0.0.1"],
  "metadata.example": ["169.254.169.254"],
};
const resolve: ResolveHost = async (name) => RESOLVED[name] ?? [];

function fetchUrl(url: string, more: Partial<FileRequest> = {}, allowLoopback = true) {
  return createFetchFile({ resolve: url.includes("example") ? resolve : loopback, allowLoopback })({
    url,
    kind: "image",
    signal: new AbortController().signal,
    onRequest: () => {},
    onBytes: () => {},
    ...more,
  });
}
const loopback: ResolveHost = async (name) => RESOLVED[name] ?? ["127.0.0.1"];
const couldNotBeFetched = {
  problem: "The file at this URL could not be fetched. Send the content as base64.",
};

describe("fetchFile", () => {
  test("returns the content and its type", async () => {
    expect(await fetchUrl(`${files.url}/a`)).toEqual({
      mediaType: "image/png",
      data: PNG.toString("base64"),
    });
  });

  test("connects to no private address, and does not say which names have one", async () => {
    const names = [...Object.keys(RESOLVED), "unknown.example"];
    const results = await Promise.all(names.map((name) => fetchUrl(`https://${name}/a.png`)));
    expect(results).toEqual(names.map(() => couldNotBeFetched));
  });

  test("connects to no private address after a redirect", async () => {
    for (const name of Object.keys(RESOLVED))
      expect(await fetchUrl(`${files.url}/?to=https://${name}/a.png`)).toEqual(couldNotBeFetched);
    for (const to of [
      "https://10.0.0.1/",
      "http://example.com/",
      "https://db.internal/",
      "file:///",
    ])
      expect(await fetchUrl(`${files.url}/?to=${encodeURIComponent(to)}`)).toHaveProperty(
        "problem",
        expect.stringContaining("its URL must"),
      );
  });

  test("does not connect to the gateway's own machine outside development", async () => {
    const before = files.requested.length;
    for (const url of [files.url, "https://localhost/", "https://[::1]/"])
      expect(await fetchUrl(url, {}, false)).toHaveProperty("problem");
    expect(files.requested.length).toBe(before);
  });

  test("follows three redirects, and counts each request", async () => {
    const to = (times: number): string =>
      times === 0 ? `${files.url}/a` : `${files.url}/?to=${encodeURIComponent(to(times - 1))}`;
    let requests = 0;
    const onRequest = (): void => {
      requests += 1;
    };
    expect(await fetchUrl(to(3), { onRequest })).toHaveProperty("mediaType", "image/png");
    expect(requests).toBe(4);
    expect(await fetchUrl(to(4), { onRequest })).toHaveProperty(
      "problem",
      expect.stringContaining("more than 3 redirects"),
    );
    expect(requests).toBe(8);
  });

  test("stops when its signal aborts", async () => {
    const stop = new AbortController();
    const fetching = fetchUrl(`${files.url}/hangs`, {
      signal: stop.signal,
      onRequest: () => setImmediate(() => stop.abort()),
    });
    expect(await fetching).toHaveProperty("problem", expect.stringContaining("in time"));
  });

  test("throws the fault of a quota", async () => {
    const onBytes = (): never => {
      throw new Fault("overloaded", "no memory");
    };
    const failed = await fetchUrl(`${files.url}/a`, { onBytes }).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(Fault);
  });

  test("rejects a truncated file", async () => {
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => {
        socket.write("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n");
        socket.end(PNG);
      });
    });
    await new Promise<void>((listening) => {
      server.listen(0, "127.0.0.1", () => listening());
    });
    const address = server.address();
    const port = typeof address === "object" ? address?.port : 0;
    expect(await fetchUrl(`http://127.0.0.1:${port}/`)).toEqual(couldNotBeFetched);
    server.close();
  });

  test("verifies the server's certificate", async () => {
    const { cert, key } = createCertificateAuthority("Unknown CA").issueCertificate({
      hosts: ["localhost"],
    });
    let requests = 0;
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      tls: { cert, key },
      fetch: () => {
        requests += 1;
        return new Response(PNG);
      },
    });
    expect(await fetchUrl(`https://localhost:${server.port}/`)).toEqual(couldNotBeFetched);
    expect(requests).toBe(0);
    await server.stop(true);
  });
});

describe("mediaTypeOf", () => {
  for (const [label, body, declared, expected] of [
    ["a PNG", PNG, "text/plain", "image/png"],
    ["a PDF", PDF, "application/octet-stream", "application/pdf"],
    ["a JPEG", Buffer.from([0xff, 0xd8, 0xff, 0xe0]), "", "image/jpeg"],
    ["a GIF", Buffer.from("GIF89a.."), "", "image/gif"],
    ["a WebP image", Buffer.from("RIFF\x00\n\x00\x00WEBPVP8 "), "", "image/webp"],
    ["another RIFF file", Buffer.from("RIFF\x00\n\x00\x00WAVEfmt "), "image/webp", undefined],
    ["text", Buffer.from("a,b\n"), "text/csv; charset=utf-8", "text/csv"],
    ["text of another type", Buffer.from("{}"), "application/json", undefined],
    ["bytes declared as text", Buffer.from([0x61, 0x00]), "text/plain", undefined],
    ["text that is not UTF-8", Buffer.from([0xe4, 0x62]), "text/plain", undefined],
    ["bytes declared as an image", Buffer.from("hello"), "image/png", undefined],
    ["nothing", Buffer.alloc(0), "image/png", undefined],
  ] as const)
    test(`recognizes ${label}`, () => {
      expect(mediaTypeOf(body, declared)).toBe(expected);
    });
});
