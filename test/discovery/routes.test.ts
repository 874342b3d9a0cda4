import { describe, expect, test } from "bun:test";
import { parse } from "yaml";
import { negotiateFormat } from "../../src/discovery/accept.ts";
import { STYLESHEET } from "../../src/http/pages/assets.ts";
import { createSite } from "./harness.ts";
import { sampleRoutes, settings } from "./sample-routes.ts";

const site = createSite(sampleRoutes);

const TYPES: Readonly<Record<string, string>> = {
  "/": "text/plain; charset=utf-8",
  "/docs": "text/html; charset=utf-8",
  "/docs/": "text/html; charset=utf-8",
  "/llms.txt": "text/plain; charset=utf-8",
  "/auth.md": "text/markdown; charset=utf-8",
  "/.well-known/auth.md": "text/markdown; charset=utf-8",
  "/openapi.yaml": "application/yaml; charset=utf-8",
  "/openapi.json": "application/json",
  "/.well-known/oauth-protected-resource": "application/json",
  "/.well-known/oauth-authorization-server": "application/json",
};

describe("documents", () => {
  for (const [path, type] of Object.entries(TYPES)) {
    test(`${path} has its content type, a strong ETag and a cache lifetime of five minutes`, async () => {
      const response = await site.get(path);
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toBe(type);
      expect(response.headers.get("cache-control")).toBe("public, max-age=300");
      expect(response.headers.get("etag")).toMatch(/^"[\w-]{22}"$/);
      expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    });

    test(`${path} returns 304 for a matching ETag`, async () => {
      const etag = (await site.get(path)).headers.get("etag") ?? "";
      for (const header of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
        const response = await site.get(path, { "if-none-match": header });
        expect(response.status).toBe(304);
        expect(response.headers.get("etag")).toBe(etag);
        expect(response.headers.get("cache-control")).toBe("public, max-age=300");
        expect(await response.text()).toBe("");
      }
      expect((await site.get(path, { "if-none-match": '"other"' })).status).toBe(200);
    });
  }

  test("are the same for the same routes and settings", async () => {
    const other = createSite(sampleRoutes);
    for (const path of Object.keys(TYPES))
      expect(await other.text(path)).toBe(await site.text(path));
  });

  test("are equal as YAML and as JSON", async () => {
    expect(parse(await site.text("/openapi.yaml"))).toEqual(
      JSON.parse(await site.text("/openapi.json")),
    );
  });
});

describe("the home page", () => {
  test("is HTML for browsers, JSON for JSON clients, Markdown for agents and text for curl", async () => {
    const formats = [
      ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"],
      ["application/json", "application/json"],
      ["text/markdown", "text/markdown"],
      ["*/*", "text/plain"],
    ] as const;
    for (const [accept, type] of formats) {
      const response = await site.get("/", { accept });
      expect(response.headers.get("content-type")).toStartWith(type);
      expect(response.headers.get("vary")).toBe(type === "text/html" ? "accept, cookie" : "accept");
    }
  });

  test("links to the console instead of the sign-in for a browser with a session", async () => {
    const accept = "text/html";
    const signedOut = await site.get("/", { accept });
    expect(signedOut.headers.get("cache-control")).toBe("public, max-age=300");
    expect(await signedOut.text()).toContain('<a href="/console">Sign in</a>');
    const signedIn = await site.get("/", { accept, cookie: "session=x" });
    expect(signedIn.headers.get("cache-control")).toBe("private, no-cache");
    const page = await signedIn.text();
    expect(page).toContain('<a href="/console">Console</a>');
    expect(page).not.toMatch(/sign in/i);
    const etag = signedIn.headers.get("etag") ?? "";
    expect(etag).not.toBe(signedOut.headers.get("etag"));
    const again = await site.get("/", { accept, cookie: "session=x", "if-none-match": etag });
    expect(again.status).toBe(304);
  });

  test("links to all documents in its JSON form", async () => {
    const data: unknown = JSON.parse(await site.text("/", { accept: "application/json" }));
    expect(data).toMatchObject({
      base_url: settings.baseUrl,
      auth_md: `${settings.baseUrl}/auth.md`,
      next: [{ method: "POST", url: `${settings.baseUrl}/v1/accounts`, body: {} }],
    });
  });

  test("picks the format with the highest weight", () => {
    const home = (accept: string | null): string =>
      negotiateFormat(accept, ["html", "json", "markdown", "text"]);
    expect(home(null)).toBe("text");
    expect(home("text/html;q=0.2, application/json;q=0.9")).toBe("json");
    expect(home("text/markdown, text/html;q=0.5")).toBe("markdown");
    expect(home("text/html;q=0")).toBe("text");
    expect(home("text/html;q=nonsense, application/json")).toBe("json");
    expect(home("image/png")).toBe("text");
    expect(negotiateFormat("*/*", ["markdown", "html"])).toBe("html");
  });
});

describe("assets", () => {
  test("have a content hash in their path and never expire", async () => {
    expect(STYLESHEET.path).toMatch(/^\/assets\/[0-9a-f]{16}\.css$/);
    const response = await site.get(STYLESHEET.path);
    expect(response.headers.get("content-type")).toBe("text/css; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect(await response.text()).toBe(STYLESHEET.body);
  });
});

describe("discovery routes", () => {
  test("are in the OpenAPI description, except for pages and assets", async () => {
    const yaml = await site.text("/openapi.yaml");
    for (const path of ["/openapi.yaml", "/llms.txt", "/auth.md", "/.well-known/auth.md"])
      expect(yaml).toContain(`\n  ${path}:\n`);
    for (const path of ["/", "/docs", STYLESHEET.path])
      expect(yaml).not.toContain(`\n  ${path}:\n`);
  });
});
