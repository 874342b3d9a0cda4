// The search APIs behind the gateway's web search, as their documentation describes requests and replies.

import { afterAll, afterEach, expect, test } from "bun:test";
import { secret } from "../../../src/base/crypto/secret.ts";
import {
  createSearchBackend,
  isAllowedPage,
  type SearchBackendName,
  type SearchQuery,
} from "../../../src/inference/web-search/search-backends.ts";
import type { Json } from "../support/harness.ts";

interface Received {
  readonly method: string;
  readonly url: URL;
  readonly headers: Headers;
  readonly body: Json | undefined;
}

let received: Received | undefined;
let reply: () => Response = () => Response.json({});
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  development: false,
  fetch: async (request) => {
    const text = await request.text();
    received = {
      method: request.method,
      url: new URL(request.url),
      headers: request.headers,
      body: text === "" ? undefined : (JSON.parse(text) as Json),
    };
    return reply();
  },
});
const baseUrl = `http://127.0.0.1:${server.port}`;
afterEach(() => {
  received = undefined;
});
afterAll(() => server.stop(true));

const query = (more: Partial<SearchQuery> = {}): SearchQuery => ({
  query: "tides",
  allowedDomains: [],
  blockedDomains: ["spam.example"],
  country: "NO",
  signal: new AbortController().signal,
  ...more,
});

const search = (backend: SearchBackendName, more: Partial<SearchQuery> = {}) =>
  createSearchBackend({ backend, baseUrl: `${baseUrl}/`, apiKey: secret("the-key") })(query(more));

const PAGE = { url: "https://tides.example/oslo", title: "Oslo" };

test("asks Brave", async () => {
  const result = {
    ...PAGE,
    description: "High <strong>tide</strong> at 3.",
    extra_snippets: ["Low at 9."],
    page_age: "2026-11-27T00:00:00",
  };
  reply = () => Response.json({ web: { results: [result] } });
  expect(await search("brave")).toEqual([
    { ...PAGE, content: "High tide at 3.\nLow at 9.", age: "2026-11-27T00:00:00" },
  ]);
  expect(received?.url.pathname).toBe("/res/v1/web/search");
  expect(received?.headers.get("x-subscription-token")).toBe("the-key");
  expect(Object.fromEntries(received?.url.searchParams ?? [])).toMatchObject({
    q: "tides -site:spam.example",
    country: "NO",
    extra_snippets: "true",
  });
});

test("asks Brave no more than it accepts", async () => {
  reply = () => Response.json({ web: { results: [] } });
  const words = Array.from({ length: 60 }, (_, index) => `w${index}`);
  await search("brave", { query: words.join(" ") });
  expect(received?.url.searchParams.get("q")).toBe(words.slice(0, 50).join(" "));
  await search("brave", { query: "a".repeat(500) });
  expect(received?.url.searchParams.get("q")).toBe("a".repeat(400));
  const blockedDomains = Array.from({ length: 60 }, (_, index) => `spam${index}.example`);
  await search("brave", { blockedDomains });
  expect(received?.url.searchParams.get("q")).toBe("tides");
});

test("asks Exa", async () => {
  reply = () => Response.json({ results: [{ ...PAGE, text: "High.", publishedDate: "2026" }] });
  expect(await search("exa")).toEqual([{ ...PAGE, content: "High.", age: "2026" }]);
  expect(received?.headers.get("x-api-key")).toBe("the-key");
  expect(received?.body).toMatchObject({
    query: "tides",
    excludeDomains: ["spam.example"],
    contents: { text: { maxCharacters: expect.any(Number) } },
  });
});

test("asks Tavily", async () => {
  reply = () => Response.json({ results: [{ ...PAGE, content: "High.", score: 0.9 }] });
  expect(await search("tavily", { allowedDomains: ["tides.example"] })).toEqual([
    { ...PAGE, content: "High.", age: undefined },
  ]);
  expect(received?.headers.get("authorization")).toBe("Bearer the-key");
  expect(received?.body).toMatchObject({
    query: "tides",
    include_domains: ["tides.example"],
    exclude_domains: ["spam.example"],
  });
});

test("asks SearXNG", async () => {
  reply = () =>
    Response.json({ results: [{ ...PAGE, content: "High.", publishedDate: null, engine: "x" }] });
  expect(await search("searxng", { allowedDomains: ["a.example", "tides.example"] })).toEqual([
    { ...PAGE, content: "High.", age: undefined },
  ]);
  expect(received?.url.pathname).toBe("/search");
  expect(received?.url.searchParams.get("format")).toBe("json");
  expect(received?.url.searchParams.get("q")).toBe(
    "tides site:a.example OR site:tides.example -site:spam.example",
  );
});

test("drops pages that the caller excluded, and what is no web page", async () => {
  const urls = ["https://sub.spam.example/", "ftp://a.example/", "javascript:1", "", PAGE.url];
  reply = () => Response.json({ results: urls.map((url) => ({ url, title: "t", content: "c" })) });
  expect((await search("searxng")).map(({ url }) => url)).toEqual([PAGE.url]);
});

test("bounds what a search returns", async () => {
  const result = { title: "é".repeat(5_000), content: "語".repeat(5_000) };
  const url = (index: number): string => `https://a.example/${index}`;
  reply = () =>
    Response.json({
      results: Array.from({ length: 10 }, (_, index) => ({ ...result, url: url(index) })),
    });
  const found = await search("searxng");
  // `GATEWAY_SEARCH_TOKENS` are held for a search, and no token is shorter than a byte.
  expect(Buffer.byteLength(JSON.stringify(found))).toBeLessThan(8_000);
  expect(found[0]?.content).not.toContain("\uFFFD");
});

test.each([
  ["an error", () => new Response("no", { status: 429 })],
  ["no JSON", () => new Response("<html>")],
  ["a redirect", () => new Response(null, { status: 302, headers: { location: "/other" } })],
  ["a reply that is too long", () => new Response("x".repeat(3_000_000))],
])("throws at %s", async (_, response) => {
  reply = response;
  const failure = await search("exa").then(
    () => undefined,
    (error: unknown) => String(error),
  );
  expect(failure).toBeDefined();
  expect(failure).not.toContain("the-key");
});

test.each([
  ["https://docs.a.example/x", ["a.example"], [], true],
  ["https://nota.example/x", ["a.example"], [], false],
  ["https://a.example/blog/1", ["a.example/blog"], [], true],
  ["https://a.example/shop", ["a.example/blog"], [], false],
  ["https://a.example/", [], ["A.example"], false],
  ["https://a.example./", [], ["a.example"], false],
  ["https://www.a.example./blog", [], ["a.example/blog"], false],
  ["https://a.example/", [], ["a.example."], false],
  ["https://xn--bcher-kva.example/", [], ["bücher.example"], false],
])("%s with %p allowed and %p blocked: %p", (url, allowedDomains, blockedDomains, expected) => {
  expect(isAllowedPage(url, { allowedDomains, blockedDomains })).toBe(expected);
});
