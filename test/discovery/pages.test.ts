import { describe, expect, test } from "bun:test";
import { listOperations } from "../../src/discovery/openapi/openapi-types.ts";
import { openApiDocument } from "../../src/discovery/openapi/openapi.ts";
import { DOCS_STYLESHEET } from "../../src/discovery/site/site-frame.tsx";
import { STYLESHEET } from "../../src/http/pages/assets.ts";
import { renderPage } from "../../src/http/pages/layout.tsx";
import { endpointSlug } from "../../src/http/route.ts";
import { createSite } from "./harness.ts";
import { sampleRoutes, settings } from "./sample-routes.ts";

const HTML = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
const site = createSite(sampleRoutes);

for (const path of [
  "/",
  "/docs",
  "/docs/keys",
  "/docs/api/create-chat-completion",
  "/docs/errors",
]) {
  describe(`the page at ${path}`, async () => {
    const response = await site.get(path, HTML);
    const html = await response.text();

    test("is HTML in English with a title and one main heading", () => {
      expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
      expect(html).toStartWith('<!doctype html><html lang="en">');
      expect(html).toMatch(/<title>[^<]{5,}<\/title>/);
      expect(html.match(/<h1[ >]/g)).toHaveLength(1);
    });

    test("has its landmarks, and a distinct label on each navigation", () => {
      for (const tag of ["header", "main", "footer"])
        expect(html.match(new RegExp(`<${tag}[ >]`, "g"))).toHaveLength(1);
      const labels = [...html.matchAll(/<nav([^>]*)>/g)].map(([, attributes]) => attributes);
      expect(labels.length).toBeGreaterThan(0);
      expect(labels.every((label) => label?.includes("aria-label="))).toBe(true);
      expect(new Set(labels).size).toBe(labels.length);
    });

    test("skips no heading level", () => {
      const levels = [...html.matchAll(/<h([1-6])[ >]/g)].map(([, level]) => Number(level));
      for (const [index, level] of levels.entries())
        expect(level - (levels[index - 1] ?? 0)).toBeLessThanOrEqual(1);
    });

    test("has no inline scripts or styles", () => {
      expect(html).not.toMatch(/<script>|<style|\son\w+=|\sstyle=|javascript:/i);
      const policy = response.headers.get("content-security-policy") ?? "";
      expect(policy).toStartWith("default-src 'none'; style-src 'self';");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toContain("unsafe");
    });

    test("loads only its stylesheets and images of the documentation", () => {
      const loaded = [
        ...html.matchAll(/<(?:link rel="stylesheet"|img|iframe|object|embed)[^>]*>/g),
      ].map(([tag]) => /(?:href|src)="([^"]+)"/.exec(tag)?.[1] ?? "");
      expect(loaded.filter((url) => !/^\/docs\/images\/[\w-]+\.webp$/.test(url))).toEqual(
        path === "/" ? [STYLESHEET.path] : [STYLESHEET.path, DOCS_STYLESHEET.path],
      );
    });

    test("has unique ids, and targets for all internal links", () => {
      const ids = [...html.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id ?? "");
      expect(new Set(ids).size).toBe(ids.length);
      for (const [, target = ""] of html.matchAll(/href="#([^"]+)"/g))
        expect(ids).toContain(target);
      for (const [, target = ""] of html.matchAll(/aria-labelledby="([^"]+)"/g))
        expect(ids).toContain(target);
    });

    test("closes all tags", () => {
      expect(unclosedTags(html)).toEqual([]);
    });
  });
}

