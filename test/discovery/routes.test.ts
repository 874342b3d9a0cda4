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
  "/llms.txt": "text/plain; charset=utf-8",
  "/auth.md": "text/markdown; charset=utf-8",
  "/.well-known/auth.md": "text/markdown; charset=utf-8",
  "/openapi.yaml": "application/yaml; charset=utf-8",
  "/openapi.json": "application/json",
  "/.well-known/oauth-protected-resource": "application/json",
  "/.well-known/oauth-authorization-server": "application/json",
};

describe("a document", () => {
  for (const [path, type] of Object.entries(TYPES)) {
    test(`${path} has its content type, a strong tag and five minutes of cache`, async () => {
      const answer = await site.get(path);
      expect(answer.status).toBe(200);
      expect(answer.headers.get("content-type")).toBe(type);
      expect(answer.headers.get("cache-control")).toBe("public, max-age=300");
      expect(answer.headers.get("etag")).toMatch(/^"[\w-]{22}"$/);
      expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    });

    test(`${path} is not sent again to a client that has it`, async () => {
      const etag = (await site.get(path)).headers.get("etag") ?? "";
      for (const known of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
        const answer = await site.get(path, { "if-none-match": known });
        expect(answer.status).toBe(304);
        expect(answer.headers.get("etag")).toBe(etag);
        expect(answer.headers.get("cache-control")).toBe("public, max-age=300");
        expect(await answer.text()).toBe("");
      }
      expect((await site.get(path, { "if-none-match": '"other"' })).status).toBe(200);
    });
  }

  test("is the same for the same routes and settings", async () => {
    const other = createSite(sampleRoutes);
    for (const path of Object.keys(TYPES))
      expect(await other.text(path)).toBe(await site.text(path));
  });

  test("says the same as YAML and as JSON", async () => {
    expect(parse(await site.text("/openapi.yaml"))).toEqual(
      JSON.parse(await site.text("/openapi.json")),
    );
  });
});

describe("the front page", () => {
  test("is a page for browsers, data for JSON clients and text for curl", async () => {
    const forms = [
      ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"],
      ["application/json", "application/json"],
      ["*/*", "text/plain"],
    ] as const;
    for (const [accept, type] of forms) {
      const answer = await site.get("/", { accept });
      expect(answer.headers.get("content-type")).toStartWith(type);
      expect(answer.headers.get("vary")).toBe("accept");
    }
  });

  test("tells a program where everything is", async () => {
    const data: unknown = JSON.parse(await site.text("/", { accept: "application/json" }));
    expect(data).toMatchObject({
      base_url: settings.baseUrl,
      auth_md: `${settings.baseUrl}/auth.md`,
      next: [{ method: "POST", url: `${settings.baseUrl}/v1/accounts`, body: {} }],
    });
  });

  test("weighs what a client accepts", () => {
    expect(negotiateFormat(null)).toBe("text");
    expect(negotiateFormat("text/html;q=0.2, application/json;q=0.9")).toBe("json");
    expect(negotiateFormat("text/markdown, text/html;q=0.5")).toBe("text");
    expect(negotiateFormat("text/html;q=0")).toBe("text");
    expect(negotiateFormat("text/html;q=nonsense, application/json")).toBe("json");
    expect(negotiateFormat("image/png")).toBe("text");
  });
});

describe("an asset", () => {
  test("is named by its content and kept for ever", async () => {
    expect(STYLESHEET.path).toMatch(/^\/assets\/[0-9a-f]{16}\.css$/);
    const answer = await site.get(STYLESHEET.path);
    expect(answer.headers.get("content-type")).toBe("text/css; charset=utf-8");
    expect(answer.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect(await answer.text()).toBe(STYLESHEET.body);
  });
});

describe("the discovery routes", () => {
  test("describe themselves, but not the pages", async () => {
    const yaml = await site.text("/openapi.yaml");
    for (const path of ["/openapi.yaml", "/llms.txt", "/auth.md", "/.well-known/auth.md"])
      expect(yaml).toContain(`\n  ${path}:\n`);
    for (const path of ["/", "/docs", STYLESHEET.path])
      expect(yaml).not.toContain(`\n  ${path}:\n`);
  });
});
