// The documents for agents that are derived from the routes and the settings, as rows.

import { z } from "zod";
import type { ResponseDoc, Route } from "../../http/route.ts";
import { authMd } from "../auth-md/auth-md.ts";
import type { DocContext } from "../doc-context.ts";
import { llmsTxt } from "../llms-txt.ts";
import { mcpAuthorizationServerMetadata } from "../oauth-metadata.ts";
import { pageTitle, pageUrl, type Site, type SitePage } from "../site/site-types.ts";
import { apiCatalog, ardManifest } from "./catalogs.ts";
import {
  MCP_AUTHORIZATION_SERVER_PATH,
  MCP_CARD_TYPE,
  MCP_PATH,
  MCP_RESOURCE_METADATA_PATH,
  mcpResourceMetadata,
  mcpServerCard,
} from "./mcp-card.ts";
import { SKILL_PATH, skillMd, skillsIndex } from "./skill.ts";

export interface AgentDocument {
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly contentType: string;
  readonly response: ResponseDoc;
  /** Not served if no person can sign in. */
  readonly needsSignIn?: true;
  readonly build: (context: DocContext, site: () => Promise<Site>) => string | Promise<string>;
}

const JSON_TYPE = "application/json";
/** Without a name, so the API reference does not describe the formats of other specifications. */
const JsonObject = z.looseObject({});

const json =
  (build: (context: DocContext) => unknown) =>
  (context: DocContext): string =>
    JSON.stringify(build(context));

const CARD = {
  contentType: MCP_CARD_TYPE,
  response: {
    description: "Where and how to connect to the MCP server.",
    contentType: MCP_CARD_TYPE,
  },
  build: json(mcpServerCard),
} as const;
const ARD = {
  contentType: JSON_TYPE,
  response: { description: "What this gateway offers to agents.", schema: JsonObject },
  build: json(ardManifest),
} as const;

const text = (
  description: string,
  contentType: string,
): Pick<AgentDocument, "contentType" | "response"> => ({
  contentType: `${contentType}; charset=utf-8`,
  response: { description, contentType },
});

export const AGENT_DOCUMENTS: readonly AgentDocument[] = [
  {
    path: `${MCP_PATH}/server-card`,
    id: "getMcpServerCard",
    summary: "Get the card of the MCP server",
    ...CARD,
  },
  {
    path: "/.well-known/mcp/server-card.json",
    id: "getWellKnownMcpServerCard",
    summary: "Get the card of the MCP server at its well-known URL",
    ...CARD,
  },
  {
    path: MCP_RESOURCE_METADATA_PATH,
    id: "getMcpProtectedResource",
    summary: "Get the protected resource metadata of the MCP server",
    contentType: JSON_TYPE,
    response: {
      description: "OAuth protected resource metadata (RFC 9728) of `/mcp`.",
      schema: JsonObject,
    },
    build: json(mcpResourceMetadata),
  },
  {
    path: MCP_AUTHORIZATION_SERVER_PATH,
    id: "getMcpAuthorizationServer",
    summary: "Get the authorization server metadata of the MCP server",
    contentType: JSON_TYPE,
    response: {
      description: "OAuth authorization server metadata (RFC 8414) of the sign-in at `/mcp`.",
      schema: JsonObject,
    },
    needsSignIn: true,
    build: json(mcpAuthorizationServerMetadata),
  },
  {
    path: "/.well-known/ard.json",
    id: "getArdManifest",
    summary: "Get the manifest of agentic resources",
    ...ARD,
  },
  {
    path: "/.well-known/ai-catalog.json",
    id: "getAiCatalog",
    summary: "Get the manifest of agentic resources at its earlier URL",
    ...ARD,
  },
  {
    path: "/.well-known/agent-skills/index.json",
    id: "getAgentSkills",
    summary: "Get the index of agent skills",
    contentType: JSON_TYPE,
    response: {
      description: "The agent skills of this gateway with their digests.",
      schema: JsonObject,
    },
    build: json(skillsIndex),
  },
  {
    path: SKILL_PATH,
    id: "getAgentSkill",
    summary: "Get the agent skill",
    ...text("How to register, call a model, pay and hand the account over.", "text/markdown"),
    build: skillMd,
  },
  {
    path: "/.well-known/api-catalog",
    id: "getApiCatalog",
    summary: "Get the API catalog",
    contentType: 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
    response: {
      description: "The API catalog (RFC 9727) as a linkset (RFC 9264).",
      contentType: "application/linkset+json",
    },
    build: json(apiCatalog),
  },
  {
    path: "/robots.txt",
    id: "getRobotsTxt",
    summary: "Get the rules for crawlers",
    ...text("Rules and content signals for crawlers.", "text/plain"),
    build: robotsTxt,
  },
  {
    path: "/sitemap.xml",
    id: "getSitemap",
    summary: "Get the sitemap",
    ...text("The public pages.", "application/xml"),
    build: sitemapXml,
  },
  {
    path: "/sitemap.md",
    id: "getMarkdownSitemap",
    summary: "Get the sitemap as Markdown",
    ...text("The pages of the documentation by section.", "text/markdown"),
    build: sitemapMd,
  },
  {
    path: "/llms-full.txt",
    id: "getLlmsFullText",
    summary: "Get the whole documentation for language models",
    ...text("llms.txt, auth.md and every page of the documentation as one text.", "text/plain"),
    build: llmsFullTxt,
  },
];

// /llms-full.txt: the index, the sign-up guide and every page of the documentation as one text.
async function llmsFullTxt(context: DocContext, site: () => Promise<Site>): Promise<string> {
  const { pages } = await site();
  const { baseUrl } = context.settings;
  return [
    llmsTxt(context),
    authMd(context),
    ...pages.map(
      ({ slug, markdown, examples = "" }) =>
        `Source: ${baseUrl}${pageUrl(slug)}\n\n${markdown}\n\n${examples}`,
    ),
  ]
    .map((text) => text.trim())
    .join("\n\n---\n\n");
}

// What crawlers read first: robots.txt with content signals (contentsignals.org), and the sitemaps.

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

function robotsTxt({ settings: { baseUrl } }: DocContext): string {
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

async function sitemapXml(
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

async function sitemapMd(
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
