// Search over the documentation of a real gateway: what people type, and the page that must come first.

import { afterAll, describe, expect, test } from "bun:test";
import type { DocsResult } from "../../src/discovery/site/site-search.ts";
import { startGateway } from "../support/gateway.ts";

const gateway = await startGateway({ providers: ["sim", "openai", "anthropic"] });
afterAll(() => gateway.stop());

async function search(query: string): Promise<readonly DocsResult[]> {
  const response = await fetch(`${gateway.url}/docs/search.json?q=${encodeURIComponent(query)}`);
  // Safe because the route returns this type.
  const body = (await response.json()) as { readonly data: readonly DocsResult[] };
  return body.data;
}

function pageOf(result: DocsResult | undefined): string {
  return result?.url.split("#")[0] ?? "";
}

/** What people type, and the first page that they must see. */
const FIRST_HITS: readonly (readonly [query: string, page: string])[] = [
  ["402", "/docs/errors/insufficient_credits"],
  ["rotate key", "/docs/keys"],
  ["sso", "/docs/identity"],
  ["backup", "/docs/operations"],
  ["claude code", "/docs/guides/claude-code"],
];

describe("search", () => {
  test.each(FIRST_HITS)("of “%s” finds %s first", async (query, page) => {
    expect(pageOf((await search(query))[0])).toBe(page);
  });

  test("finds other forms of a word, words with a typing error, and unfinished words", async () => {
    const [wanted, ...others] = await Promise.all(
      ["webhooks", "webhook", "webhoks", "webho"].map(async (query) =>
        pageOf((await search(query))[0]),
      ),
    );
    expect(wanted).toBe("/docs/webhooks");
    expect(others).toEqual(["/docs/webhooks", "/docs/webhooks", "/docs/webhooks"]);
  });

  test("leads to the section, with an excerpt that marks the words", async () => {
    const found = (await search("x-postern-max-cost-usd")).find(({ url }) =>
      url.startsWith("/docs/credits"),
    );
    expect(found).toMatchObject({ url: "/docs/credits#cap-a-call", heading: "Cap a call" });
    expect(found?.excerpt.filter((_, at) => at % 2 === 1)).toContain("cost");
    const page = await (await fetch(gateway.url + (found?.url ?? ""))).text();
    expect(page).toContain('id="cap-a-call"');
  });

  test("shows a page without scripts, and escapes what was searched for", async () => {
    const html = await (
      await fetch(`${gateway.url}/docs/search?q=${encodeURIComponent("<b>webhooks")}`)
    ).text();
    expect(html).toContain('<a href="/docs/webhooks');
    expect(html).not.toContain("<b>webhooks");
    const none = await (await fetch(`${gateway.url}/docs/search?q=qqqqqqqq`)).text();
    expect(none).toContain("No page has “qqqqqqqq”");
    expect(await search("")).toEqual([]);
    expect((await fetch(`${gateway.url}/docs/search?q=${"a".repeat(201)}`)).status).toBe(400);
  });
});
