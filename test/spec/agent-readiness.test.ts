// The checks of isitagentready.com and Chrome Lighthouse's agentic-browsing audits, by their names. docs/site/mcp.md lists
// those that do not apply, with the reason.

import { afterAll, describe, expect, test } from "bun:test";
import { schemaErrors } from "../discovery/published-schemas.ts";
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

/** They have rows with reasons in the documentation. */
const NOT_APPLICABLE = [
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
