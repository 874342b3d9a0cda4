// Search over the documentation of a real gateway: what people type, and the page that must come first.

import { afterAll, describe, expect, test } from "bun:test";
import type { DocsResult } from "../../src/discovery/site/site-search.ts";
import { startGateway } from "../support/gateway.ts";

const now = Date.now();
/** Its clock stands still, so that the limit of searches does not depend on how long they take. */
const gateway = await startGateway({
  providers: ["sim", "openai", "anthropic"],
  now: () => now,
});
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
  ["streaming", "/docs/guides/streaming"],
  ["tool calls", "/docs/guides/tool-calling"],
  ["function calling", "/docs/guides/tool-calling"],
  ["402", "/docs/errors/insufficient_credits"],
  ["insufficient_credits", "/docs/errors/insufficient_credits"],
  ["rate limits", "/docs/guides/rate-limits"],
  ["429", "/docs/guides/rate-limits"],
  ["retry", "/docs/guides/rate-limits"],
  ["web search", "/docs/web-search"],
  ["searxng", "/docs/web-search"],
  ["retention", "/docs/privacy"],
  ["zero data retention", "/docs/privacy"],
  ["gdpr", "/docs/privacy"],
  ["prompt logging", "/docs/prompt-logging"],
  ["langfuse", "/docs/sinks"],
  ["export usage to s3", "/docs/sinks"],
  ["delete account", "/docs/privacy"],
  ["export data", "/docs/api/export-account"],
  ["refunds", "/docs/credits"],
  ["sso", "/docs/guides/single-sign-on"],
  ["single sign-on", "/docs/guides/single-sign-on"],
  ["okta provisioning", "/docs/guides/single-sign-on"],
  ["audit log siem", "/docs/webhooks"],
  ["directory sync", "/docs/guides/single-sign-on"],
  ["okta", "/docs/guides/single-sign-on"],
  ["structured output", "/docs/guides/structured-output"],
  ["json schema", "/docs/guides/structured-output"],
  ["json mode", "/docs/guides/structured-output"],
  ["vat", "/docs/billing"],
  ["sla", "/docs/service-levels"],
  ["uptime guarantee", "/docs/service-levels"],
  ["rotate key", "/docs/keys"],
  ["github actions oidc", "/docs/keys-without-secrets"],
  ["http message signatures", "/docs/keys-without-secrets"],
  ["api key permissions", "/docs/keys"],
  ["backup", "/docs/operations"],
  ["restore", "/docs/operations"],
  ["claude code", "/docs/guides/claude-code"],
  ["codex", "/docs/guides/codex"],
  ["gemini cli", "/docs/guides/gemini-cli"],
  ["google genai", "/docs/guides/google-genai"],
  ["generateContent", "/docs/guides/google-genai"],
  ["cursor", "/docs/guides/editors"],
  ["langchain", "/docs/guides/langchain"],
  ["vercel", "/docs/guides/vercel-ai-sdk"],
  ["openai sdk", "/docs/guides/openai-sdk"],
  ["python", "/docs/clients"],
  ["images", "/docs/guides/images"],
  ["pdf", "/docs/guides/images-and-files"],
  ["vision", "/docs/guides/images-and-files"],
  ["prompt caching", "/docs/guides/prompt-caching"],
  ["cached tokens", "/docs/guides/prompt-caching"],
  ["reasoning", "/docs/guides/reasoning"],
  ["thinking budget", "/docs/guides/reasoning"],
  ["stream error", "/docs/guides/stream-errors"],
  ["disconnect", "/docs/guides/stream-errors"],
  ["cost control", "/docs/guides/cost-control"],
  ["spending limit", "/docs/budgets"],
  ["budget", "/docs/budgets"],
  ["session limit", "/docs/errors/session_limit_reached"],
  ["migrate from openrouter", "/docs/guides/from-openrouter"],
  ["litellm proxy", "/docs/guides/from-litellm"],
  ["migrate openai", "/docs/guides/from-openai"],
  ["invite members", "/docs/guides/teams"],
  ["roles", "/docs/keys"],
  ["webhook signature", "/docs/webhooks"],
  ["audit log", "/docs/webhooks"],
  ["fallback", "/docs/routing"],
  ["load balancing", "/docs/routing"],
  ["bring your own key", "/docs/byok"],
  ["x402", "/docs/x402"],
  ["usdc wallet", "/docs/x402"],
  ["mcp", "/docs/guides/mcp"],
  ["idempotency", "/docs/caching"],
  ["labels", "/docs/usage"],
  ["postgresql", "/docs/scale"],
  ["docker", "/docs/deploy"],
  ["kubernetes", "/docs/deploy"],
  ["environment variables", "/docs/settings"],
  ["bedrock", "/docs/providers"],
  ["azure", "/docs/providers"],
  ["fake provider", "/docs/simulator"],
  ["status", "/docs/status"],
  ["claim", "/docs/claim"],
  ["quote", "/docs/quotes-and-receipts"],
  ["permit2", "/docs/pay-per-call"],
  ["merkle", "/docs/ledger-proofs"],
  ["proof of reserves", "/docs/ledger-proofs"],
  ["embeddings", "/docs/api/create-embeddings"],
  ["dropped parameters", "/docs/translation"],
  ["strem", "/docs/guides/streaming"],
  ["structred output", "/docs/guides/structured-output"],
  ["upgrade", "/docs/upgrading"],
  ["low balance email", "/docs/emails"],
  ["release notes", "/docs/changelog"],
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

  // Last, because it uses up what a network may search.
  test("is limited for each network", async () => {
    const statuses = new Set<number>();
    for (let searches = 0; searches < 250 && !statuses.has(429); searches++)
      statuses.add((await fetch(`${gateway.url}/docs/search.json?q=key`)).status);
    expect([...statuses]).toEqual([200, 429]);
  });
});
