// The published checks of isitagentready.com, Chrome Lighthouse's agentic-browsing audits, AgentGrade and agent-ready.dev, by
// their names. docs/site/mcp.md lists those that do not apply, with the reason.

import { afterAll, describe, expect, test } from "bun:test";
import { schemaErrors } from "../discovery/published-schemas.ts";
import { postLegacy } from "../mcp/raw-mcp.ts";
import { startFacilitator } from "../support/fakes/x402-facilitator.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { readText } from "../support/source/source-files.ts";
import { type ApiResponse, call, chat, listAt, textAt, valueAt } from "./api-client.ts";

const facilitator = startFacilitator();
const gateway = await startGateway({ env: facilitator.env });
afterAll(async () => {
  await gateway.stop();
  await facilitator.stop();
});

const get = (path: string, accept?: string): Promise<ApiResponse> =>
  call(gateway, `GET ${path}`, accept === undefined ? {} : { headers: { accept } });

/** The groups of robots.txt: user agents and the rules for them. */
async function robotGroups(): Promise<readonly { agents: string[]; rules: string[] }[]> {
  const { text } = await get("/robots.txt");
  return text.split("\n\n").map((group) => {
    const lines = group.split("\n");
    const agents = lines.filter((line) => line.startsWith("User-agent:"));
    return {
      agents: agents.map((line) => line.slice("User-agent:".length).trim()),
      rules: lines.filter((line) => !line.startsWith("User-agent:")),
    };
  });
}

