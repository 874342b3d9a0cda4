// The documents for agents: each meets its published schema, and says what this gateway does.

import { afterAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { validate } from "mppx/discovery";
import { parse } from "yaml";
import { schemaErrors } from "../discovery/published-schemas.ts";
import { startGateway } from "../support/gateway.ts";
import { call, type Json, listAt, textAt, valueAt } from "./api-client.ts";

const ADDRESS = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";

const local = await startGateway();
const production = await startGateway({
  env: { POSTERN_BASE_URL: "https://ai.gateway.example", POSTERN_SECRET: "s".repeat(40) },
});
afterAll(async () => {
  await local.stop();
  await production.stop();
});

const DOCUMENTS = [
  ["/mcp/server-card", "serverCard"],
  ["/.well-known/mcp/server-card.json", "serverCard"],
  ["/.well-known/ard.json", "ard"],
  ["/.well-known/ai-catalog.json", "ard"],
  ["/.well-known/agent-skills/index.json", "agentSkills"],
  ["/.well-known/api-catalog", "linkset"],
  ["/.well-known/oauth-protected-resource", "protectedResource"],
  ["/.well-known/oauth-protected-resource/mcp", "protectedResource"],
] as const;

describe("documents for agents", () => {
  test.each(DOCUMENTS)("%s meets its published schema (%s)", async (path, schema) => {
    for (const gateway of [local, production]) {
      const { body, headers } = await call(gateway, `GET ${path}`);
      expect(schemaErrors(schema, body)).toEqual([]);
      expect(headers.get("etag")).toStartWith('"');
    }
  });

  test("the schemas of these tests reject what the specifications forbid", async () => {
    const { body } = await call(local, "GET /.well-known/ard.json");
    const [entry] = listAt(body, "entries");
    const reject = (change: Json): boolean =>
      schemaErrors("ard", { ...body, entries: [{ ...entry, ...change }] }).length > 0;
    expect(reject({ identifier: "urn:air:x" })).toBe(true);
    expect(reject({ data: {} })).toBe(true);
    expect(reject({ representativeQueries: ["one"] })).toBe(true);
    expect(reject({})).toBe(false);
    const card = (await call(local, "GET /mcp/server-card")).body;
    expect(schemaErrors("serverCard", { ...card, description: "x".repeat(101) })).not.toEqual([]);
    expect(schemaErrors("serverCard", { ...card, name: "no-namespace" })).not.toEqual([]);
  });

  test("pages of any origin can read them, except in development", async () => {
    for (const [path] of DOCUMENTS) {
      const { headers } = await call(production, `GET ${path}`);
      expect([path, headers.get("access-control-allow-origin")]).toEqual([path, "*"]);
    }
  });

  test("so can pages of agents use the endpoints of claims", async () => {
    for (const endpoint of ["POST /agent/identity/claim", "POST /oauth2/token"]) {
      const { status, headers } = await call(production, endpoint);
      expect([status, headers.get("access-control-allow-origin")]).toEqual([401, "*"]);
    }
  });

  test("the sitemap has the day of the last change of each page", async () => {
    const { text } = await call(production, "GET /sitemap.xml");
    const urls = text.match(/<url>.*<\/url>/g) ?? [];
    expect(urls.length).toBeGreaterThan(20);
    for (const url of urls) expect(url).toMatch(/<lastmod>\d{4}-\d\d-\d\d<\/lastmod><\/url>$/);
  });

  test("the server card names the endpoint, its revisions and the reversed host", async () => {
    const { body } = await call(production, "GET /mcp/server-card");
    expect(body).toMatchObject({
      name: "example.gateway.ai/postern",
      remotes: [
        {
          url: "https://ai.gateway.example/mcp",
          supportedProtocolVersions: ["2026-07-28", "2025-11-25"],
        },
      ],
    });
    expect(valueAt(body, "tools")).toBeUndefined();
  });

  test("the metadata of /mcp is that of its own resource", async () => {
    const { body } = await call(production, "GET /.well-known/oauth-protected-resource/mcp");
    expect(body["resource"]).toBe("https://ai.gateway.example/mcp");
  });

  test("ard.json and ai-catalog.json have the same bytes and publish under this host", async () => {
    const ard = await call(production, "GET /.well-known/ard.json");
    expect((await call(production, "GET /.well-known/ai-catalog.json")).text).toBe(ard.text);
    for (const { identifier } of listAt(ard.body, "entries"))
      expect(identifier).toStartWith("urn:air:ai.gateway.example:");
  });

  test("the digest of the skill is that of the bytes that are served", async () => {
    const { body } = await call(local, "GET /.well-known/agent-skills/index.json");
    const [skill] = listAt(body, "skills");
    const { text } = await call(local, `GET ${textAt(skill, "url")}`);
    expect(textAt(skill, "digest")).toBe(
      `sha256:${createHash("sha256").update(text).digest("hex")}`,
    );
    const [, frontMatter = ""] = text.split("---\n");
    expect(parse(frontMatter)).toEqual({
      name: skill?.["name"],
      description: skill?.["description"],
    });
  });

  test("without sign-in, the skill says nothing of claims", async () => {
    const { text } = await call(local, "GET /.well-known/agent-skills/postern/SKILL.md");
    expect(text).toContain("## Hand the account over");
    const other = await call(production, "GET /.well-known/agent-skills/postern/SKILL.md");
    expect(other.text).not.toContain("## Hand the account over");
  });

  test("the search for models in auth.md finds some", async () => {
    const { text } = await call(local, "GET /auth.md");
    const url = /'http:[^']+(\/v1\/models\?[^']+)'/.exec(text)?.[1] ?? "";
    const { body } = await call(local, `GET ${url}`);
    expect(listAt(body, "data").length).toBeGreaterThan(0);
  });

  test("llms-full.txt contains auth.md and every endpoint", async () => {
    const { text } = await call(local, "GET /llms-full.txt");
    expect(text).toContain((await call(local, "GET /auth.md")).text.trim());
    const { body } = await call(local, "GET /openapi.json");
    for (const path of Object.keys(body["paths"] as Json)) expect(text).toContain(path);
  });
});

describe("negotiated Markdown", () => {
  test.each(["/", "/docs", "/docs/mcp", "/models", "/models/sim/echo"])(
    "%s is Markdown for agents and HTML for browsers",
    async (path) => {
      const markdown = await call(local, `GET ${path}`, { headers: { accept: "text/markdown" } });
      const html = await call(local, `GET ${path}`, { headers: { accept: "text/html" } });
      expect(markdown.headers.get("content-type")).toBe("text/markdown; charset=utf-8");
      expect(markdown.text).toStartWith("# ");
      expect(html.headers.get("content-type")).toStartWith("text/html");
      for (const { headers } of [markdown, html])
        expect(headers.get("vary")?.split(", ")).toContain("accept");
      const tags = [markdown, html].flatMap(({ headers }) => headers.get("etag") ?? []);
      expect(new Set(tags).size).toBe(tags.length);
    },
  );
});

/** Settings of each payment protocol, and the offers that the description then has. */
const PAYMENT_SETTINGS = {
  x402: {
    env: {
      X402_PAY_TO: ADDRESS,
      X402_NETWORK: "eip155:84532",
      X402_FACILITATOR_URL: "http://127.0.0.1:9",
    },
    offers: [
      { method: "x402", currency: "USDC" },
      { method: "evm", currency: "USDC" },
    ],
  },
  stripe: {
    env: {
      STRIPE_SECRET_KEY: "sk_test_x",
      STRIPE_WEBHOOK_SECRET: "whsec_x",
      STRIPE_NETWORK_ID: "profile_test_x",
    },
    offers: [{ method: "stripe", currency: "usd" }],
  },
  tempo: {
    env: { TEMPO_PAY_TO: ADDRESS, TEMPO_RPC_URL: "http://127.0.0.1:9", TEMPO_CHAIN_ID: "42431" },
    offers: [{ method: "tempo", currency: "pathUSD" }],
  },
};

describe("the OpenAPI description", () => {
  test("describes the service as the official package reads it", async () => {
    const { body } = await call(local, "GET /openapi.json");
    expect(valueAt(body, "x-service-info.docs.llms")).toBe(`${local.url}/llms.txt`);
    expect(validate(body)).toEqual([]);
  });

  test.each(Object.entries(PAYMENT_SETTINGS))(
    "says on the calls that hold credits how to pay, where %s is on",
    async (_, { env, offers }) => {
      const gateway = await startGateway({ env });
      const { body } = await call(gateway, "GET /openapi.json");
      expect(validate(body)).toEqual([]);
      const expected = {
        offers: offers.map((offer) => ({ intent: "charge", amount: null, ...offer })),
      };
      const paid = Object.entries(body["paths"] as Record<string, Json>).flatMap(
        ([path, operations]) =>
          Object.values(operations).flatMap((operation) => {
            const info = valueAt(operation, "x-payment-info");
            return info === undefined ? [] : [[path, info]];
          }),
      );
      expect(paid.map(([path]) => path)).toContain("/v1/chat/completions");
      for (const [path, info] of paid) expect([path, info]).toEqual([path, expected]);
      await gateway.stop();
    },
  );

  test("offers no payment where none is accepted", async () => {
    expect((await call(local, "GET /openapi.json")).text).not.toContain("x-payment-info");
  });
});
