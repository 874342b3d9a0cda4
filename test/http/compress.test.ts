import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { DOCS_SCRIPT, DOCS_STYLESHEET } from "../../src/discovery/site/site-frame.tsx";
import { compressResponse } from "../../src/http/finish-response.ts";
import { APP_SCRIPT, ASSETS, MARKDOWN_SCRIPT, STYLESHEET } from "../../src/http/pages/assets.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";

const LONG = "Postern ".repeat(500);

async function compress(
  body: string,
  type: string,
  accepted = "gzip, br",
  etag?: string,
): Promise<Response> {
  const request = new Request("http://localhost/", { headers: { "accept-encoding": accepted } });
  const headers = new Headers({ "content-type": type });
  if (etag !== undefined) headers.set("etag", etag);
  return await compressResponse(request, new Response(body, { headers }));
}

async function unzipped(response: Response): Promise<string> {
  return gunzipSync(Buffer.from(await response.arrayBuffer())).toString();
}

describe("compression of text responses", () => {
  test("compresses text for clients that accept gzip", async () => {
    for (const accepted of ["gzip", "deflate, gzip;q=0.5", "*"]) {
      const response = await compress(LONG, "text/css", accepted);
      expect(response.headers.get("content-encoding")).toBe("gzip");
      expect(response.headers.get("vary")).toBe("accept-encoding");
      expect(await unzipped(response)).toBe(LONG);
    }
    for (const accepted of ["", "br", "gzip;q=0", "gzip; q=0.0", "gzip;q=0, *", "*, gzip;q=0"]) {
      const response = await compress(LONG, "text/css", accepted);
      expect(response.headers.get("content-encoding")).toBeNull();
      expect(await response.text()).toBe(LONG);
    }
  });

  test("leaves short texts, streams and other types as they are", async () => {
    expect((await compress("short", "text/plain")).headers.get("content-encoding")).toBeNull();
    for (const type of ["text/event-stream", "image/png"])
      expect((await compress(LONG, type)).headers.has("content-encoding")).toBe(false);
  });

  test("hides the exact length of a page", async () => {
    const lengths = new Set<number>();
    for (let count = 0; count < 30; count++)
      lengths.add((await (await compress(LONG, "text/html")).arrayBuffer()).byteLength);
    expect(lengths.size).toBeGreaterThan(5);
  });

  test("has an ETag of its own, because the bytes differ", async () => {
    const response = await compress(LONG, "text/css", "gzip", '"abc"');
    expect(response.headers.get("etag")).toBe('"abc-gzip"');
  });
});

describe("compression by the gateway", () => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway();
  });
  afterAll(() => gateway.stop());

  test.each(["/", "/docs", "/openapi.json", "/v1/models", STYLESHEET.path, APP_SCRIPT.path])(
    "compresses %s",
    async (path) => {
      const response = await fetch(gateway.url + path, {
        headers: { "accept-encoding": "gzip", accept: "*/*" },
      });
      expect(response.status).toBe(200);
      expect(response.headers.get("content-encoding")).toBe("gzip");
    },
  );

  test("answers 304 to the ETag of the compressed text", async () => {
    const first = await fetch(gateway.url + STYLESHEET.path);
    const etag = first.headers.get("etag") ?? "";
    const again = await fetch(gateway.url + STYLESHEET.path, {
      headers: { "if-none-match": etag },
    });
    expect(etag).toEndWith('-gzip"');
    expect(again.status).toBe(304);
    expect(again.headers.get("etag")).toBe(etag);
  });

  test("all our own styles and scripts have at most 30 KB together, compressed", () => {
    const own = ASSETS.filter((asset) => asset !== MARKDOWN_SCRIPT);
    const bytes = [...own, DOCS_STYLESHEET, DOCS_SCRIPT].map(({ body }) => gzipSync(body).length);
    expect(bytes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(30_000);
    // A library, which only the playground loads.
    expect(gzipSync(MARKDOWN_SCRIPT.body).length).toBeLessThanOrEqual(48_000);
  });
});