const READINESS_CHECKS: Readonly<Record<string, () => Promise<void>>> = {
  robotsTxt: async () => {
    const { status, text, headers } = await get("/robots.txt");
    expect(status).toBe(200);
    expect(headers.get("content-type")).toStartWith("text/plain");
    expect(text).toContain("User-agent: *");
  },
  sitemap: async () => {
    const robots = (await get("/robots.txt")).text;
    const [, url = ""] = /^Sitemap: (.+)$/m.exec(robots) ?? [];
    const { text, headers } = await get(new URL(url).pathname);
    expect(headers.get("content-type")).toContain("xml");
    const pages = [...text.matchAll(/<loc>(.+?)<\/loc>/g)].map(([, page = ""]) => page);
    expect(pages).toContain(`${gateway.url}/`);
    for (const page of pages) expect((await get(new URL(page).pathname)).status).toBe(200);
  },
  linkHeaders: async () => {
    const link = (await get("/", "text/html")).headers.get("link") ?? "";
    for (const relation of ["api-catalog", "service-desc", "service-doc", "ard", "alternate"])
      expect(link).toContain(`rel="${relation}"`);
    const targets = [...link.matchAll(/<(\/[^>]*)>/g)].map(([, path = ""]) => path);
    for (const path of targets) expect((await get(path)).status).toBe(200);
  },
  markdownNegotiation: async () => {
    const { headers, text } = await get("/", "text/markdown");
    expect(headers.get("content-type")).toStartWith("text/markdown");
    expect(headers.get("vary")?.split(", ")).toContain("accept");
    expect(text).not.toContain("<html");
  },
  robotsTxtAiRules: async () => {
    const groups = await robotGroups();
    for (const agent of ["GPTBot", "ClaudeBot", "Google-Extended", "PerplexityBot"])
      expect(groups.some(({ agents }) => agents.includes(agent))).toBe(true);
  },
  contentSignals: async () => {
    for (const { agents, rules } of (await robotGroups()).filter(
      (group) => group.agents.length > 0,
    ))
      expect({ agents, signals: rules[0] }).toEqual({
        agents,
        signals: "Content-Signal: search=yes, ai-input=yes, ai-train=yes",
      });
  },
  apiCatalog: async () => {
    const { body, headers } = await get("/.well-known/api-catalog");
    expect(headers.get("content-type")).toStartWith("application/linkset+json");
    expect(schemaErrors("linkset", body)).toEqual([]);
  },
  oauthDiscovery: async () => {
    const { body } = await get("/.well-known/oauth-authorization-server");
    expect(body["issuer"]).toBe(gateway.url);
  },
  oauthProtectedResource: async () => {
    const { body } = await get("/.well-known/oauth-protected-resource");
    expect(schemaErrors("protectedResource", body)).toEqual([]);
    expect(body["resource"]).toBe(gateway.url);
  },
  authMd: async () => {
    const { headers } = await get("/auth.md");
    expect(headers.get("content-type")).toStartWith("text/markdown");
  },
  mcpServerCard: async () => {
    const { body } = await get("/.well-known/mcp/server-card.json");
    expect(schemaErrors("serverCard", body)).toEqual([]);
  },
  agentSkills: async () => {
    const { body } = await get("/.well-known/agent-skills/index.json");
    expect(schemaErrors("agentSkills", body)).toEqual([]);
  },
  ard: async () => {
    const { body } = await get("/.well-known/ard.json");
    expect(schemaErrors("ard", body)).toEqual([]);
  },
  x402: async () => {
    const { key } = await registerAccount(gateway);
    const messages = [{ role: "user", content: "x".repeat(150_000) }];
    const { status, headers } = await chat(gateway, key, { messages, max_tokens: 100 });
    expect(status).toBe(402);
    const required = headers.get("payment-required") ?? "";
    expect(JSON.parse(Buffer.from(required, "base64").toString())).toMatchObject({
      x402Version: 2,
    });
  },
  mpp: async () => {
    const { key } = await registerAccount(gateway);
    const messages = [{ role: "user", content: "x".repeat(150_000) }];
    const { status, headers } = await chat(gateway, key, { messages, max_tokens: 100 });
    expect(status).toBe(402);
    expect(headers.get("www-authenticate")).toMatch(/^Payment id="[\w-]+", realm="/);
  },
};

const LIGHTHOUSE_AUDITS: Readonly<Record<string, () => Promise<void>>> = {
  "llms-txt": async () => {
    const { text } = await get("/llms.txt");
    expect(text).toMatch(/^# .+/);
    expect(text).toMatch(/\[.+\]\(.+\)/);
    expect(text.length).toBeGreaterThan(50);
  },
  ard: async () => {
    const robots = (await get("/robots.txt")).text;
    expect(robots).toContain(`Agentmap: ${gateway.url}/.well-known/ard.json`);
    const { body } = await get("/.well-known/ard.json");
    for (const entry of listAt(body, "entries")) {
      const queries = listAt(entry, "representativeQueries");
      expect(queries.length).toBeGreaterThanOrEqual(2);
      expect(queries.length).toBeLessThanOrEqual(5);
      expect(textAt(entry, "type")).toMatch(
        /^(application\/[a-z0-9.+-]+|text\/markdown; profile="urn:air:agent-skills")$/,
      );
      expect((await get(new URL(textAt(entry, "url")).pathname)).status).toBe(200);
    }
    expect(valueAt(body, "collections")).toBeUndefined();
  },
};

/** The capabilities of agentgrade.com. */
const AGENTGRADE_CHECKS: Readonly<Record<string, () => Promise<void>>> = {
  "Machine Payments": async () => {
    await READINESS_CHECKS["x402"]?.();
    await READINESS_CHECKS["mpp"]?.();
  },
  MCP: async () => {
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: CLIENT };
    const initialized = await postLegacy(gateway, message("initialize", params));
    expect(initialized.text).toContain('"serverInfo":{"name":"postern"');
    const listed = await postLegacy(gateway, message("tools/list", {}));
    expect(listed.text).toContain('"name":"send_message"');
    const called = await postLegacy(gateway, message("tools/call", { name: "list_models" }));
    expect(called.text).toContain('"structuredContent":{"object":"list"');
  },
  OpenAPI: async () => {
    const { body, headers } = await get("/openapi.json");
    expect(headers.get("content-type")).toContain("json");
    expect(textAt(body, "openapi")).toMatch(/^3\.1/);
  },
  "llms.txt": async () => expect((await get("/llms.txt")).text).toMatch(/^# .+/),
  "robots.txt": async () => {
    await READINESS_CHECKS["robotsTxtAiRules"]?.();
    expect((await get("/robots.txt")).text).toContain("Allow: /");
  },
};

const CLIENT = { name: "test", version: "1" };
const message = (method: string, params: object) => ({ jsonrpc: "2.0", id: 1, method, params });

const PUBLIC_PAGES = ["/docs", "/docs/keys", "/docs/api/create-account", "/models", "/status"];

async function onEachPage(check: (page: ApiResponse, path: string) => unknown): Promise<void> {
  for (const path of PUBLIC_PAGES) await check(await get(path, "text/html"), path);
}

/** What agent-ready.dev checks: Vercel's Agent Readability specification and llmstxt.org. */
const READABILITY_CHECKS: Readonly<Record<string, () => Promise<void>>> = {
  "llms.txt": async () => {
    const { text, headers } = await get("/llms.txt");
    expect(headers.get("content-type")).toStartWith("text/plain");
    expect(text).toMatch(/^# .+\n\n> .+/);
    const sections = text.split(/^## /m).slice(1);
    expect(sections.length).toBeGreaterThan(3);
    for (const section of sections)
      expect(section).toMatch(/^- \[[^\]]+\]\((http|\/)[^)]+\)(: .+)?$/m);
  },
  "llms-full.txt": async () =>
    expect((await get("/llms-full.txt")).text.length).toBeGreaterThan(10_000),
  "AI bots": async () => expect((await get("/robots.txt")).text).not.toMatch(/^Disallow: \/$/m),
  "sitemap.xml": async () => expect((await get("/sitemap.xml")).text).toContain("<lastmod>"),
  "sitemap.md": async () => {
    const { text, headers } = await get("/sitemap.md");
    expect(headers.get("content-type")).toStartWith("text/markdown");
    expect(text).toMatch(/^# .+\n\n## .+\n\n- \[/);
    const links = [...text.matchAll(/\]\((http[^)]+)\)$/gm)].map(([, url = ""]) => url);
    expect(links.length).toBeGreaterThan(50);
    for (const url of links) expect((await get(new URL(url).pathname)).status).toBe(200);
  },
  "HTTP 200 and content type": () =>
    onEachPage(({ status, headers }) => {
      expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
      expect(headers.get("x-robots-tag")).toBeNull();
    }),
  "canonical link": () =>
    onEachPage(({ text }, path) =>
      expect(text).toContain(`<link rel="canonical" href="${path}"/>`),
    ),
  "meta tags": () =>
    onEachPage(({ text }) => {
      expect(text).toMatch(/<meta name="description" content="[^"]{50,}"/);
      expect(text).toContain('<html lang="en">');
      for (const name of ["og:title", "og:description"])
        expect(text).toContain(`<meta property="${name}" content="`);
    }),
  "JSON-LD": () =>
    onEachPage(({ text }) => {
      const [, json = ""] = /<script type="application\/ld\+json">(.*?)<\/script>/.exec(text) ?? [];
      expect(JSON.parse(json)).toMatchObject({ "@context": "https://schema.org" });
    }),
  "Markdown mirrors": async () => {
    for (const path of ["/docs/keys", "/docs/api/create-account"]) {
      const html = (await get(path, "text/html")).text;
      expect(html).toContain(`<link rel="alternate" type="text/markdown" href="${path}.md"/>`);
      const mirror = await get(`${path}.md`);
      expect(mirror.headers.get("content-type")).toStartWith("text/markdown");
      expect(mirror.headers.get("link")).toContain(`<${path}>; rel="canonical"`);
      expect((await get(path, "text/markdown")).text).toBe(mirror.text);
    }
  },
  "code fences": async () => {
    for (const path of ["/docs/keys.md", "/docs/quick-start.md", "/auth.md"]) {
      const fences = (await get(path)).text.match(/^```.*$/gm) ?? [];
      const openings = fences.filter((_fence, index) => index % 2 === 0);
      expect([path, openings.filter((fence) => !/^```\w/.test(fence))]).toEqual([path, []]);
    }
  },
  "OpenAPI link": async () => expect((await get("/llms.txt")).text).toContain("/openapi.yaml"),
};