describe("the API reference", async () => {
  const document = openApiDocument(site.routes, settings);

  test("has a page with the path and a command for each operation", async () => {
    for (const { path, method, operation } of listOperations(document)) {
      const html = await site.text(`/docs/${endpointSlug(operation.operationId)}`, HTML);
      expect(html).toContain(
        `<strong>${method}</strong> <code>${path.replaceAll("&", "&amp;")}</code>`,
      );
      expect(html).toContain("curl -sS");
    }
  });

  test("has a page for each object", async () => {
    for (const name of Object.keys(document.components.schemas))
      expect(await site.text(`/docs/api/objects/${name.toLowerCase()}`)).toContain(
        `<h1>${name}</h1>`,
      );
  });

  test("says which endpoints need no key, and which scope the others need", async () => {
    expect(await site.text("/docs/api/create-account")).toContain("No API key required.");
    expect(await site.text("/docs/api/get-account")).toContain("authorization: Bearer");
  });

  test("links the errors of an endpoint to their pages", async () => {
    const html = await site.text("/docs/api/create-chat-completion", HTML);
    expect(html).toContain('href="/docs/errors/insufficient_credits"');
  });

  test("shows the claim endpoints only if they are mounted", async () => {
    expect(await site.text("/docs/api")).toContain("/docs/api/start-claim");
    expect(await createSite([]).text("/docs/api")).not.toContain("start-claim");
  });
});

describe("a page", () => {
  test("escapes HTML in text", () => {
    const html = renderPage({ title: "<b>&", main: "<script>alert(1)</script>" });
    expect(html).toContain("<title>&lt;b&gt;&amp;</title>");
    expect(html).not.toContain("<script");
  });

  test("marks the current page in the navigation", () => {
    const nav = [{ href: "/docs", label: "Docs" }];
    expect(renderPage({ title: "x", main: "y", nav, path: "/docs" })).toContain(
      'aria-current="page"',
    );
    expect(renderPage({ title: "x", main: "y", nav })).not.toContain("aria-current");
  });
});

describe("the stylesheet", () => {
  test("has a light and a dark theme with sufficient contrast", () => {
    const [light, dark] = [...STYLESHEET.body.matchAll(/:root \{([^}]+)\}/g)].map(([, body]) =>
      parseColors(body ?? ""),
    );
    for (const theme of [light, { ...light, ...dark }]) {
      for (const background of ["background", "surface", "surface-muted"]) {
        for (const color of ["text", "text-muted", "accent", "danger", "warn", "success"])
          expect(contrastRatio(theme?.[color], theme?.[background])).toBeGreaterThanOrEqual(4.5);
        expect(contrastRatio(theme?.["border-strong"], theme?.[background])).toBeGreaterThanOrEqual(
          3,
        );
      }
      expect(contrastRatio(theme?.["accent-text"], theme?.["accent"])).toBeGreaterThanOrEqual(4.5);
    }
  });

  test("loads no other resources", () => {
    expect(STYLESHEET.body).not.toMatch(/url\(|@import/);
  });
});

const VOID_ELEMENTS: ReadonlySet<string> = new Set(["meta", "link", "br", "hr", "img", "input"]);

function unclosedTags(html: string): readonly string[] {
  const open: string[] = [];
  for (const [, slash, name = ""] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)[^>]*>/g)) {
    if (VOID_ELEMENTS.has(name)) continue;
    if (slash === "") open.push(name);
    else if (open.pop() !== name) return [`</${name}>`];
  }
  return open;
}

function parseColors(css: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    [...css.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, value]) => [name, value]),
  );
}

/** The contrast ratio of two colors (WCAG 2). */
function contrastRatio(one = "", other = ""): number {
  const [dark = 0, light = 0] = [luminance(one), luminance(other)].toSorted((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(hex: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.040_45 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

test("examples of guides name no simulated model where there is none", async () => {
  const real = createSite(sampleRoutes, {
    ...settings,
    exampleModel: "openai/gpt-5.4",
    exampleEmbeddingModel: "openai/text-embedding-3-small",
  });
  for (const guide of ["audio", "google-genai", "images", "moderation", "rerank", "streaming"]) {
    const text = await real.text(`/docs/guides/${guide}.md`);
    expect([guide, text.match(/\bsim\/[\w-]+/)?.[0]]).toEqual([guide, undefined]);
  }
  expect(await real.text("/docs/guides/google-genai.md")).toContain(
    "/v1beta/models/openai/text-embedding-3-small:embedContent",
  );
});
