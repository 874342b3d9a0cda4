// What crawlers read first: robots.txt with content signals (contentsignals.org), and the sitemaps.

import type { Route } from "../../http/route.ts";
import type { DocContext } from "../doc-context.ts";
import { pageTitle, pageUrl, type Site, type SitePage } from "../site/site-types.ts";

/** Crawlers of AI services that look for a group of their own. */
const AI_CRAWLERS = [
  "GPTBot",
  "OAI-SearchBot",
  "ChatGPT-User",
  "ClaudeBot",
  "Claude-User",
  "Claude-SearchBot",
  "Google-Extended",
  "PerplexityBot",
  "Perplexity-User",
  "CCBot",
  "Applebot-Extended",
  "meta-externalagent",
] as const;

/** Pages of people and of one account. */
const PRIVATE_PATHS = ["/console", "/operator", "/claim", "/pay/", "/signin", "/signout"] as const;

export function robotsTxt({ settings: { baseUrl } }: DocContext): string {
  const rules = [
    "Content-Signal: search=yes, ai-input=yes, ai-train=yes",
    "Allow: /",
    ...PRIVATE_PATHS.map((path) => `Disallow: ${path}`),
  ];
  return [
    "User-agent: *",
    ...rules,
    "",
    ...AI_CRAWLERS.map((name) => `User-agent: ${name}`),
    ...rules,
    "",
    `Agentmap: ${baseUrl}/.well-known/ard.json`,
    `Sitemap: ${baseUrl}/sitemap.xml`,
    "",
  ].join("\n");
}

export async function sitemapXml(
  { routes, settings: { baseUrl, startedAt } }: DocContext,
  site: () => Promise<Site>,
): Promise<string> {
  const { pages } = await site();
  // What is generated changes with the program and its settings, and so when the process starts.
  const started = new Date(startedAt).toISOString().slice(0, "2026-11-28".length);
  const days = new Map<string, string>([
    ...routes.filter(isPublicPage).map(({ path }) => [path, started] as const),
    ...pages.map(({ slug, changed }) => [pageUrl(slug), changed ?? started] as const),
  ]);
  const urls = [...days].map(
    ([path, day]) => `  <url><loc>${baseUrl}${path}</loc><lastmod>${day}</lastmod></url>`,
  );
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">',
    ...urls,
    "</urlset>",
    "",
  ].join("\n");
}

export async function sitemapMd(
  { settings: { baseUrl } }: DocContext,
  site: () => Promise<Site>,
): Promise<string> {
  const { sections } = await site();
  const linkOf = (page: SitePage): string =>
    `- [${pageTitle(page)}](${baseUrl}${pageUrl(page.slug || "index")}.md)`;
  const lists = sections.map(
    ({ title, pages }) => `## ${title}\n\n${pages.map(linkOf).join("\n")}\n`,
  );
  return ["# Sitemap\n", ...lists].join("\n");
}

const PAGE_TYPES = /^text\/(html|markdown|plain)\b/;

/** Pages and texts without parameters that anyone can read. A path with a final slash is a copy. */
function isPublicPage({ method, kind, path, responses, tag }: Route): boolean {
  if (method !== "GET" || kind !== "public" || path.includes("{")) return false;
  if (path !== "/" && path.endsWith("/")) return false;
  if (tag !== "Discovery" || path.startsWith("/.well-known/") || path === "/docs/search")
    return false;
  return PAGE_TYPES.test(responses[200]?.contentType ?? "");
}