/** They have rows with reasons in the documentation. */
const NOT_APPLICABLE = [
  "Bazaar",
  "AI Plugin",
  "Claude Plugin",
  "Skills",
  "agents.txt",
  "Identity",
  "AGENTS.md",
  "page headings",
  "text-to-HTML ratio",
  "glossary link",
  "Sitemap section",
  "dnsAid",
  "webBotAuth",
  "a2aAgentCard",
  "webMcp",
  "ucp",
  "acp",
  "ap2",
  "webmcp-registered-tools",
  "webmcp-form-coverage",
  "webmcp-schema-validity",
  "agent-accessibility-tree",
  "cumulative-layout-shift",
];

describe("isitagentready", () => {
  test.each(Object.entries(READINESS_CHECKS))("passes %s", (_name, check) => check());
});

describe("Lighthouse's agentic-browsing audits", () => {
  test.each(Object.entries(LIGHTHOUSE_AUDITS))("pass %s", (_name, check) => check());
});

describe("AgentGrade", () => {
  test.each(Object.entries(AGENTGRADE_CHECKS))("passes %s", (_name, check) => check());
});

describe("agent-ready.dev", () => {
  test.each(Object.entries(READABILITY_CHECKS))("passes %s", (_name, check) => check());
});

/** All checks of isitagentready.com. */
const ALL_CHECKS =
  "robotsTxt sitemap linkHeaders dnsAid markdownNegotiation robotsTxtAiRules contentSignals webBotAuth apiCatalog oauthDiscovery " +
  "oauthProtectedResource authMd mcpServerCard a2aAgentCard agentSkills webMcp ard x402 mpp ucp acp ap2";

test("every check of isitagentready has a test, or a reason why it does not apply", () => {
  const known = new Set([...Object.keys(READINESS_CHECKS), ...NOT_APPLICABLE]);
  expect(ALL_CHECKS.split(" ").filter((check) => !known.has(check))).toEqual([]);
});

describe("checks that do not apply", () => {
  const page = readText("docs/site/mcp.md");
  test.each(NOT_APPLICABLE)("%s has a reason in the documentation", (name) => {
    expect(page).toMatch(new RegExp(`^\\| \`${name}\` \\| .{20,}\\|$`, "m"));
  });
});
